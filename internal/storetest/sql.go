package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// RunSQL is the conformance suite of bucket.SQL: every method, every documented result and error,
// repetitions, late and stale calls, and races. open returns an empty database whose Now follows
// the clock. Every test ends with the arithmetic of the audit over all budgets it made (I1).
func RunSQL(t *testing.T, open SQLOpener) {
	runSQL(t, open, definitionTests, commitTests, matchTests, judgeTests, returnTests, applyTests, handOutTests,
		endingTests, closingTests, adjustmentTests, laneTests, laneDownTests, choreTests, auditTests, raceTests,
		raceMoveTests, periodTests, feedTests, archiveTests, quarantineTests, sampleTests, recycleTests,
		departureTests, resizeTests, limitTests, limitRaceTests, holdTests)
}

// RunSQLCommits is the part of RunSQL that commits, with limits and without, also side by side.
func RunSQLCommits(t *testing.T, open SQLOpener) {
	runSQL(t, open, commitTests, returnTests, raceTests, periodTests, limitTests, limitRaceTests, holdTests)
}

func runSQL(t *testing.T, open SQLOpener, groups ...[]sqlTest) {
	for _, test := range slices.Concat(groups...) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // a database mostly waits for its disk
			clock := NewSQLClock()
			w := newSQLWorld(t, open(t, clock.Now), clock)
			test.run(w)
			w.audit()
		})
	}
}

type sqlTest struct {
	name string
	run  func(w *sqlWorld)
}

// SQLClock is a clock that stands still until it is moved. It starts at the real time, so that a
// database with a clock of its own agrees with it.
type SQLClock struct {
	mu  sync.Mutex
	now time.Time
}

// NewSQLClock returns a clock that shows the present, in whole milliseconds.
func NewSQLClock() *SQLClock { return &SQLClock{now: time.Now().Truncate(time.Millisecond)} }

