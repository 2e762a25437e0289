package sim

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var _ bucket.SQL = (*database)(nil)

// database is the model of the database as one node sees it: over the network. A method that
// bucket.SQL gets has to be added here, so that none passes the faults by.
type database struct{ n *node }

// bg is what the model is called with: who waits for it is no concern of a database.
var bg = context.Background()

type pair[A, B any] struct {
	First  A
	Second B
}

func two[A, B any](a A, b B, err error) (pair[A, B], error) { return pair[A, B]{a, b}, err }

// over sends a call to the database.
func over[A any](ctx context.Context, d *database, v verb, args any, do func() (A, error)) (A, error) {
	return ask(ctx, d.n, v, len(d.n.w.stores), args, do)
}

// Now is the database's clock.
func (d *database) Now() time.Time { return d.n.w.model.Now() }

// Verbs of the database.
var (
	verbCreate     = sqlWrite("Create")
	verbBudget     = sqlRead("Budget")
	verbBudgets    = sqlRead("Budgets")
	verbVersions   = sqlRead("Versions")
	verbChange     = sqlWrite("Change")
	verbCommit     = sqlWrite("Commit")
	verbAt         = sqlRead("At")
	verbRecorded   = sqlRead("Recorded")
	verbJudge      = sqlRead("Judge")
	verbCovers     = sqlRead("Covers")
	verbEpochs     = sqlRead("Epochs")
	verbRollback   = sqlWrite("Rollback")
	verbCancel     = sqlWrite("Cancel")
	verbSweep      = sqlWrite("Sweep")
	verbApply      = sqlWrite("Apply")
	verbHandOut    = sqlWrite("HandOut")
	verbReopen     = sqlWrite("Reopen")
	verbMarkOpen   = sqlWrite("MarkOpen")
	verbEnding     = sqlWrite("Ending")
	verbCloseEpoch = sqlWrite("CloseEpoch")
	verbFence      = sqlWrite("Fence")
	verbLose       = sqlWrite("Lose")
	verbLoseAll    = sqlWrite("LoseAll")
	verbSettle     = sqlWrite("Settle")
	verbOver       = sqlRead("Over")
	verbRollOver   = sqlWrite("RollOver")
)

// Create asks the database. See bucket.SQL.
func (d *database) Create(ctx context.Context, def budget.Definition, lanes []bucket.Lane) (
	bucket.Budget, bool, error) {
	p, err := over(ctx, d, verbCreate, []any{def, lanes}, func() (pair[bucket.Budget, bool], error) {
		return two(d.n.w.model.Create(bg, def, lanes))
	})
	return p.First, p.Second, err
}

// Budget asks the database. See bucket.SQL.
func (d *database) Budget(ctx context.Context, ref bucket.BudgetRef) (bucket.Budget, error) {
	return over(ctx, d, verbBudget, ref, func() (bucket.Budget, error) {
		return d.n.w.model.Budget(bg, ref)
	})
}

// Budgets asks the database. See bucket.SQL.
func (d *database) Budgets(ctx context.Context, page bucket.Page) ([]budget.Definition, error) {
	return over(ctx, d, verbBudgets, page, func() ([]budget.Definition, error) {
		return d.n.w.model.Budgets(bg, page)
	})
}

// Versions asks the database. See bucket.SQL.
func (d *database) Versions(ctx context.Context, ids []int64) (map[int64]bucket.Version, error) {
	return over(ctx, d, verbVersions, ids, func() (map[int64]bucket.Version, error) {
		return d.n.w.model.Versions(bg, ids)
	})
}

// Change asks the database. See bucket.SQL.
func (d *database) Change(ctx context.Context, id int64, change bucket.Change) (
	budget.Definition, error) {
	return over(ctx, d, verbChange, []any{id, change}, func() (budget.Definition, error) {
		return d.n.w.model.Change(bg, id, change)
	})
}

