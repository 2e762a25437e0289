package series

import (
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// MaxPoints is the most points that one series has.
const MaxPoints = 1440

// Bounds of what can be asked for.
const (
	// LeastStep is the time between two samples, and the least step of a series.
	LeastStep = time.Minute
	// DefaultLength is how much of the past a series shows where the caller names no beginning.
	DefaultLength = time.Hour
)

// Figures are what a sample keeps of a budget. Quantities are minor units.
type Figures struct {
	// Total, Undistributed, Quarantined and Forfeited are T, F + U, Q and X.
	Total, Undistributed, Quarantined, Forfeited int64
	// Remaining is ΣO of the open epochs, InTransit what is on its way to or from the total.
	Remaining, InTransit int64
	Held, Used           int64
	// Stranded is what of all this lies where it is of no use now: in buckets that are fenced or out
	// of reach, or as fragments.
	Stranded int64
}

// Released is what has been handed out: T − F − U − X.
func (f Figures) Released() int64 { return f.Total - f.Undistributed - f.Forfeited }

// Available is what can still be deducted, at once, soon, or in a later period: F, U, ΣO and ΣR.
func (f Figures) Available() int64 { return f.Undistributed + f.Remaining + f.InTransit }

// Spent is what has been deducted and not given back: used and held.
func (f Figures) Spent() int64 { return f.Used + f.Held }

// Point is a budget's figures at an instant.
type Point struct {
	At time.Time
	Figures
}

// Span is the part of the past that a series shows: a point at From, and one every Step, up to To.
type Span struct {
	From, To time.Time
	Step     time.Duration
}

// Points is how many points a span has, at most.
func (s Span) Points() int { return int(s.To.Sub(s.From)/s.Step) + 1 }

// Choose completes what a caller asked for (zero: nothing) and checks it. To is now, From
// DefaultLength before To, Step the fewest whole minutes that give no more than MaxPoints points.
// The fields that are faulty come back, none if it is all right.
func Choose(asked Span, now time.Time) (Span, []budget.FieldError) {
	s := asked
	if s.To.IsZero() {
		s.To = now
	}
	if s.From.IsZero() {
		s.From = s.To.Add(-DefaultLength)
	}
	if !s.From.Before(s.To) {
		return s, []budget.FieldError{{Field: "from", Message: "must be before to, which is now if it " +
			"is left out"}}
	}
	length := s.To.Sub(s.From)
	least := LeastStep * max((length/(MaxPoints-1)+LeastStep-1)/LeastStep, 1)
	if s.Step == 0 {
		s.Step = least
	}
	if s.Step < LeastStep || s.Step%LeastStep != 0 {
		return s, []budget.FieldError{{Field: "step", Message: "must be whole minutes, 1m at least"}}
	}
	if s.Points() > MaxPoints {
		return s, []budget.FieldError{{Field: "step",
			Message: "gives more than 1440 points; for this span it must be " + least.String() +
				" at least"}}
	}
	return s, nil
}

// Thin returns the points of a span: at each of its instants the figures of the latest sample then.
// Where there was none yet there is no point, nor is there one after now. The samples are in the
// order of time, those before the span only count by their last one.
func Thin(samples []Point, span Span, now time.Time) []Point {
	out := make([]Point, 0, min(span.Points(), MaxPoints))
	next := 0
	for i := range span.Points() {
		at := span.From.Add(time.Duration(i) * span.Step)
		if at.After(now) {
			break
		}
		for next < len(samples) && !samples[next].At.After(at) {
			next++
		}
		if next > 0 {
			out = append(out, Point{At: at, Figures: samples[next-1].Figures})
		}
	}
	return out
}

// latest returns the last sample that is not after an instant, and whether there is one.
func latest(samples []Point, at time.Time) (Point, bool) {
	for _, p := range slices.Backward(samples) {
		if !p.At.After(at) {
			return p, true
		}
	}
	return Point{}, false
}
