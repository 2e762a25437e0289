package bucket_test

import (
	"context"
	"strconv"
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