// Over asks the database. See bucket.SQL.
func (d *database) Over(ctx context.Context, limit int) ([]int64, error) {
	return over(ctx, d, verbOver, limit, func() ([]int64, error) { return d.n.w.model.Over(bg, limit) })
}

// RollOver asks the database. See bucket.SQL.
func (d *database) RollOver(ctx context.Context, id int64, without ...bucket.Lane) (bucket.RolledOver, error) {
	return over(ctx, d, verbRollOver, []any{id, without}, func() (bucket.RolledOver, error) {
		return d.n.w.model.RollOver(bg, id, without...)
	})
}

// Commit asks the database. See bucket.SQL.
func (d *database) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	return over(ctx, d, verbCommit, logs, func() (bucket.CommitReport, error) {
		for i := range logs {
			d.n.w.admitted(&logs[i])
		}
		return d.n.w.model.Commit(bg, logs)
	})
}

// admitted tells the auditor of what a store counted against limits.
func (w *world) admitted(log *ledger.Log) {
	of, known := w.budgetOf.Load(log.Bucket)
	for i := range log.Entries {
		if r := &log.Entries[i].Request; known && r.At != 0 {
			w.audit.Admitted(of.(int64), r.ID, r.At, log.Entries[i].Amount, ledger.ReadDimensions(r.Dimensions),
				ledger.ReadCounts(r.Counts))
		}
	}
}

// At asks the database. See bucket.SQL.
func (d *database) At(ctx context.Context, positions []ledger.Position) (
	map[ledger.Position]ledger.Outcome, error) {
	return over(ctx, d, verbAt, positions, func() (map[ledger.Position]ledger.Outcome, error) {
		return d.n.w.model.At(bg, positions)
	})
}

// Recorded asks the database. See bucket.SQL.
func (d *database) Recorded(ctx context.Context, ids []bucket.ID) (
	map[bucket.ID]ledger.Deduction, error) {
	return over(ctx, d, verbRecorded, ids, func() (map[bucket.ID]ledger.Deduction, error) {
		return d.n.w.model.Recorded(bg, ids)
	})
}

// Judge asks the database. See bucket.SQL.
func (d *database) Judge(ctx context.Context, budgetID int64, ids []string) (bucket.Judgement, error) {
	return over(ctx, d, verbJudge, []any{budgetID, ids}, func() (bucket.Judgement, error) {
		return d.n.w.model.Judge(bg, budgetID, ids)
	})
}

// Covers asks the database. See bucket.SQL.
func (d *database) Covers(ctx context.Context, budgetIDs []int64) (map[int64]bucket.Cover, error) {
	return over(ctx, d, verbCovers, budgetIDs, func() (map[int64]bucket.Cover, error) {
		return d.n.w.model.Covers(bg, budgetIDs)
	})
}

// Epochs asks the database. See bucket.SQL.
func (d *database) Epochs(ctx context.Context, refs []bucket.Ref) (map[bucket.Ref]ledger.Epoch, error) {
	return over(ctx, d, verbEpochs, refs, func() (map[bucket.Ref]ledger.Epoch, error) {
		return d.n.w.model.Epochs(bg, refs)
	})
}

// Rollback asks the database. See bucket.SQL.
func (d *database) Rollback(ctx context.Context, order bucket.RollbackOrder) (
	ledger.Deduction, bool, error) {
	p, err := over(ctx, d, verbRollback, order, func() (pair[ledger.Deduction, bool], error) {
		return two(d.n.w.model.Rollback(bg, order))
	})
	return p.First, p.Second, err
}

// Cancel asks the database. See bucket.SQL.
func (d *database) Cancel(ctx context.Context, budgetID int64, requestID string) (
	ledger.Deduction, error) {
	return over(ctx, d, verbCancel, []any{budgetID, requestID}, func() (ledger.Deduction, error) {
		return d.n.w.model.Cancel(bg, budgetID, requestID)
	})
}

