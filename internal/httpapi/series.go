package httpapi

import (
	"context"
	"net/url"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/series"
)

// Series is the service's view of figures over time.
type Series interface {
	// Series reads a budget's figures over a span, and projects when it will be used up.
	Series(ctx context.Context, request bucket.SeriesRequest) (bucket.SeriesAnswer, error)
}

func (a *API) series(c *call) (answer, error) {
	query := c.query("tenant", "from", "to", "step")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	request := bucket.SeriesRequest{Budget: ref}
	request.Span.From, request.Span.To = c.instant(query, "from"), c.instant(query, "to")
	if query.Has("step") {
		step, err := time.ParseDuration(query.Get("step"))
		if err != nil || step <= 0 {
			c.faults.Invalid("step", "must be whole minutes, such as 5m")
		}
		request.Span.Step = step
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	s, err := a.service.Series(c.ctx, request)
	return answer{body: seriesOf(&s)}, err
}

// instant reads a time of the query; zero where there is none.
func (c *call) instant(query url.Values, name string) time.Time {
	if !query.Has(name) {
		return time.Time{}
	}
	var at time.Time
	if err := at.UnmarshalText([]byte(query.Get(name))); err != nil || at.UTC().Year() < 1970 || at.UTC().Year() > 9998 {
		c.faults.Invalid(name, "must be a time with zone, such as 2026-05-01T12:00:00Z")
		return time.Time{}
	}
	return at
}

// seriesView is a budget's figures over time as answered.
type seriesView struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// StepS is the time between two points, in seconds.
	StepS  int64         `json:"step_s"`
	Points []seriesPoint `json:"points"`
	// Now are the present figures, which the projection starts from.
	Now seriesPoint `json:"now"`
	// RatePerS is what was spent lately, in minor units a second.
	RatePerS float64 `json:"rate_per_s"`
	// ExhaustedAt is null unless Projection is "projected".
	ExhaustedAt *time.Time     `json:"exhausted_at"`
	Projection  series.Outlook `json:"projection"`
}

// seriesPoint is a budget's figures at an instant, in minor units.
type seriesPoint struct {
	At            time.Time `json:"at"`
	Total         int64     `json:"total"`
	Undistributed int64     `json:"undistributed"`
	Released      int64     `json:"released"`
	Used          int64     `json:"used"`
	Held          int64     `json:"held"`
	Remaining     int64     `json:"remaining"`
	InTransit     int64     `json:"in_transit"`
	Stranded      int64     `json:"stranded"`
	Quarantined   int64     `json:"quarantined"`
	Forfeited     int64     `json:"forfeited"`
}

func seriesOf(s *bucket.SeriesAnswer) seriesView {
	v := seriesView{From: inUTC(s.Span.From), To: inUTC(s.Span.To), StepS: int64(s.Span.Step / time.Second),
		Points: make([]seriesPoint, len(s.Points)), Now: pointOf(&s.Now), RatePerS: s.Projection.Rate,
		Projection: s.Projection.Outlook}
	for i := range s.Points {
		v.Points[i] = pointOf(&s.Points[i])
	}
	if at := s.Projection.ExhaustedAt; !at.IsZero() {
		at = inUTC(at).Round(time.Millisecond)
		v.ExhaustedAt = &at
	}
	return v
}

func pointOf(p *series.Point) seriesPoint {
	return seriesPoint{At: inUTC(p.At), Total: p.Total, Undistributed: p.Undistributed, Released: p.Released(),
		Used: p.Used, Held: p.Held, Remaining: p.Remaining, InTransit: p.InTransit, Stranded: p.Stranded,
		Quarantined: p.Quarantined, Forfeited: p.Forfeited}
}
