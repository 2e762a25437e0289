package daemon

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/internal/sqlstore/nodes"
)

const (
	// healthEvery is how often lanes are looked at.
	healthEvery = time.Second
	// readyTime bounds the question whether the database answers.
	readyTime = time.Second
)

// health is what the node can reach, as of the last look.
type health struct {
	*transfer.Service
	*nodes.Part
	// ping asks the database.
	ping func(ctx context.Context) error

	seen atomic.Pointer[look]
}

// look is what one look at the lanes found.
type look struct {
	// missing says what is out of reach, takes which lanes take buckets.
	missing []string
	takes   map[bucket.Lane]bool
	// problems says of each lane that did not answer, why.
	problems map[bucket.Lane]string
}

// once looks at the lanes.
func (h *health) once(ctx context.Context) error {
	views, err := h.Lanes(ctx)
	if err != nil {
		return err
	}
	now := &look{missing: h.Service.Missing(ctx), takes: map[bucket.Lane]bool{},
		problems: map[bucket.Lane]string{}}
	for i := range views {
		v := &views[i]
		now.takes[v.Lane] = v.Reachable && !v.Draining
		if !v.Reachable {
			now.problems[v.Lane] = v.Problem
			now.missing = append(now.missing, "instance "+v.Lane.String()+" does not answer: "+
				"budgets in ledger mode are served from SQL, those in store mode wait")
		}
	}
	h.seen.Store(now)
	return nil
}

// Takes reports whether a lane takes buckets: it answered the last look and is not drained. Before
// the first look every lane does.
func (h *health) Takes(lane bucket.Lane) bool {
	seen := h.seen.Load()
	return seen == nil || seen.takes[lane]
}

// problem returns why the store of a lane did not answer the last look, "" where it did.
func (h *health) problem(lane bucket.Lane) string {
	seen := h.seen.Load()
	if seen == nil {
		return ""
	}
	if _, known := seen.takes[lane]; !known {
		return "its instance is not in the configuration of this node"
	}
	return seen.problems[lane]
}

// Ready returns why the node cannot serve: the database does not answer.
func (h *health) Ready(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := h.ping(ctx); err != nil {
		return []string{"the database does not answer"} // the log of the loops says why
	}
	return nil
}

// Missing returns what was out of reach at the last look.
func (h *health) Missing() []string {
	if seen := h.seen.Load(); seen != nil {
		return seen.missing
	}
	return nil
}

// unreachable returns the lanes that did not answer the last look.
func (h *health) unreachable() []bucket.Lane {
	if seen := h.seen.Load(); seen != nil {
		return slices.Collect(maps.Keys(seen.problems))
	}
	return nil
}

// viewer adds to a budget how many of its buckets are out of this node's reach.
type viewer struct {
	*manage.Service
	health  *health
	budgets *bucket.Budgets
}

// View shows a budget.
func (v viewer) View(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error) {
	view, err := v.Service.View(ctx, ref)
	if b, e := v.budgets.Find(ctx, ref); err == nil && e == nil {
		for _, one := range b.Ring() {
			if v.health.problem(one.Lane) != "" {
				view.Unreachable++
			}
		}
	}
	return view, err
}
