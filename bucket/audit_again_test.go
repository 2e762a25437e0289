package bucket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/metrics"
)

// split is SQL whose reads show a commit without one before it: as often as it is told to.
type split struct {
	bucket.SQL
	accounts, books, read atomic.Int64
	change                func(*bucket.Accounts)
}

func (q *split) Accounts(ctx context.Context, id int64) (bucket.Accounts, error) {
	a, err := q.SQL.Accounts(ctx, id)
	if err == nil && q.accounts.Add(-1) >= 0 {
		q.change(&a)
	}
	return a, err
}

func (q *split) Books(ctx context.Context, after int64, limit int) ([]bucket.Book, error) {
	books, err := q.SQL.Books(ctx, after, limit)
	if err == nil && len(books) > 0 && q.books.Add(-1) >= 0 {
		books[0].Figures.Undistributed++
	}
	q.read.Add(1)
	return books, err
}

const always = int64(1) << 40

// TestAuditReadsAccountsAgain: a column that disagrees in one read of the accounts and not in the next ones is no
// discrepancy, and fences nothing; one that stays is found, and fences the bucket it is of.
func TestAuditReadsAccountsAgain(t *testing.T) {
	for name, change := range map[string]func(*bucket.Accounts){
		"of a bucket":   func(a *bucket.Accounts) { a.Epochs[1].Row.Used++ },
		"of the budget": func(a *bucket.Accounts) { a.Figures.Undistributed++ },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			q := &split{SQL: w.model, change: change}
			w.sql = q
			set := slow()
			set.Audit = time.Hour
			s := w.node(set)
			ref := w.create(s, promo("split", 1000, 3))
			if _, err := deduct(s, ref, "x", 10); err != nil {
				t.Fatal(err)
			}
			fenced := func() (keys []string) {
				for _, bk := range w.budget(ref).Buckets {
					if bk.Epoch.Fenced != "" {
						keys = append(keys, bk.Key)
					}
				}
				return keys
			}
			for _, reads := range []int64{1, 2, always} {
				q.accounts.Store(reads)
				report, err := s.Audit(context.Background(), ref)
				if err != nil || report.OK != (reads != always) {
					t.Errorf("wrong in %d reads: %+v, %v", reads, report, err)
				}
				want := 0
				if reads == always && name == "of a bucket" {
					want = 1
				}
				if got := fenced(); len(got) != want {
					t.Errorf("wrong in %d reads: fenced %v", reads, got)
				}
			}
		})
	}
}

// TestBooksAreReadAgain: the same for the background's look at the columns of all budgets.
func TestBooksAreReadAgain(t *testing.T) {
	w := newWorld(t)
	m := metrics.New("test")
	w.observer = m
	q := &split{SQL: w.model}
	w.sql = q
	set := slow()
	set.Audit = 20 * time.Millisecond
	s := w.node(set)
	w.create(s, promo("books", 1000, 3))
	found := func() float64 { return metric(t, m, "budgetd_audit_discrepancies_total") }
	for range 3 {
		q.books.Store(2)
		from := q.read.Load()
		w.until("some looks", func() bool { return q.read.Load() >= from+6 })
	}
	if n := found(); n != 0 {
		t.Errorf("%v discrepancies of reads that were right at the third look", n)
	}
	q.books.Store(always)
	w.until("what stays is found", func() bool { return found() > 0 })
	q.books.Store(0)
}
