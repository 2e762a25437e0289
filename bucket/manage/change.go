package manage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

// Change changes a definition and raises its version, in one transaction of two round trips: see
// books.Change. Under the locks of all live epochs it also raises their definition version and
// changes their end, so that every later commit obeys the new definition (I8). BucketQuantity also
// changes the number of buckets in ledger mode.
//
// Errors: BudgetNotFound; VersionConflict; Invalid; BudgetNotOver; NameTaken; LedgerModeOnly for
// another number of buckets in store mode; Unavailable; OutcomeUnknown. Keeps I1.
func (l *Ledger) Change(ctx context.Context, id int64, change bucket.Change) (
	out Changed, err error) {
	c := changing{id: id, change: change}
	if n := change.BucketQuantity; n != nil && *n > 0 && *n <= budget.MaxBuckets {
		if c.first, err = l.db.TakeIDs(ctx, engine.SequenceBucket, *n); err != nil {
			return out, err
		}
	}
	read := viewing{Reading: rows.Reading{Ref: bucket.BudgetRef{ID: id}}}
	decide := func(b *books.Books) (_ []bookkeeper.Query, err error) {
		out.IsDue, err = c.decide(ctx, b)
		return nil, err
	}
	err = bookkeeper.DoAndLook(ctx, l.db, "change", c.load(), decide, read.Queries)
	const most = 4 // its parent is found once, and others may change what it charges meanwhile
	for n := 1; n < most && errors.Is(err, errIsChild); n++ {
		err = bookkeeper.DoAndLook(ctx, l.db, "change", c.load(), decide, read.Queries)
	}
	if err == nil {
		out.Budget, out.View, err = read.view("change", l.db.Now())
	}
	if err != nil {
		return Changed{}, err
	}
	return out, nil
}

// changing is a change of a definition.
type changing struct {
	id     int64
	change bucket.Change
	first  int64             // the id of the first of the buckets that it may add
	held   int64             // units in open holds; loaded if the budget is to be archived
	listed int64             // its children that are not archived; loaded as held is
	parent int64             // once it is known; 0 for none
	was    []int64           // what it charged, once that is known, if the change has other budgets
	ends   int64             // when the last child ends, in ms; 0 without children
	tried  budget.Definition // what an earlier attempt wrote, committed or not
}

// load is what a change loads: the budget with its limits and epochs, its parent, the ends of its
// children, the budget that has a new name, and what is held of a budget to be archived.
func (c *changing) load() (load []bookkeeper.Query) {
	charged := c.was
	if c.change.AlsoCharges != nil {
		charged = slices.Concat(c.was, c.change.AlsoCharges.IDs)
	}
	if len(charged) > 0 {
		load = append(load, lockCharged(charged, c.parent, c.id)...)
	} else if c.parent != 0 {
		load = append(load, bookkeeper.LockBudgets(min(c.parent, c.id), max(c.parent, c.id)))
	}
	load = append(load, bookkeeper.WholeBudget(c.id)...)
	load = append(load, bookkeeper.Limits(c.id), bookkeeper.Sum(latestEnd, c.id, &c.ends))
	if c.change.Name != nil {
		load = append(load, bookkeeper.Beside(c.id, *c.change.Name))
	}
	if c.change.Archived != nil && *c.change.Archived {
		load = append(load, bookkeeper.Sum(`SELECT `+rows.Sum("e.held_quantity")+` AS units
			FROM bucket_epoch e /*by bucket_epoch_units*/ WHERE e.budget_id = ?`, c.id, &c.held),
			bookkeeper.Sum(countListed, c.id, &c.listed))
	}
	return load
}

// decide changes the budget, and reports whether a rollover is due afterwards.
func (c *changing) decide(ctx context.Context, b *books.Books) (isDue bool, err error) {
	u := b.Budgets.Get(c.id)
	if u == nil {
		return false, budget.Refuse(budget.BudgetNotFound, "change", "there is no budget %d", c.id)
	}
	before, err := b.DefinitionOf(u)
	if err != nil {
		return false, err
	}
	charges := c.change.AlsoCharges != nil
	if c.parent != u.Parent || charges && !slices.Equal(c.was, before.AlsoCharges.IDs) {
		c.parent = u.Parent
		if charges {
			c.was = before.AlsoCharges.IDs
		}
		return false, errIsChild
	}
	if b.Unsure && c.tried.ID != 0 && sameChange(before, c.tried) {
		return b.Due(u), nil
	}
	after, err := judge(before, c.change, engine.FromMS(b.NowMS))
	if err == nil {
		err = c.free(b, before, after)
	}
	if err == nil {
		err = c.fits(b.Budgets.Get(c.parent), before, after, engine.FromMS(b.NowMS))
	}
	if err == nil {
		err = mayBe(u, before, after)
	}
	if err == nil && charges {
		err = b.Charge(u, before.AlsoCharges.IDs, after.AlsoCharges)
	}
	if err == nil {
		err = attest(ctx, before, after)
	}
	if err != nil {
		return false, err
	}
	c.tried = after
	err = b.Change(u, books.Redefinition{Before: before, After: after, Limits: c.change.Limits != nil,
		FirstBucket: c.first,
		KeyOf:       func(ordinal int) string { return bucket.KeyOf(after.Name, ordinal) }})
	return b.Due(u), err
}

