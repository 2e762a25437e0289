package commit

import (
	"context"
	"errors"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// Bring commits operations of one budget that wait because their own buckets lack units: all of
// them in one bucket, the fullest that is online, into which it brings what they need, in one
// transaction. See books.Bring, also for the end of a budget; recent is what a usual deduction of
// the budget takes. Under its locks it sees everything that the open period may get, so an
// operation that does not fit is Exhausted (I3), and nothing moves for it. An operation is Short if
// units that may cover it are halted or cannot be applied for. All operations are Over if a
// rollover is due, and Gone if no bucket may be brought online. The outcomes of accepted operations
// name the bucket.
//
// A repetition is harmless, as with Commit. Errors: BudgetNotFound, Unavailable, OutcomeUnknown,
// Internal. Keeps I1, I2, I3, I4, I6, I7.
func (d *Decider) Bring(ctx context.Context, budgetID, recent int64, ops []bucket.Operation) (
	[]bucket.Outcome, error) {
	out := make([]bucket.Outcome, len(ops))
	for i, f := range split(ops, out) {
		if err := d.bring(ctx, f, budgetID, recent); err != nil {
			if i > 0 && budget.Is(err, budget.Unavailable) {
				err = engine.MaybeDone("bring", err)
			}
			return nil, err
		}
		d.rememberHints(f)
	}
	return out, nil
}

// bringing is one transaction of Bring.
type bringing struct {
	locking
	decider        *Decider
	budget, recent int64
}

func (d *Decider) bring(ctx context.Context, f *flight, budgetID, recent int64) error {
	return d.sure(ctx, false, func(bool) error {
		g := &bringing{decider: d, budget: budgetID, recent: recent}
		g.flight, g.server = f, d.db.TakesPackets()
		g.whole = append(bookkeeper.WholeBudget(budgetID), bookkeeper.Applied(budgetID),
			bookkeeper.LookAgain(&g.failed, budgetID))
		err := bookkeeper.DoAnd(ctx, d.db, "bring", g.decide, g.write)
		if errors.Is(err, errNothing) {
			return nil
		}
		return err
	})
}

func (g *bringing) decide(m *engine.Move, b *books.Books) (more []bookkeeper.Query, err error) {
	if more, err = g.load(m, b); more != nil || err != nil {
		return more, err
	}
	u := b.Budgets.Get(g.budget)
	switch {
	case u == nil:
		return nil, budget.Refuse(budget.BudgetNotFound, "bring", "there is no budget %d", g.budget)
	case b.Due(u):
		return nil, g.all(bucket.Over)
	}
	available := b.Availability(u)
	target := b.Serving(u)
	if target == nil {
		return nil, g.all(bucket.Gone)
	}
	g.available = &available
	b.Sweep(u)
	e := b.Newest(target)
	s := &bucketState{epoch: *e, nowMS: b.ClockMS, unlimited: u.Unlimited == 1}
	s.left = b.Reach(u, target)
	for i := range g.ops {
		g.ops[i].Bucket = target.ID
	}
	g.epochs = map[int64]*bucketState{target.ID: s}
	g.judgeAll()
	g.decider.hints.Add(target.ID, hint{e.Number, e.Outstanding})
	if g.accepted == 0 {
		return nil, errNothing
	}
	if !s.unlimited {
		b.Bring(u, target, s.used+s.held, g.recent)
		s.left = e.Outstanding - s.used - s.held
	}
	g.takeUnits(b)
	g.remaining()
	g.remember(b)
	for i := range g.out {
		if g.out[i].Verdict == bucket.Accepted {
			g.out[i].Availability = available
		}
	}
	return nil, nil
}

// errNothing means that a movement changes nothing.
var errNothing = &budget.Error{Code: budget.Internal, Message: "nothing to commit"}

// all gives every operation a verdict.
func (g *bringing) all(v bucket.Verdict) error {
	for i := range g.out {
		g.out[i] = bucket.Outcome{Verdict: v}
	}
	return errNothing
}

// remember remembers what all buckets of the budget have now.
func (g *bringing) remember(b *books.Books) {
	for _, row := range b.Buckets.All() {
		if e := b.Newest(row); e.MayGrow() {
			g.decider.hints.Add(row.ID, hint{e.Number, e.Outstanding})
		} else {
			g.decider.hints.Remove(row.ID)
		}
	}
}
