package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Apply grants U to an open epoch. See bucket.Transfers.
func (s *SQL) Apply(ctx context.Context, budgetID int64, want bucket.Want) (
	*bucket.GrantOrder, error) {
	return transact(ctx, s, "Apply", func(now time.Time) (*bucket.GrantOrder, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return nil, err
		}
		epoch := s.epoch(want.Ref)
		if epoch == nil || epoch.bucket.budget != b || !epoch.mayGrow() {
			return nil, nil
		}
		if epoch.Period != b.period.Number {
			return nil, nil
		}
		units := min(want.Units, b.releasable(now))
		if !want.Unbounded {
			if !b.mayApply(epoch.bucket) {
				return nil, nil
			}
			if bound := b.definition.ShardingQuantity; bound > 0 {
				units = min(units, bound)
			}
		}
		if units < max(want.Need, 1) {
			return nil, nil
		}
		order := epoch.grant(units, now)
		epoch.bucket.OutCnt++
		s.verify(b)
		return order, nil
	})
}

// mayGrow reports whether an epoch may be granted units.
func (e *sqlEpoch) mayGrow() bool { return e.Status == ledger.Open && e.Fenced == "" }

// HandOut spreads U over the buckets. See bucket.Transfers.
func (s *SQL) HandOut(ctx context.Context, budgetID int64, without ...bucket.Lane) (
	bucket.Handout, error) {
	return transact(ctx, s, "HandOut", func(now time.Time) (bucket.Handout, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return bucket.Handout{}, err
		}
		out := s.handOut(b, now, nil, without)
		s.verify(b)
		return out, nil
	})
}

// handOut spreads U over the buckets that can take it, those that were just reopened among them.
func (s *SQL) handOut(b *sqlBudget, now time.Time, reopened []*sqlBucket, without []bucket.Lane) (
	out bucket.Handout) {
	units := b.releasable(now)
	if b.halted() {
		return out
	}
	var eligible []*sqlBucket
	for _, shard := range b.buckets {
		if slices.Contains(without, shard.Lane) || s.draining(shard.Lane) {
			continue
		}
		newest := shard.newest()
		serving := newest.mayGrow() && newest.Activation == s.lanes[shard.Lane].Activation
		if shard.Online && serving && newest.Period == b.period.Number || slices.Contains(reopened, shard) ||
			shard.OfflineBy == bucket.ByService && !newest.Status.Live() {
			eligible = append(eligible, shard)
		}
	}
	if units <= 0 || len(eligible) == 0 {
		return out
	}
	for i, share := range allocation.Shares(b.definition, units, len(eligible)) {
		if share == 0 {
			break
		}
		shard := eligible[i]
		offline := !shard.Online
		if offline {
			s.begin(shard, now)
		}
		order := shard.newest().grant(share, now)
		shard.OutCnt++
		out.Grants = append(out.Grants, bucket.PendingGrant{Lane: shard.Lane, Order: *order})
		if offline {
			out.Opened = append(out.Opened, shard.view())
		}
	}
	return out
}

// Reopen gives a bucket a new epoch. See bucket.Transfers.
func (s *SQL) Reopen(ctx context.Context, budgetID, bucketID int64) (bucket.Handout, error) {
	return transact(ctx, s, "Reopen", func(now time.Time) (bucket.Handout, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return bucket.Handout{}, err
		}
		for _, shard := range b.buckets {
			if shard.ID == bucketID && !shard.newest().Status.Live() && !b.period.Over && s.mayBegin(shard) {
				s.begin(shard, now)
				s.verify(b)
				return bucket.Handout{Opened: []bucket.Bucket{shard.view()}}, nil
			}
		}
		return bucket.Handout{}, nil
	})
}

