package transfer

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectBucket = `SELECT ` + rows.BucketColumns + ` FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch WHERE b.id = ?`
	// selectApplied sums what buckets applied for in the open period, as I3's sum does.
	selectApplied = `SELECT COALESCE(SUM(g.amount), 0) FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id
		JOIN grant_log g ON g.bucket_id = e.bucket_id AND g.epoch = e.epoch
		WHERE b.budget_id = ? AND e.period = ? AND g.kind = 'apply'`
)

// Apply moves units from U to a bucket's open epoch. See transfer.Supply. It recognises an attempt
// with an unknown commit by its grant number, so the units move once.
func (p *Part) Apply(ctx context.Context, budgetID int64, want transfer.Want) (
	units int64, err error) {
	var tried struct{ epoch, grant, units int64 } // what an earlier attempt wrote, committed or not
	err = p.db.Write(ctx, "apply", func(t *engine.Tx) error {
		units = 0
		b, err := rows.LockBudget(t, "apply", budgetID)
		if err != nil {
			return err
		}
		row := &rows.Bucket{}
		found, err := t.Get(row, selectBucket, want.Bucket)
		if err != nil || !found || row.Budget != budgetID {
			return err
		}
		if err := rows.LockNewest(t, []*rows.Bucket{row}); err != nil {
			return err
		}
		if t.Unsure && tried.units > 0 && row.Number == tried.epoch && row.NextGrant > tried.grant {
			units = tried.units
			return nil
		}
		var kind moves.Kind
		if units, kind, err = applicable(t, b, row, want); err != nil || units == 0 {
			return err
		}
		tried.epoch, tried.grant, tried.units = row.Number, row.NextGrant, units
		if err := moves.Give(t, b, kind, moves.Portion{Row: row, Units: units}); err != nil {
			return err
		}
		return moves.Units(t, b, allocation.Movement{Undistributed: -units})
	})
	if err != nil {
		return 0, err
	}
	return units, nil
}

// applicable returns how many units a bucket may apply for now, 0 for none. Units that came back
// are free: they count neither for adjust_cnt nor in out_cnt.
func applicable(t *engine.Tx, b *rows.Budget, row *rows.Bucket, want transfer.Want) (
	int64, moves.Kind, error) {
	if !row.MayGrow() || row.ListStatus != rows.Online || row.Period != b.Period ||
		b.IsOver == 1 || b.Unlimited == 1 {
		return 0, "", nil
	}
	units, need := min(want.Units, b.Releasable(t.Now)), max(want.Need, 1)
	if want.Of > 0 {
		units = min(units, (b.Releasable(t.Now)-1)/int64(want.Of)+1)
	}
	if b.Sharding > 0 {
		units = min(units, b.Sharding)
	}
	if units < need || b.AdjustCnt == 0 {
		return atLeast(units, need), moves.Apply, nil
	}
	back, err := cameBack(t, b)
	if err != nil {
		return 0, "", err
	}
	if min(units, back) >= need {
		return min(units, back), moves.Again, nil
	}
	if row.OutCnt >= b.AdjustCnt {
		return 0, "", nil
	}
	return units, moves.Apply, nil
}

// atLeast returns units, or 0 if they are below need.
func atLeast(units, need int64) int64 {
	if units < need {
		return 0
	}
	return units
}

// cameBack returns how much of U of a locked budget buckets had before: U beyond what the open
// period got and nobody has applied for.
func cameBack(t *engine.Tx, b *rows.Budget) (int64, error) {
	p, err := moves.OpenPeriod(t, b)
	if err != nil {
		return 0, err
	}
	var applied int64
	if _, err := t.Get(&applied, selectApplied, b.ID, b.Period); err != nil {
		return 0, err
	}
	return max(b.Undistributed-max(p.Funded+p.Carried-applied, 0), 0), nil
}

// HandOut spreads U over the buckets that are online, and over those that the service took offline,
// which begin an epoch. It takes one transaction per transfer.MaxEpochs buckets. Repeating it hands
// out what U has received since.
func (p *Part) HandOut(ctx context.Context, budgetID int64) (out transfer.Moved, err error) {
	for from := 0; ; {
		moved, next, err := p.handOutStep(ctx, budgetID, from)
		out.Buckets, out.Units = out.Buckets+moved.Buckets, out.Units+moved.Units
		if err != nil || next == 0 {
			return out, err
		}
		from = next
	}
}

