package access

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const now = int64(1_700_000_000_000)

func keyOf(token Token, principal string) Key {
	return Key{ID: token.ID(), Hash: token.Hash(), Principal: principal, Role: Deduct, CreatedMS: now}
}

func TestAuthenticate(t *testing.T) {
	live, other, gone, late := newToken(t), newToken(t), newToken(t), newToken(t)
	revoked, expired := keyOf(gone, "gone"), keyOf(late, "late")
	revoked.RevokedMS, expired.ExpiresMS = now-1, now
	book := NewBook(1000)
	if _, reason := book.Authenticate(live.Reveal(), now); reason != Stale {
		t.Errorf("before the first keys: %q", reason)
	}
	book.Replace([]Key{keyOf(live, "shop"), revoked, expired}, now)
	forged := "bdg_" + live.ID() + other.Reveal()[secretAt-1:checksumAt-1]
	forged += "_" + checksum(forged)
	for _, test := range []struct {
		text string
		at   int64
		want Reason
	}{
		{live.Reveal(), now, Accepted}, {live.Reveal(), now + 1000, Accepted},
		{live.Reveal(), now + 1001, Stale}, {live.Reveal()[:64] + otherThan(live.Reveal()[64]), now, Mistyped}, {other.Reveal(), now, Unknown}, {forged, now, WrongSecret},
		{gone.Reveal(), now, Revoked}, {late.Reveal(), now, Expired}, {late.Reveal(), now - 1, Accepted},
		{other.Reveal()[:64] + "-", now, Malformed}, {other.Reveal()[:64] + "_", now + 9999, Malformed},
		{other.Reveal()[:64] + otherThan(other.Reveal()[64]), now, Mistyped}, {"", now, Malformed}, {live.Reveal()[:64], now, Malformed},
	} {
		p, reason := book.Authenticate(test.text, test.at)
		if reason != test.want || (p != nil) != (reason == Accepted) {
			t.Errorf("%s at %+d: %q, %+v; want %q", test.text, test.at-now, reason, p, test.want)
		}
	}
	book.Confirm(now + 5000)
	p, reason := book.Authenticate(live.Reveal(), now+5001)
	want := &Principal{Name: "shop", KeyID: live.ID(), Role: Deduct}
	if diff := cmp.Diff(want, p); reason != Accepted || diff != "" {
		t.Errorf("%q %s", reason, diff)
	}
}

// TestNewKeys checks that a key that the book lacks is unknown only while the database has confirmed
// the book in the last seconds: later it may be a new one. What is known of a key stays true.
func TestNewKeys(t *testing.T) {
	live, other, gone := newToken(t), newToken(t), newToken(t)
	revoked := keyOf(gone, "gone")
	revoked.RevokedMS = now - 1
	book := NewBook(60_000)
	book.Replace([]Key{keyOf(live, "shop"), revoked}, now)
	for _, test := range []struct {
		token Token
		after int64
		want  Reason
	}{{other, 5000, Unknown}, {other, 5001, Stale}, {live, 5001, Accepted}, {gone, 5001, Revoked},
		{live, 60_000, Accepted}, {live, 60_001, Stale}} {
		if _, reason := book.Authenticate(test.token.Reveal(), now+test.after); reason != test.want {
			t.Errorf("after %d ms: %q, want %q", test.after, reason, test.want)
		}
	}
}

func otherThan(digit byte) string {
	if digit == '0' {
		return "1"
	}
	return "0"
}

// TestReplace checks that a key that is missing from the next generation is refused.
func TestReplace(t *testing.T) {
	book, token := NewBook(0), newToken(t)
	book.Replace([]Key{keyOf(token, "a")}, now)
	book.Replace([]Key{keyOf(newToken(t), "b")}, now)
	if _, reason := book.Authenticate(token.Reveal(), now); reason != Unknown || book.Len() != 1 {
		t.Errorf("%q, %d keys", reason, book.Len())
	}
}

// TestMessagesRevealNothing checks that an unknown id and a wrong secret have the same message.
func TestMessagesRevealNothing(t *testing.T) {
	if Unknown.Message() != WrongSecret.Message() {
		t.Error("an unknown id and a wrong secret have different messages")
	}
	for _, reason := range []Reason{Missing, Malformed, Mistyped, Stale, Unknown, Revoked, Expired, Unmapped} {
		if reason.Message() == "" {
			t.Errorf("%q has no message", reason)
		}
	}
}

