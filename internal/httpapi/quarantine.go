package httpapi

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// Quarantines are the service's verbs on units whose store lost its memory (store mode).
type Quarantines interface {
	Quarantines(ctx context.Context, ref bucket.BudgetRef) ([]bucket.Quarantine, error)
	// Release is an operator's decision; its request id makes it take effect once.
	Release(ctx context.Context, r bucket.ReleaseRequest) (bucket.ReleaseAnswer, error)
}

func (a *API) quarantine(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	list, err := a.service.Quarantines(c.ctx, ref)
	out := quarantineList{Quarantines: make([]quarantineView, len(list))}
	for i, q := range list {
		out.Held += q.Held()
		out.Quarantines[i] = quarantineView{Bucket: q.Key, Epoch: q.Epoch, Quantity: q.Quantity,
			Released: q.Released, Held: q.Held(), Cause: q.Cause, At: inUTC(q.At)}
	}
	return answer{body: out}, err
}

func (a *API) release(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body releaseBody
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	body.request.Budget = ref
	done, err := a.service.Release(c.ctx, body.request)
	return answer{body: releaseView{RequestID: body.request.RequestID, Released: done.Released,
		Quarantined: done.Quarantined, Replayed: done.Replayed}}, err
}

// releaseBody is the body of a release; without quantity all that is held.
type releaseBody struct{ request bucket.ReleaseRequest }

func (b *releaseBody) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "request_id":
		r.Text(name, &b.request.RequestID, budget.CheckRequestID)
	case "quantity":
		r.Amount(name, &b.request.Quantity)
	case "reason":
		r.Text(name, &b.request.Reason, budget.CheckKey)
	case "by":
		r.Text(name, &b.request.By, budget.CheckRequestID)
	default:
		return false
	}
	return true
}

func (b *releaseBody) Check(r *strictjson.Reader) { r.Require("request_id", "reason") }

// quarantineView is what an epoch held when its store lost its memory. Quantities are minor units.
type quarantineView struct {
	Bucket   string    `json:"bucket"`
	Epoch    int64     `json:"epoch"`
	Quantity int64     `json:"quantity"`
	Released int64     `json:"released"`
	Held     int64     `json:"held"`
	Cause    string    `json:"cause"`
	At       time.Time `json:"at"`
}

type quarantineList struct {
	// Held is in quarantine now, by the rows listed.
	Held        int64            `json:"held"`
	Quarantines []quarantineView `json:"quarantines"`
}

type releaseView struct {
	RequestID string `json:"request_id"`
	// Released went back to the total; Quarantined is still held.
	Released    int64 `json:"released"`
	Quarantined int64 `json:"quarantined"`
	Replayed    bool  `json:"replayed"`
}
