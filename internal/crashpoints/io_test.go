package crashpoints

import (
	"flag"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

var onlyIO = flag.String("crash.io", "", "let one call fail: operation|shape|step|failure")

// Without -crash.all, TestFailingIO tries one case in failuresTried.
const failuresTried = 25

// caught are cases in which something was found wrong once: they are always tried.
var caught = []string{
	"cancel before the deduct|store-1x3-rows|m0 deduct 1.1#1|time-out, done",
	"expiry and another life|store-3x3-log|m0 identity#1|outage",
	"expiry and another life|store-3x3-log|m1 identity#1|outage",
	"silent node's use ends|store-3x3-log|m0 read 3.1#1|NOSCRIPT",
	"collect, another node's run|store-3x3-log|m1 close 1.1#1|NOSCRIPT",
	"holds of a group|store-3x3-log|sql Commit#1|silence",
}

// TestFailingIO lets every call of every operation fail, one at a time, in every way in which it can.
// The node goes on. What the caller is told is true and of the right class, and never that the budget
// is exhausted; afterwards the books are right and nothing is pending.
func TestFailingIO(t *testing.T) {
	if *onlyIO != "" {
		oneFailure(t)
		return
	}
	began := time.Now()
	var sum tally
	var mu sync.Mutex
	ways, found := map[event]int{}, 0
	t.Run("failing", func(t *testing.T) {
		for _, s := range settings() {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				undisturbed := s.inBubble(t, func(w *world, op *operation) trial { return w.discover(op) })
				for _, at := range undisturbed.steps {
					for _, way := range at.failures() {
						mu.Lock()
						found++
						mu.Unlock()
						p := point{step: at.String(), way: way}
						if !*all && !chosen(s.String()+p.String(), failuresTried) &&
							!slices.Contains(caught, s.String()+"|"+p.String()) {
							continue
						}
						sum.add(s.tryFailure(t, p))
						mu.Lock()
						ways[way]++
						mu.Unlock()
					}
				}
			})
		}
	})
	t.Logf("%d of %d cases, seed %d, %d not reached, %s: %v", sum.tried, found, *seed, sum.missed,
		time.Since(began).Round(time.Millisecond), ways)
	tries := found
	if !*all {
		const rare = 10 // chosen by chance: so many fewer of a hundred are as good
		tries = found / failuresTried * (100 - rare) / 100
	}
	if want := least[*all].failures; *named == "" && (found < want || sum.tried < tries) {
		t.Errorf("%d of %d cases, at least %d of %d are expected", sum.tried, found, tries, want)
	}
	for _, way := range []event{refused, forgotten, defective, timeoutNot, timeoutDone, timeoutLate, resetNot,
		resetDone, outage, silence} {
		if *named == "" && ways[way] == 0 {
			t.Errorf("no call failed by %s", way)
		}
	}
	allReached(t, sum.missed)
}

// chosen picks one in n of the cases, by the seed.
func chosen(text string, n uint64) bool {
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendUint([]byte(text), *seed, 10))
	return h.Sum64()>>32%n == 0
}

// tryFailure lets one call fail.
func (s setting) tryFailure(t *testing.T, p point) trial {
	t.Helper()
	out := s.inBubble(t, func(w *world, op *operation) trial { return w.fail(op, p) })
	if out.missed {
		t.Logf("%s|%s: not reached", s, p)
	}
	for _, f := range out.faults {
		t.Errorf("%s|%s: %s", s, p, f)
	}
	if len(out.faults) > 0 {
		t.Errorf("again: %s", s.replay("TestFailingIO", "crash.io", p))
	}
	return out
}

func oneFailure(t *testing.T) {
	name, in, p, err := parsePoint(*onlyIO)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings() {
		if s.name == name && s.in.String() == in {
			if s.tryFailure(t, p).missed {
				t.Error("not reached")
			}
			return
		}
	}
	t.Fatalf("there is no operation %q in a world %q", name, in)
}
