package books

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/budgetd/budgetd/budget"
)

// mostCause bounds a cause, in bytes.
const mostCause = 512

// On reports whether an epoch is the newest of its bucket, which is on a partition.
func (b *Books) On(p *Partition, e *Epoch) bool {
	row := b.Buckets.Get(e.Bucket)
	return row != nil && row.Home() == p.ID() && row.Epoch == e.Number
}

// Halt stops an epoch until an operator decides. It returns false if it was stopped before.
func (e *Epoch) Halt(why string) bool {
	if e.Halted != "" {
		return false
	}
	e.Halted = cut(why)
	return true
}

func cut(why string) string { return why[:min(len(why), mostCause)] }

// Count moves what a store took of an epoch since the last count from O to S, and what was given
// back the other way. It returns by how much S grew. A count that the epoch cannot have halts it.
func (b *Books) Count(e *Epoch, taken, givenBack int64) (used int64) {
	used = taken - e.Taken - (givenBack - e.GivenBack)
	if e.Outstanding < used || e.Used+used < 0 {
		e.Halt(fmt.Sprintf("the store took %d and got %d back, SQL has %d and %d used",
			taken-e.Taken, givenBack-e.GivenBack, e.Outstanding, e.Used))
		return 0
	}
	e.Taken, e.GivenBack = taken, givenBack
	e.Outstanding -= used
	e.Used += used
	return used
}

// CountLate moves what was given back since an epoch ended from S to R, and returns the units. S of
// a lost epoch has only what the last count said: the rest of the late sum is in Q. Another epoch
// that lacks it is halted.
func (b *Books) CountLate(e *Epoch, sum int64) int64 {
	units := sum - e.LateSum
	back := min(units, e.Used)
	switch {
	case units <= 0:
		return 0
	case back < units && e.Status != lost:
		e.Halt(fmt.Sprintf("%d came back late, %d were used", units, e.Used))
		return 0
	}
	e.LateSum = sum
	e.Used -= back
	e.Returning += back
	if e.PeriodEndMS > 0 && b.NowMS >= e.PeriodEndMS {
		e.Late += back
	}
	return back
}

// Confirm notes that an epoch is open in its store, and that the store has its grants up to a
// number. The budget of an epoch that opens is loaded.
func (b *Books) Confirm(e *Epoch, opened bool, grants int64) {
	if opened && e.Status == Opening {
		e.Status = Open
		b.Budgets.Get(e.Budget).ListVersion++
	}
	if e.live() {
		b.settle(e, grants, Done)
	}
}

// settle gives the pending grants of an epoch up to a number a final status.
func (b *Books) settle(e *Epoch, last int64, status Word) {
	for _, g := range b.pending(e) {
		if g.Number <= last {
			g.Status = status
		}
	}
}

func (b *Books) pending(e *Epoch) (list []*Grant) {
	for _, g := range b.Grants.All() {
		if g.Bucket == e.Bucket && g.Epoch == e.Number && g.Status == Pending {
			list = append(list, g)
		}
	}
	return list
}

// finish gives an epoch its final status, and takes its units out of O; the caller puts them
// elsewhere. Grants that its store does not have become void.
func (b *Books) finish(u *Budget, e *Epoch, status Word) (units int64) {
	b.settle(e, e.NextGrant, void)
	units = e.Outstanding
	e.Outstanding = 0
	e.Closed += units
	e.Status = status
	u.ListVersion++
	return units
}

// Final is the figures of an epoch that its store has closed.
type Final struct {
	Position
	Balance, Taken, GivenBack, LastGrant int64
}

// EndClosed ends closing epochs on a partition with their final figures. Their balances, and grants
// that the store does not have, go where the period says. Epochs whose figures disagree are halted.
// Buckets that are online begin their next epochs with up to half of what they returned, if U has
// units beyond need; with need < 0, or while the partition is drained, none does. It returns the
// buckets with new epochs. Epochs that have ended are left out, so it is idempotent. Keeps I1.
func (b *Books) EndClosed(p *Partition, finals []Final, need int64) (begun []int64) {
	back := map[*Bucket]int64{}
	for i := range finals {
		f := &finals[i]
		e := b.Epochs.Get(f.Position)
		if e == nil || e.Status != Closing || e.Halted != "" || e.Incarnation < p.Since ||
			!b.On(p, e) || !b.agree(e, f) {
			continue
		}
		u := b.Budgets.Get(e.Budget)
		b.Count(e, f.Taken, f.GivenBack)
		b.settle(e, f.LastGrant, Done)
		units := b.finish(u, e, Closed)
		b.returnUnits(u, e, units, 0)
		back[b.Buckets.Get(e.Bucket)] = units
	}
	if need < 0 || p.IsDraining == 1 {
		return nil
	}
	return b.keep(back, need)
}

// agree compares the final figures of an epoch with its row, and halts it if they disagree.
func (b *Books) agree(e *Epoch, f *Final) bool {
	taken, given, above := f.Taken-e.Taken, f.GivenBack-e.GivenBack, int64(0)
	for _, g := range b.pending(e) {
		if g.Number > f.LastGrant {
			above += g.Amount
		}
	}
	left := e.Outstanding - taken + given
	if taken < 0 || given < 0 || left != f.Balance+above || left < 0 ||
		e.Used+taken-given < 0 {
		e.Halt(fmt.Sprintf("closed with a balance of %d and %d in grants on their way, SQL has %d",
			f.Balance, above, left))
		return false
	}
	return true
}

