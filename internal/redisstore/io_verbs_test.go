package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
)

// A script's answer for one operation, and those of the commands that are not scripts.
const (
	fineScript = "*3\r\n:1\r\n:0\r\n:0\r\n"
	fineCount  = ":1\r\n"
	fineRange  = "*0\r\n"
)

var fineHash = "*8\r\n" + strings.Repeat("$-1\r\n", 8)

// verb is a call of a store with its command, and what the fake answers when nothing is wrong.
type verb struct {
	name, command, fine string
	write               bool
	// commands is how many go out in one round trip.
	commands int
	call     func(context.Context, bucket.Store) error
}

var verbs = []verb{
	{"open", "EVALSHA", fineScript, true, 1, func(ctx context.Context, s bucket.Store) error {
		_, err := s.Open(ctx, lane0, []bucket.Ref{ref1})
		return err
	}},
	{"grant", "EVALSHA", fineScript, true, 1, func(ctx context.Context, s bucket.Store) error {
		_, err := s.Grant(ctx, lane0, []bucket.GrantOrder{{Ref: ref1, Number: 1, Amount: 1}})
		return err
	}},
	{"deduct", "EVALSHA", fineScript, true, 1, func(ctx context.Context, s bucket.Store) error {
		_, err := s.Deduct(ctx, lane0, []bucket.Operation{storetest.Deduction(ref1, 1, "x")})
		return err
	}},
	{"close", "EVALSHA", fineScript, true, 1, func(ctx context.Context, s bucket.Store) error {
		_, err := s.Close(ctx, lane0, []bucket.Ref{ref1})
		return err
	}},
	{"trim", "EVALSHA", fineCount, true, 1, func(ctx context.Context, s bucket.Store) error {
		return s.Trim(ctx, lane0, []bucket.Cursor{{Ref: ref1}})
	}},
	{"forget", "UNLINK", fineCount, true, 1, func(ctx context.Context, s bucket.Store) error {
		return s.Forget(ctx, lane0, []bucket.Ref{ref1})
	}},
	{"void", "EVALSHA", "*4\r\n:1\r\n:0\r\n:0\r\n:0\r\n", true, 1, func(ctx context.Context, s bucket.Store) error {
		_, err := s.(bucket.Records).Void(ctx, lane0, []bucket.VoidOrder{{Ref: ref1, RequestID: "x"}})
		return err
	}},
	{"discard", "EVALSHA", "*1\r\n:1\r\n", true, 1, func(ctx context.Context, s bucket.Store) error {
		_, err := s.Discard(ctx, lane0, []bucket.LogEnd{{Ref: ref1, Last: "1-1"}})
		return err
	}},
	{"read", "XRANGE", fineRange, false, 3, func(ctx context.Context, s bucket.Store) error {
		_, err := s.Read(ctx, lane0, []bucket.Cursor{{Ref: ref1}, {Ref: ref1}, {Ref: ref1}}, 1)
		return err
	}},
	{"balances", "HMGET", fineHash, false, 3, func(ctx context.Context, s bucket.Store) error {
		_, err := s.Balances(ctx, lane0, []bucket.Ref{ref1, ref1, ref1})
		return err
	}},
}

// failing are the classes of errors: what a write is answered; a read is unavailable instead of
// unknown.
var failing = []struct {
	answer string
	code   budget.Code
}{
	{"-NOSCRIPT No matching script.\r\n", lost},
	{"-OOM command not allowed\r\n", budget.Unavailable},
	{"-LOADING Redis is loading\r\n", budget.Unavailable},
	{"-MISCONF Redis is configured to save\r\n", budget.Unavailable},
	{"-BUSY Redis is busy running a script.\r\n", budget.Unavailable},
	{"-READONLY You can't write\r\n", budget.Unavailable},
	{"-NOTDONE OOM command not allowed\r\n", budget.Unavailable},
	{"-HALFDONE OOM command not allowed\r\n", budget.OutcomeUnknown},
	{"-ERR something\r\n", budget.OutcomeUnknown},
	{hangUp, budget.OutcomeUnknown},
	{"-silence", budget.OutcomeUnknown},
	{"*3\r\n:1\r\n:0\r\n-half an answer", budget.OutcomeUnknown}, // and then nothing
}

// failAt answers well until the nth command of the verb, and with the error that once.
func failAt(v verb, n int, answer string) func([]string) string {
	count := 0
	return func(command []string) string {
		if !strings.EqualFold(command[0], v.command) {
			return ""
		}
		if count++; count == n {
			return answer
		}
		return v.fine
	}
}

