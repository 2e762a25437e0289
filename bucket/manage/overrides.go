package manage

import (
	"context"
	"encoding/json"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/limit/overrides"
)

// Override sets and removes overrides of a limit, and returns those that were set and how many the
// limit has. The others and all counters stay as they are. What is as asked already is left alone,
// so a call may be repeated. It applies to every call that follows on this node, and on the others
// within a second (I8).
//
// Errors: BudgetNotFound; Invalid for a limit that the budget does not have, values that do not fit
// its dimension, or too many overrides; Unavailable; OutcomeUnknown.
func (s *Service) Override(ctx context.Context, r bucket.OverrideRequest) (
	out bucket.Overrides, err error) {
	b, err := s.Budgets.Find(ctx, r.Budget)
	if err != nil {
		return out, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	_, err = s.Budgets.Learn(func() (after bucket.Budget, err error) {
		if out, err = s.Ledger.Override(step, b.ID, r); err == nil {
			after, err = s.Ledger.Budget(step, bucket.BudgetRef{ID: b.ID})
			err = afterWrite("override", err)
		}
		return after, err
	})
	if err == nil {
		s.deliver(step, b)
	}
	return out, err
}

// Overrides reads a page of the overrides of a limit in the order of their keys, or that of one
// value. Errors: BudgetNotFound; Invalid for a limit that the budget does not have or a value that
// does not fit its dimension; Unavailable.
func (s *Service) Overrides(ctx context.Context, r bucket.OverridesRequest) (
	bucket.Overrides, error) {
	return s.Ledger.Overrides(ctx, r)
}

// Override is one transaction: see Service.Override.
func (l *Ledger) Override(ctx context.Context, id int64, r bucket.OverrideRequest) (
	out bucket.Overrides, err error) {
	o := overriding{id: id, request: r}
	err = bookkeeper.DoAnd(ctx, l.db, "override",
		func(_ *engine.Move, b *books.Books) ([]bookkeeper.Query, error) {
			return o.decide(ctx, b)
		}, o.forget)
	return o.out, err
}

// overriding is a change of overrides.
type overriding struct {
	id      int64
	request bucket.OverrideRequest
	loaded  *books.Books
	set     []books.Override
	remove  []string
	out     bucket.Overrides
	// version is the budget's overrides version if something was removed in store mode, else 0.
	version int64
}

// decide loads the budget, then the overrides of the values, and changes them.
func (o *overriding) decide(ctx context.Context, b *books.Books) ([]bookkeeper.Query, error) {
	if o.loaded != b {
		o.loaded, o.set, o.version = b, nil, 0
		return []bookkeeper.Query{bookkeeper.LockBudgets(o.id), bookkeeper.Limits(o.id)}, nil
	}
	u := b.Budgets.Get(o.id)
	if u == nil {
		return nil, budget.Refuse(budget.BudgetNotFound, "override", "there is no budget %d", o.id)
	}
	row := b.Limits.Get([2]any{o.id, o.request.Limit})
	if row == nil {
		return nil, noLimit("override")
	}
	l, err := limit.Decode([]byte(row.Definition))
	if err != nil {
		return nil, engine.Defect("a limit of budget %d cannot be read: %v", o.id, err)
	}
	if o.set == nil {
		if err := o.rows(&l); err != nil || row.Series > 0 {
			return o.queries(row.Series), err
		}
	}
	before := o.recorded(b, row.Series, &l)
	if b.Override(u, row, o.set, o.remove) && len(o.remove) > 0 {
		o.version = u.OverridesVersion
	}
	if err := checkTotal(b); err != nil {
		return nil, err
	}
	after := o.recorded(b, row.Series, &l)
	o.out = bucket.Overrides{List: after, Count: row.Overrides}
	auditlog.FromContext(ctx).Change(u.Tenant, u.Name, textOf(l.Name, before), textOf(l.Name, after))
	return nil, nil
}

// rows sets the rows of the request.
func (o *overriding) rows(l *budget.Limit) error {
	faults := limit.CheckOverrides(o.request.Set, l.Dimension)
	o.set, o.remove = []books.Override{}, nil
	for _, one := range o.request.Set {
		if row, ok := books.NewOverride(o.id, one, l.Dimensions()); ok {
			o.set = append(o.set, row)
		}
	}
	if o.request.Remove != nil {
		row, ok := books.NewOverride(o.id, budget.Override{Values: o.request.Remove}, l.Dimensions())
		if !ok {
			faults = append(faults, badValue(l))
		}
		o.remove = []string{row.Value}
	}
	if len(faults) > 0 {
		return &budget.Error{Code: budget.Invalid, Op: "override", Fields: faults,
			Message: "the overrides have faults"}
	}
	return nil
}

// values lists the keys that the request names.
func (o *overriding) values() []string {
	out := make([]string, 0, len(o.set)+len(o.remove))
	for i := range o.set {
		out = append(out, o.set[i].Value)
	}
	return append(out, o.remove...)
}

func (o *overriding) queries(series int64) []bookkeeper.Query {
	var ids []books.OverrideID
	for _, value := range o.values() {
		ids = append(ids, books.OverrideID{Budget: o.id, Series: series, Value: value})
	}
	return bookkeeper.Overrides(ids)
}

// recorded returns what the books have of the values that the request names.
func (o *overriding) recorded(b *books.Books, series int64, l *budget.Limit) []budget.Override {
	out := []budget.Override{}
	for _, value := range o.values() {
		row := b.Overrides.Get(books.OverrideID{Budget: o.id, Series: series, Value: value})
		if row != nil {
			out = append(out, overrideOf(row, l))
		}
	}
	return out
}

const forgetRemoved = `DELETE FROM limit_override_removed WHERE budget_id = ? AND version <= ?`

// forget removes what nodes need not know any more of former removals.
func (o *overriding) forget(m *engine.Move) error {
	if o.version <= overrides.KeptRemovals {
		return nil
	}
	s := m.Statement()
	s.Fill(forgetRemoved, func(at int) {
		s.Number([]int64{o.id, o.version - overrides.KeptRemovals}[at])
	})
	m.Save(s)
	return nil
}

// checkTotal returns Invalid if a budget's limits, all loaded, have too many overrides.
func checkTotal(b *books.Books) error {
	limits := &budget.Limits{}
	for _, row := range b.Limits.All() {
		limits.List = append(limits.List, budget.Limit{OverrideCount: row.Overrides})
	}
	if faults := limit.CheckCount(limits); len(faults) > 0 {
		return &budget.Error{Code: budget.Invalid, Op: "override", Fields: faults,
			Message: "the limits have too many overrides"}
	}
	return nil
}

func noLimit(op string) error {
	return &budget.Error{Code: budget.Invalid, Op: op, Message: "the budget has no such limit",
		Fields: []budget.FieldError{{Field: "name",
			Message: "must be the name of a limit of the budget"}}}
}

func badValue(l *budget.Limit) budget.FieldError {
	return budget.FieldError{Field: "value",
		Message: "must be given once for each dimension of " + l.Dimension + ", with 1 to 256 bytes"}
}

// overrideOf returns the override of a row of a limit.
func overrideOf(row *books.Override, l *budget.Limit) budget.Override {
	out := budget.Override{Max: row.Max, Exempt: row.Exempt == 1}
	long := ""
	if row.Long != nil {
		long = *row.Long
	}
	limit.SetValue(&out, l.Dimensions(), row.Value, long)
	return out
}

// textOf returns what the audit log has of overrides of a limit.
func textOf(name string, list []budget.Override) []byte {
	text, _ := json.Marshal(map[string]any{"limit": name, "overrides": list}) // it always can
	return text
}
