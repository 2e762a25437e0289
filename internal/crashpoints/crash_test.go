package crashpoints

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

var (
	all     = flag.Bool("crash.all", false, "try every point: with -timeout 3h")
	doubles = flag.Int("crash.doubles", 300, "how many points of two crashes are tried")
	seed    = flag.Uint64("crash.seed", 1, "which of them")
	named   = flag.String("crash.operations", "", "a pattern: run the operations of such names only")
	only    = flag.String("crash.point", "", "try one point: operation|shape|step|way[|step|way]")
)

// floors are the least numbers that a run has to find: a list that got shorter is a test that got weaker.
type floors struct {
	// single, of which store are in store mode, and double are points of crashes.
	single, store, double int
	// failures are cases of TestFailingIO.
	failures int
}

// least is about 98 % of what is found, whatever the seed: without -crash.all, and with it.
var least = map[bool]floors{
	false: {single: 9_970, store: 2_430, double: 1_152_000, failures: 40_750},
	true:  {single: 22_110, store: 10_590, double: 1_713_000, failures: 40_750},
}

// Of operations that are alike in both modes, one point in alikeTried is tried in store mode without
// -crash.all.
const alikeTried = 5

// setting is an operation in a world of one shape.
type setting struct {
	operation
	in shape
}

func (s setting) String() string { return s.name + "|" + s.in.String() }

// settings are all operations with all their shapes and durabilities, or those that were asked for.
func settings() (out []setting) {
	pattern := regexp.MustCompile(*named)
	for _, durability := range durabilities {
		for _, op := range operations {
			if op.only != "" && op.only != durability || !pattern.MatchString(op.name) {
				continue
			}
			for _, in := range op.in(durability) {
				in.durability = durability
				out = append(out, setting{op, in})
			}
		}
	}
	return out
}

// in are the shapes that the operation is run with: all of them; in store mode the first one of what is
// alike in both modes, and rows where a store's record decides.
func (o *operation) in(durability budget.Durability) []shape {
	if durability == budget.Ledger || o.only == durability {
		return o.shapes
	}
	return slices.DeleteFunc(slices.Clone(o.shapes), func(s shape) bool {
		return s != o.shapes[0] && !(s.rows && o.records)
	})
}

// inBubble does something with a new world, in virtual time.
func (s setting) inBubble(t *testing.T, do func(*world, *operation) trial) (out trial) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s.in, s.total)
		out = do(w, &s.operation)
		w.leave()
		out.faults = append(out.faults, w.faults...)
	})
	return out
}

// tally counts what was tried.
type tally struct {
	mu                             sync.Mutex
	settings, steps, tried, missed int
	doubles                        []double
	inStore                        atomic.Int64
}

// enough compares what was found with what is expected at least.
func (y *tally) enough(t *testing.T, want floors) {
	t.Helper()
	for _, n := range []struct {
		what        string
		found, want int
	}{
		{"single points", y.tried, want.single},
		{"single points in store mode", int(y.inStore.Load()), want.store},
		{"double points", len(y.doubles), want.double},
	} {
		if n.found < n.want {
			t.Errorf("%d %s, at least %d are expected", n.found, n.what, n.want)
		}
	}
}

// double is a point of two crashes.
type double struct {
	setting
	point
	text string
}

func (s setting) replay(test, flagName string, p fmt.Stringer) string {
	return fmt.Sprintf("go test -race ./internal/crashpoints -run '^%s$' -%s '%s|%s'", test, flagName, s, p)
}

// tryPoint stops a node at a point.
func (s setting) tryPoint(t *testing.T, p point) trial {
	t.Helper()
	out := s.inBubble(t, func(w *world, op *operation) trial { return w.crash(op, p) })
	if out.missed {
		t.Logf("%s|%s: not reached", s, p)
	}
	for _, f := range out.faults {
		t.Errorf("%s|%s: %s", s, p, f)
	}
	if len(out.faults) > 0 {
		t.Errorf("again: %s", s.replay("TestCrashPoints", "crash.point", p))
	}
	return out
}

// TestCrashPoints stops a node at every step of every operation, and for a part of them (all with
// -crash.all) the node that recovers at every step of its recovery. I1 to I7 hold afterwards.
func TestCrashPoints(t *testing.T) {
	if *only != "" {
		onePoint(t)
		return
	}
	began := time.Now()
	var sum tally
	t.Run("single", func(t *testing.T) {
		for _, s := range settings() {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				s.singles(t, &sum)
			})
		}
	})
	t.Logf("single: %d operations, %d steps, %d points, %d of them in store mode, %d not reached, %s",
		sum.settings, sum.steps, sum.tried, sum.inStore.Load(), sum.missed, time.Since(began).Round(time.Millisecond))
	if *named == "" {
		sum.enough(t, least[*all])
	}
	if t.Failed() {
		return
	}
	began = time.Now()
	chosen := sum.choose()
	t.Logf("double: %d of %d points to try", len(chosen), len(sum.doubles))
	var second tally
	t.Run("double", func(t *testing.T) {
		const parts = 64
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for i := part; i < len(chosen); i += parts {
					out := chosen[i].tryPoint(t, chosen[i].point)
					second.add(out)
				}
			})
		}
	})
	t.Logf("double: %d points, seed %d, %d not reached, %s", second.tried, *seed, second.missed,
		time.Since(began).Round(time.Millisecond))
	allReached(t, sum.missed+second.missed)
}

