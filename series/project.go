package series

import "time"

// RateWindow is the time over which a projection measures the rate.
const RateWindow = 15 * time.Minute

// leastWindow is the shortest time over which a rate is measured. A few seconds say nothing about
// the hours to come.
const leastWindow = time.Minute

// farAway is the furthest that a projection looks ahead.
const farAway = 10 * 365 * 24 * time.Hour

// Outlook is the result of a projection.
type Outlook string

// The outlooks.
const (
	// Exhausted means that nothing can be deducted any more.
	Exhausted Outlook = "exhausted"
	// Projected means that at this rate the last unit is used at ExhaustedAt, before the period ends.
	Projected Outlook = "projected"
	// NotBeforeEnd means that at this rate units are left when the period ends.
	NotBeforeEnd Outlook = "not_before_end"
	// NotForYears means that at this rate the units last more than ten years.
	NotForYears Outlook = "not_for_years"
	// Unlimited means that there is no total that could be used up.
	Unlimited Outlook = "unlimited"
	// NotUsed means that nothing was used recently.
	NotUsed Outlook = "not_used"
	// NotKnown means that no sample is at least a minute old.
	NotKnown Outlook = "not_known"
)

// Projection predicts when a budget will be used up at its recent rate.
type Projection struct {
	// Rate is in minor units a second, at least 0.
	Rate    float64
	Outlook Outlook
	// ExhaustedAt is zero unless the outlook is Projected.
	ExhaustedAt time.Time
}

// Project extrapolates the last 15 minutes linearly. The rate is what was spent (used and held,
// less refunds) since the sample that was valid RateWindow ago, or since the earliest one, divided
// by the time since then. Nothing is projected from less than a minute. end is the first instant
// after the period; zero means that it has no end. samples are ordered by time.
//
// A budget that is 10 minutes old, with 60 units spent and 900 available, spends 0.1 a second and
// is exhausted in 9,000 s.
func Project(samples []Point, now Point, end time.Time) Projection {
	if now.Available() <= 0 {
		rate, _ := rateOf(samples, now)
		return Projection{Rate: rate, Outlook: Exhausted}
	}
	rate, known := rateOf(samples, now)
	p := Projection{Rate: rate, Outlook: Projected}
	ended := !end.IsZero() && !now.At.Before(end)
	switch {
	case ended:
		p.Outlook = NotBeforeEnd
		return p
	case !known:
		p.Outlook = NotKnown
		return p
	case rate == 0:
		p.Outlook = NotUsed
		return p
	}
	seconds := float64(now.Available()) / rate
	switch left := end.Sub(now.At); {
	case !end.IsZero() && seconds >= left.Seconds():
		p.Outlook = NotBeforeEnd
	case seconds >= farAway.Seconds():
		p.Outlook = NotForYears
	default:
		p.ExhaustedAt = now.At.Add(time.Duration(seconds * float64(time.Second)))
	}
	return p
}

// rateOf returns the units spent per second. known is false if no sample is old enough.
func rateOf(samples []Point, now Point) (rate float64, known bool) {
	begin := now.At.Add(-RateWindow)
	from, ok := latest(samples, begin)
	if ok {
		from.At = begin // nothing changed between
	} else if len(samples) > 0 {
		from = samples[0]
	}
	seconds := now.At.Sub(from.At).Seconds()
	if !ok && len(samples) == 0 || seconds < leastWindow.Seconds() {
		return 0, false
	}
	return max(float64(now.Spent()-from.Spent()), 0) / seconds, true
}
