package client

import (
	"context"
	"time"
)

// SeriesSpan is the time range of a series. Zero fields take the server's defaults: the last hour,
// and the fewest whole minutes between two points that give at most 1,440 of them.
type SeriesSpan struct {
	From, To time.Time
	Step     time.Duration
}

// Series reads a budget's figures over a span. Errors: budget_not_found; invalid (a span that is
// empty, a step that is not whole minutes or gives too many points); unavailable.
func (c *Client) Series(ctx context.Context, name string, span SeriesSpan) (*Series, error) {
	what := c.get("series", name, "series")
	if !span.From.IsZero() {
		what.query.Set("from", span.From.Format(time.RFC3339Nano))
	}
	if !span.To.IsZero() {
		what.query.Set("to", span.To.Format(time.RFC3339Nano))
	}
	if span.Step != 0 {
		what.query.Set("step", span.Step.String())
	}
	var answer Series
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
