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
	// bookPage is how many budgets one statement reads.
	bookPage = 200
	// restFactor is how many times longer the pause after a pass is than the pass, so that passes over
	// very many budgets take a small share of the database.
	restFactor = 20
	// lookPause is the shortest time between two closer looks at one budget that does not add up.
	lookPause = 30 * time.Second
)

// Pass processes the books of all budgets. Its methods are called from one goroutine.
type Pass interface {
	// Begin is called before the first page of a pass, End after the last one.
	Begin()
	End()
	// Page processes the next budgets, by id. Its error is logged.
	Page(ctx context.Context, books []bucket.Book) error
}

// Books compares the columns of all budgets with each other, page by page, and reports figures to
// the observer. Only one goroutine may use it.
type Books struct {
	*Service
	// Interval is how often RunOnce is called. RunOnce works for half of it.
	Interval time.Duration
	// Shown is how many budgets the metrics show.
	Shown int
	// Passes process what was read.
	Passes []Pass

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
func (b *Books) RunOnce(ctx context.Context) error {
	began := b.clock.Now()
	if !b.under {
		if began.Before(b.next) {
			return nil
		}
		b.begin()
	}
	defer func() { b.took += b.clock.Now().Sub(began) }()
	for ctx.Err() == nil {
		books, err := b.read(ctx, b.after, bookPage)
		if err != nil {
			return err
		}
		for i := range books {
			b.add(&books[i])
			if checkBook(&books[i]) != nil {
				b.lookInto(ctx, books[i].ID)
			}
		}
		for _, p := range b.Passes {
			if e := p.Page(ctx, books); e != nil {
				err = b.failed(e)
			}
		}
		if len(books) < bookPage {
			b.took += b.clock.Now().Sub(began)
			return b.end(ctx, err)
		}
		b.after = books[len(books)-1].ID
		if err != nil || b.clock.Now().Sub(began) > b.Interval/2 {
			return err
		}
	}
	return ctx.Err()
}

func (b *Books) read(ctx context.Context, after int64, limit int) ([]bucket.Book, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	books, err := b.Service.Books(ctx, after, limit)
	if err != nil {
		return nil, b.failed(err)
	}
	return books, nil
}

func (b *Books) begin() {
	b.under, b.after, b.took = true, 0, 0
	b.largest, b.all, b.atRisk, b.halted, b.haltedUnits = nil, bucket.BudgetFigures{}, 0, 0, 0
	for _, p := range b.Passes {
		p.Begin()
	}
}

// end reports the result of the pass to the observer. err is the error of its last page.
func (b *Books) end(ctx context.Context, err error) error {
	for _, p := range b.Passes {
		p.End()
	}
	b.under = false
	b.next = b.clock.Now().Add(restFactor * b.took)
	b.show()
	b.observer.Budgets(b.largest, b.all)
	b.observer.Books(b.findings.sums(b.clock.Now()))
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

// checkBook returns the discrepancies in the columns of a budget.
func checkBook(b *bucket.Book) []ledger.Discrepancy {
	if b.Unlimited {
		return nil
	}
	return ledger.CheckBudget(b.Figures, b.Adjusted, b.Shrinks)
}

// add adds a budget to the metrics, which keep the largest ones. Of an unlimited budget they have
// only what was used and held.
func (b *Books) add(book *bucket.Book) {
	f := book.Figures
	if book.Unlimited {
		f = ledger.Figures{Held: min(f.Held, budget.MaxAmount), Used: min(f.Used, budget.MaxAmount),
			Online: f.Online, Offline: f.Offline, Period: f.Period}
	}
	shown := bucket.BudgetFigures{Tenant: book.Tenant, Name: book.Name, Figures: f,
		Remaining: book.Remaining(b.clock.Now())}
	b.all.Figures = b.all.Figures.Plus(f)
	b.all.Remaining += shown.Remaining
	b.halted += book.Halted
	b.haltedUnits += book.HaltedUnits
	if book.Durability == budget.Store {
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
func (b *Books) show() {
	slices.SortStableFunc(b.largest, func(x, y bucket.BudgetFigures) int {
		return int(max(min(y.Figures.Total-x.Figures.Total, 1), -1))
	})
	b.largest = b.largest[:min(len(b.largest), b.Shown)]
}

// lookInto reads a budget again whose columns did not add up, and then all of its rows, to find the
// bucket that explains the discrepancy.
func (b *Books) lookInto(ctx context.Context, id int64) {
	now := b.clock.Now()
	if now.Before(b.lookups[id]) {
		return
	}
	wrong, err := again(func() ([]ledger.Discrepancy, error) {
		books, err := b.read(ctx, id-1, 1)
		if err != nil || len(books) == 0 || books[0].ID != id {
			return nil, err
		}
		return checkBook(&books[0]), nil
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