// handOutStep hands out to the next buckets from an ordinal on. next is the ordinal to continue
// with; 0 means that none is left.
func (p *Part) handOutStep(ctx context.Context, budgetID int64, from int) (
	out transfer.Moved, next int, err error) {
	err = p.db.Write(ctx, "hand out", func(t *engine.Tx) error {
		out, next = transfer.Moved{}, 0
		b, err := rows.LockBudget(t, "hand out", budgetID)
		if err != nil || b.IsOver == 1 || b.PeriodNow().OverAt(t.Now) {
			return err // a rollover is next
		}
		list, err := rows.Buckets(&t.Reader, b.ID)
		if err != nil {
			return err
		}
		h := choose(b, list, from)
		if len(h.chunk) == 0 {
			return nil
		}
		if h.more {
			next = h.chunk[len(h.chunk)-1].Ordinal + 1
		}
		if err := h.lock(t, b); err != nil {
			return err
		}
		kind, err := kindOf(t, b)
		if err != nil {
			return err
		}
		out, err = h.handOut(t, "hand out", b, kind)
		return err
	})
	if err != nil {
		return transfer.Moved{}, 0, err
	}
	return out, next, nil
}

// kindOf returns Apply, or Again if adjust_cnt bounds applies and all of U came back.
func kindOf(t *engine.Tx, b *rows.Budget) (moves.Kind, error) {
	if b.AdjustCnt == 0 || b.Undistributed == 0 {
		return moves.Apply, nil
	}
	back, err := cameBack(t, b)
	if err == nil && back == b.Undistributed {
		return moves.Again, nil
	}
	return moves.Apply, err
}

// Offline ends a bucket's epoch and removes the bucket from the list. See transfer.Supply.
func (p *Part) Offline(ctx context.Context, budgetID, bucketID int64, by bucket.OfflineBy) error {
	return p.db.Write(ctx, "offline", func(t *engine.Tx) error {
		b, list, row, err := lockOne(t, "offline", budgetID, bucketID)
		if err != nil {
			return err
		}
		if row.ListStatus == rows.Online && moves.IsLast(t, b, list, bucketID) {
			return lastBucket(b, row)
		}
		if row.ListStatus == rows.Offline {
			if row.OfflineBy == string(by) || by != bucket.ByOperator {
				return nil
			}
			return moves.PutOffline(t, b, row, by) // it was the service's, and is the operator's now
		}
		return takeOffline(t, b, row, by)
	})
}

// lastBucket refuses to take the only online bucket of an effective budget offline.
func lastBucket(b *rows.Budget, row *rows.Bucket) error {
	return budget.Refuse(budget.LastBucket, "offline",
		"bucket %s is the only online bucket of budget %s, which is effective: "+
			"bring another bucket online first, or pause the budget", row.Key, b.Name)
}

// takeOffline ends the epoch of an online bucket and returns O to the total. A halted epoch keeps
// its units until an operator decides.
func takeOffline(t *engine.Tx, b *rows.Budget, row *rows.Bucket, by bucket.OfflineBy) error {
	if row.Live() && row.Halted == "" {
		units, err := moves.End(t, b, ledger.Closed, &row.Epoch)
		if err != nil {
			return err
		}
		err = moves.ComeBack(t, b, moves.Coming{Row: &row.Epoch, Never: units})
		if err != nil {
			return err
		}
	}
	return moves.PutOffline(t, b, row, by)
}

// Online begins a bucket's next epoch. See transfer.Supply. Handing out is a separate step.
func (p *Part) Online(ctx context.Context, budgetID, bucketID int64) (int64, error) {
	err := p.db.Write(ctx, "online", func(t *engine.Tx) error {
		b, _, row, err := lockOne(t, "online", budgetID, bucketID)
		if err != nil {
			return err
		}
		switch {
		case row.ListStatus == rows.Online && row.Live():
			return nil
		case row.Halted != "":
			return budget.Refuse(budget.Unavailable, "online",
				"bucket %s is stopped: %s", row.Key, row.Halted)
		case row.Live():
			return moves.PutOnline(t, b, row)
		case b.IsOver == 1 || b.PeriodNow().OverAt(t.Now):
			return noPeriod(b)
		}
		return moves.Begin(t, "online", b, row)
	})
	if err != nil {
		return 0, err
	}
	moved, err := p.HandOut(ctx, budgetID)
	if err != nil {
		return 0, nil // the bucket is online; what is undistributed is applied for
	}
	return moved.Units, nil
}

// noPeriod refuses to bring a bucket online if no period is open.
func noPeriod(b *rows.Budget) error {
	return budget.Refuse(budget.BudgetExpired, "online",
		"budget %s has no open period: its last one ended at %s", b.Name,
		b.PeriodNow().End.UTC().Format(time.RFC3339))
}
