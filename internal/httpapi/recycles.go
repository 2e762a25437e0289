package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Recycles are the service's verbs on recycles.
type Recycles interface {
	// Recycle runs one; it goes on when ctx ends, and is answered as it is then.
	Recycle(ctx context.Context, ref bucket.BudgetRef) (bucket.Recycle, error)
	// Recycles reads the newest first, below a number (0: from the newest).
	Recycles(ctx context.Context, ref bucket.BudgetRef, before int64, limit int) ([]bucket.Recycle, error)
}

// recycle answers 200 with the report, or 202 with how far it has come when the request's time is over.
func (a *API) recycle(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.readOptional(empty{}); err != nil {
		return answer{}, err
	}
	run, err := a.service.Recycle(c.ctx, ref)
	out := answer{body: recycleOf(&run)}
	if run.EndedAt.IsZero() {
		out.status = http.StatusAccepted
	}
	return out, err
}

func (a *API) recycles(c *call) (answer, error) {
	query := c.query("tenant", "page_size", "page_token")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	limit, before := defaultPageSize, int64(0)
	if query.Has("page_size") {
		size, ok := budget.ParseAmount(query.Get("page_size"))
		if !ok || size > maxPageSize {
			c.faults.Invalid("page_size", "must be 1 to %d", maxPageSize)
		}
		limit = int(size)
	}
	if query.Has("page_token") {
		number, ok := parsePageToken(query.Get("page_token"))
		if !ok {
			c.faults.Invalid("page_token", "is not a next_page_token of an earlier page")
		}
		before = number
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	list, err := a.service.Recycles(c.ctx, ref, before, limit)
	out := recyclePage{Recycles: make([]recycleView, len(list))}
	for i := range list {
		out.Recycles[i] = recycleOf(&list[i])
	}
	if len(list) == limit {
		out.NextPageToken = pageToken(list[len(list)-1].Number)
	}
	return answer{body: out}, err
}

// recycleView is a recycle as answered. Quantities are minor units.
type recycleView struct {
	Run    int64  `json:"run"`
	Status string `json:"status"`
	// Cause is "operator", "schedule" or "automatic".
	Cause bucket.RecycleCause `json:"cause"`
	// Done of so many buckets are behind it, of which Skipped could not be recycled.
	Buckets int `json:"buckets"`
	Done    int `json:"done"`
	Skipped int `json:"skipped"`
	// Moved units came back to the total.
	Moved          int64 `json:"moved"`
	UnitsBefore    int64 `json:"units_before"`
	StrandedBefore int64 `json:"stranded_before"`
	UnitsAfter     int64 `json:"units_after"`
	StrandedAfter  int64 `json:"stranded_after"`

	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
}

type recyclePage struct {
	Recycles      []recycleView `json:"recycles"`
	NextPageToken string        `json:"next_page_token,omitzero"`
}

func recycleOf(r *bucket.Recycle) recycleView {
	status := "done"
	if r.EndedAt.IsZero() {
		status = "running"
	}
	return recycleView{
		Run: r.Number, Status: status, Cause: r.Cause, Buckets: len(r.Plan), Done: r.Done, Skipped: r.Skipped,
		Moved: r.Moved, UnitsBefore: r.Before.Units, StrandedBefore: r.Before.Stranded,
		UnitsAfter: r.After.Units, StrandedAfter: r.After.Stranded,
		BeganAt: inUTC(r.BeganAt), EndedAt: inUTC(r.EndedAt),
	}
}
