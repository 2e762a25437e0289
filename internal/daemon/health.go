package daemon

import (
	"context"
	"log/slog"
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
	// healthEvery is the interval at which partitions are checked.
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
	// refusing returns why the database refuses changes, or nil. It may answer reads meanwhile.
	refusing func() error
	// asked reports whether every store was asked once.
	asked   func() bool
	log     *slog.Logger
	refused bool // at the last check

	seen atomic.Pointer[partitionCheck]
}

// partitionCheck is the result of one check of the partitions.
type partitionCheck struct {
	// missing lists what is out of reach. takes holds the partitions on which buckets may be placed.
	missing []string
	takes   map[bucket.Partition]bool
	// problems maps each partition that did not answer to the reason.
	problems map[bucket.Partition]string
}

// once checks the partitions, and says when the database begins or ceases to refuse changes.
func (h *health) once(ctx context.Context) error {
	switch err := h.refusing(); {
	case err != nil && !h.refused:
		h.log.Error("the database refuses changes", "error", err)
		h.refused = true
	case err == nil && h.refused:
		h.log.Info("the database accepts changes again")
		h.refused = false
	}
	views, err := h.Partitions(ctx)
	if err != nil {
		return err
	}
	now := &partitionCheck{missing: h.Service.Missing(ctx), takes: map[bucket.Partition]bool{},
		problems: map[bucket.Partition]string{}}
	for i := range views {
		v := &views[i]
		now.takes[v.Partition] = v.Reachable && !v.Draining
		if !v.Reachable {
			now.problems[v.Partition] = v.Problem
			now.missing = append(now.missing, "instance "+v.Partition.String()+" does not answer: "+
				"its buckets of budgets in store mode wait")
		}
	}
	h.seen.Store(now)
	return nil
}

// Takes reports whether buckets may be placed on a partition: it answered the last check and is not
// drained. Before the first check this is true of every partition.
func (h *health) Takes(partition bucket.Partition) bool {
	seen := h.seen.Load()
	return seen == nil || seen.takes[partition]
}

// problem returns why the store of a bucket's partition did not answer the last check. It returns
// "" if it did, and for the zero partition of ledger mode.
func (h *health) problem(partition bucket.Partition) string {
	seen := h.seen.Load()
	if seen == nil || partition == (bucket.Partition{}) {
		return ""
	}
	if _, known := seen.takes[partition]; !known {
		return "its instance is not in the configuration of this node"
	}
	return seen.problems[partition]
}

// Ready returns why the node cannot serve: the database does not answer, or refuses changes, or a
// store was not asked yet.
func (h *health) Ready(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := h.ping(ctx); err != nil {
		return []string{"the database does not answer"} // the loops log the reason
	}
	if h.refusing() != nil {
		return []string{"the database refuses changes: it is out of space, memory or connections, " +
			"or read-only, or its settings or rights do not let it; the log has its error"}
	}
	if !h.asked() {
		return []string{"the stores are being asked for the first time"}
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

// unreachable returns the partitions that did not answer the last check.
func (h *health) unreachable() []bucket.Partition {
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
			if v.health.problem(one.Partition) != "" {
				view.Unreachable++
			}
		}
	}
	return view, err
}
