package allocation

import (
	"math"
	"time"
)

const (
	// paceMemory is the time constant of the moving average: a use that long ago weighs 1/e.
	paceMemory = 3 * time.Second
	// LatelyMemory is the time constant of Lately.
	LatelyMemory = 10 * time.Minute
	// PaceAge is the age at which a reading is too old to compute a rate from.
	PaceAge = 30 * time.Second
)

// Pace is how fast a bucket uses units, from readings of what its epoch has used.
type Pace struct {
	// At is the instant of the last reading: Used minor units in Calls by then, in one epoch.
	At                 time.Time
	Epoch, Used, Calls int64
	// Rate is the use in minor units per second, as a moving average.
	Rate float64
	// Request is the mean size of the requests since the last reading but one with any.
	Request int64
	// Lately is what was used up to At, in minor units. A use of LatelyMemory ago weighs 1/e.
	Lately float64
}

// LatelyAt returns what Lately weighs at a later instant.
func (p Pace) LatelyAt(now time.Time) float64 {
	return p.Lately * math.Exp(-max(now.Sub(p.At), 0).Seconds()/LatelyMemory.Seconds())
}

// Next returns the pace after another reading. It computes no rate if the epoch is new or the
// earlier reading is older than PaceAge. All that a new epoch has used was used since the earlier
// reading; the first reading of all adds nothing to Lately.
func (p Pace) Next(now time.Time, epoch, used, calls int64) Pace {
	passed := now.Sub(p.At)
	out := Pace{At: now, Epoch: epoch, Used: used, Calls: calls, Rate: p.Rate, Request: p.Request}
	if !p.At.IsZero() {
		before := p.Used
		if p.Epoch != epoch {
			before = 0
		}
		out.Lately = p.LatelyAt(now) + float64(max(used-before, 0))
	}
	if p.Epoch != epoch || passed <= 0 || passed > PaceAge {
		return out
	}
	weight := 1 - math.Exp(-passed.Seconds()/paceMemory.Seconds())
	units := max(used-p.Used, 0)
	out.Rate += (float64(units)/passed.Seconds() - p.Rate) * weight
	if since := calls - p.Calls; since > 0 && units > 0 {
		out.Request = (units-1)/since + 1
	}
	return out
}
