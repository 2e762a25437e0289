package bookkeeper

import (
	"context"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// Decide changes Books without any I/O. If it needs rows whose names are known only now, it returns
// their queries, and is called again once they are loaded. It may run several times, so it sets all
// its results each time.
type Decide func(b *books.Books) (more []Query, err error)

// Do loads rows, decides, checks the accounting, and saves what differs, as one transaction: see
// engine.Move. Nothing is saved if nothing changed. Errors: that of decide; Internal for a decision
// that breaks the accounting, of which nothing is saved; Unavailable; OutcomeUnknown.
func Do(ctx context.Context, db *engine.DB, op string, load []Query, decide Decide) error {
	return db.Move(ctx, op, func(m *engine.Move) error {
		b := books.New(engine.ToMS(m.Now))
		b.Unsure = m.Unsure
		for more := load; more != nil; {
			if err := fill(m, b, more); err != nil {
				return err
			}
			var err error
			if more, err = decide(b); err != nil {
				return err
			}
		}
		if err := b.Check(); err != nil {
			return broken(op, err)
		}
		return save(m, op, b)
	})
}

func broken(op string, err error) error {
	return &budget.Error{Code: budget.Internal, Op: op, Err: err,
		Message: "the movement would break the accounting; nothing was changed"}
}

// fill loads the rows of queries.
func fill(m *engine.Move, b *books.Books, queries []Query) error {
	texts := make([]*engine.Statement, len(queries))
	into := make([]any, len(queries))
	loads := make([]func(), len(queries))
	for i, q := range queries {
		texts[i] = m.Statement()
		into[i], loads[i] = q(texts[i], b)
	}
	if err := m.Load(texts, into); err != nil {
		return err
	}
	for _, load := range loads {
		load()
	}
	return nil
}
