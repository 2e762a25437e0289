package bucket_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// smallCommits is SQL that is too slow for a commit of more than a few logs.
type smallCommits struct {
	bucket.SQL
	most int
}

func (q *smallCommits) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	if len(logs) > q.most {
		return bucket.CommitReport{}, context.DeadlineExceeded
	}
	return q.SQL.Commit(ctx, logs)
}

// TestDrainOfManyEpochs: in store mode, answers of more epochs than one transaction can take in its time get into the
// ledger all the same.
func TestDrainOfManyEpochs(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		w := newStoreWorld(t)
		w.sql = &smallCommits{SQL: w.model, most: 3}
		s := w.node(storeQuick())
		const budgets = 60
		var refs []bucket.BudgetRef
		for i := range budgets {
			refs = append(refs, w.create(s, promo("b"+strconv.Itoa(i), 100, 1)))
		}
		var requests []bucket.DeductRequest
		for i, ref := range refs {
			requests = append(requests, bucket.DeductRequest{Budget: ref, RequestID: strconv.Itoa(i), Amount: 1})
		}
		for i, r := range s.DeductAll(context.Background(), requests) {
			if r.Err != nil {
				t.Fatalf("budget %d: %v", i, r.Err)
			}
		}
		time.Sleep(10 * time.Second)
		for i, ref := range refs {
			if _, _, used := w.figuresOf(ref); used != 1 {
				t.Errorf("budget %d: the ledger has %d", i, used)
			}
		}
	})
}

// fencedLogs is SQL where the epochs of some buckets are fenced and stay so, as where their books disagree.
type fencedLogs struct {
	bucket.SQL
	mu     sync.Mutex
	fenced map[int64]bool // by bucket
}

// fence says which buckets are fenced from now on; none: all are served again.
func (q *fencedLogs) fence(buckets ...int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fenced = map[int64]bool{}
	for _, id := range buckets {
		q.fenced[id] = true
	}
}

func (q *fencedLogs) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	q.mu.Lock()
	fenced := q.fenced
	q.mu.Unlock()
	var open []ledger.Log
	for _, log := range logs {
		if !fenced[log.Bucket] {
			open = append(open, log)
		}
	}
	report, err := q.SQL.Commit(ctx, open)
	if err != nil {
		return bucket.CommitReport{}, err
	}
	all := make([]bucket.EpochReport, len(logs))
	for i, log := range logs {
		if !fenced[log.Bucket] {
			all[i], report.Epochs = report.Epochs[0], report.Epochs[1:]
			continue
		}
		all[i] = bucket.EpochReport{Row: ledger.Epoch{Status: ledger.Open}, Err: ledger.ErrFenced}
	}
	report.Epochs = all
	return report, nil
}

// TestFencedEpochsSlowNothing: epochs that cannot be drained, fenced until an operator comes, leave the others of their
// lane the whole transactions.
func TestFencedEpochsSlowNothing(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		ctx, w := context.Background(), newStoreWorld(t)
		q := &fencedLogs{SQL: w.model}
		w.sql = q
		s := w.node(storeQuick())
		var fenced []int64
		for _, id := range []string{"f1", "f2", "f3"} {
			ref := w.create(s, promo(id, 100, 1))
			b, err := w.model.Budget(ctx, ref)
			if err != nil {
				t.Fatal(err)
			}
			fenced = append(fenced, b.Buckets[0].ID)
			q.fence(fenced...)
			if _, err := s.Deduct(ctx, bucket.DeductRequest{Budget: ref, RequestID: "x", Amount: 1}); err != nil {
				t.Fatal(err)
			}
		}
		busy := w.create(s, promo("busy", 100_000, 1))
		time.Sleep(5 * time.Second) // only the fenced ones are left
		const batches, size = 20, 500
		for n := range batches {
			var requests []bucket.DeductRequest
			for i := range size {
				requests = append(requests, bucket.DeductRequest{Budget: busy, RequestID: strconv.Itoa(n*size + i), Amount: 1})
			}
			for i, r := range s.DeductAll(ctx, requests) {
				if r.Err != nil {
					t.Fatalf("%d: %v", i, r.Err)
				}
			}
		}
		began := time.Now()
		for {
			if _, _, used := w.figuresOf(busy); used == batches*size {
				break
			}
			if time.Since(began) > time.Second {
				_, _, used := w.figuresOf(busy)
				t.Fatalf("the ledger has %d of %d after a second", used, batches*size)
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Logf("%d in the ledger after %s", batches*size, time.Since(began))
		q.fence() // Stop drains
	})
}
