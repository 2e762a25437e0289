package bucket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// panicking is SQL of which one commit panics.
type panicking struct {
	bucket.SQL
	next, panicked atomic.Bool
}

func (q *panicking) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	if q.next.CompareAndSwap(true, false) {
		q.panicked.Store(true)
		panic("a test's")
	}
	return q.SQL.Commit(ctx, logs)
}

// TestDrainAfterAPanic: the drain behind the answers panics. The next answer begins it anew, and it brings what the
// first was about too (I7).
func TestDrainAfterAPanic(t *testing.T) {
	w := newStoreWorld(t)
	q := &panicking{SQL: w.model}
	q.next.Store(true)
	w.sql = q
	set := storeQuick()
	set.Chores, set.Audit = time.Hour, time.Hour // nobody else drains
	s := w.node(set)
	ref := w.create(s, promo("panics", 1_000_000, 1))
	if _, err := deduct(s, ref, "before", 1); err != nil {
		t.Fatal(err)
	}
	w.until("it has panicked", q.panicked.Load)
	used := int64(1)
	w.until("the ledger follows", func() bool { // an answer while the panic is under way begins nothing
		if _, err := again(s, ref, time.Now().String(), 1); err != nil {
			t.Fatal(err)
		}
		used++
		return w.figures(s, ref).Used > 0
	})
	w.until("it is all there", func() bool { return w.figures(s, ref).Used == used })
}
