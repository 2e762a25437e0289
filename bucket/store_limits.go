package bucket

import (
	"context"

	"github.com/budgetd/budgetd/budget"
)

// Counting is what a deduction of store mode counts against the limits of its budget. Its store judges it in the
// same step as the balance, all or nothing (I6). Instants are SQL's, in ms since 1970: the store takes its
// own clock less Ahead, so that whatever node asks, one clock decides.
type Counting struct {
	// From is the epoch with which the bucket's counters in this lane began (Bucket.CountersFrom): those of
	// another one are not looked at. At most the epoch of the operation.
	From int64
	// Ahead is by how much the lane's clock is ahead of SQL's, in ms.
	Ahead  int64
	Counts []Count
}

// Count is one value of one limit that a deduction counts for.
type Count struct {
	// Limit names it; Changed is the version of the limits when what it counts was last another: counters of
	// other versions are not looked at.
	Limit   string
	Changed int64
	// Value is the key of the dimension's value.
	Value string
	// Add is what is counted, 0 … MaxAmount, in calls or minor units; a counter stops at MaxAmount.
	Add int64
	// Max is the most that may be counted; NoMax: any number, it is only counted.
	Max    int64
	Window CountWindow
	// New says that nothing can have been counted before the store heard of the limit first.
	New bool
	// Loaded is what the ledger has of it, for a store that answered Unloaded; nil: not asked.
	Loaded *Loaded
}

// NoMax is Count.Max where there is no bound.
const NoMax = -1

// CountWindow is a limit's window as a store needs it; instants and lengths in ms.
type CountWindow struct {
	Kind budget.WindowKind
	// Begin and End bound the calendar window that the operation is for: [Begin, End). Both are 0 for a
	// lifetime.
	Begin, End int64
	// Length is of a sliding and a first_hit window, Slot of a sliding one.
	Length, Slot int64
}

// Loaded is a counter as the ledger has it, counted after the store answered Unloaded with that mark.
type Loaded struct {
	Mark int64
	// Used is of a calendar, lifetime and first_hit window; Began of the last one: when it began.
	Used, Began int64
	// Slots are those of a sliding window, in any order.
	Slots []CountSlot
}

// CountSlot is what was counted in a slot that began at that instant, a multiple of the slot's length.
type CountSlot struct{ Begin, Used int64 }

// Counted is what a store says of an operation's Counting.
type Counted struct {
	// Now is the store's clock less Ahead.
	Now int64
	// Over is the index of the first limit that would be exceeded (OverLimit), else -1.
	Over int
	// Limits are in the order of Counts: for OK with the operation, for OverLimit without it.
	Limits []CountState
	// Marks are set for Unloaded, in the order of Counts: what Loaded has to name; -1 where nothing is missing.
	Marks []int64
}

// CountState is how far a limit is used.
type CountState struct {
	Used int64
	// Reset is when the window is over, or, sliding, when the oldest slot leaves it; 0: never. A first_hit window
	// that has not begun would begin now.
	Reset int64
}

// Unloading makes a store forget one counter, because the ledger has given some of it back: the next
// deduction that counts for it is answered Unloaded. Add, Max, New and Loaded are not looked at. Whenever
// it comes, and however often, it makes nothing wrong.
type Unloading struct {
	Ref      Ref
	Counting Counting
}

// Counters is a store that judges limits in store mode. A lane in the ledger's own database (Direct) needs
// none: there the commit judges.
type Counters interface {
	// Unload forgets counters. Replies: OK, also for what was not there. Errors: as Store.
	Unload(ctx context.Context, lane Lane, orders []Unloading) error
}

// MostCounts is how many limits a deduction can count for.
const MostCounts = 64

// check returns what is wrong with it, "" if nothing; epoch and version are the operation's.
func (c *Counting) check(epoch, version int64) string {
	switch {
	case c.From < 1 || c.From > epoch:
		return "counters begin with an epoch from 1 to the operation's"
	case c.Ahead < -budget.MaxAmount || c.Ahead > budget.MaxAmount:
		return "a clock is ahead by some ms"
	case len(c.Counts) == 0 || len(c.Counts) > MostCounts:
		return "there are 1 to 64 limits to count"
	}
	for i := range c.Counts {
		if why := c.Counts[i].check(version); why != "" {
			return "limit " + c.Counts[i].Limit + ": " + why
		}
	}
	return ""
}

func (c *Count) check(version int64) string {
	w := c.Window
	span := func(ms int64) bool { return ms >= 1 && ms <= budget.MaxAmount/1000 }
	switch {
	case budget.CheckName(c.Limit) != "":
		return "its name is none"
	case c.Changed < 1 || c.Changed > version:
		return "it was last changed with a version of the limits that the operation knows"
	case c.Add < 0 || c.Add > budget.MaxAmount || c.Max < NoMax || c.Max > budget.MaxAmount:
		return "its numbers are out of range"
	case w.Kind == budget.WindowCalendar && w.Begin < w.End && w.Begin >= 0 && w.End <= budget.MaxAmount:
	case w.Kind == budget.WindowLifetime && w.Begin == 0 && w.End == 0:
	case w.Kind == budget.WindowFirstHit && span(w.Length):
	case w.Kind == budget.WindowSliding && span(w.Length) && span(w.Slot):
	default:
		return "its window is none"
	}
	return ""
}

// Check returns what is wrong with an order, as an error of code Invalid.
func (o *Unloading) Check() error {
	if why := o.Counting.check(o.Ref.Epoch, budget.MaxAmount); why != "" {
		return budget.Refuse(budget.Invalid, "unload", "%s", why)
	}
	return o.Ref.Check()
}