// TestNthCommandFails lets the nth command of every verb fail in every way: as the first one on a
// connection, after calls that went well, and within a round trip of several. That call is of the
// right class, those before it went well, and those after it do, unless the memory is lost.
func TestNthCommandFails(t *testing.T) {
	var cases atomic.Int64
	t.Run("verbs", func(t *testing.T) {
		for _, v := range verbs {
			for _, f := range failing {
				if f.code == lost && !v.write {
					continue // only scripts can be unknown
				}
				t.Run(fmt.Sprintf("%s %q", v.name, f.answer), func(t *testing.T) {
					t.Parallel()
					cases.Add(v.failEach(t, f.answer, f.code))
				})
			}
		}
	})
	t.Logf("%d cases", cases.Load())
	const least = 480
	if cases.Load() < least {
		t.Errorf("%d cases, at least %d are expected", cases.Load(), least)
	}
}

// failEach lets each command of a few calls fail.
func (v verb) failEach(t *testing.T, answer string, want budget.Code) (cases int64) {
	const calls = 3
	if want == budget.OutcomeUnknown && !v.write {
		want = budget.Unavailable
	}
	afterwards := budget.Code("")
	if want == lost {
		afterwards = lost
	}
	for n := 1; n <= v.commands*calls; n++ {
		fake := newFakeRedis(t)
		store := patientStore(t, fake, answer)
		fake.set(func(x *fakeRedis) { x.next = failAt(v, n, answer) })
		cases++
		hit := (n - 1) / v.commands
		for i := range calls + 1 {
			err := v.call(t.Context(), store)
			switch {
			case i < hit:
				wantCodes(t, map[string]error{fmt.Sprint("before command ", n): err}, "")
			case i == hit:
				wantCodes(t, map[string]error{fmt.Sprint("command ", n): err}, want)
			default:
				wantCodes(t, map[string]error{fmt.Sprint("after command ", n): err}, afterwards)
			}
		}
	}
	return cases
}

// patientStore waits long for an answer, unless there will be none.
func patientStore(t *testing.T, fake *fakeRedis, answer string) *redisstore.Store {
	t.Helper()
	patience := time.Minute
	if !strings.HasSuffix(answer, "\r\n") && answer != hangUp {
		patience = 500 * time.Millisecond
	}
	store := connect(t, redisstore.Config{Name: instance, Addr: fake.addr(), Lanes: 1,
		InstallationID: "test", ReadTimeout: patience, DialTimeout: time.Minute})
	activate(t, store, 1)
	return store
}

// TestNthCommandOfActivateFails: whatever command of Identity and Activate gets an error, nothing is
// taken for verified: the calls fail, and the lane stays as it was and serves.
func TestNthCommandOfActivateFails(t *testing.T) {
	cases := 0
	for _, f := range failing {
		t.Run(fmt.Sprintf("%q", f.answer), func(t *testing.T) {
			for n := 1; ; n++ {
				fake := newFakeRedis(t)
				store := patientStore(t, fake, f.answer)
				count, hit, setUp := 0, false, false
				fake.set(func(x *fakeRedis) {
					x.answer = fineScript
					x.next = func(command []string) string {
						switch name := strings.ToUpper(command[0]); name {
						case "INFO", "SCRIPT", "HELLO", "CLIENT":
							if count++; count == n {
								hit, setUp = true, name == "HELLO" || name == "CLIENT"
								return f.answer
							}
						}
						return ""
					}
				})
				who, err := store.Identity(t.Context(), lane0)
				if err == nil {
					err = store.Activate(t.Context(), lane0, who, 2)
				}
				fake.set(func(x *fakeRedis) { x.next = nil })
				if !hit {
					if err != nil {
						t.Errorf("undisturbed: %v", err)
					}
					break
				}
				cases++
				// The set-up of a connection (HELLO, CLIENT) may be refused without harm.
				if err != nil && !errors.Is(err, bucket.ErrMemoryLost) && !budget.Is(err, budget.Unavailable) {
					t.Errorf("command %d: %v", n, err)
				}
				activated := err == nil
				if activated && !setUp {
					t.Errorf("command %d failed, and the lane was activated", n)
				}
				_, err = store.Deduct(t.Context(), lane0, []bucket.Operation{storetest.Deduction(ref1, 1, "x")})
				if err != nil {
					t.Errorf("command %d, activated %v: the lane does not serve: %v", n, activated, err)
				}
			}
		})
	}
	t.Logf("%d cases", cases)
	const least = 80
	if cases < least {
		t.Errorf("%d cases, at least %d are expected", cases, least)
	}
}