// Sweep asks the database. See bucket.SQL.
func (d *database) Sweep(ctx context.Context, budgetID int64) (int64, error) {
	return over(ctx, d, verbSweep, budgetID, func() (int64, error) {
		return d.n.w.model.Sweep(bg, budgetID)
	})
}

// Apply asks the database. See bucket.SQL.
func (d *database) Apply(ctx context.Context, budgetID int64, want bucket.Want) (
	*bucket.GrantOrder, error) {
	return over(ctx, d, verbApply, []any{budgetID, want}, func() (*bucket.GrantOrder, error) {
		return d.n.w.model.Apply(bg, budgetID, want)
	})
}

// HandOut asks the database. See bucket.SQL.
func (d *database) HandOut(ctx context.Context, budgetID int64, without ...bucket.Lane) (
	bucket.Handout, error) {
	return over(ctx, d, verbHandOut, []any{budgetID, without}, func() (bucket.Handout, error) {
		return d.n.w.model.HandOut(bg, budgetID, without...)
	})
}

// Reopen asks the database. See bucket.SQL.
func (d *database) Reopen(ctx context.Context, budgetID int64, bucketID int64) (bucket.Handout, error) {
	return over(ctx, d, verbReopen, []any{budgetID, bucketID}, func() (bucket.Handout, error) {
		return d.n.w.model.Reopen(bg, budgetID, bucketID)
	})
}

// MarkOpen asks the database. See bucket.SQL.
func (d *database) MarkOpen(ctx context.Context, refs []bucket.Ref) error {
	_, err := over(ctx, d, verbMarkOpen, refs, func() (struct{}, error) {
		return struct{}{}, d.n.w.model.MarkOpen(bg, refs)
	})
	return err
}

// Ending asks the database. See bucket.SQL.
func (d *database) Ending(ctx context.Context, budgetID int64, ref bucket.Ref,
	by bucket.OfflineBy, keep bool) (bool, error) {
	return over(ctx, d, verbEnding, []any{budgetID, ref, by, keep}, func() (bool, error) {
		return d.n.w.model.Ending(bg, budgetID, ref, by, keep)
	})
}

// CloseEpoch asks the database. See bucket.SQL.
func (d *database) CloseEpoch(ctx context.Context, budgetID int64, ref bucket.Ref,
	end ledger.Entry, target *bucket.Target) (*bucket.GrantOrder, error) {
	return over(ctx, d, verbCloseEpoch, []any{budgetID, ref, end, target}, func() (*bucket.GrantOrder, error) {
		return d.n.w.model.CloseEpoch(bg, budgetID, ref, end, target)
	})
}

// Fence asks the database. See bucket.SQL.
func (d *database) Fence(ctx context.Context, ref bucket.Ref, why string) error {
	_, err := over(ctx, d, verbFence, []any{ref, why}, func() (struct{}, error) {
		return struct{}{}, d.n.w.model.Fence(bg, ref, why)
	})
	return err
}

// Lose asks the database. See bucket.SQL.
func (d *database) Lose(ctx context.Context, ref bucket.Ref) (bool, error) {
	return over(ctx, d, verbLose, ref, func() (bool, error) {
		return d.n.w.model.Lose(bg, ref)
	})
}

// LoseAll asks the database. See bucket.SQL.
func (d *database) LoseAll(ctx context.Context, refs []bucket.Ref) ([]bucket.Ref, error) {
	return over(ctx, d, verbLoseAll, refs, func() ([]bucket.Ref, error) {
		return d.n.w.model.LoseAll(bg, refs)
	})
}

// Settle asks the database. See bucket.SQL.
func (d *database) Settle(ctx context.Context, budgetIDs []int64, without ...bucket.Lane) (
	bucket.Handout, error) {
	return over(ctx, d, verbSettle, []any{budgetIDs, without}, func() (bucket.Handout, error) {
		return d.n.w.model.Settle(bg, budgetIDs, without...)
	})
}