// keep begins the next epochs of buckets whose epochs have ended, with up to half of what came back
// of them.
func (b *Books) keep(back map[*Bucket]int64, need int64) (begun []int64) {
	spare := map[*Budget]int64{}
	for _, u := range b.Budgets.All() {
		if u.IsOver == 0 {
			spare[u] = u.releasable(b.NowMS) - need
		}
	}
	list := slices.SortedFunc(maps.Keys(back), func(x, y *Bucket) int {
		return cmp.Or(cmp.Compare(x.Budget, y.Budget), cmp.Compare(x.Ordinal, y.Ordinal))
	})
	for _, row := range list {
		u := b.Budgets.Get(row.Budget)
		half := min(back[row]/2, spare[u])
		if half <= 0 || row.Status != Online {
			continue
		}
		spare[u] -= half
		b.beginNext(u, row)
		b.give(u, row, Again, half)
		u.Undistributed -= half
		begun = append(begun, row.ID)
	}
	return begun
}

// Lost is the result of Lose: the buckets whose epochs ended, and the units that went into
// quarantine or came back.
type Lost struct {
	Buckets               []int64
	Quarantined, Returned int64
}

// Lose ends live epochs on a partition whose entries are lost, in the order of positions. Their
// units go into quarantine. They come back if the budget assumes so (on_loss), and if the epoch was
// only opening, because nothing was deducted from it. cause is why an epoch is lost; it is not if
// that is empty. Nothing is quarantined for an unlimited budget: there is no total that could lack
// it. Keeps I1.
func (b *Books) Lose(p *Partition, list []Position, cause func(*Epoch) string) (out Lost) {
	for _, at := range list {
		e := b.Epochs.Get(at)
		if e == nil || !e.live() || !b.On(p, e) {
			continue
		}
		why := cause(e)
		if why == "" {
			continue
		}
		u, opening := b.Budgets.Get(e.Budget), e.Status == Opening
		units := b.finish(u, e, lost)
		out.Buckets = append(out.Buckets, e.Bucket)
		switch {
		case u.Unlimited == 1 || units == 0:
		case opening || u.OnLoss == Word(budget.AssumeUnused):
			out.Returned += units
			b.returnUnits(u, e, units, 0)
		default:
			out.Quarantined += units
			u.Quarantined += units
			if e.Halted != "" {
				why += "; the bucket was stopped: " + e.Halted
			}
			b.Quarantines.Add(Quarantine{Bucket: e.Bucket, Epoch: e.Number, Budget: u.ID,
				Instance: p.Instance, Partition: p.Number, Quantity: units, Cause: cut(why),
				CreatedAt: b.NowMS})
		}
	}
	return out
}

// ToUsed is the destination of released units that were sold; the others were not.
const ToUsed, ToTotal = Word("used"), Word("total")

// Release takes units out of the quarantines of a budget, in the order in which they are loaded
// with their epochs: to S, or to where the period of the epoch says. r says how many, of which 0
// means all, where to and why. It returns the units. Keeps I1.
func (b *Books) Release(u *Budget, r Release) (moved int64) {
	left := r.Asked
	if left == 0 {
		left = u.Quarantined
	}
	for _, q := range b.Quarantines.All() {
		n := min(q.Quantity-q.Released, left-moved)
		if n == 0 {
			continue
		}
		e := b.Epochs.Get(q.Position())
		q.Released += n
		u.Quarantined -= n
		moved += n
		if r.GoesTo == ToUsed {
			e.Used += n
		} else {
			b.returnUnits(u, e, n, 0)
		}
		part := r
		part.Budget, part.Bucket, part.Epoch, part.Quantity = u.ID, q.Bucket, q.Epoch, n
		part.CreatedAt = b.NowMS
		b.Releases.Add(part)
	}
	return moved
}

// Place assigns a bucket whose newest epoch has a number and has ended to another partition. Its
// copy counts unless its memory was lost or given up: then nothing can be copied. A bucket that is
// online begins its next epoch there, because the partition answers nothing before, not even
// repeats; if no period is open, the next period begins it. Place returns false if the bucket is
// elsewhere or has a newer epoch.
func (b *Books) Place(u *Budget, row *Bucket, epoch int64, from, to PartitionID) bool {
	e := b.newest(row)
	switch {
	case row.Home() == to:
		return true
	case row.Home() != from || row.Epoch != epoch || e.live():
		return false
	}
	row.CopiedEpoch = row.Epoch
	if p := b.Partitions.Get(from); e.Status == lost || p == nil || p.Identity == "" {
		row.CopiedEpoch = 0
	}
	row.Instance, row.Partition, row.UpdatedAt = to.Instance, to.Number, b.NowMS
	u.ListVersion++
	switch {
	case row.Status != Online || b.mustBeOpen(u, "move") != nil:
	case u.Unlimited == 1:
		b.grantUnlimited(u, row)
	default:
		b.beginNext(u, row)
	}
	return true
}
