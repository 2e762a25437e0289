package audit

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

const (
	// snapshotPage is how many budgets one statement reads.
	snapshotPage = 200
	// restFactor is how many times longer the pause after a pass is than the pass, so that passes over
	// very many budgets take a small share of the database.
	restFactor = 20
	// lookPause is the shortest time between two closer looks at one budget that does not add up.
	lookPause = 30 * time.Second
)

// Visitor processes the snapshots of all budgets. Its methods are called from one goroutine.
type Visitor interface {
	// Begin is called before the first page of a pass, End after the last one.
	Begin()
	End()
	// Page processes the next budgets, by id. Its error is logged.
	Page(ctx context.Context, snapshots []bucket.Snapshot) error
}

// Snapshots compares the columns of all budgets with each other, page by page, and reports figures
// to the observer. Only one goroutine may use it.
type Snapshots struct {
	*Service
	// Interval is how often RunOnce is called. RunOnce works for half of it.
	Interval time.Duration
	// Shown is how many budgets the metrics show.
	Shown int
	// Visitors process what was read.
	Visitors []Visitor

	after   int64
	under   bool // a pass is under way
	took    time.Duration
	next    time.Time
	lookups map[int64]time.Time // when a budget may be looked at more closely again

	largest     []bucket.BudgetFigures
	all         bucket.BudgetFigures
	atRisk      int64
	halted      int
	haltedUnits int64
}

// RunOnce continues the pass over all budgets, or begins one. Error: Unavailable; the next run
// continues there.
func (b *Snapshots) RunOnce(ctx context.Context) error {
	began := b.clock.Now()
	if !b.under {
		if began.Before(b.next) {
			return nil
		}
		b.begin()
	}
	defer func() { b.took += b.clock.Now().Sub(began) }()
	for ctx.Err() == nil {
		snapshots, err := b.read(ctx, b.after, snapshotPage)
		if err != nil {
			return err
		}
		for i := range snapshots {
			b.add(&snapshots[i])
			if checkSnapshot(&snapshots[i]) != nil {
				b.lookInto(ctx, snapshots[i].ID)
			}
		}
		for _, p := range b.Visitors {
			if e := p.Page(ctx, snapshots); e != nil {
				err = b.failed(e)
			}
		}
		if len(snapshots) < snapshotPage {
			b.took += b.clock.Now().Sub(began)
			return b.end(ctx, err)
		}
		b.after = snapshots[len(snapshots)-1].ID
		if err != nil || b.clock.Now().Sub(began) > b.Interval/2 {
			return err
		}
	}
	return ctx.Err()
}

func (b *Snapshots) read(ctx context.Context, after int64, limit int) ([]bucket.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	snapshots, err := b.Service.Snapshots(ctx, after, limit)
	if err != nil {
		return nil, b.failed(err)
	}
	return snapshots, nil
}

func (b *Snapshots) begin() {
	b.under, b.after, b.took = true, 0, 0
	b.largest, b.all, b.atRisk, b.halted, b.haltedUnits = nil, bucket.BudgetFigures{}, 0, 0, 0
	for _, p := range b.Visitors {
		p.Begin()
	}
}

// end reports the result of the pass to the observer. err is the error of its last page.
func (b *Snapshots) end(ctx context.Context, err error) error {
	for _, p := range b.Visitors {
		p.End()
	}
	b.under = false
	b.next = b.clock.Now().Add(restFactor * b.took)
	b.show()
	b.observer.Budgets(b.largest, b.all)
	b.observer.Discrepancies(b.findings.sums(b.clock.Now()))
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	u, e := b.Service.unfinished(ctx, b.unreachable())
	if e != nil {
		return b.failed(e)
	}
	b.observer.Unfinished("epochs", u.Epochs)
	b.observer.Unfinished("grants", u.Grants)
	b.observer.Unfinished("shrinks", u.Shrinks)
	b.observer.Unfinished("returning", u.Returning)
	b.observer.Unfinished("halted", b.halted)
	b.observer.Stranded(b.haltedUnits+u.OnPartitions, b.recyclable.Load(), b.atRisk)
	return err
}

// checkSnapshot returns the discrepancies in the columns of a budget.
func checkSnapshot(b *bucket.Snapshot) []ledger.Discrepancy {
	if b.Unlimited {
		return nil
	}
	return ledger.CheckBudget(b.Figures, b.Adjusted, b.Shrinks)
}

// add adds a budget to the metrics, which keep the largest ones. Of an unlimited budget they have
// only what was used and held.
func (b *Snapshots) add(snapshot *bucket.Snapshot) {
	f := snapshot.Figures
	if snapshot.Unlimited {
		f = ledger.Figures{Held: min(f.Held, budget.MaxAmount), Used: min(f.Used, budget.MaxAmount),
			Online: f.Online, Offline: f.Offline, Period: f.Period}
	}
	shown := bucket.BudgetFigures{Tenant: snapshot.Tenant, Name: snapshot.Name, Figures: f,
		Remaining: snapshot.Remaining(b.clock.Now())}
	own := f // without what its children count
	own.Total, own.Allocated = f.Total-f.Allocated, 0
	b.all.Figures = b.all.Figures.Plus(own)
	b.all.Remaining += shown.Remaining
	b.halted += snapshot.Halted
	b.haltedUnits += snapshot.HaltedUnits
	if snapshot.Durability == budget.Store {
		b.atRisk += f.InBuckets + f.Unsettled
	}
	if b.Shown == 0 {
		return
	}
	b.largest = append(b.largest, shown)
	if len(b.largest) >= 2*b.Shown {
		b.show()
	}
}

// show keeps the budgets with the largest totals.
func (b *Snapshots) show() {
	slices.SortStableFunc(b.largest, func(x, y bucket.BudgetFigures) int {
		return int(max(min(y.Figures.Total-x.Figures.Total, 1), -1))
	})
	b.largest = b.largest[:min(len(b.largest), b.Shown)]
}

// lookInto reads a budget again whose columns did not add up, and then all of its rows, to find the
// bucket that explains the discrepancy.
func (b *Snapshots) lookInto(ctx context.Context, id int64) {
	now := b.clock.Now()
	if now.Before(b.lookups[id]) {
		return
	}
	wrong, err := again(func() ([]ledger.Discrepancy, error) {
		snapshots, err := b.read(ctx, id-1, 1)
		if err != nil || len(snapshots) == 0 || snapshots[0].ID != id {
			return nil, err
		}
		return checkSnapshot(&snapshots[0]), nil
	})
	if err != nil || len(wrong) == 0 {
		return
	}
	if b.lookups == nil || len(b.lookups) >= maxFindings {
		b.lookups = map[int64]time.Time{}
	}
	b.lookups[id] = now.Add(lookPause)
	a, found, err := b.look(ctx, id)
	if err != nil {
		_ = b.failed(err)
		return
	}
	b.act(ctx, &a, found)
}
