package books

import (
	"github.com/budgetd/budgetd/budget"
)

// Apply moves units from U to a bucket's open epoch, as far as the period, sharding_quantity,
// adjust_cnt and pending shrinks allow, and returns how many. Units that came back are free: they
// count neither for adjust_cnt nor in out_cnt. Applied is loaded.
func (b *Books) Apply(u *Budget, row *Bucket, r Refill) int64 {
	e := b.newest(row)
	if !e.mayGrow() || row.Status != Online || e.Period != u.Period || u.IsOver == 1 ||
		u.Unlimited == 1 {
		return 0
	}
	units, kind := b.refill(u, row, r)
	b.give(u, row, kind, units)
	u.Undistributed -= units
	return units
}

// ApplyTo applies for an operator, after a sweep: for the even share of U among the buckets that
// may take units. The whole budget and Applied are loaded. Errors: BudgetExpired if no period is
// open; BucketOffline; those of ApplyInStore.
func (b *Books) ApplyTo(u *Budget, row *Bucket) (Refilled, error) {
	if err := b.mustBeOpen(u, "apply"); err != nil {
		return Refilled{}, err
	}
	if row.Status != Online {
		return Refilled{}, budget.Refuse(budget.BucketOffline, "apply",
			"bucket %s is offline: bring it online first", row.Key)
	}
	if u.Durability == inStore {
		return b.ApplyInStore(u, row, Refill{Even: true})
	}
	b.Sweep(u)
	return Refilled{Units: b.Apply(u, row, Refill{Even: true})}, nil
}

// returnedUnits returns how much of U buckets had before: U beyond what the open period got and
// nobody has applied for.
func (b *Books) returnedUnits(u *Budget) int64 {
	p := b.PeriodOf(u)
	return max(u.Undistributed-max(p.Funded+p.Carried-b.Applied[u.ID], 0), 0)
}

// Offline ends a bucket's epoch, returns its units to where its period says, and removes the bucket
// from the list. A halted epoch keeps its units until an operator decides. If the bucket is offline
// already, only the reason changes, from the service to an operator. Error: LastBucket for the only
// online bucket of an effective budget.
func (b *Books) Offline(u *Budget, row *Bucket, by Word) error {
	switch {
	case row.Status == Online && b.isLast(u, row):
		return budget.Refuse(budget.LastBucket, "offline",
			"bucket %s is the only online bucket of budget %s, which is effective: "+
				"bring another bucket online first, or pause the budget", row.Key, u.Name)
	case row.Status != Online && (row.OfflineBy == by || by != byOperator):
		return nil
	}
	b.takeOffline(u, row, by)
	return nil
}

// takeOffline ends a bucket's epoch and removes the bucket from the list. A halted epoch keeps its
// units until an operator decides.
func (b *Books) takeOffline(u *Budget, row *Bucket, by Word) {
	if e := b.newest(row); row.Status == Online && e.Halted == "" {
		b.end(u, e)
	}
	row.Status, row.OfflineBy, row.UpdatedAt = offline, by, b.NowMS
	u.ListVersion++
}

// isLast reports whether the budget is effective and no other bucket of the list is online.
func (b *Books) isLast(u *Budget, row *Bucket) bool {
	for _, other := range b.bucketsOf(u) {
		if other != row && other.Status == Online {
			return false
		}
	}
	return u.Definition().StatusAt(at(b.NowMS)) == budget.Effective
}

// Online begins a bucket's next epoch, and spreads U over the buckets that are online and those
// that the service took offline, which begin an epoch. It changes nothing if the bucket is online.
// In a store the last epoch must be closed first. Errors: BudgetExpired if the budget has no open
// period; Unavailable for a bucket that is halted, or cannot begin an epoch where it is.
func (b *Books) Online(u *Budget, row *Bucket) (Refilled, error) {
	e, expired := b.newest(row), b.mustBeOpen(u, "online")
	if row.Status == Online && e.live() && e.Status != Closing {
		return Refilled{}, nil
	}
	if u.Durability == inStore {
		may, err := b.mayBeGranted(u, row, false, true)
		if err != nil || !may {
			return Refilled{Closing: err == nil}, err
		}
	}
	switch {
	case e.Halted != "" && e.Status != lost:
		return Refilled{}, budget.Refuse(budget.Unavailable, "online", "bucket %s is stopped: %s",
			row.Key, e.Halted)
	case expired != nil && !e.live():
		return Refilled{}, expired
	case u.Unlimited == 1 && u.Durability == inStore:
		b.grantUnlimited(u, row)
	default:
		b.goOnline(u, row)
	}
	return Refilled{Units: b.Distribute(u)}, nil
}

// Distribute divides U over the buckets that are online, and over those that the service took
// offline, which begin an epoch, as do those that are online without one. It returns the units
// moved. Each share counts as one application unless all of U came back. Nothing moves while the
// period is over: a rollover is next.
func (b *Books) Distribute(u *Budget) int64 {
	if b.PeriodOf(u).OverAt(at(b.NowMS)) {
		return 0
	}
	kind := Apply
	if u.AdjustCnt > 0 && u.Undistributed > 0 && b.returnedUnits(u) == u.Undistributed {
		kind = Again
	}
	b.beginAll(u)
	return b.distribute(u, kind)
}
