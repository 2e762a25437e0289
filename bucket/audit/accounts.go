package audit

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// Epoch has an epoch's columns and the sums of its rows.
type Epoch struct {
	ledger.EpochFigures
	// IsNewest says that it is its bucket's newest epoch.
	IsNewest bool
	// ReleasedUsed is the part of Released that was released as used.
	ReleasedUsed int64
}

// Accounts has a budget's columns and the sums of all of its rows in one snapshot. Of Snapshot,
// only Figures, Adjusted, Shrinks and the budget's identity are set.
type Accounts struct {
	bucket.Snapshot
	// Epochs are all epochs of the budget, by bucket and number.
	Epochs  []Epoch
	Periods []ledger.PeriodFigures
	// Feed is the sum of the units of each bucket's feed.
	Feed map[int64]int64
	// Rows is how many rows were read.
	Rows int64
}

// add adds the columns of an epoch to the figures.
func (a *Accounts) add(e *Epoch) {
	f, row := &a.Figures, &e.Row
	if row.Status == ledger.Open {
		f.InBuckets += row.Outstanding
	} else {
		f.Unsettled += row.Outstanding
	}
	f.Returning += row.Returning
	if !a.Unlimited {
		f.Held += row.Held
		f.Used += row.Used
		if row.Period == f.Period.Number {
			f.PeriodUsed += row.Used
		}
		return
	}
	f.Held = min(f.Held+row.Held, budget.MaxAmount)
	f.Used = min(f.Used+row.Used, budget.MaxAmount)
	f.PeriodUsed = f.Used
}

const (
	selectAdjustments = `SELECT
		(SELECT COALESCE(SUM(quantity), 0) FROM adjustment
			WHERE budget_id = ? AND status = 'done') AS adjusted,
		(SELECT COALESCE(-SUM(quantity), 0) FROM adjustment
			WHERE budget_id = ? AND status = 'pending') AS shrinks`
	selectPeriods = `SELECT p.number, p.funded_quantity, p.carried_quantity, p.returned_quantity,
		p.passed_quantity, p.forfeited_quantity, COALESCE((SELECT SUM(c.total_quantity)
			FROM budget_management_bucket c /*by budget_management_bucket_parent*/
			WHERE c.parent_id = p.budget_id AND c.parent_period = p.number), 0) AS children
		FROM budget_period p
		WHERE p.budget_id = ? ORDER BY p.number`
	selectFeed = `SELECT f.bucket_id, COALESCE(SUM(f.units), 0) AS units
		FROM sharding_budget_management_bucket b /*in order*/ JOIN feed f /*by PRIMARY*/
		ON f.bucket_id = b.id WHERE b.budget_id = ? GROUP BY f.bucket_id`
)

