package redisstore_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/storetest"
)

// The counters of limit "per-user" in the first bucket: of calendar windows from 0 on and of a lifetime, of first_hit and
// sliding ones in the generation that is the present one from 2017 to 2065.
const (
	tamperedPage       = counters1 + ":per-user:1:0"
	tamperedGeneration = counters1 + ":per-user:1:g1"
)

// TestTamperedCounters: a counter that is none is the answer to the operations that count for it, and to no other; one
// is read as what it says, whatever its length.
func TestTamperedCounters(t *testing.T) {
	lifetime := bucket.CountWindow{Kind: budget.WindowLifetime}
	daily := bucket.CountWindow{Kind: budget.WindowCalendar, End: budget.MaxAmount}
	hit := bucket.CountWindow{Kind: budget.WindowFirstHit, Length: 15e11}
	sliding := bucket.CountWindow{Kind: budget.WindowSliding, Length: 75e10, Slot: 75e10}
	const broken = -1
	type test struct {
		window bucket.CountWindow
		text   string
		used   int64 // before
	}
	var tests []test
	for _, window := range []bucket.CountWindow{lifetime, daily} {
		for _, text := range []string{"", "1e3", "1e", "e1", "05", "00", "000", "012", "0123", " 5", "5 ", "5\n", "1 2", "0x5", "0x", "1.0", "1.",
			".1", "-1", "+1", "-", "/", ":", "1/", "1:", "1/1", "1:1", "11/", "11:", "1é", "nan", "inf", "abc", "5a", "a5", "1a5", "u", "ux", "u5 ",
			"9007199254740992", "12345678901234567", strings.Repeat("9", 400)} {
			tests = append(tests, test{window, text, broken})
		}
		for _, n := range []int64{0, 1, 9, 10, 19, 90, 99, 100, 101, 999, 1000, 1234, 99999, 1 << 50, budget.MaxAmount - 1} {
			tests = append(tests, test{window, strconv.FormatInt(n, 10), n})
		}
	}
	for _, text := range []string{"", "5", "5 ", " 5", "05 1", "1e3 1", "5 -1", "5 0x1", "5  1", "5 1 ", "5 12345678901234"} {
		tests = append(tests, test{hit, text, broken})
	}
	tests = append(tests, test{hit, "7 1a000000000", 7})
	for _, text := range []string{"5", "5:", ":5", "5:1 ", "5:x", "5:1 5"} {
		tests = append(tests, test{sliding, text, broken})
	}
	tests = append(tests, test{sliding, "2:7", 7}, test{sliding, "", 0})
	_, store, raw := serving(t)
	ctx := t.Context()
	for i, test := range tests {
		must(t, raw.Del(ctx, counters1, tamperedPage, tamperedGeneration).Err())
		must(t, raw.HSet(ctx, balanceKey1, "balance", 100, "granted", 1000).Err())
		at := tamperedPage
		if test.window.Length > 0 {
			at = tamperedGeneration
		}
		must(t, raw.HSet(ctx, at, "=ann", test.text, "=eve", "1").Err())
		if test.window.Length > 0 {
			must(t, raw.HSet(ctx, at, "=eve", map[budget.WindowKind]string{
				budget.WindowFirstHit: "1 1a000000000", budget.WindowSliding: "2:1"}[test.window.Kind]).Err())
		}
		for _, heard := range []bool{false, true} { // the second call finds the limit in the root
			id := strconv.Itoa(i) + strconv.FormatBool(heard)
			var operations []bucket.Operation
			for n, value := range []string{"eve", "ann", "bob", "ann", "eve"} {
				operations = append(operations, storetest.Limited(ref1, id+strconv.Itoa(n), 0, bucket.Count{Limit: "per-user",
					Changed: 1, Value: value, Add: 1, Max: bucket.NoMax, New: true, Window: test.window}))
			}
			replies, err := store.Deduct(ctx, lane0, operations)
			must(t, err)
			for n, reply := range replies {
				before := map[int]int64{0: 1, 1: test.used, 2: 0, 3: test.used + 1, 4: 2}[n]
				if n == 3 && test.used == broken {
					before = broken
				}
				if heard && before != broken {
					before += map[int]int64{0: 2, 1: 2, 2: 1, 3: 2, 4: 2}[n]
				}
				used := min(before+1, budget.MaxAmount)
				switch {
				case before == broken && reply.Verdict == bucket.Broken && reply.Why != "":
				case before != broken && reply.Verdict == bucket.OK && reply.Counted.Limits[0].Used == used:
				default:
					t.Errorf("%s %q, heard %v, operation %d: %+v, %+v, want %d", test.window.Kind, test.text, heard, n, reply,
						reply.Counted, used)
				}
			}
		}
		if got := raw.HGet(ctx, at, "=ann").Val(); test.used == broken && got != test.text {
			t.Errorf("%s %q became %q", test.window.Kind, test.text, got)
		}
	}
}

// TestTamperedRoot: what a root says of a limit is the answer to the operations that count for it.
func TestTamperedRoot(t *testing.T) {
	_, store, raw := serving(t)
	ctx := t.Context()
	for i, text := range []string{"", "1", "1 0", "1  0 ", "x 0 ", "1 x ", "1 0 x", "1 0  ", "-1 0 ", "1 0.5 ", "1 0 5 "} {
		must(t, raw.Del(ctx, counters1).Err())
		must(t, raw.HSet(ctx, counters1, "@per-user", text, "@b", "1 0 ").Err())
		one := aCount
		one.Max = bucket.NoMax
		other := one
		other.Limit = "b"
		id := strconv.Itoa(i)
		replies, err := store.Deduct(ctx, lane0, []bucket.Operation{storetest.Limited(ref1, id+"a", 0, one),
			storetest.Limited(ref1, id+"b", 0, other), storetest.Limited(ref1, id+"c", 0, other, one)})
		must(t, err)
		if replies[0].Verdict != bucket.Broken || replies[1].Verdict != bucket.OK || replies[2].Verdict != bucket.Broken {
			t.Errorf("%q: %+v", text, replies)
		}
	}
}
