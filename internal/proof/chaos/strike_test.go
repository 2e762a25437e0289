package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// ErrMissed means that a fault disturbed nothing.
var ErrMissed = errors.New("the fault disturbed nothing")

// Strike injects faults together for a while, on different servers if there are several, and undoes
// them. When it returns, everything works again but may not have recovered. ErrMissed means that a
// fault disturbed nothing. Any other error means that a fault could not be injected or undone.
func (w *World) Strike(rnd *rand.Rand, kinds ...Fault) error {
	kinds = slices.Clone(kinds)
	slices.SortStableFunc(kinds, func(a, b Fault) int { return a.order - b.order })
	type step struct{ begin, end func() error }
	var steps []step
	taken := map[On][]int{}
	for _, f := range kinds {
		i := rnd.IntN(w.servers(f.On))
		if slices.Contains(taken[f.On], i) {
			i = (i + 1) % w.servers(f.On)
		}
		taken[f.On] = append(taken[f.On], i)
		begin, end, err := f.prepare(w, i)
		if err != nil {
			return fmt.Errorf("%s is not prepared: %w", f.Name, err)
		}
		steps = append(steps, step{begin, end})
	}
	moment := func() { time.Sleep(50*time.Millisecond + upTo(rnd, 150*time.Millisecond)) }
	moment() // so that prepared data are older than the present ones
	var failures []error
	begun := 0
	for _, step := range steps {
		if err := step.begin(); err != nil {
			failures = append(failures, err)
			break
		}
		begun++
		moment()
	}
	time.Sleep(lasts(rnd, kinds))
	for _, step := range slices.Backward(steps[:begun]) {
		failures = append(failures, step.end())
	}
	return worst(append(failures, w.Restore()))
}

// lasts returns how long faults last. A silent server is sometimes silent for longer than the
// stores' timeouts (1 s) and the deadline of a deduction (2 s).
func lasts(rnd *rand.Rand, kinds []Fault) time.Duration {
	most := 600 * time.Millisecond
	for _, f := range kinds {
		if strings.Contains(f.Name, "SIGSTOP") || strings.Contains(f.Name, "black hole") {
			most = 3500 * time.Millisecond
		}
	}
	return 100*time.Millisecond + upTo(rnd, most)
}

// worst returns the failures, or else ErrMissed if it is among them.
func worst(failures []error) error {
	missed := slices.Contains(failures, ErrMissed)
	failures = slices.DeleteFunc(failures, func(err error) bool { return err == ErrMissed })
	if err := errors.Join(failures...); err != nil || !missed {
		return err
	}
	return ErrMissed
}

// TestWorst checks that a miss never hides a failed recovery.
func TestWorst(t *testing.T) {
	broken := errors.New("not back")
	for _, tt := range []struct {
		name     string
		failures []error
		want     error
	}{
		{"nothing", []error{nil, nil}, nil},
		{"a miss", []error{nil, ErrMissed, nil}, ErrMissed},
		{"a failure", []error{broken, nil}, broken},
		{"both", []error{ErrMissed, broken}, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := worst(tt.failures)
			if !errors.Is(got, tt.want) || tt.want != ErrMissed && errors.Is(got, ErrMissed) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
