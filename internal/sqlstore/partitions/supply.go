package partitions

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	selectReturns = `SELECT e.bucket_id, e.epoch, e.budget_id FROM bucket_epoch e
		/*by bucket_epoch_returns*/ WHERE e.has_returns = 1 AND e.budget_id = ?
		ORDER BY e.bucket_id, e.epoch LIMIT ?`
	selectApplied = `SELECT COALESCE(SUM(g.amount), 0) FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch > b.epoch - 64
		JOIN grant_log g ON g.bucket_id = e.bucket_id AND g.epoch = e.epoch
		WHERE b.budget_id = ? AND e.period = ? AND g.kind = 'apply' AND g.status <> 'void'`
	countPending = `SELECT COUNT(*) FROM grant_log /*by PRIMARY*/
		WHERE bucket_id = ? AND epoch = ? AND status = 'pending'`
	closeEpochs = `UPDATE bucket_epoch /*by PRIMARY*/ SET status = 'closing' WHERE `
	closeWhere  = `(bucket_id = ? AND epoch = ? AND status IN ('opening', 'open'))`
)

// application is one transaction of Apply.
type application struct {
	t    *engine.Tx
	b    *rows.Budget
	list []rows.Bucket
	row  *rows.Bucket
	want counter.Want
}

// Apply moves units from U to a bucket. See counter.Supply. Keeps I1.
func (p *Part) Apply(ctx context.Context, budgetID int64, want counter.Want) (
	out counter.Applied, err error) {
	type grant struct{ epoch, number, units int64 }
	var tried grant // what an earlier attempt wrote, committed or not
	err = p.db.Write(ctx, "apply", func(t *engine.Tx) error {
		out = counter.Applied{}
		a := application{t: t, want: want}
		if err := a.lock(budgetID); err != nil {
			return err
		}
		if t.Unsure && tried.units > 0 && a.row.Number == tried.epoch &&
			a.row.NextGrant == tried.number+1 {
			out.Units = tried.units
			return nil
		}
		out, err = a.run()
		tried = grant{a.row.Number, a.row.NextGrant - 1, out.Units}
		return err
	})
	if err != nil {
		return counter.Applied{}, err
	}
	return out, nil
}

// lock locks the budget, the bucket's newest epoch and epochs with units on their way back, and
// sweeps the latter.
func (a *application) lock(budgetID int64) (err error) {
	t := a.t
	if a.b, err = rows.LockBudget(t, "apply", budgetID); err != nil {
		return err
	}
	if a.list, err = rows.Buckets(&t.Reader, budgetID); err != nil {
		return err
	}
	i := slices.IndexFunc(a.list, func(r rows.Bucket) bool { return r.Epoch.Bucket == a.want.Bucket })
	if i < 0 {
		return budget.Refuse(budget.BucketNotFound, "apply", "budget %s has no bucket %d", a.b.Name,
			a.want.Bucket)
	}
	a.row = &a.list[i]
	var back []lostRow
	if err := t.List(&back, selectReturns, budgetID, counter.MaxEpochs-1); err != nil {
		return err
	}
	positions := []rows.Position{a.row.Position()}
	for _, r := range back {
		positions = append(positions, rows.Position{Bucket: r.Bucket, Epoch: r.Epoch})
	}
	locked, err := rows.LockEpochs(t, positions)
	if err != nil {
		return err
	}
	var returns []*rows.Epoch
	for _, at := range positions[1:] {
		if e := locked[at]; e != nil {
			returns = append(returns, e)
		}
	}
	if !a.b.Due(t.Now) {
		if _, err := moves.Sweep(t, a.b, returns...); err != nil {
			return err
		}
	}
	if e := locked[a.row.Position()]; e != nil {
		a.row.Epoch = *e
	}
	return nil
}

func (a *application) run() (out counter.Applied, err error) {
	b, row := a.b, a.row
	switch {
	case b.Durability != string(budget.Store):
		return out, nil
	case row.OfflineBy == string(bucket.ByOperator) && !a.want.Operator,
		row.OfflineBy == string(bucket.ByResize):
		return out, offline(row)
	case row.Halted != "" && row.Status != string(ledger.Lost):
		return out, budget.Refuse(budget.Unavailable, "apply", "bucket %s is stopped: %s", row.Key,
			row.Halted)
	case row.Status == string(ledger.Closing):
		return counter.Applied{Closing: true}, nil
	case b.IsOver == 1 || b.PeriodNow().OverAt(a.t.Now):
		return out, budget.Refuse(budget.BudgetExpired, "apply",
			"budget %s has no open period: the last "+
				"one ended at %s", b.Name, b.PeriodNow().End.UTC().Format(time.RFC3339))
	case row.Live() && row.Period != b.Period:
		return counter.Applied{Closing: true}, nil // its end is due
	case row.Live() && row.Number == a.want.Full:
		return counter.Applied{Closing: true}, setClosing(a.t, b, []*rows.Bucket{row})
	}
	if b.Unlimited == 1 {
		return a.unlimited()
	}
	units, kind, out, err := a.units()
	if err == nil && out.Short > 0 && row.Live() {
		var pending int
		_, err = a.t.Get(&pending, countPending, row.Epoch.Bucket, row.Number)
		out.Undelivered = pending > 0
	}
	if err != nil || units == 0 && !a.want.Operator {
		return out, err
	}
	if !row.Live() {
		if err := moves.Begin(a.t, "apply", b, row); err != nil {
			return out, err
		}
	} else if row.ListStatus != rows.Online {
		if err := moves.PutOnline(a.t, b, row); err != nil {
			return out, err
		}
	}
	if units == 0 {
		return out, nil
	}
	if err := moves.Give(a.t, b, kind, moves.Portion{Row: row, Units: units}); err != nil {
		return out, err
	}
	out.Units = units
	return out, moves.Units(a.t, b, allocation.Movement{Undistributed: -units})
}

