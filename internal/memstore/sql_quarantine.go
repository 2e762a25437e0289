package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// sqlUse is a row of lane_use.
type sqlUse struct {
	lane       bucket.Lane
	activation int64
	node       string
	reported   bool
	until      time.Time // it may acknowledge
}

// sqlQuarantine is a row of quarantine.
type sqlQuarantine struct {
	bucket.Quarantine
	epoch *sqlEpoch
	lane  bucket.Lane // where it lived: its bucket may have moved since
}

// sqlRelease is a row of quarantine_release.
type sqlRelease struct {
	requestID string
	epoch     *sqlEpoch
	quantity  int64
	asked     int64
}

// UseLane notes that a node acknowledges deductions under a lane's activation.
func (s *SQL) UseLane(ctx context.Context, node string, lane bucket.Lane, activation int64,
	lease time.Duration) (bucket.UseState, error) {
	return transact(ctx, s, "UseLane", func(now time.Time) (bucket.UseState, error) {
		row := s.lanes[lane]
		if row == nil || row.Activation != activation {
			return bucket.UseOver, nil
		}
		for _, u := range s.uses {
			if u.lane == lane && u.activation == activation && u.node == node {
				if u.reported {
					return bucket.UseEnded, nil
				}
				u.until = now.Add(lease)
				return bucket.UseNoted, nil
			}
		}
		s.uses = append(s.uses, &sqlUse{lane: lane, activation: activation, node: node, until: now.Add(lease)})
		return bucket.UseNoted, nil
	})
}

// SeeUses notes that a node is alive, and lists its uses that nobody has ended.
func (s *SQL) SeeUses(ctx context.Context, node string, lease time.Duration) ([]bucket.LaneUse, error) {
	return transact(ctx, s, "SeeUses", func(now time.Time) ([]bucket.LaneUse, error) {
		for _, u := range s.uses {
			if u.node == node && !u.reported {
				u.until = now.Add(lease)
			}
		}
		return s.usesOf(node), nil
	})
}

// SilentUses lists uses whose nodes have had no right to acknowledge for so long.
func (s *SQL) SilentUses(ctx context.Context, silence time.Duration, limit int) ([]bucket.LaneUse, error) {
	return transact(ctx, s, "SilentUses", func(now time.Time) ([]bucket.LaneUse, error) {
		var out []bucket.LaneUse
		for _, u := range s.uses {
			if !u.reported && u.until.Before(now.Add(-silence)) && s.lanes[u.lane].Activation == u.activation &&
				len(out) < limit {
				out = append(out, bucket.LaneUse{Node: u.node, Lane: u.lane, Activation: u.activation})
			}
		}
		return out, nil
	})
}

// EndSilent ends a use whose node is still silent.
func (s *SQL) EndSilent(ctx context.Context, use bucket.LaneUse, silence time.Duration) error {
	_, err := transact(ctx, s, "EndSilent", func(now time.Time) (struct{}, error) {
		for _, u := range s.uses {
			if u.lane == use.Lane && u.activation == use.Activation && u.node == use.Node &&
				u.until.Before(now.Add(-silence)) {
				u.reported = true
			}
		}
		return struct{}{}, nil
	})
	return err
}

// LaneUses lists what a node has to report sooner or later.
func (s *SQL) LaneUses(ctx context.Context, node string) ([]bucket.LaneUse, error) {
	return transact(ctx, s, "LaneUses", func(time.Time) ([]bucket.LaneUse, error) { return s.usesOf(node), nil })
}

func (s *SQL) usesOf(node string) []bucket.LaneUse {
	var out []bucket.LaneUse
	for _, u := range s.uses {
		if u.node == node && !u.reported {
			out = append(out, bucket.LaneUse{Node: node, Lane: u.lane, Activation: u.activation,
				Over: s.lanes[u.lane].Activation > u.activation})
		}
	}
	slices.SortFunc(out, func(a, b bucket.LaneUse) int {
		return cmp.Or(strings.Compare(a.Lane.Instance, b.Lane.Instance),
			cmp.Compare(a.Lane.Index, b.Lane.Index), cmp.Compare(a.Activation, b.Activation))
	})
	return out
}

// Uses lists the uses of all nodes that nobody has reported or ended, for tests.
func (s *SQL) Uses() (out []bucket.LaneUse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.uses {
		if !u.reported {
			out = append(out, bucket.LaneUse{Node: u.node, Lane: u.lane, Activation: u.activation})
		}
	}
	return out
}

