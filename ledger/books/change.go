package books

import (
	"cmp"
	"slices"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// Redefinition is a change of a definition that was judged.
type Redefinition struct {
	Before, After budget.Definition
	// Limits says that the limits change.
	Limits bool
	// FirstBucket is the id of the first of the buckets that another number of buckets adds.
	FirstBucket int64
	// KeyOf returns the key of the bucket with an ordinal, under the new name.
	KeyOf func(ordinal int) string
}

// Change gives a budget another definition. Its live epochs refuse what was judged by an older one
// (I8); in store mode its stores do, once they know the version of its limits. It ends the open
// period, or gives it another end, as allocation.Change says, and hands out what the period gets in
// addition. The buckets that another number of buckets retires return their units; those that it
// adds or brings back get a share. The budget's buckets, limits, the epochs that are newest or hold
// units, and their periods are loaded.
//
// Errors: Unavailable for a time zone that is unknown here, and for a halted bucket that would
// retire. Keeps I1.
func (b *Books) Change(u *Budget, c Redefinition) error {
	undistributed := u.Undistributed
	u.define(budgetOf(c.After, at(b.NowMS)))
	switch {
	case c.Limits:
		b.replaceLimits(u, c.After)
	case c.After.Durability == budget.Store:
		u.LimitsVersion++ // the stores refuse what a node judges that the database does not answer
	}
	moved := b.movePeriod(u, c)
	if err := b.topUp(u); err != nil {
		return err
	}
	b.judgeAgain(u, moved)
	if c.After.Name != c.Before.Name {
		for _, row := range b.bucketsOf(u) {
			row.Key = c.KeyOf(int(row.Ordinal))
		}
	}
	switch {
	case c.After.BucketQuantity != c.Before.BucketQuantity:
		return b.resize(u, c)
	case u.Undistributed > undistributed:
		b.distribute(u, Apply)
	}
	return nil
}

// define sets the columns of a definition that a change may set, from the row of the new one.
func (u *Budget) define(d Budget) {
	u.Name = d.Name
	u.GLCode = d.GLCode
	u.Unit = d.Unit
	u.Status = d.Status
	u.StatusDueMS = d.StatusDueMS
	u.IsPaused = d.IsPaused
	u.IsArchived = d.IsArchived
	u.Sharding = d.Sharding
	u.AdjustCnt = d.AdjustCnt
	u.StartMS = d.StartMS
	u.EndMS = d.EndMS
	u.TypeRule = d.TypeRule
	u.Timezone = d.Timezone
	u.Unused = d.Unused
	u.LateRefund = d.LateRefund
	u.AlsoCharges = d.AlsoCharges
	u.UpdatedAt = d.UpdatedAt
	u.Version++
}

// replaceLimits replaces the limits of a budget by those of a definition.
func (b *Books) replaceLimits(u *Budget, d budget.Definition) {
	b.dropSeries(u, d)
	b.Limits.Remove(func(l *Limit) bool { return l.Budget == u.ID })
	b.addLimits(u, d)
}

// movePeriod gives the open period its end under a new definition, and reports whether it has
// another one. A period that is over keeps its end; only when the next one begins may change.
func (b *Books) movePeriod(u *Budget, c Redefinition) bool {
	end, due := allocation.Change(c.Before, c.After, b.PeriodOf(u), at(b.NowMS))
	moved := u.PeriodEndMS != endMS(end)
	if !moved && u.RollOverMS == ms(due) {
		return false
	}
	u.PeriodEndMS, u.RollOverMS = endMS(end), ms(due)
	u.ListVersion++
	if u.IsOver == 1 {
		return false
	}
	b.Periods.Get([2]int64{u.ID, u.Period}).EndMS = u.PeriodEndMS
	return moved
}

// judgeAgain makes the live epochs of the open period refuse operations that were judged by an
// older definition, or by another end of the period. If the end moved later, units that were given
// back after the former end are no longer late.
func (b *Books) judgeAgain(u *Budget, moved bool) {
	for _, row := range b.bucketsOf(u) {
		if e := b.newest(row); e.live() && e.Period == u.Period {
			e.Version, e.PeriodEndMS = u.Version, u.PeriodEndMS
		}
	}
	if !moved || u.PeriodEndMS != 0 && b.NowMS >= u.PeriodEndMS {
		return
	}
	for _, e := range b.epochsOf(u) {
		if e.Period == u.Period {
			e.Late = 0
		}
	}
}

// resize changes the number of buckets of a ledger-mode budget. Buckets beyond the number retire:
// their epochs end, and the other buckets get their units. Buckets within it that had retired come
// back, and missing ones are added. An effective budget keeps one bucket online. If no period is
// open, no epoch begins. Error: Unavailable for a halted bucket that would retire.
func (b *Books) resize(u *Budget, c Redefinition) error {
	n, list := c.After.BucketQuantity, slices.Clone(b.bucketsOf(u))
	stay := list[:min(n, len(list))]
	for _, row := range list[len(stay):] {
		if e := b.newest(row); e.live() && e.Halted != "" {
			return budget.Refuse(budget.Unavailable, "resize", "bucket %s is halted: %s", row.Key,
				e.Halted)
		}
		b.retire(u, row)
	}
	u.Buckets = int64(n)
	u.ListVersion++
	back := b.comingBack(u, stay, n)
	for ordinal := len(stay); ordinal < n; ordinal++ {
		back = append(back, b.addBucket(u, c.FirstBucket+int64(ordinal-len(stay)), ordinal,
			c.KeyOf(ordinal), Home{}))
	}
	for _, row := range back {
		switch e := b.newest(row); {
		case u.IsOver == 1:
			b.end(u, e)
			row.Status, row.OfflineBy, row.UpdatedAt = offline, byService, b.NowMS
		case e.live():
			row.Status, row.OfflineBy, row.UpdatedAt = Online, "", b.NowMS
		default:
			b.beginNext(u, row)
		}
	}
	b.distribute(u, Again)
	return nil
}

// retire ends a bucket's epoch and takes the bucket out of the list and the ring.
func (b *Books) retire(u *Budget, row *Bucket) {
	b.end(u, b.newest(row))
	if row.OfflineBy != byResize {
		row.Status, row.OfflineBy, row.UpdatedAt = offline, byResize, b.NowMS
	}
}

// comingBack selects the buckets that come back: retired ones, and if an effective budget would
// have no bucket online, one of the others, those that the service took offline first. n is the new
// number of buckets.
func (b *Books) comingBack(u *Budget, stay []*Bucket, n int) (out []*Bucket) {
	anyOnline := n > len(stay)
	for _, row := range stay {
		anyOnline = anyOnline || row.Status == Online || row.OfflineBy == byResize
		if row.OfflineBy == byResize {
			out = append(out, row)
		}
	}
	if anyOnline || u.Definition().StatusAt(at(b.NowMS)) != budget.Effective {
		return out
	}
	first := slices.IndexFunc(stay, func(row *Bucket) bool { return row.OfflineBy == byService })
	return append(out, stay[max(first, 0)])
}

// DefinitionOf returns a budget's definition with its limits, which are loaded. Error: Internal for
// a limit that cannot be read.
func (b *Books) DefinitionOf(u *Budget) (budget.Definition, error) {
	d := u.Definition()
	if u.LimitsVersion == 0 {
		return d, nil
	}
	d.Limits = &budget.Limits{Version: u.LimitsVersion, OverridesVersion: u.OverridesVersion}
	list := slices.Clone(b.Limits.All())
	slices.SortFunc(list, func(x, y *Limit) int { return cmp.Compare(x.Ordinal, y.Ordinal) })
	for _, row := range list {
		l, err := limit.Decode([]byte(row.Definition))
		if err != nil {
			return d, &budget.Error{Code: budget.Internal, Op: "read", Err: err,
				Message: "a limit cannot be read"}
		}
		l.ChangedVersion, l.ChangedAt = row.ChangedVersion, at(row.ChangedMS)
		l.OverrideCount, l.OverrideSeries = row.Overrides, row.Series
		d.Limits.List = append(d.Limits.List, l)
	}
	return d, nil
}