// TestUpdate checks that changed keys replace their earlier form, others stay, and removed ones are
// unknown.
func TestUpdate(t *testing.T) {
	book, a, b, c := NewBook(1000), newToken(t), newToken(t), newToken(t)
	others := make([]Token, 5000) // so many that some share a part of the book with a, b and c
	first := []Key{keyOf(a, "a"), keyOf(b, "b")}
	for i := range others {
		others[i] = newToken(t)
		first = append(first, keyOf(others[i], "other"))
	}
	book.Replace(first, now)
	revoked := keyOf(a, "a")
	revoked.RevokedMS = now
	book.Update([]Key{revoked, keyOf(c, "c")}, []string{b.ID()})
	for token, want := range map[Token]Reason{a: Revoked, b: Unknown, c: Accepted} {
		if _, reason := book.Authenticate(token.Reveal(), now); reason != want {
			t.Errorf("%s: %q, want %q", token, reason, want)
		}
	}
	for i, token := range others {
		if _, reason := book.Authenticate(token.Reveal(), now); reason != Accepted {
			t.Fatalf("another key, %d: %q", i, reason)
		}
	}
	if _, reason := book.Authenticate(c.Reveal(), now+1001); reason != Stale {
		t.Errorf("%q: Update must not confirm the keys", reason)
	}
}

// TestForget checks that keys that ended before an instant are forgotten, and others that have ended
// only if there are too many.
func TestForget(t *testing.T) {
	book, live, long, late := NewBook(0), newToken(t), newToken(t), newToken(t)
	ended, expired := keyOf(long, "long"), keyOf(late, "late")
	ended.RevokedMS, expired.ExpiresMS = now-10, now
	book.Replace([]Key{keyOf(live, "live"), ended, expired}, now)
	for _, test := range []struct {
		most int
		want [3]Reason
	}{{1, [3]Reason{Accepted, Unknown, Expired}}, {0, [3]Reason{Accepted, Unknown, Unknown}}} {
		book.forget(now-5, now, test.most)
		for n, token := range []Token{live, long, late} {
			if _, reason := book.Authenticate(token.Reveal(), now); reason != test.want[n] {
				t.Errorf("at most %d: key %d is %q, want %q", test.most, n, reason, test.want[n])
			}
		}
	}
}

// TestUsed checks that the last use is recorded to the hour, kept over generations, and reported
// until the database has it.
func TestUsed(t *testing.T) {
	book, token := NewBook(0), newToken(t)
	key := keyOf(token, "a")
	book.Replace([]Key{key, keyOf(newToken(t), "b")}, now)
	hour := now - now%HourMS
	for _, at := range []int64{hour + 5, hour + HourMS - 1, hour - 1} {
		book.Authenticate(token.Reveal(), at)
	}
	want := map[string]int64{key.ID: hour}
	if diff := cmp.Diff(want, book.Used(9)); diff != "" {
		t.Error(diff)
	}
	book.Replace([]Key{key}, now)
	if diff := cmp.Diff(want, book.Used(9)); diff != "" {
		t.Error(diff)
	}
	key.LastUsedMS = hour
	book.Replace([]Key{key}, now)
	if got := book.Used(9); len(got) != 0 {
		t.Errorf("uses that the database has are reported: %v", got)
	}
}

// TestBookIsSafeForConcurrentUse replaces generations while callers authenticate. The race detector
// checks it.
func TestBookIsSafeForConcurrentUse(t *testing.T) {
	book, token := NewBook(1000), newToken(t)
	book.Replace([]Key{keyOf(token, "a")}, now)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for n := range int64(1000) {
				if _, reason := book.Authenticate(token.Reveal(), now+n*HourMS/100); reason == Unknown {
					t.Error("a key is unknown while its generation is replaced")
				}
				book.Used(9)
			}
		})
	}
	group.Go(func() {
		for n := range int64(1000) {
			book.Replace([]Key{keyOf(token, "a")}, now+n*HourMS/100)
			book.Confirm(now + n*HourMS/100)
		}
	})
	group.Wait()
}

// BenchmarkAuthenticate measures the cost of a key per call; the allowance is 0.5 us.
func BenchmarkAuthenticate(b *testing.B) {
	keys := make([]Key, 0, 10_001)
	for n := range 10_000 {
		keys = append(keys, keyOf(newToken(b), fmt.Sprintf("p%d", n)))
	}
	token := newToken(b)
	book := NewBook(1000)
	book.Replace(append(keys, keyOf(token, "shop")), now)
	text := token.Reveal()
	call, _ := CallOf("POST /v1/budgets/{budget}/deduct")
	b.ReportAllocs()
	for b.Loop() {
		p, reason := book.Authenticate(text, now)
		if reason != Accepted || p.May(call, Target{Tenant: "default", Budget: "spring-sale"}) != Allowed {
			b.Fatal(reason)
		}
	}
}

// TestAuthenticateAllocatesNothing checks that the hot path creates no garbage.
func TestAuthenticateAllocatesNothing(t *testing.T) {
	book, token := NewBook(0), newToken(t)
	book.Replace([]Key{keyOf(token, "a")}, now)
	text := token.Reveal()
	if n := testing.AllocsPerRun(100, func() { book.Authenticate(text, now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