// The sums of an epoch's rows. The table deduction has no secondary index: the rows of a budget are
// one range of its primary key.
const (
	sumGrants = `SELECT g.bucket_id, g.epoch, SUM(g.amount) AS units, 0 AS part, COUNT(*) AS n
		FROM sharding_budget_management_bucket b /*in order*/ JOIN grant_log g /*by PRIMARY*/
		ON g.bucket_id = b.id WHERE b.budget_id = ? GROUP BY g.bucket_id, g.epoch`
	sumDeductions = `SELECT d.bucket_id, d.epoch, SUM(d.amount) AS units, 0 AS part, COUNT(*) AS n
		FROM deduction d /*by PRIMARY*/ WHERE d.budget_id = ? AND d.bucket_id <> 0
		GROUP BY d.bucket_id, d.epoch`
	sumExtras = `SELECT x.bucket_id, x.epoch, SUM(x.amount) AS units, 0 AS part, COUNT(*) AS n
		FROM extra x /*by PRIMARY*/ WHERE x.budget_id = ? GROUP BY x.bucket_id, x.epoch`
	sumBacks = `SELECT g.bucket_id, g.epoch, SUM(g.amount) AS units,
		SUM(CASE WHEN g.is_direct = 1 THEN g.amount ELSE 0 END) AS part, COUNT(*) AS n
		FROM give_back g /*by PRIMARY*/ WHERE g.budget_id = ? GROUP BY g.bucket_id, g.epoch`
	sumHolds = `SELECT h.bucket_id, h.epoch, SUM(d.amount - h.used - COALESCE((SELECT SUM(g.amount)
			FROM give_back g /*by PRIMARY*/ WHERE g.budget_id = d.budget_id
			AND g.request_id = d.request_id AND g.number = 0), 0)
			+ COALESCE((SELECT SUM(x.used_quantity) FROM extra x /*by PRIMARY*/
			WHERE x.budget_id = d.budget_id AND x.request_id = d.request_id), 0)) AS units,
			0 AS part, COUNT(*) AS n
		FROM hold h /*by PRIMARY*/ /*in order*/ JOIN deduction d /*by PRIMARY*/
		ON d.budget_id = h.budget_id AND d.request_id = h.request_id
		WHERE h.budget_id = ? AND h.state = 'held' GROUP BY h.bucket_id, h.epoch`
	sumHeldExtras = `SELECT x.bucket_id, x.epoch,
		SUM(x.amount - x.back_quantity - x.used_quantity) AS units, 0 AS part, COUNT(*) AS n
		FROM extra x /*by PRIMARY*/ /*in order*/ JOIN hold h /*by PRIMARY*/
		ON h.budget_id = x.budget_id AND h.request_id = x.request_id
		WHERE x.budget_id = ? AND h.state = 'held' GROUP BY x.bucket_id, x.epoch`
	sumQuarantines = `SELECT q.bucket_id, q.epoch, SUM(q.quantity) AS units,
		SUM(q.released_quantity) AS part, COUNT(*) AS n FROM quarantine q /*by quarantine_budget*/
		WHERE q.budget_id = ? GROUP BY q.bucket_id, q.epoch`
	sumReleases = `SELECT r.bucket_id, r.epoch, SUM(r.quantity) AS units,
		SUM(CASE WHEN r.goes_to = 'used' THEN r.quantity ELSE 0 END) AS part, COUNT(*) AS n
		FROM quarantine_release r /*by PRIMARY*/ WHERE r.budget_id = ?
		GROUP BY r.bucket_id, r.epoch`
)

type sumRow struct {
	Bucket int64 `db:"bucket_id"`
	Epoch  int64 `db:"epoch"`
	Units  int64 `db:"units"`
	Part   int64 `db:"part"`
	N      int64 `db:"n"`
}

// sums maps each sum to its figure.
var sums = []struct {
	query string
	add   func(e *Epoch, sum *sumRow)
}{
	{sumGrants, func(e *Epoch, sum *sumRow) { e.Granted = sum.Units }},
	{sumDeductions, func(e *Epoch, sum *sumRow) { e.Deducted = sum.Units }},
	{sumExtras, func(e *Epoch, sum *sumRow) { e.Deducted += sum.Units }},
	{sumBacks, func(e *Epoch, sum *sumRow) { e.GivenBack, e.BackInO = sum.Units, sum.Part }},
	{sumHolds, func(e *Epoch, sum *sumRow) { e.EpochFigures.Held = sum.Units }},
	{sumHeldExtras, func(e *Epoch, sum *sumRow) { e.EpochFigures.Held += sum.Units }},
	{sumQuarantines, func(e *Epoch, sum *sumRow) {
		e.Quarantined, e.NotedRelease = sum.Units, sum.Part
	}},
	{sumReleases, func(e *Epoch, sum *sumRow) {
		e.Released, e.ReleasedUsed = sum.Units, sum.Part
	}},
}

// readAccounts reads the columns of a budget and all of its rows in one snapshot, for the proof of
// I1. It reads every deduction of the budget and takes no locks. Errors: BudgetNotFound,
// Unavailable.
func (s *Service) readAccounts(ctx context.Context, budgetID int64) (out Accounts, err error) {
	err = s.db.Snapshot(ctx, "audit", func(r *engine.Reader) error {
		out, err = accounts(r, budgetID)
		return err
	})
	return out, err
}