// TestTheSameEveryTime runs every operation twice: it takes the same steps in the same order, so that a
// point can be tried again.
func TestTheSameEveryTime(t *testing.T) {
	for _, s := range settings() {
		const tried = 3 // one in so many
		if !*all && !chosen(s.String(), tried) {
			continue
		}
		var runs [2]trial
		for i := range runs {
			runs[i] = s.inBubble(t, func(w *world, op *operation) trial { return w.discover(op) })
		}
		if !slices.Equal(runs[0].steps, runs[1].steps) || len(runs[0].steps) == 0 {
			t.Errorf("%s: steps %v, and then %v", s, runs[0].steps, runs[1].steps)
		}
	}
}

// TestReadsChangeNothing looks at every method that counts as a read, in every operation and in a recovery
// from it: at those a node is stopped in one way only.
func TestReadsChangeNothing(t *testing.T) {
	seen := map[string]bool{}
	watched := func(s setting, do func(*world, *operation) trial) trial {
		return s.inBubble(t, func(w *world, op *operation) trial {
			was := map[string]memstore.Tables{}
			var mu sync.Mutex
			w.trace.reading = func(method string, isBefore bool) {
				mu.Lock()
				defer mu.Unlock()
				now := w.model.Tables()
				if !isBefore && !reflect.DeepEqual(now, was[method]) {
					t.Errorf("%s: %s changed rows", s, method)
				}
				was[method], seen[method] = now, true
			}
			out := do(w, op)
			// A node asks for what another one committed under its hands, and there is one at a time.
			_, _ = w.model.At(context.Background(), []ledger.Position{{Bucket: 1, Epoch: 1, Seq: 1}})
			return out
		})
	}
	for _, s := range settings() {
		steps := watched(s, (*world).discover).steps
		watched(s, func(w *world, op *operation) trial {
			return w.crash(op, point{step: steps[len(steps)/2].String(), way: before})
		})
	}
	for _, method := range sqlReads {
		if *named == "" && !seen[method] {
			t.Errorf("%s was not called", method)
		}
	}
}

// allReached fails when a step of the undisturbed run was not met again: then the runs are not alike,
// and a point that failed could not be tried again.
func allReached(t *testing.T, missed int) {
	t.Helper()
	if missed > 0 {
		t.Errorf("%d points were not reached", missed)
	}
}

func onePoint(t *testing.T) {
	name, in, p, err := parsePoint(*only)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings() {
		if s.name == name && s.in.String() == in {
			out := s.tryPoint(t, p)
			if out.missed {
				t.Errorf("not reached; the recovery's steps are %v", out.steps)
			}
			return
		}
	}
	t.Fatalf("there is no operation %q in a world %q", name, in)
}

// singles finds the steps of an operation and stops a node at each of them.
func (s setting) singles(t *testing.T, sum *tally) {
	found := s.inBubble(t, func(w *world, op *operation) trial { return w.discover(op) })
	for _, f := range found.faults {
		t.Fatalf("undisturbed: %s", f)
	}
	sum.mu.Lock()
	sum.settings++
	sum.steps += len(found.steps)
	sum.mu.Unlock()
	var pairs []double
	for i, at := range found.steps {
		// The last answer is the caller's: that is heard or not.
		for _, way := range at.ways(!*all && i < len(found.steps)-1) {
			p := point{step: at.String(), way: way}
			if !*all && s.in.durability == budget.Store && s.only == "" &&
				!chosen(s.String()+p.String(), alikeTried) {
				continue
			}
			out := s.tryPoint(t, p)
			sum.add(out)
			if s.in.durability == budget.Store {
				sum.inStore.Add(1)
			}
			if !slices.Contains(at.ways(true), way) && !at.write {
				continue // leaves the same behind as another point
			}
			for _, second := range out.steps {
				for _, way2 := range second.ways(true) {
					p.step2, p.way2 = second.String(), way2
					pairs = append(pairs, double{s, p, s.String() + p.String()})
				}
			}
		}
	}
	sum.note(pairs)
}

// note keeps points of two crashes.
func (y *tally) note(pairs []double) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.doubles = append(y.doubles, pairs...)
}

func (y *tally) add(out trial) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.tried++
	if out.missed {
		y.missed++
	}
}

// choose returns the double points to try.
func (y *tally) choose() []double {
	slices.SortFunc(y.doubles, func(a, b double) int { return cmp.Compare(a.text, b.text) })
	chosen := slices.Clone(y.doubles)
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(chosen), func(i, j int) {
		chosen[i], chosen[j] = chosen[j], chosen[i]
	})
	if *all {
		return chosen
	}
	return chosen[:min(*doubles, len(chosen))]
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}
