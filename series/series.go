package series

import (
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// MaxPoints is the most points that one series has.
const MaxPoints = 1440

// Bounds of a query.
const (
	// LeastStep is the time between two samples, and the smallest step of a series.
	LeastStep = time.Minute
	// DefaultLength is the length of a series whose query has no from.
	DefaultLength = time.Hour
)

// Figures are the sampled figures of a budget, in minor units.
type Figures struct {
	// Total, Undistributed, Quarantined and Forfeited are T, U, Q and X.
	Total, Undistributed, Quarantined, Forfeited int64
	// NotFunded is F, what no period has received.
	NotFunded int64
	// InBuckets is ΣO of the open epochs, InTransit the units on their way to or from the total.
	InBuckets, InTransit int64
	Held, Used           int64
	// Remaining is what deductions could take at that time.
	Remaining int64
	// Stranded is the part of all this that cannot be used now: in buckets that are halted or out
	// of reach, or as fragments.
	Stranded int64
}

// Released returns the units handed out: T − F − U − X.
func (f Figures) Released() int64 { return f.Total - f.NotFunded - f.Undistributed - f.Forfeited }

// Available returns what can still be deducted, now or later: F, U, ΣO and ΣR.
func (f Figures) Available() int64 {
	return f.NotFunded + f.Undistributed + f.InBuckets + f.InTransit
}

// Spent returns what has been deducted and not refunded: used and held.
func (f Figures) Spent() int64 { return f.Used + f.Held }

// Point is a budget's figures at an instant.
type Point struct {
	At time.Time
	Figures
}

// Span is the time range of a series: one point at From, then one every Step, up to To.
type Span struct {
	From, To time.Time
	Step     time.Duration
}

// Points returns the most points that a span can have.
func (s Span) Points() int { return int(s.To.Sub(s.From)/s.Step) + 1 }

// Choose completes a query (zero means not given) and checks it. To defaults to now, From to
// DefaultLength before To, and Step to the fewest whole minutes that give at most MaxPoints points.
// It returns the faulty fields, if any.
func Choose(asked Span, now time.Time) (Span, []budget.FieldError) {
	s := asked
	if s.To.IsZero() {
		s.To = now
	}
	if s.From.IsZero() {
		s.From = s.To.Add(-DefaultLength)
	}
	if !s.From.Before(s.To) {
		return s, []budget.FieldError{{Field: "from", Message: "must be before to, which defaults to " +
			"now"}}
	}
	length := s.To.Sub(s.From)
	least := LeastStep * max((length/(MaxPoints-1)+LeastStep-1)/LeastStep, 1)
	if s.Step == 0 {
		s.Step = least
	}
	if s.Step < LeastStep || s.Step%LeastStep != 0 {
		return s, []budget.FieldError{{Field: "step", Message: "must be whole minutes, at least 1m"}}
	}
	if s.Points() > MaxPoints {
		return s, []budget.FieldError{{Field: "step",
			Message: "gives more than 1440 points; for this span it must be at least " +
				least.String()}}
	}
	return s, nil
}

// Thin returns the points of a span: at each instant the figures of the latest sample at that time.
// There is no point before the first sample, nor after now. Samples are ordered by time; of those
// before the span only the last one counts.
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

// latest returns the last sample not after an instant, if there is one.
func latest(samples []Point, at time.Time) (Point, bool) {
	for _, p := range slices.Backward(samples) {
		if !p.At.After(at) {
			return p, true
		}
	}
	return Point{}, false
}
