package manage

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger"
)

var (
	// selectFigures sums the columns of budgets in one statement, hence in one snapshot. The lists
	// of ids go where it is split.
	selectFigures = `SELECT ` + rows.FigureColumns + `,
		(SELECT COALESCE(SUM(p.before_quantity), 0) FROM budget_period p
			WHERE p.budget_id = u.id AND p.number = u.period) AS period_before,
		COALESCE(s.period_used, 0) AS period_used,
		(SELECT p.name FROM budget_management_bucket p WHERE p.id = u.parent_id) AS parent_name,
		(SELECT COUNT(*) FROM sharding_budget_management_bucket b
			WHERE b.budget_id = u.id AND b.status = 'online') AS online_buckets,
		(SELECT COUNT(*) FROM sharding_budget_management_bucket b WHERE b.budget_id = u.id
			AND b.status <> 'online' AND b.offline_by <> 'resize') AS offline_buckets
		FROM budget_management_bucket u LEFT JOIN (SELECT e.budget_id, ` + rows.EpochSums + `,
			` + rows.Sum(`CASE WHEN e.period = n.period THEN e.used_quantity ELSE 0 END`) + `
				AS period_used
			FROM budget_management_bucket n /*by PRIMARY*/
			/*in order*/ JOIN bucket_epoch e /*by bucket_epoch_units*/ ON e.budget_id = n.id WHERE `
	figuresOf    = ` GROUP BY e.budget_id) s ON s.budget_id = u.id WHERE `
	figuresOrder = ` ORDER BY u.id`
)

// figuresRow is a row of selectFigures.
type figuresRow struct {
	rows.Figures
	PeriodUsed   int64 `db:"period_used"`
	PeriodBefore int64 `db:"period_before"`
	// ParentName is nil for a budget without a parent.
	ParentName *string `db:"parent_name"`
}

// figured are the figures of a budget, and the name of its parent, "" for none.
type figured struct {
	ledger.Figures
	parent string
}

func (r *figuresRow) figures() figured {
	f := figured{Figures: r.Ledger()}
	f.PeriodUsed, f.PeriodBefore = min(r.PeriodUsed, budget.MaxAmount), r.PeriodBefore
	if r.ParentName != nil {
		f.parent = *r.ParentName
	}
	return f
}

// writeFigures writes the query for the figures of budgets. of writes the condition that a column
// holds the number of one of them.
func writeFigures(s *engine.Statement, of func(column string)) {
	s.SQL(selectFigures)
	of("n.id")
	s.SQL(figuresOf)
	of("u.id")
	s.SQL(figuresOrder)
}

// figuresByID reads figures of budgets. The result has no element for a budget that does not exist.
func figuresByID(r *engine.Reader, ids []int64) (map[int64]figured, error) {
	out := make(map[int64]figured, len(ids))
	for chunk := range slices.Chunk(ids, engine.ListChunk) {
		var read []figuresRow
		s := r.Statement()
		writeFigures(s, func(column string) { s.Numbers(column, chunk) })
		if err := r.RowsOf(&read, s); err != nil {
			return nil, err
		}
		for i := range read {
			out[read[i].ID] = read[i].figures()
		}
	}
	return out, nil
}

// Figures reads a budget's figures in one statement, hence in one snapshot, so they add up (I1).
// Errors: BudgetNotFound, Unavailable.
func (l *Ledger) Figures(ctx context.Context, budgetID int64) (f ledger.Figures, err error) {
	err = l.db.Read(ctx, "figures", func(r *engine.Reader) error {
		all, err := figuresByID(r, []int64{budgetID})
		if err != nil {
			return err
		}
		found, ok := all[budgetID]
		if !ok {
			return budget.Refuse(budget.BudgetNotFound, "figures", "there is no budget %d", budgetID)
		}
		f = found.Figures
		return nil
	})
	return f, err
}

// View reads a budget with its figures, in one round trip. The figures are not older than the
// definition. Errors: BudgetNotFound, Unavailable.
func (l *Ledger) View(ctx context.Context, ref bucket.BudgetRef) (v bucket.View, err error) {
	read := viewing{Reading: rows.Reading{Ref: ref, ListLess: true}}
	if err := l.db.Look(ctx, "view", read.Queries); err != nil {
		return v, err
	}
	_, v, err = read.view("view", l.db.Now())
	return v, err
}

// viewing is a budget that is read with its figures.
type viewing struct {
	rows.Reading
	figures []figuresRow
}

// Queries are the SELECTs of the reading, that of the figures last.
func (r *viewing) Queries(begin func() *engine.Statement) ([]*engine.Statement, []any) {
	r.figures = nil
	texts, into := r.Reading.Queries(begin)
	figures := begin()
	writeFigures(figures, func(column string) { rows.Named(figures, column, r.Ref) })
	return append(texts, figures), append(into, &r.figures)
}

// view returns what was read. Error: BudgetNotFound.
func (r *viewing) view(op string, now time.Time) (b bucket.Budget, v bucket.View, err error) {
	if b, err = r.Budget(op); err != nil {
		return b, v, err
	}
	if len(r.figures) == 0 {
		return b, v, budget.Refuse(budget.BudgetNotFound, op, "budget %q was deleted", b.Name)
	}
	v = viewOf(b.Definition, r.figures[0].figures())
	v.At(now)
	return b, v, nil
}

// viewOf joins a definition with figures that were read after it. The caller sets the status.
func viewOf(d budget.Definition, f figured) bucket.View {
	d.TotalQuantity, d.ParentName = f.Total, f.parent
	return bucket.View{Definition: d, Figures: f.Figures, Period: f.Period}
}
