package reference

import (
	"math/rand/v2"
	"time"
)

// Pace is the density and size of events.
type Pace struct {
	// Pause is the longest pause between two events; one in GapEvery pauses is up to Gap.
	Pause, Gap time.Duration
	GapEvery   int
	// Use, Append and Shrink are the largest of each, in minor units.
	Use, Append, Shrink int64
}

// Events generates events from the first period to the last: dense weeks, and pauses without any
// event.
func Events(r *rand.Rand, rule Rule, periods []Period, pace Pace) []Event {
	var list []Event
	var uses []int // which events are deductions
	end := periods[len(periods)-1].End
	for at := periods[0].Start; ; {
		wait := time.Duration(r.Int64N(int64(pace.Pause)))
		if r.IntN(pace.GapEvery) == 0 {
			wait = time.Duration(r.Int64N(int64(pace.Gap)))
		}
		// Tables have whole milliseconds.
		if at = at.Add(wait).Truncate(time.Millisecond); !at.Before(end) {
			return list
		}
		e := Event{At: at}
		switch kind := r.IntN(40); {
		case kind < 4 && len(uses) > 0:
			e.Of = uses[max(len(uses)-1-r.IntN(1+r.IntN(20)), 0)]
			e.Refund = 1 + r.Int64N(list[e.Of].Use)
		case kind == 4:
			e.Change = 1 + r.Int64N(pace.Append)
		case kind == 5:
			e.Change = -1 - r.Int64N(pace.Shrink)
		case kind == 6 && rule.Kind == "calendar" && rule.Quantity > 0:
			e.Quantity = 1 + r.Int64N(3*rule.Quantity)
		default:
			e.Use = 1 + r.Int64N(pace.Use)>>uint(r.IntN(10))
			uses = append(uses, len(list))
		}
		list = append(list, e)
	}
}