// unlimited begins an epoch of a budget without a total and gives it the largest amount, which
// comes out of no total.
func (a *application) unlimited() (out counter.Applied, err error) {
	b, row := a.b, a.row
	switch {
	case !row.Live():
		if err := moves.Begin(a.t, "apply", b, row); err != nil {
			return out, err
		}
		out.Units = budget.MaxAmount
		err := moves.Give(a.t, b, moves.Apply, moves.Portion{Row: row, Units: out.Units})
		return out, err
	case row.ListStatus != rows.Online:
		return out, moves.PutOnline(a.t, b, row)
	}
	return out, nil
}

// units returns how many units the bucket gets now. Units that came back are free: they count
// neither for adjust_cnt nor in out_cnt. Where nothing bounds applications, the caller says which
// were collected.
func (a *application) units() (units int64, kind moves.Kind, out counter.Applied, err error) {
	b, need := a.b, max(a.want.Need, 1)
	there := b.Releasable(a.t.Now)
	if there < need {
		out.Short = need - there
		return 0, "", out, nil
	}
	units = allocation.Refill(need, a.want.Rate, there, len(a.list), b.Sharding)
	units = min(units, there)
	free := moves.Again
	if a.want.Collected {
		free = moves.Collect
	}
	switch {
	case b.AdjustCnt == 0 && a.want.Collected:
		return units, free, out, nil
	case b.AdjustCnt == 0:
		return units, moves.Apply, out, nil
	}
	p, err := moves.OpenPeriod(a.t, b)
	if err != nil {
		return 0, "", out, err
	}
	var applied int64
	if _, err := a.t.Get(&applied, selectApplied, b.ID, b.Period); err != nil {
		return 0, "", out, err
	}
	back := max(b.Undistributed-max(p.Funded+p.Carried-applied, 0), 0)
	switch {
	case min(units, back) >= min(need, units):
		return min(units, back), free, out, nil
	case a.row.OutCnt >= b.AdjustCnt:
		out.Barred, out.Short, out.Kept = true, need-back, b.Undistributed-back
		out.Outstanding = a.row.Outstanding
		for i := range a.list {
			row := &a.list[i]
			if row.OutCnt < b.AdjustCnt && row.Halted == "" && (row.OfflineBy == "" ||
				row.OfflineBy == string(bucket.ByService)) {
				out.Other = row.Epoch.Bucket
				break
			}
		}
		return 0, "", out, nil
	}
	// Small steps would exhaust the applies, so the even share is the minimum.
	share := (there-1)/int64(len(a.list)) + 1
	if b.Sharding > 0 {
		share = min(share, b.Sharding)
	}
	return min(max(units, share), there), moves.Apply, out, nil
}

func offline(row *rows.Bucket) error {
	e := budget.Refuse(budget.Unavailable, "apply", "an operator took bucket %s offline", row.Key)
	e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
	return e
}

// Collect sets the epochs of donors to closing. See counter.Supply.
func (p *Part) Collect(ctx context.Context, budgetID, target, need int64) (
	donors []int64, err error) {
	err = p.inStore(ctx, "collect", budgetID, bookkeeper.WholeBudget(budgetID),
		func(b *books.Books, u *books.Budget) { donors = b.CloseDonors(u, target, need) })
	return donors, err
}

// setClosing locks epochs of a locked budget and sets those that are opening or open to closing.
func setClosing(t *engine.Tx, b *rows.Budget, list []*rows.Bucket) error {
	if err := rows.LockNewest(t, list); err != nil {
		return err
	}
	var keys []any
	for _, row := range list {
		if row.Status != string(ledger.Opening) && row.Status != string(ledger.Open) ||
			row.Halted != "" {
			continue
		}
		keys = append(keys, row.Epoch.Bucket, row.Number)
		row.Status = string(ledger.Closing)
	}
	if len(keys) == 0 {
		return nil
	}
	if err := t.HitAll(closeEpochs, nil, closeWhere, keys); err != nil {
		return err
	}
	b.ListVersion += int64(len(keys) / 2)
	return moves.ListChanged(t, b.ID, len(keys)/2)
}

// Offline removes a bucket from the list and sets its epoch to closing. See counter.Supply.
func (p *Part) Offline(ctx context.Context, budgetID, bucketID int64, by bucket.OfflineBy) error {
	load := append(bookkeeper.OneBucket(budgetID, bucketID), bookkeeper.Buckets(budgetID))
	return p.one(ctx, "offline", budgetID, bucketID, load,
		func(b *books.Books, u *books.Budget, row *books.Bucket) error {
			return b.Offline(u, row, books.Word(by))
		})
}
