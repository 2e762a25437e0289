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
	// healthEvery is the interval at which lanes are checked.
	healthEvery = time.Second
	// readyTime bounds the check whether the database answers.
	readyTime = time.Second
)

// health is what the node could reach at the last check.
type health struct {
	*transfer.Service
	*nodes.Part
	// ping checks whether the database answers.
	ping func(ctx context.Context) error

	seen atomic.Pointer[laneCheck]
}

// laneCheck is the result of one check of the lanes.
type laneCheck struct {
	// missing lists what is out of reach. takes holds the lanes on which buckets may be placed.
	missing []string
	takes   map[bucket.Lane]bool
	// problems maps each lane that did not answer to the reason.
	problems map[bucket.Lane]string
}

// once checks the lanes.
func (h *health) once(ctx context.Context) error {
	views, err := h.Lanes(ctx)
	if err != nil {
		return err
	}
	now := &laneCheck{missing: h.Service.Missing(ctx), takes: map[bucket.Lane]bool{},
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

// Takes reports whether buckets may be placed on a lane: it answered the last check and is not
// drained. Before the first check this is true of every lane.
func (h *health) Takes(lane bucket.Lane) bool {
	seen := h.seen.Load()
	return seen == nil || seen.takes[lane]
}

// problem returns why the store of a lane did not answer the last check, or "" if it did.
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
		return []string{"the database does not answer"} // the loops log the reason
	}
	return nil
}

// Missing returns what was out of reach at the last check.
func (h *health) Missing() []string {
	if seen := h.seen.Load(); seen != nil {
		return seen.missing
	}
	return nil
}

// unreachable returns the lanes that did not answer the last check.
func (h *health) unreachable() []bucket.Lane {
	if seen := h.seen.Load(); seen != nil {
		return slices.Collect(maps.Keys(seen.problems))
	}
	return nil
}

// budgetViewer adds the number of unreachable buckets to the view of a budget.
type budgetViewer struct {
	*manage.Service
	health  *health
	budgets *bucket.Budgets
}

// View returns the view of a budget.
func (v budgetViewer) View(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error) {
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