// ReportLane ends a node's use of a lane's activation. See bucket.Quarantines.
func (s *SQL) ReportLane(ctx context.Context, node string, lane bucket.Lane, activation int64,
	acknowledged map[bucket.Ref]int64) error {
	_, err := transact(ctx, s, "ReportLane", func(time.Time) (struct{}, error) {
		for ref, seq := range acknowledged {
			if e := s.epoch(ref); e != nil {
				e.acknowledged = max(e.acknowledged, seq)
			}
		}
		for _, u := range s.uses {
			if u.lane == lane && u.activation == activation && u.node == node {
				u.reported = true
			}
		}
		return struct{}{}, nil
	})
	return err
}

// Unsettled lists live epochs of older activations of a lane, of budgets in store mode.
func (s *SQL) Unsettled(ctx context.Context, lane bucket.Lane, activation int64, limit int) (
	[]bucket.EpochOf, error) {
	return transact(ctx, s, "Unsettled", func(time.Time) ([]bucket.EpochOf, error) {
		return s.list(limit, func(e *sqlEpoch) bool {
			return e.bucket.Lane == lane && e.Status.Live() && e.Activation < activation &&
				e.bucket.budget.definition.Durability == budget.Store
		}), nil
	})
}

// unheard lists the nodes that used a lane under the activation of an epoch there and have not reported.
func (s *SQL) unheard(lane bucket.Lane, e *sqlEpoch) (nodes []string) {
	for _, u := range s.uses {
		if u.lane == lane && u.activation == e.Activation && !u.reported {
			nodes = append(nodes, u.node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// EndLost ends an epoch whose store lost its memory. See bucket.Quarantines.
func (s *SQL) EndLost(ctx context.Context, order bucket.LostOrder) (bucket.Settlement, error) {
	return transact(ctx, s, "EndLost", func(now time.Time) (bucket.Settlement, error) {
		var out bucket.Settlement
		e := s.epoch(order.Ref)
		if e == nil || !e.Status.Live() {
			return out, nil
		}
		if e.Status != ledger.Opening {
			out.Unheard = s.unheard(e.bucket.Lane, e)
		}
		if len(out.Unheard) > 0 && !order.Force {
			return out, nil
		}
		fenced := e.Fenced != "" && e.Status != ledger.Opening // nothing was ever deducted in that one
		out.Beyond = len(out.Unheard) == 0 && e.acknowledged > e.DrainedSeq && !fenced && !order.Drained
		if out.Beyond {
			return out, nil
		}
		why := ""
		switch {
		case fenced:
			why = "the bucket was fenced: " + e.Fenced
		case len(out.Unheard) > 0:
			why = "nodes that did not report: " + strings.Join(out.Unheard, ", ")
		case e.acknowledged > e.DrainedSeq:
			why = fmt.Sprintf("accepted up to log position %d, the log ended at %d", e.acknowledged,
				e.DrainedSeq)
		}
		b := e.bucket.budget
		units := e.finish(ledger.Lost)
		out.Ended = true
		if why == "" {
			out.Returned = units
			b.comeBack(e, units, 0)
		} else if out.Quarantined = units; units > 0 {
			b.quarantined += units
			b.quarantines = append(b.quarantines, &sqlQuarantine{epoch: e, lane: e.bucket.Lane, Quarantine: bucket.Quarantine{
				Bucket: e.Bucket, Key: e.bucket.Key, Epoch: e.Number, Quantity: units,
				Cause: why[:min(len(why), maxFenced)], At: now}})
			e.sums.Quarantined += units
		}
		s.verify(b)
		return out, nil
	})
}

// sorted returns a budget's quarantines in the order of (bucket, epoch).
func (b *sqlBudget) sorted() []*sqlQuarantine {
	slices.SortFunc(b.quarantines, func(x, y *sqlQuarantine) int {
		return cmp.Or(cmp.Compare(x.Bucket, y.Bucket), cmp.Compare(x.Epoch, y.Epoch))
	})
	return b.quarantines
}

// ReleaseProven moves units Q -> U whose proof came later. See bucket.Quarantines.
func (s *SQL) ReleaseProven(ctx context.Context, limit int) (int64, error) {
	return transact(ctx, s, "ReleaseProven", func(time.Time) (int64, error) {
		units := int64(0)
		for _, b := range s.budgets {
			units += s.release(b, bucket.ReleaseOrder{}, func(q *sqlQuarantine) bool {
				proven := limit > 0 && q.epoch.acknowledged <= q.epoch.DrainedSeq && q.epoch.Fenced == "" &&
					len(s.unheard(q.lane, q.epoch)) == 0
				if proven && q.Held() > 0 {
					limit--
				}
				return proven
			})
		}
		return units, nil
	})
}

type released struct {
	units    int64
	replayed bool
}

// Release moves units Q -> U. See bucket.Quarantines.
func (s *SQL) Release(ctx context.Context, order bucket.ReleaseOrder) (int64, bool, error) {
	r, err := transact(ctx, s, "Release", func(time.Time) (released, error) {
		b, err := s.find(order.Budget)
		if err != nil {
			return released{}, err
		}
		earlier, found := int64(0), false
		for _, r := range b.releases {
			if r.requestID != order.RequestID {
				continue
			}
			if r.asked != order.Quantity {
				return released{}, budget.Refuse(budget.RequestConflict, "release",
					"request %q released another quantity", order.RequestID)
			}
			earlier, found = earlier+r.quantity, true
		}
		if found {
			return released{earlier, true}, nil
		}
		if err := order.Refusal(b.quarantined); err != nil {
			return released{}, err
		}
		return released{s.release(b, order, func(*sqlQuarantine) bool { return true }), false}, nil
	})
	return r.units, r.replayed, err
}

// release takes units out of quarantines, all that is held where the order asks for 0.
func (s *SQL) release(b *sqlBudget, order bucket.ReleaseOrder, wanted func(*sqlQuarantine) bool) int64 {
	left, moved := order.Quantity, int64(0)
	if left == 0 {
		left = budget.MaxAmount
	}
	for _, q := range b.sorted() {
		n := min(q.Held(), left)
		if n == 0 || !wanted(q) {
			continue
		}
		q.Released += n
		q.epoch.sums.Released += n
		q.epoch.sums.NotedRelease += n
		b.comeBack(q.epoch, n, 0)
		b.releases = append(b.releases, sqlRelease{order.RequestID, q.epoch, n, order.Quantity})
		left, moved = left-n, moved+n
	}
	b.quarantined -= moved
	if moved > 0 {
		s.verify(b)
	}
	return moved
}

// Quarantined lists a budget's quarantines.
func (s *SQL) Quarantined(ctx context.Context, budgetID int64, limit int) ([]bucket.Quarantine, error) {
	return transact(ctx, s, "Quarantined", func(time.Time) ([]bucket.Quarantine, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return nil, nil
		}
		out := []bucket.Quarantine{}
		for _, q := range b.sorted() {
			if len(out) < limit {
				out = append(out, q.Quarantine)
			}
		}
		return out, nil
	})
}

type cancelled struct {
	deduction ledger.Deduction
	stale     bool
}

// CancelKnown is Cancel as long as no epoch has begun. See bucket.Quarantines.
func (s *SQL) CancelKnown(ctx context.Context, budgetID int64, requestID string,
	known []bucket.Ref) (ledger.Deduction, bool, error) {
	r, err := transact(ctx, s, "CancelKnown", func(now time.Time) (cancelled, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return cancelled{}, err
		}
		if b.deductions[requestID] == nil {
			for _, shard := range b.buckets {
				if !slices.ContainsFunc(known, func(ref bucket.Ref) bool {
					return ref.Bucket == shard.ID && ref.Epoch == shard.newest().Number
				}) {
					return cancelled{stale: true}, nil
				}
			}
		}
		if b.deductions[requestID] == nil {
			b.voids = append(b.voids, requestID)
		}
		return cancelled{deduction: s.cancel(b, requestID, now)}, nil
	})
	return r.deduction, r.stale, err
}

// Voids lists request ids with a tombstone. See bucket.Quarantines.
func (s *SQL) Voids(ctx context.Context, budgetID, after int64, limit int) ([]string, error) {
	return transact(ctx, s, "Voids", func(time.Time) ([]string, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return nil, err
		}
		left := b.voids[min(after, int64(len(b.voids))):]
		return slices.Clone(left[:min(limit, len(left))]), nil
	})
}
