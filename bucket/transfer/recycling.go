package transfer

import (
	"context"
	"maps"
	"slices"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// demand returns the queries of what buckets used recently, according to the feed, which the
// flights have written anyway. Buckets without entries are left out.
func demand(b *bucket.Budget) (out []bookkeeper.Query) {
	var fed []bookkeeper.Fed
	for i := range b.Buckets {
		if e := &b.Buckets[i].Epoch; e.NextEntry > 1 {
			fed = append(fed, bookkeeper.Fed{Bucket: e.Bucket, NextEntry: e.NextEntry})
		}
	}
	if len(fed) > 0 {
		out = append(out, bookkeeper.Demand(fed))
	}
	return out
}

// Layout reads how a budget's units are spread, without locks. A budget is passed to it, as to
// Recycle, as this node knows it: where its feeds end bounds what is read of them.
func (l *Ledger) Layout(ctx context.Context, known *bucket.Budget) (out Layout, err error) {
	load := append(demand(known), bookkeeper.Unlocked(known.ID)...)
	err = bookkeeper.LookAt(ctx, l.db, "layout", load, func(b *books.Books) error {
		u := b.Budgets.Get(known.ID)
		if u == nil {
			return bookkeeper.NoBudget("layout", known.ID)
		}
		l := b.Layout(u)
		out = Layout{Status: u.Definition().StatusAt(engine.FromMS(b.NowMS)), Units: l.Units,
			Least: l.Least, Holdings: l.Holdings, Outgrown: l.Outgrown}
		return nil
	})
	return out, err
}

// recycling returns the queries of a step of a recycle, and what tells its decision how far the
// recycle has come.
func recycling(known *bucket.Budget, want *Recycling) ([]bookkeeper.Query,
	func(b *books.Books)) {
	load := bookkeeper.WholeBudget(known.ID)
	if !known.InStoreMode() {
		load = append(demand(known), load...)
	}
	if !want.Since.IsZero() {
		load = append(load, bookkeeper.RunSince(known.ID, books.Word(want.Cause),
			engine.ToMS(want.Since)))
	}
	return load, func(b *books.Books) {
		if !known.InStoreMode() {
			return
		}
		b.Away, b.Used = want.Away, map[int64]books.Used{}
		for id, units := range want.Lately {
			b.Used[id] = books.Used{Units: units, Largest: want.Largest,
				SinceMS: b.NowMS - allocation.LatelyMemory.Milliseconds()}
		}
	}
}

// Collect is one step of a recycle in store mode before the last one: it sets epochs to closing, as
// books.CloseAbove does. It may be repeated. Error: BudgetExpired if no period is open.
func (l *Ledger) Collect(ctx context.Context, known *bucket.Budget, want Recycling) (
	out Collected, err error) {
	load, tell := recycling(known, &want)
	rolled, err := bookkeeper.Whole(ctx, l.db, "recycle", known.ID, load,
		func(b *books.Books, u *books.Budget) error {
			out = Collected{At: engine.FromMS(b.NowMS)}
			if found := b.Runs.All(); len(found) > 0 {
				run := recycleOf(found[0])
				out.Found = &run
				return nil
			}
			tell(b)
			l, closing, err := b.CloseAbove(u, want.Done)
			out.Before = bucket.Spread{Units: l.Units, Stranded: l.Stranded()}
			out.Closing = closing
			return err
		}, nil)
	if err != nil {
		return Collected{}, err
	}
	if out.Waits = len(rolled.Closing) > 0; out.Waits {
		out = Collected{Waits: true}
	}
	out.Tell = slices.Concat(rolled.Closing, rolled.Granted, slices.Collect(maps.Keys(out.Closing)))
	return out, nil
}

// Recycle brings every bucket of a budget to its share of all units by recent demand, as
// books.Recycle does, and returns its report and the budget as it is then. If there is a recycle
// since want.Since, nothing changes in ledger mode. In store mode it is the last step: it hands out
// what the others collected, also if there is one. It recognises an attempt with an unknown commit
// by the number of its run. Error: BudgetExpired if no period is open.
func (l *Ledger) Recycle(ctx context.Context, known *bucket.Budget, want Recycling) (
	after bucket.Budget, out Recycled, err error) {
	tried := int64(0) // the run of an earlier attempt, committed or not
	load, tell := recycling(known, &want)
	load = append(load, bookkeeper.TriedRun(known.ID, &tried))
	var before *books.Collected
	if known.InStoreMode() && !want.BeganAt.IsZero() {
		before = &books.Collected{Units: want.Before.Units, Stranded: want.Before.Stranded,
			Moved: want.Moved, BeganMS: engine.ToMS(want.BeganAt)}
	}
	read := reading(known.ID)
	rolled, err := bookkeeper.Whole(ctx, l.db, "recycle", known.ID, load,
		func(b *books.Books, u *books.Budget) error {
			tell(b)
			if found := b.Runs.All(); len(found) > 0 {
				out.Run, out.Began = recycleOf(found[0]), found[0].Number == tried
				if !known.InStoreMode() || out.Began {
					return nil
				}
				_, _, err := b.ShareOut(u) // of what this one collected
				return err
			}
			made, err := b.Recycle(u, books.Word(want.Cause), before)
			if err != nil {
				return err
			}
			out.Run, out.Began, tried = recycleOf(made), true, made.Number
			return nil
		}, read.Queries)
	out.RolledOver, out.Closing = rolledOver(rolled), rolled.Closing
	if err != nil {
		return after, Recycled{RolledOver: out.RolledOver}, err
	}
	after, err = read.Budget("recycle")
	return after, out, err
}

// recycleOf returns the report of a row.
func recycleOf(r *books.Run) bucket.Recycle {
	return bucket.Recycle{
		Budget: r.Budget, Number: r.Number, Cause: bucket.RecycleCause(r.Cause),
		Buckets: int(r.Buckets), Skipped: int(r.Skipped), Moved: r.Moved,
		Before:  bucket.Spread{Units: r.UnitsBefore, Stranded: r.StrandedBefore},
		After:   bucket.Spread{Units: r.UnitsAfter, Stranded: r.StrandedAfter},
		BeganAt: engine.FromMS(r.BeganAt), EndedAt: engine.FromMS(r.EndedAt),
	}
}

// RecycleHistory reads a budget's recycles with numbers below before, the newest first. If before
// is 0, it starts at the newest.
func (l *Ledger) RecycleHistory(ctx context.Context, budgetID, before int64, limit int) (
	out []bucket.Recycle, err error) {
	if before <= 0 {
		before = 1 << 62
	}
	err = bookkeeper.LookAt(ctx, l.db, "recycles",
		[]bookkeeper.Query{bookkeeper.Runs(budgetID, before, limit)}, func(b *books.Books) error {
			out = make([]bucket.Recycle, 0, limit)
			for _, row := range b.Runs.All() {
				out = append(out, recycleOf(row))
			}
			return nil
		})
	return out, err
}
