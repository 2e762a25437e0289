package bookkeeper

import (
	"context"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// Decide changes Books without any I/O. If it needs rows whose names are known only now, it returns
// their queries, and is called again once they are loaded. It may run several times, so it sets all
// its results each time.
type Decide func(b *books.Books) (more []Query, err error)

// Do loads rows, decides, checks the accounting, and saves what differs, as one transaction: see
// engine.Move. Nothing is saved if nothing changed. Errors: that of decide, except
// books.Unsettled, after which budgets are settled and it begins again; Internal for a decision
// that breaks the accounting, of which nothing is saved; Unavailable; OutcomeUnknown.
func Do(ctx context.Context, db *engine.DB, op string, load []Query, decide Decide) error {
	return settled(ctx, db, op, func() error {
		return db.Move(ctx, op, run(op, loading(load, decide), nil))
	})
}

// DoAndLook is Do, and then reads what the movement has left, in the same round trip as its COMMIT:
// see engine.MoveAndLook. If look is nil, it is Do.
func DoAndLook(ctx context.Context, db *engine.DB, op string, load []Query, decide Decide,
	look engine.Looks) error {
	if look == nil {
		return Do(ctx, db, op, load, decide)
	}
	return settled(ctx, db, op, func() error {
		return db.MoveAndLook(ctx, op, run(op, loading(load, decide), nil), look)
	})
}

// decideOn decides in an attempt of a movement.
type decideOn func(m *engine.Move, b *books.Books) (more []Query, err error)

// loading returns a decision whose first queries are known.
func loading(load []Query, decide Decide) decideOn {
	var loaded *books.Books
	return func(_ *engine.Move, b *books.Books) ([]Query, error) {
		if loaded != b && load != nil {
			loaded = b
			return load, nil
		}
		return decide(b)
	}
}

// DoAnd is Do of a movement whose first queries are those that decide returns for new Books, and
// which also writes rows that Books do not have: write adds them to what is saved, after the rows
// of the Books.
func DoAnd(ctx context.Context, db *engine.DB, op string,
	decide func(m *engine.Move, b *books.Books) (more []Query, err error),
	write func(m *engine.Move) error) error {
	return settled(ctx, db, op, func() error { return db.Move(ctx, op, run(op, decide, write)) })
}

func run(op string, decide decideOn, write func(m *engine.Move) error) func(m *engine.Move) error {
	return func(m *engine.Move) error {
		b := books.New(engine.ToMS(m.Now))
		b.Unsure = m.Unsure
		for {
			more, err := decide(m, b)
			if err != nil {
				return err
			}
			if more == nil {
				break
			}
			if err := Load(m, b, more); err != nil {
				return err
			}
			b.NowMS = engine.ToMS(m.Now)
		}
		if err := b.Check(); err != nil {
			return broken(op, err)
		}
		if err := save(m, op, b); err != nil || write == nil {
			return err
		}
		return write(m)
	}
}

func broken(op string, err error) error {
	return &budget.Error{Code: budget.Internal, Op: op, Err: err,
		Message: "the movement would break the accounting; nothing was changed"}
}

// Load loads the rows of queries.
func Load(m *engine.Move, b *books.Books, queries []Query) error {
	if len(queries) == 0 {
		return nil
	}
	texts, into, loads := written(m.Statement, queries, b)
	err := m.Load(texts, into)
	if err == nil {
		each(loads)
	}
	return err
}

// Look runs queries that fill no Books, without a movement: see engine.DB.Look.
func Look(ctx context.Context, db *engine.DB, op string, queries []Query) error {
	var loads []func()
	err := db.Look(ctx, op, func(begin func() *engine.Statement) (
		texts []*engine.Statement, into []any) {
		texts, into, loads = written(begin, queries, nil)
		return texts, into
	})
	if err == nil {
		each(loads)
	}
	return err
}

// LookOn is Look on one connection: see engine.PacketConn.Look.
func LookOn(ctx context.Context, conn *engine.PacketConn, queries []Query) error {
	if len(queries) == 0 {
		return nil
	}
	texts, into, loads := written(conn.Statement, queries, nil)
	err := conn.Look(ctx, texts, into)
	if err == nil {
		each(loads)
	}
	return err
}

// written writes queries for Books, or without.
func written(begin func() *engine.Statement, queries []Query, b *books.Books) (
	texts []*engine.Statement, into []any, loads []func()) {
	for _, q := range queries {
		s := begin()
		rows, load := q(s, b)
		texts = append(texts, s)
		into = append(into, rows)
		loads = append(loads, load)
	}
	return texts, into, loads
}

func each(loads []func()) {
	for _, load := range loads {
		load()
	}
}

// Read reads rows into Books, without locks: as of one instant if r is of a snapshot.
func Read(r *engine.Reader, queries ...Query) (*books.Books, error) {
	b := books.New(0)
	for _, q := range queries {
		s := r.Statement()
		rows, load := q(s, b)
		if err := r.RowsOf(rows, s); err != nil {
			return nil, err
		}
		load()
	}
	return b, nil
}

// ReadBudget is Read of a budget, which must exist, and of other rows. Error: BudgetNotFound.
func ReadBudget(r *engine.Reader, op string, id int64, others ...Query) (
	*books.Books, *books.Budget, error) {
	b, err := Read(r, append([]Query{budgetOf(bare, id)}, others...)...)
	if err != nil {
		return nil, nil, err
	}
	u := b.Budgets.Get(id)
	if u == nil {
		return nil, nil, NoBudget(op, id)
	}
	return b, u, nil
}

// LookAt reads rows into Books in one round trip, without locks, and shows them to fn, which must
// not change them. Errors: that of fn; Unavailable; Internal.
func LookAt(ctx context.Context, db *engine.DB, op string, queries []Query,
	fn func(b *books.Books) error) error {
	var b *books.Books
	var loads []func()
	err := db.Look(ctx, op, func(begin func() *engine.Statement) (
		texts []*engine.Statement, into []any) {
		b = books.New(engine.ToMS(db.Now()))
		texts, into, loads = written(begin, queries, b)
		return texts, into
	})
	if err != nil {
		return err
	}
	each(loads)
	return fn(b)
}
