package sim

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

var (
	seedsFlag = flag.Int("sim.seeds", 300, "how many seeds TestSimulation runs")
	firstFlag = flag.Uint64("sim.first", 0, "the first of them")
	seedFlag  = flag.Int64("sim.seed", -1, "the one seed to run")
	traceFlag = flag.Bool("sim.trace", false, "print the schedule of -sim.seed")
	racedFlag = flag.Int("sim.raced", 6, "how many of the seeds run with the race detector, where it is on")
)

// operations is how many calls clients make per seed.
const operations = 2000

// TestMain collects garbage less often: runs are short, and most of what they make lives until the end.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// run runs a seed in a bubble of its own.
func run(t *testing.T, o Options) (r Report) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = Run(o) })
	return r
}

// TestSimulation runs seeds side by side and shows what goes wrong with one, and how to replay it.
// Where the race detector is on, it watches the first seeds only: goroutines go on one at a time here,
// so it has little to find, and a seed takes five times as long. The others run in a process built
// without it.
func TestSimulation(t *testing.T) {
	first, n := *firstFlag, *seedsFlag
	if *seedFlag >= 0 {
		first, n = uint64(*seedFlag), 1
	}
	if raced && n > *racedFlag {
		t.Run("without the race detector", func(t *testing.T) {
			unraced(t, first+uint64(*racedFlag), n-*racedFlag)
		})
		n = *racedFlag
	}
	var mu sync.Mutex
	total := Report{Answers: map[string]int{}}
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+uint64(n); seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r := one(t, seed)
				mu.Lock()
				defer mu.Unlock()
				total.add(r)
			})
		}
	})
	t.Logf("seeds %d to %d: %d operations, %d calls, %d commits and %d refusals, %d refusals by limits and %d ends of holds looked into, %v of virtual time",
		first, first+uint64(n)-1, total.Operations, total.Calls, total.Writes, total.Refusals,
		total.LimitRefusals, total.HoldEnds, total.Took)
	for f := noFault + 1; f < faults; f++ {
		t.Logf("%-30s %d", f, total.Faults[f])
		least := n / 2
		switch {
		case n < 50: // too few to hold each kind to it: the others are run beside them
			least = 0
		case f == faultSilent: // it takes half a minute
			least = n / 6
		case f == faultForked, f == faultClockAhead, f == faultClockBack: // not in seeds with store mode
			least = n / 8
		}
		if *seedFlag < 0 && total.Faults[f] < least {
			t.Errorf("%s happened %d times in %d seeds", f, total.Faults[f], n)
		}
	}
	t.Logf("store mode: %+v", total.StoreMode)
	m := total.StoreMode
	if *seedFlag < 0 && n >= 100 && min(m.Quarantined, m.Released, m.Lost, m.ByOperator) == 0 {
		t.Errorf("something never happened in store mode: %+v", m)
	}
	if *seedFlag < 0 && (total.LimitRefusals < 20*n || total.HoldEnds < 20*n) {
		t.Errorf("%d refusals by limits and %d ends of holds are too few", total.LimitRefusals, total.HoldEnds)
	}
	var lines []string
	for what, times := range total.Answers {
		lines = append(lines, fmt.Sprintf("%s: %d", what, times))
	}
	slices.Sort(lines)
	t.Log(strings.Join(lines, "; "))
}

// unraced runs seeds in a process of its own, built without the race detector.
func unraced(t *testing.T, first uint64, n int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run=^TestSimulation$",
		"-race=false", "-v", ".", "-args", fmt.Sprint("-sim.first=", first), fmt.Sprint("-sim.seeds=", n))
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "sim_test.go:") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if err != nil {
		t.Errorf("%v", err)
	}
	if !strings.Contains(string(out), fmt.Sprintf("seeds %d to %d:", first, first+uint64(n)-1)) {
		t.Errorf("the seeds were not run: %s", out)
	}
}

// one runs a seed and reports its violations.
func one(t *testing.T, seed uint64) Report {
	t.Helper()
	o := Options{Seed: seed, Operations: operations, Checked: seed%16 == 0}
	if *traceFlag && *seedFlag >= 0 {
		o.Trace = io.Writer(os.Stdout)
	}
	r := run(t, o)
	for _, v := range r.Violations {
		t.Errorf("seed %d: %s", seed, v)
	}
	if r.Ambiguous > 0 {
		t.Errorf("seed %d: %d moments depend on the scheduler", seed, r.Ambiguous)
	}
	if t.Failed() {
		t.Logf("replay: go test -race ./sim -run TestSimulation -sim.seed %d -sim.trace", seed)
	}
	return r
}

// panicking is a trace that panics, once, at the first line of a call that only background work makes.
type panicking struct{ done bool }

func (p *panicking) Write(line []byte) (int, error) {
	if !p.done && bytes.Contains(line, []byte(" Reached ")) {
		p.done = true
		panic("planted")
	}
	return len(line), nil
}

// TestPanicOfBackgroundWork: a run tells of one, and where it was.
func TestPanicOfBackgroundWork(t *testing.T) {
	r := run(t, Options{Seed: 0, Operations: 50, Trace: &panicking{}})
	if len(r.Violations) != 1 || !strings.Contains(r.Violations[0], "panicked") ||
		!strings.Contains(r.Violations[0], "planted") || !strings.Contains(r.Violations[0], "watchLanes") {
		t.Errorf("violations %q", r.Violations)
	}
}

func (r *Report) add(other Report) {
	for f := range other.Faults {
		r.Faults[f] += other.Faults[f]
	}
	for what, n := range other.Answers {
		r.Answers[what] += n
	}
	r.Ambiguous += other.Ambiguous
	r.Calls += other.Calls
	r.Operations += other.Operations
	r.Writes += other.Writes
	r.Refusals += other.Refusals
	r.LimitRefusals += other.LimitRefusals
	r.HoldEnds += other.HoldEnds
	r.Took += other.Took
	r.StoreMode.Seeds += other.StoreMode.Seeds
	r.StoreMode.Accepted += other.StoreMode.Accepted
	r.StoreMode.Quarantined += other.StoreMode.Quarantined
	r.StoreMode.Released += other.StoreMode.Released
	r.StoreMode.Lost += other.StoreMode.Lost
	r.StoreMode.ByOperator += other.StoreMode.ByOperator
}

// TestSameSeedSameSchedule: a seed gives the same trace twice, to the letter: every call in the same
// order with the same arguments and answers, whatever Go's scheduler does; another seed another one.
func TestSameSeedSameSchedule(t *testing.T) {
	var digests sync.Map
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			o := Options{Seed: seed, Operations: 150, Whole: true}
			first, second := run(t, o), run(t, o)
			if first.Digest != second.Digest || first.Calls != second.Calls {
				t.Errorf("digests %x and %x, %d and %d calls", first.Digest, second.Digest, first.Calls, second.Calls)
			}
			if other, twice := digests.LoadOrStore(first.Digest, seed); twice {
				t.Errorf("seed %d has the same digest: the trace says nothing", other)
			}
		})
	}
}
