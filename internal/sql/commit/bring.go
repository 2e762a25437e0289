package commit

import (
	"context"
	"errors"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

// Bring commits operations that wait because their own buckets lack units: all those of a budget in
// one bucket, the fullest that is online, into which it brings what they need, in one transaction
// for all budgets of the operations. See books.Bring, also for the end of a budget; recent is what
// a usual deduction of each budget takes. Under its locks it sees everything that the open periods
// may get, so an operation that does not fit is Exhausted (I3), and nothing moves for it, nor for
// the other legs of its set. An operation is Short if units that may cover it are halted or cannot
// be applied for. The operations of a budget are Over if a rollover is due, and Gone if no bucket
// may be brought online, or the budget does not exist. The outcomes of accepted operations name the
// bucket.
//
// A repetition is harmless, as with Commit. Errors: Unavailable, OutcomeUnknown, Internal. Keeps
// I1, I2, I3, I4, I6, I7.
func (d *Decider) Bring(ctx context.Context, recent map[int64]int64, ops []bucket.Operation) (
	[]bucket.Outcome, error) {
	out := make([]bucket.Outcome, len(ops))
	for i, f := range split(ops, out) {
		if err := d.bring(ctx, f, recent); err != nil {
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
	decider *Decider
	recent  map[int64]int64
	looked  *books.Books // the attempt that knows what descendants have left
	targets []target
}

// target is the bucket that serves the operations of a budget.
type target struct {
	budget *books.Budget
	bucket *books.Bucket
	state  *bucketState
}

func (d *Decider) bring(ctx context.Context, f *flight, recent map[int64]int64) error {
	return d.sure(ctx, false, func(bool) error {
		g := &bringing{decider: d, recent: recent}
		g.flight, g.server = f, d.db.TakesPackets()
		ids := f.budgets()
		g.whole = append(bookkeeper.WholeBudget(ids...), bookkeeper.Applied(ids...),
			bookkeeper.LookAgain(&g.failed, ids...))
		err := bookkeeper.DoAnd(ctx, d.db, "bring", g.decide, g.write)
		if errors.Is(err, errNothing) {
			return nil
		}
		return err
	})
}

// budgets returns the budgets of the operations, sorted and without duplicates.
func (f *flight) budgets() []int64 {
	out := make([]int64, len(f.ops))
	for i := range f.ops {
		out[i] = f.ops[i].Budget.ID
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (g *bringing) decide(m *engine.Move, b *books.Books) (more []bookkeeper.Query, err error) {
	if more, err = g.load(m, b); more != nil || err != nil {
		return more, err
	}
	short := g.shortParents(b)
	if short != nil && g.looked != b {
		g.looked = b
		return bookkeeper.Ended(short...), nil
	}
	if err := b.UnsettledOf(short); err != nil {
		return nil, err
	}
	g.epochs, g.refused, g.targets = map[int64]*bucketState{}, map[int64]bucket.Verdict{}, nil
	g.available = map[int64]*ledger.Availability{}
	for _, id := range g.budgets() {
		if v := g.aim(b, id); v != 0 {
			g.refused[id] = v
		}
	}
	g.judgeAll()
	for _, t := range g.targets {
		g.decider.hints.Add(t.bucket.ID, hint{t.state.epoch.Number, b.Newest(t.bucket).Outstanding})
	}
	if g.accepted == 0 {
		return nil, errNothing
	}
	for _, t := range g.targets {
		if s := t.state; s.entries > 0 && !s.unlimited {
			b.Bring(t.budget, t.bucket, s.used+s.held, g.recent[t.budget.ID])
			s.left = b.Newest(t.bucket).Outstanding - s.used - s.held
		}
	}
	g.takeUnits(b)
	g.remaining()
	g.remember(b)
	for i := range g.out {
		if g.out[i].Verdict == bucket.Accepted {
			id := g.ops[i].Budget.ID
			g.out[i].Availability, g.out[i].Alone = *g.available[id], b.Alone(b.Budgets.Get(id))
		}
	}
	return nil, nil
}

// shortParents returns the budgets with children that have less than the operations ask for.
func (g *bringing) shortParents(b *books.Books) (list []int64) {
	for _, id := range g.budgets() {
		u := b.Budgets.Get(id)
		if u == nil || u.Allocated == 0 {
			continue
		}
		asked := int64(0)
		for i := range g.ops {
			if g.ops[i].Budget.ID == id {
				asked = limit.Plus(asked, max(g.ops[i].Request.Amount, g.ops[i].Sources.Amount))
			}
		}
		if c := b.Availability(u); asked > c.Sum()-c.Descendants {
			list = append(list, id)
		}
	}
	return list
}

// aim finds the bucket that serves the operations of a budget, with all that it can have. It
// returns 0, or the verdict of these operations if no bucket can serve them.
func (g *bringing) aim(b *books.Books, id int64) bucket.Verdict {
	u := b.Budgets.Get(id)
	switch {
	case u == nil:
		return bucket.Gone
	case b.Due(u):
		return bucket.Over
	}
	available := b.Availability(u)
	row := b.Serving(u)
	if row == nil {
		return bucket.Gone
	}
	b.Sweep(u)
	s := &bucketState{epoch: *b.Newest(row), nowMS: b.ClockMS, unlimited: u.Unlimited == 1}
	s.left = b.Reach(u, row)
	g.available[id] = &available
	g.epochs[row.ID] = s
	g.targets = append(g.targets, target{u, row, s})
	for i := range g.ops {
		if g.ops[i].Budget.ID == id {
			g.ops[i].Bucket = row.ID
		}
	}
	return 0
}

// errNothing means that a movement changes nothing.
var errNothing = &budget.Error{Code: budget.Internal, Message: "nothing to commit"}

// remember remembers what all buckets of the budgets have now.
func (g *bringing) remember(b *books.Books) {
	for _, row := range b.Buckets.All() {
		if e := b.Newest(row); e.MayGrow() {
			g.decider.hints.Add(row.ID, hint{e.Number, e.Outstanding})
		} else {
			g.decider.hints.Remove(row.ID)
		}
	}
}