func accounts(r *engine.Reader, budgetID int64) (out Accounts, err error) {
	all, b, err := bookkeeper.ReadBudget(r, "audit", budgetID, bookkeeper.AllEpochs(budgetID)...)
	if err != nil {
		return out, err
	}
	out.Definition = b.Definition()
	out.Figures = ledger.Figures{Total: b.Total, Undistributed: b.Undistributed,
		Quarantined: b.Quarantined, Forfeited: b.Forfeited, Unfunded: b.Unfunded,
		Allocated: b.Allocated, PendingShrink: b.PendingShrink, Period: b.PeriodNow()}
	var adjustments struct {
		Adjusted int64 `db:"adjusted"`
		Shrinks  int64 `db:"shrinks"`
	}
	if _, err := r.Get(&adjustments, selectAdjustments, budgetID, budgetID); err != nil {
		return out, err
	}
	out.Adjusted, out.Shrinks = adjustments.Adjusted, adjustments.Shrinks
	if err := readEpochs(r, all, &out); err != nil {
		return out, err
	}
	if err := readPeriods(r, &out); err != nil {
		return out, err
	}
	return out, readFeed(r, &out)
}

// readEpochs adds the epochs, and the sums of their rows, and sums their columns. Rows of a
// missing epoch produce an epoch without units.
func readEpochs(r *engine.Reader, all *books.Books, a *Accounts) error {
	index := map[books.Position]int{}
	for _, epoch := range all.Epochs.All() {
		row := all.Buckets.Get(epoch.Bucket)
		e := Epoch{IsNewest: epoch.Number == row.Epoch, EpochFigures: ledger.EpochFigures{
			Bucket: row.Key, Row: epoch.Ledger(), Closed: epoch.Closed}}
		index[epoch.Position()] = len(a.Epochs)
		a.Epochs = append(a.Epochs, e)
		a.add(&e)
		if e.IsNewest && row.Status == books.Online {
			a.Figures.Online++
		} else if e.IsNewest && row.OfflineBy != books.Word(bucket.ByResize) {
			a.Figures.Offline++
		}
	}
	for _, sum := range sums {
		var read []sumRow
		if err := r.List(&read, sum.query, a.ID); err != nil {
			return err
		}
		for i := range read {
			at := books.Position{Bucket: read[i].Bucket, Epoch: read[i].Epoch}
			n, known := index[at]
			if !known {
				n = len(a.Epochs)
				index[at] = n
				a.Epochs = append(a.Epochs, Epoch{EpochFigures: ledger.EpochFigures{
					Bucket: fmt.Sprintf("number %d", at.Bucket),
					Row:    ledger.Epoch{Budget: a.ID, Bucket: at.Bucket, Number: at.Epoch}}})
			}
			sum.add(&a.Epochs[n], &read[i])
			a.Rows += read[i].N
		}
	}
	return nil
}

func readPeriods(r *engine.Reader, a *Accounts) error {
	var found []struct {
		Number    int64 `db:"number"`
		Funded    int64 `db:"funded_quantity"`
		Carried   int64 `db:"carried_quantity"`
		Returned  int64 `db:"returned_quantity"`
		Passed    int64 `db:"passed_quantity"`
		Forfeited int64 `db:"forfeited_quantity"`
		Children  int64 `db:"children"`
	}
	if err := r.List(&found, selectPeriods, a.ID); err != nil {
		return err
	}
	for _, row := range found {
		f := ledger.PeriodFigures{Returned: row.Returned, Passed: row.Passed, Forfeited: row.Forfeited,
			Children: row.Children}
		f.Number, f.Funded, f.Carried = row.Number, row.Funded, row.Carried
		a.Periods = append(a.Periods, f)
		if row.Number == a.Figures.Period.Number {
			a.Figures.PeriodUnits = row.Funded + row.Carried
		}
	}
	return nil
}

func readFeed(r *engine.Reader, a *Accounts) error {
	var found []sumRow
	if err := r.List(&found, selectFeed, a.ID); err != nil {
		return err
	}
	a.Feed = make(map[int64]int64, len(found))
	for _, row := range found {
		a.Feed[row.Bucket] = row.Units
	}
	return nil
}
