package engine

import (
	"context"
	"sync"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
)

// idBlock is how many ids a node reserves at a time.
const idBlock = 1000

const (
	reserveIDs = `UPDATE sequence SET next_id = next_id + ? WHERE name = ?`
	nextID     = `SELECT next_id FROM sequence WHERE name = ?`
)

// ids are the reserved and unused ids of one kind.
type ids struct {
	mu        sync.Mutex
	next, end int64
}

// TakeIDs returns the first of n successive ids of a kind: SequenceBudget or SequenceBucket. They
// come from a block that this node reserved in a transaction of its own, so that no other
// transaction waits for the row of the sequence. Ids that a stopped node has not used stay unused:
// numbers have gaps, and do not say what was created first. It is safe for concurrent use, and must
// not be called within a transaction. Error: Unavailable.
func (db *DB) TakeIDs(ctx context.Context, kind string, n int) (int64, error) {
	ids := &db.bucketIDs
	if kind == SequenceBudget {
		ids = &db.budgetIDs
	}
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if want := int64(n); ids.end-ids.next < want {
		end, err := db.reserve(ctx, kind, max(want, idBlock))
		if err != nil {
			return 0, err
		}
		ids.next, ids.end = end-max(want, idBlock), end
	}
	ids.next += int64(n)
	return ids.next - int64(n), nil
}

// reserve moves a sequence on, and returns its next id.
func (db *DB) reserve(ctx context.Context, kind string, n int64) (end int64, err error) {
	ctx = auditlog.NewContext(ctx, nil) // its row belongs to the transaction of the call itself
	err = db.Write(ctx, "reserve ids", func(t *Tx) error {
		if err := t.Hit(1, reserveIDs, n, []byte(kind)); err != nil {
			return err
		}
		_, err := t.Get(&end, nextID, []byte(kind))
		return err
	})
	if budget.Is(err, budget.OutcomeUnknown) { // reserved or not: nothing was created
		err = notDone("reserve ids", err.(*budget.Error).Unwrap()) //nolint:errorlint // Write's own
	}
	return end, err
}
