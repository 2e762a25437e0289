package daemon

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/iana"
	"github.com/budgetd/budgetd/internal/sql/access"
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
	*access.NodeList
	// ping checks whether the database answers.
	ping func(ctx context.Context) error
	// without is how long budgets in store mode are served while the database does not answer: 0 if
	// this node has no store. answered is when it last answered a check, in Unix nanoseconds; silent
	// says that it did not answer the last one.
	without  time.Duration
	answered atomic.Int64
	silent   atomic.Bool
	// refusing returns why the database refuses changes, or nil. It may answer reads meanwhile.
	refusing func() error
	// asked reports whether every store was asked once.
	asked func() bool
	// strange describes budgets whose time zone is unknown here.
	strange func() []string
	log     *slog.Logger
	refused bool // at the last check
	// now is SQL's clock, ahead where it has been at the latest.
	now    func() time.Time
	ahead  time.Time
	isBack bool
	// zones is what otherZones returned at the last check.
	zones []string

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

// once checks the partitions and the database.
func (h *health) once(ctx context.Context) error {
	h.changes()
	back := h.clock()
	views, err := h.Partitions(ctx)
	if err != nil {
		h.silent.Store(true)
		return err
	}
	zones, err := h.sameZones(ctx)
	if err != nil {
		return err
	}
	h.answered.Store(time.Now().UnixNano())
	h.silent.Store(false)
	now := &partitionCheck{missing: slices.Concat(h.Service.Missing(ctx), h.strange(), back, zones),
		takes: map[bucket.Partition]bool{}, problems: map[bucket.Partition]string{}}
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

// changes logs when the database begins and ceases to refuse changes.
func (h *health) changes() {
	switch err := h.refusing(); {
	case err != nil && !h.refused:
		h.log.Error("the database refuses changes", "error", err)
		h.refused = true
	case err == nil && h.refused:
		h.log.Info("the database accepts changes again")
		h.refused = false
	}
}

// clock describes a clock of the database that went back, until it is again where it was, and logs
// both.
func (h *health) clock() []string {
	const tolerated = time.Second // by which the estimate of a clock may be off
	now := h.now()
	if back := h.ahead.Sub(now); back > tolerated {
		if !h.isBack {
			h.log.Error("the database's clock went back", "by", back, "from", h.ahead, "to", now)
		}
		h.isBack = true
		return []string{"the database's clock went back: until it is " + h.ahead.UTC().Format(
			time.RFC3339) + " again, no period ends, and a restarted node sells nothing of one that has " +
			"not begun by it"}
	}
	if h.isBack {
		h.log.Info("the database's clock is where it was before it went back")
	}
	if h.isBack = false; now.After(h.ahead) {
		h.ahead = now
	}
	return nil
}

// otherZones describes running nodes whose time zones are of another release than this node's.
func otherZones(list []bucket.Node) (out []string) {
	for _, n := range list {
		if n.Up && n.ZoneRelease != iana.Release() {
			out = append(out, "node "+n.Name+" has the time zones of release "+n.ZoneRelease+
				", this node those of "+iana.Release()+": until both are of one version, they may count a "+
				"limit in different windows")
		}
	}
	return out
}

// sameZones returns otherZones of the nodes that use the database, and logs what is new.
func (h *health) sameZones(ctx context.Context) ([]string, error) {
	list, err := h.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	was := h.zones
	h.zones = otherZones(list)
	for _, one := range h.zones {
		if !slices.Contains(was, one) {
			h.log.Warn("nodes have different time zones", "reason", one)
		}
	}
	return h.zones, nil
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
// store was not asked yet. A node with stores is ready for as long as it serves without the
// database.
func (h *health) Ready(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	err := h.ping(ctx)
	h.silent.Store(err != nil)
	if err != nil {
		if last := h.answered.Load(); last != 0 && time.Since(time.Unix(0, last)) < h.without {
			return nil
		}
		return []string{"the database does not answer"} // the loops log the reason
	}
	h.answered.Store(time.Now().UnixNano())
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
func (h *health) Missing() (out []string) {
	if h.without > 0 && h.silent.Load() {
		out = append(out, "the database does not answer: budgets in store mode are served for "+
			h.without.String()+" by what this node knows, others wait")
	}
	if seen := h.seen.Load(); seen != nil {
		out = append(out, seen.missing...)
	}
	return out
}

// unreachable returns the partitions that did not answer the last check.
func (h *health) unreachable() []bucket.Partition {
	if seen := h.seen.Load(); seen != nil {
		return slices.Collect(maps.Keys(seen.problems))
	}
	return nil
}