// MarkOpen moves epochs opening -> open.
func (s *SQL) MarkOpen(ctx context.Context, refs []bucket.Ref) error {
	_, err := transact(ctx, s, "MarkOpen", func(time.Time) (struct{}, error) {
		for _, ref := range refs {
			if e := s.epoch(ref); e != nil && e.Status == ledger.Opening {
				e.Status = ledger.Open
				if b := e.bucket.budget; b.definition.Durability == budget.Store &&
					(e.Period != b.period.Number || b.period.Over) {
					e.Status = ledger.Closing
				}
				e.bucket.budget.listVersion++
				s.verify(e.bucket.budget)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// Ending moves an epoch open -> closing. See bucket.Transfers.
func (s *SQL) Ending(ctx context.Context, budgetID int64, ref bucket.Ref, by bucket.OfflineBy,
	keep bool) (bool, error) {
	return transact(ctx, s, "Ending", func(now time.Time) (bool, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return false, err
		}
		epoch := s.epoch(ref)
		if epoch == nil || epoch.bucket.budget != b {
			return false, nil
		}
		shard := epoch.bucket
		if epoch.Status != ledger.Open {
			claims := by == bucket.ByOperator && !keep && epoch == shard.newest()
			switch {
			case claims && shard.OfflineBy == bucket.ByService:
				shard.OfflineBy, shard.UpdatedAt = by, now
			case claims && shard.Online && epoch.Status != ledger.Opening:
				if err := b.takeOffline(shard, by, now); err != nil {
					return false, err
				}
			default:
				return false, nil
			}
			b.listVersion++
			s.verify(b)
			return false, nil
		}
		if !keep {
			if err := b.takeOffline(shard, by, now); err != nil {
				return false, err
			}
		}
		epoch.Status = ledger.Closing
		b.listVersion++
		s.verify(b)
		return true, nil
	})
}

// takeOffline takes a bucket out of the bucket list, unless it is the last one of an effective budget.
func (b *sqlBudget) takeOffline(shard *sqlBucket, by bucket.OfflineBy, now time.Time) error {
	if b.figures().Online == 1 && b.definition.StatusAt(now) == budget.Effective {
		return budget.Refuse(budget.LastBucket, "offline", "%s is the last online bucket of an effective budget", shard.Key)
	}
	shard.Online, shard.OfflineBy, shard.UpdatedAt = false, by, now
	return nil
}

// CloseEpoch ends a closing epoch by its close entry. See bucket.Transfers.
func (s *SQL) CloseEpoch(ctx context.Context, budgetID int64, ref bucket.Ref, close ledger.Entry,
	target *bucket.Target) (*bucket.GrantOrder, error) {
	return transact(ctx, s, "CloseEpoch", func(now time.Time) (*bucket.GrantOrder, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return nil, err
		}
		epoch := s.epoch(ref)
		if epoch == nil || epoch.bucket.budget != b {
			return nil, ledger.ErrEnded
		}
		units, err := ledger.CloseAmount(epoch.Epoch, close, epoch.missing(close.Number))
		if err != nil {
			return nil, err
		}
		epoch.end(ledger.Closed)
		var order *bucket.GrantOrder
		if target != nil && units > 0 && epoch.Period == b.period.Number {
			to := s.epoch(target.Ref)
			if to != nil && to.bucket.budget == b && to.mayGrow() && to.Period == epoch.Period {
				if target.AtMost > 0 {
					units = min(units, target.AtMost)
				}
				order = to.grant(units, now)
			}
		}
		s.verify(b)
		return order, nil
	})
}

// missing sums the pending grants that arrived after none of the log's: those numbered above the
// last one that the store knew of.
func (e *sqlEpoch) missing(arrived int64) (sum int64) {
	for i, g := range e.grants {
		if int64(i)+1 > arrived && g.status == grantPending {
			sum += g.amount
		}
	}
	return sum
}

// maxFenced is the width of bucket_epoch.fenced in bytes.
const maxFenced = 512

// Fence stops an epoch and notes why; the first reason stays. The list's version grows, so that no
// node goes on sending requests there.
func (s *SQL) Fence(ctx context.Context, ref bucket.Ref, why string) error {
	if why == "" {
		why = "no reason was given"
	}
	_, err := transact(ctx, s, "Fence", func(time.Time) (struct{}, error) {
		if e := s.epoch(ref); e != nil && e.Status.Live() && e.Fenced == "" {
			e.Fenced = why[:min(len(why), maxFenced)]
			e.bucket.budget.listVersion++
			s.verify(e.bucket.budget)
		}
		return struct{}{}, nil
	})
	return err
}

// Lose ends an epoch whose store cannot be asked. See bucket.Transfers.
func (s *SQL) Lose(ctx context.Context, ref bucket.Ref) (bool, error) {
	return transact(ctx, s, "Lose", func(time.Time) (bool, error) {
		e := s.epoch(ref)
		if e == nil || !e.Status.Live() {
			return false, nil
		}
		e.end(ledger.Lost)
		s.verify(e.bucket.budget)
		return true, nil
	})
}

// LoseAll is Lose for many epochs. See bucket.Transfers.
func (s *SQL) LoseAll(ctx context.Context, refs []bucket.Ref) ([]bucket.Ref, error) {
	return transact(ctx, s, "LoseAll", func(time.Time) (lost []bucket.Ref, err error) {
		for _, ref := range refs {
			if e := s.epoch(ref); e != nil && e.Status.Live() {
				e.end(ledger.Lost)
				s.verify(e.bucket.budget)
				lost = append(lost, e.ref())
			}
		}
		slices.SortFunc(lost, func(a, b bucket.Ref) int { return int(a.Bucket - b.Bucket) })
		return lost, nil
	})
}

// Settle gives buckets whose epochs have ended new ones, and U a home. See bucket.Transfers.
func (s *SQL) Settle(ctx context.Context, budgetIDs []int64, without ...bucket.Lane) (
	bucket.Handout, error) {
	return transact(ctx, s, "Settle", func(now time.Time) (out bucket.Handout, err error) {
		for _, id := range slices.Compact(slices.Sorted(slices.Values(budgetIDs))) {
			b, err := s.find(id)
			if err != nil {
				continue
			}
			h := s.settle(b, now, without)
			out.Opened = append(out.Opened, h.Opened...)
			out.Grants = append(out.Grants, h.Grants...)
			s.verify(b)
		}
		return out, nil
	})
}

// settle gives the buckets of one budget that are in the list and have no live epoch new ones, and U a home.
func (s *SQL) settle(b *sqlBudget, now time.Time, without []bucket.Lane) (out bucket.Handout) {
	if b.period.OverAt(now) {
		return out // the roll-over is next
	}
	if b.halted() {
		return out
	}
	var reopened []*sqlBucket
	for _, shard := range b.buckets {
		if shard.idle() && s.mayBegin(shard) && !slices.Contains(without, shard.Lane) {
			s.begin(shard, now)
			reopened = append(reopened, shard)
		}
	}
	h := s.handOut(b, now, reopened, without)
	for _, shard := range reopened {
		out.Opened = append(out.Opened, shard.view())
	}
	out.Opened = append(out.Opened, h.Opened...)
	out.Grants = h.Grants
	return out
}
