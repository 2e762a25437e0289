package rows

import (
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// FigureColumns are columns of Figures, of budget_management_bucket u and s, the EpochSums of its
// bucket_epoch e. A SELECT adds online_buckets and offline_buckets.
const FigureColumns = `u.id, u.unlimited, u.total_quantity, u.undistributed_quantity,
	u.quarantined_quantity, u.forfeited_quantity, u.pending_shrink_quantity, u.unfunded_quantity,
	u.allocated_quantity,
	u.period, u.period_start_ms, u.period_end_ms, u.is_over,
	(SELECT COALESCE(SUM(p.funded_quantity + p.carried_quantity), 0) FROM budget_period p
		WHERE p.budget_id = u.id AND p.number = u.period) AS period_units,
	COALESCE(s.remaining, 0) AS remaining, COALESCE(s.unsettled, 0) AS unsettled,
	COALESCE(s.held, 0) AS held, COALESCE(s.used, 0) AS used,
	COALESCE(s.returned, 0) AS returned`

// EpochSums are the sums of FigureColumns.
var EpochSums = `
	SUM(CASE WHEN e.status = 'open' THEN e.outstanding_quantity ELSE 0 END) AS remaining,
	SUM(CASE WHEN e.status = 'open' THEN 0 ELSE e.outstanding_quantity END) AS unsettled,
	` + Sum("e.held_quantity") + ` AS held, ` + Sum("e.used_quantity") + ` AS used,
	SUM(e.returning_quantity) AS returned`

// Figures are a budget's row, as far as FigureColumns have it, and the sums of its epochs.
type Figures struct {
	books.Budget
	PeriodUnits int64 `db:"period_units"`
	Remaining   int64 `db:"remaining"`
	Unsettled   int64 `db:"unsettled"`
	Held        int64 `db:"held"`
	Used        int64 `db:"used"`
	Returning   int64 `db:"returned"`
	Online      int   `db:"online_buckets"`
	Offline     int   `db:"offline_buckets"`
}

// Ledger converts the row. Each epoch of an unlimited budget saturates, and so do the sums. Its
// buckets hold no part of a total.
func (r *Figures) Ledger() ledger.Figures {
	f := ledger.Figures{Total: r.Total, Undistributed: r.Undistributed, Quarantined: r.Quarantined,
		Forfeited: r.Forfeited, Unfunded: r.Unfunded, Allocated: r.Allocated,
		PendingShrink: r.PendingShrink,
		InBuckets:     r.Remaining, Unsettled: r.Unsettled, Returning: r.Returning, Held: r.Held,
		Used: r.Used, PeriodUnits: r.PeriodUnits, Online: r.Online, Offline: r.Offline,
		Period: r.PeriodNow()}
	if r.Unlimited == 1 {
		f.InBuckets, f.Unsettled = 0, 0
		f.Held, f.Used = min(f.Held, budget.MaxAmount), min(f.Used, budget.MaxAmount)
	}
	return f
}