// free refuses a new name that another budget has, and an archival while units are held, or before
// that of the children.
func (c *changing) free(b *books.Books, before, after budget.Definition) error {
	for _, other := range b.Budgets.All() {
		if other.ID != c.id && other.Name == after.Name {
			return budget.Refuse(budget.NameTaken, "change", "the tenant has another budget %q",
				after.Name)
		}
	}
	if after.Archived && !before.Archived && c.held > 0 {
		return budget.Refuse(budget.BudgetNotOver, "change",
			"budget %s has %d units in open holds: confirm them, roll them back or let them expire first",
			before.Name, c.held)
	}
	if after.Archived && !before.Archived && c.listed > 0 {
		return budget.Refuse(budget.InUse, "change",
			"budget %s has %d children that are not archived: archive them first", before.Name, c.listed)
	}
	return nil
}

// countListed counts the children of a budget that are not archived.
const countListed = countChildren + ` AND c.is_archived = 0`

// attest records a change of a definition for the audit log.
func attest(ctx context.Context, before, after budget.Definition) error {
	entry := auditlog.FromContext(ctx)
	if entry == nil {
		return nil
	}
	was, err := creationOf(before).text()
	if err != nil {
		return err
	}
	is, err := creationOf(after).text()
	entry.Change(before.Tenant, before.Name, []byte(was), []byte(is))
	return err
}

// judge returns the definition after a change.
func judge(before budget.Definition, change bucket.Change, now time.Time) (
	after budget.Definition, err error) {
	if change.IfVersion != 0 && change.IfVersion != before.Version {
		return after, budget.Refuse(budget.VersionConflict, "change",
			"budget %q is at version %d, not %d", before.Name, before.Version, change.IfVersion)
	}
	after = change.Of(before)
	if change.BucketQuantity != nil {
		after.BucketQuantity = *change.BucketQuantity
	}
	if limit.UnknownZone("change", before) != nil { // and after, unless the change gives others
		if e := limit.UnknownZone("change", after); e != nil {
			return after, e
		}
	}
	faults := append(allocation.CheckDefinition(after), limit.CheckDefinition(after)...)
	if change.StartAt != nil && !before.StartAt.After(now) {
		faults = append(faults, budget.FieldError{Field: "start_at",
			Message: "can be corrected only before the budget begins"})
	}
	if change.EndAt != nil && !change.AllowPast {
		faults = append(faults, budget.CheckEnd(after.EndAt, now)...)
	}
	if len(faults) > 0 {
		return after, &budget.Error{Code: budget.Invalid, Op: "change", Fields: faults}
	}
	if before.Durability == budget.Store && after.BucketQuantity != before.BucketQuantity {
		return after, budget.Refuse(budget.LedgerModeOnly, "change",
			"the number of buckets of budget %q is fixed: it is in store mode", before.Name)
	}
	if change.Limits != nil {
		after.Limits = limit.Change(limit.Zoned(before), limit.Zoned(after).List, now)
		if faults := limit.CheckCount(after.Limits); len(faults) > 0 {
			return after, &budget.Error{Code: budget.Invalid, Op: "change", Fields: faults}
		}
	}
	if after.Archived && after.StatusAt(now) != budget.Expired {
		return after, budget.Refuse(budget.BudgetNotOver, "change",
			"budget %s is %s: only one whose end has passed can be archived", before.Name,
			after.StatusAt(now))
	}
	after.StartAt = engine.FromMS(engine.ToMS(after.StartAt))
	after.EndAt = engine.FromMS(engine.EndMS(after.EndAt))
	after.Version, after.UpdatedAt = before.Version+1, now
	return after, nil
}

// sameChange reports whether the recorded definition is the one that was tried: same version, same
// values.
func sameChange(recorded, tried budget.Definition) bool {
	return recorded.Version == tried.Version && recorded.UpdatedAt.Equal(tried.UpdatedAt) &&
		recorded.Name == tried.Name && recorded.GLCode == tried.GLCode &&
		recorded.Unit == tried.Unit && recorded.StartAt.Equal(tried.StartAt) &&
		recorded.Archived == tried.Archived &&
		recorded.Paused == tried.Paused && recorded.ShardingQuantity == tried.ShardingQuantity &&
		recorded.AdjustCnt == tried.AdjustCnt && recorded.BucketQuantity == tried.BucketQuantity &&
		recorded.EndAt.Equal(tried.EndAt) && recorded.LateRefund == tried.LateRefund &&
		recorded.Timezone == tried.Timezone &&
		slices.Equal(recorded.AlsoCharges.IDs, tried.AlsoCharges.IDs) &&
		allocation.SameRule(recorded.Rule, tried.Rule) &&
		limit.Same(recorded.Limits, tried.Limits)
}