// Now is the instant shown.
func (c *SQLClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward.
func (c *SQLClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// sqlWorld is one database under test beside the logs that stores would keep.
type sqlWorld struct {
	*testing.T
	ctx     context.Context
	db      bucket.SQL
	clock   *SQLClock
	books   map[sqlLife]*sqlBook
	budgets []int64
}

// sqlLife names an epoch by its numbers.
type sqlLife struct{ bucket, epoch int64 }

func newSQLWorld(t *testing.T, db bucket.SQL, clock *SQLClock) *sqlWorld {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return &sqlWorld{T: t, ctx: ctx, db: db, clock: clock, books: map[sqlLife]*sqlBook{}}
}

// laneOf is the lane of a test's i-th bucket.
func laneOf(i int) bucket.Lane {
	return bucket.Lane{Instance: fmt.Sprintf("store-%d", i%3), Index: i / 3}
}

// lanes makes the rows of n lanes and returns them.
func (w *sqlWorld) lanes(n int) (lanes []bucket.Lane) {
	w.Helper()
	for i := range n {
		row := must(w.db.Lane(w.ctx, laneOf(i), "run-1"))(w)
		lanes = append(lanes, row.Lane)
	}
	return lanes
}

// definition returns a budget without bounds and without an end.
func definition(name string, total int64, buckets int) budget.Definition {
	return budget.Definition{
		Tenant: budget.DefaultTenant, Name: name, Unit: budget.Count, Durability: budget.Ledger,
		Type: budget.Promo, TotalQuantity: total, BucketQuantity: buckets,
	}
}

// create makes a budget whose buckets are open and whose first grants have arrived in their logs.
func (w *sqlWorld) create(name string, total int64, buckets int,
	edits ...func(*budget.Definition)) bucket.Budget {
	w.Helper()
	d := definition(name, total, buckets)
	for _, edit := range edits {
		edit(&d)
	}
	b := w.createOnly(d)
	for i := range b.Buckets {
		w.open(b.Buckets[i].Ref())
	}
	w.deliver()
	return w.read(b.ID)
}

// createOnly makes a budget and leaves its epochs opening.
func (w *sqlWorld) createOnly(d budget.Definition) bucket.Budget {
	w.Helper()
	b, made, err := w.db.Create(w.ctx, d, w.lanes(d.BucketQuantity))
	if err != nil || !made {
		w.Fatalf("create %s: created %v, %v", d.Name, made, err)
	}
	w.budgets = append(w.budgets, b.ID)
	return b
}

// open makes the log of an epoch and marks the epoch open.
func (w *sqlWorld) open(ref bucket.Ref) *sqlBook {
	w.Helper()
	w.books[sqlLife{ref.Bucket, ref.Epoch}] = newSQLBook(ref)
	w.ok(w.db.MarkOpen(w.ctx, []bucket.Ref{ref}))
	return w.book(ref)
}

// deliver lets all pending grants arrive in their logs.
func (w *sqlWorld) deliver() {
	w.Helper()
	for _, g := range must(w.db.Unfinished(w.ctx, 1_000))(w).Grants {
		if book := w.books[sqlLife{g.Order.Ref.Bucket, g.Order.Ref.Epoch}]; book != nil {
			book.grant(g.Order)
		}
	}
}

func (w *sqlWorld) book(ref bucket.Ref) *sqlBook {
	w.Helper()
	book := w.books[sqlLife{ref.Bucket, ref.Epoch}]
	if book == nil {
		w.Fatalf("no log of %+v", ref)
	}
	return book
}

// read reads a budget.
func (w *sqlWorld) read(id int64) bucket.Budget {
	w.Helper()
	return must(w.db.Budget(w.ctx, bucket.BudgetRef{ID: id}))(w)
}

// epoch reads an epoch row.
func (w *sqlWorld) epoch(ref bucket.Ref) ledger.Epoch {
	w.Helper()
	rows := must(w.db.Epochs(w.ctx, []bucket.Ref{ref}))(w)
	row, found := rows[ref]
	if !found {
		w.Fatalf("no epoch %+v", ref)
	}
	return row
}

// recorded reads the ledger's row of an id.
func (w *sqlWorld) recorded(budgetID int64, id string) (ledger.Deduction, bool) {
	w.Helper()
	key := bucket.ID{Budget: budgetID, RequestID: id}
	rows := must(w.db.Recorded(w.ctx, []bucket.ID{key}))(w)
	d, found := rows[key]
	return d, found
}

// commit drains whatever of the logs is not in the ledger; each must succeed.
func (w *sqlWorld) commit(books ...*sqlBook) []bucket.EpochReport {
	w.Helper()
	reports := w.tryCommit(books...)
	for i, r := range reports {
		if r.Err != nil {
			w.Fatalf("commit of %+v: %v", books[i].ref, r.Err)
		}
	}
	return reports
}

func (w *sqlWorld) tryCommit(books ...*sqlBook) []bucket.EpochReport {
	w.Helper()
	logs := make([]ledger.Log, len(books))
	for i, book := range books {
		logs[i] = book.log(w.epoch(book.ref).DrainedSeq)
	}
	return w.commitLogs(logs...)
}

func (w *sqlWorld) commitLogs(logs ...ledger.Log) []bucket.EpochReport {
	w.Helper()
	report := must(w.db.Commit(w.ctx, logs))(w)
	if len(report.Epochs) != len(logs) {
		w.Fatalf("%d reports for %d logs", len(report.Epochs), len(logs))
	}
	return report.Epochs
}

// use deducts an id from a bucket and commits it; it must be accepted.
func (w *sqlWorld) use(ref bucket.Ref, id string, amount int64) ledger.Deduction {
	w.Helper()
	book := w.book(ref)
	entry := book.deduct(id, amount)
	reports := w.commit(book)
	for _, o := range reports[0].Outcomes {
		if o.Position.Seq == entry.Seq && o.Duplicate == nil {
			return *o.Deduction
		}
	}
	w.Fatalf("deduction %q is not among the outcomes %+v", id, reports[0].Outcomes)
	return ledger.Deduction{}
}

// offline ends an open epoch and closes it; the units go to the target, or to U.
func (w *sqlWorld) offline(budgetID int64, ref bucket.Ref, by bucket.OfflineBy, keep bool,
	target *bucket.Target) *bucket.GrantOrder {
	w.Helper()
	if !must(w.db.Ending(w.ctx, budgetID, ref, by, keep))(w) {
		w.Fatalf("%+v could not be ended", ref)
	}
	return must(w.db.CloseEpoch(w.ctx, budgetID, ref, w.closing(ref), target))(w)
}

// closing closes a log and drains up to the close entry.
func (w *sqlWorld) closing(ref bucket.Ref) ledger.Entry {
	w.Helper()
	book := w.book(ref)
	book.close()
	report := w.commit(book)[0]
	if report.Close == nil {
		w.Fatalf("the commit of %+v did not report the close entry", ref)
	}
	return *report.Close
}

// audit fails the test where a figure does not agree with its rows.
func (w *sqlWorld) audit() {
	w.Helper()
	for _, id := range w.budgets {
		a := must(w.db.Accounts(w.ctx, id))(w)
		for _, d := range a.Check() {
			w.Errorf("I1, budget %d: %v", id, d)
		}
		if f := must(w.db.Figures(w.ctx, id))(w); f != a.Figures {
			w.Errorf("Figures %+v, Accounts %+v", f, a.Figures)
		}
	}
}

// figures reads a budget's figures, without those of its period.
func (w *sqlWorld) figures(id int64) ledger.Figures {
	w.Helper()
	f := must(w.db.Figures(w.ctx, id))(w)
	f.Period, f.PeriodUnits, f.PeriodUsed = budget.Period{}, 0, 0
	return f
}

// unchanged runs a call that must change no figure and no row.
func (w *sqlWorld) unchanged(id int64, what string, call func()) {
	w.Helper()
	before := describe(must(w.db.Accounts(w.ctx, id))(w), w.read(id))
	call()
	if after := describe(must(w.db.Accounts(w.ctx, id))(w), w.read(id)); after != before {
		w.Errorf("%s changed\n%s\nto\n%s", what, before, after)
	}
}

// describe renders a budget with its rows, so that two states can be compared and shown.
func describe(a bucket.Accounts, b bucket.Budget) string {
	rule := ruleText(b.Rule)
	b.Rule = nil // a pointer
	if b.Limits != nil {
		rule += fmt.Sprintf(" %d %s", b.Limits.Version, limit.EncodeAll(b.Limits))
		b.Limits = nil
	}
	text := fmt.Sprintf("%+v %s\n%+v %d\n%+v\n", b.Definition, rule, a.Figures, a.Adjusted, b.Period)
	for _, p := range a.Periods {
		text += fmt.Sprintf("%+v\n", p)
	}
	for _, e := range a.Epochs {
		text += fmt.Sprintf("%+v\n", e)
	}
	for i := range b.Buckets {
		text += fmt.Sprintf("%+v\n", b.Buckets[i])
	}
	return text
}

func (w *sqlWorld) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// refused fails the test unless err is an *Error of that code.
func (w *sqlWorld) refused(err error, code budget.Code) *budget.Error {
	w.Helper()
	var e *budget.Error
	if !errors.As(err, &e) || e.Code != code {
		w.Fatalf("error %v, want code %q", err, code)
	}
	return e
}

// equal fails the test unless the two are equal.
func equal[T comparable](w *sqlWorld, what string, got, want T) {
	w.Helper()
	if got != want {
		w.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// must returns a result, or fails the test with its error.
func must[T any](result T, err error) func(*sqlWorld) T {
	return func(w *sqlWorld) T {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
		return result
	}
}
