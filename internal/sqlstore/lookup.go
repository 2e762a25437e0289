package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectDeductions = `SELECT ` + deductionColumns + ` FROM deduction d /*by PRIMARY*/ WHERE `
	ofBudget         = `d.budget_id = ? AND d.request_id IN (`
)

// deductions reads the ledger's rows of ids, by key, with a suffix to the statements (a lock).
func (r *reader) deductions(ids []bucket.ID, suffix string) (
	map[bucket.ID]*ledger.Deduction, error) {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b bucket.ID) int {
		return cmp.Or(cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.RequestID, b.RequestID))
	})
	ids = slices.Compact(ids)
	out := make(map[bucket.ID]*ledger.Deduction, len(ids))
	for chunk := range slices.Chunk(ids, listChunk) {
		for len(chunk) > 0 {
			n := len(chunk)
			if !r.conn.dialect.groups {
				n = sameBudget(chunk)
			}
			query, args := r.listOf(chunk[:n])
			var rows []deductionRow
			if err := r.list(&rows, query+suffix, args...); err != nil {
				return nil, err
			}
			for i := range rows {
				d := rows[i].deduction()
				out[bucket.ID{Budget: d.Budget, RequestID: d.RequestID}] = &d
			}
			chunk = chunk[n:]
		}
	}
	return out, nil
}

// sameBudget counts the first ids that are of one budget.
func sameBudget(ids []bucket.ID) int {
	n := 1
	for n < len(ids) && ids[n].Budget == ids[0].Budget {
		n++
	}
	return n
}

// listOf makes the statement that reads ids, which are sorted: one list per budget.
func (r *reader) listOf(ids []bucket.ID) (query string, args []any) {
	var text strings.Builder
	text.WriteString(selectDeductions)
	for len(ids) > 0 {
		if len(args) > 0 {
			text.WriteString(" OR ")
		}
		n := sameBudget(ids)
		list := padded(r.conn.dialect, ids[:n])
		text.WriteString(ofBudget + repeat("?", ",", len(list)) + ")")
		args = append(args, ids[0].Budget)
		for _, id := range list {
			args = append(args, []byte(id.RequestID))
		}
		ids = ids[n:]
	}
	return text.String(), args
}

// Recorded reads the ledger's rows of many ids.
func (db *DB) Recorded(ctx context.Context, ids []bucket.ID) (
	map[bucket.ID]ledger.Deduction, error) {
	out := make(map[bucket.ID]ledger.Deduction, len(ids))
	err := db.read(ctx, "look up", func(r *reader) error {
		rows, err := r.deductions(ids, "")
		for id, d := range rows {
			out[id] = *d
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

const (
	selectDeductionsAt = `SELECT ` + deductionColumns + ` FROM deduction d WHERE `
	deductionAt        = `(d.bucket_id = ? AND d.epoch = ? AND d.seq = ?)`

	selectDuplicatesAt = `SELECT d.bucket_id, d.epoch, d.seq, d.budget_id, d.request_id, d.nonce,
		d.amount, d.reason, d.figures FROM duplicate d WHERE `
)

type duplicateRow struct {
	Bucket    int64  `db:"bucket_id"`
	Epoch     int64  `db:"epoch"`
	Seq       int64  `db:"seq"`
	Budget    int64  `db:"budget_id"`
	RequestID string `db:"request_id"`
	Nonce     string `db:"nonce"`
	Amount    int64  `db:"amount"`
	Reason    string `db:"reason"`
	Figures   []byte `db:"figures"`
}

func (r *duplicateRow) duplicate() ledger.Duplicate {
	return ledger.Duplicate{
		Budget: r.Budget, RequestID: r.RequestID,
		Position: ledger.Position{Bucket: r.Bucket, Epoch: r.Epoch, Seq: r.Seq},
		Amount:   r.Amount, Nonce: r.Nonce, Reason: ledger.Reason(r.Reason),
		Figures: string(r.Figures),
	}
}

// At returns what became of log entries: the deduction or the duplicate at each position, a
// duplicate with the recorded row of its id.
func (db *DB) At(ctx context.Context, positions []ledger.Position) (
	map[ledger.Position]ledger.Outcome, error) {
	out := make(map[ledger.Position]ledger.Outcome, len(positions))
	err := db.read(ctx, "look up", func(r *reader) error {
		var duplicates []ledger.Duplicate
		for chunk := range slices.Chunk(positions, listChunk) {
			args, list := r.places(chunk)
			var made []deductionRow
			if err := r.list(&made, selectDeductionsAt+list, args...); err != nil {
				return err
			}
			for i := range made {
				d := made[i].deduction()
				out[d.Position] = ledger.Outcome{Position: d.Position, Deduction: &d}
			}
			var rows []duplicateRow
			if err := r.list(&rows, selectDuplicatesAt+list, args...); err != nil {
				return err
			}
			for i := range rows {
				duplicates = append(duplicates, rows[i].duplicate())
			}
		}
		return r.outcomesOf(duplicates, out)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// places makes the list of positions for a WHERE.
func (r *reader) places(positions []ledger.Position) (args []any, list string) {
	positions = padded(r.conn.dialect, positions)
	for _, p := range positions {
		args = append(args, p.Bucket, p.Epoch, p.Seq)
	}
	return args, repeat(deductionAt, " OR ", len(positions))
}

// outcomesOf adds the outcomes of duplicates, with the recorded rows of their ids.
func (r *reader) outcomesOf(duplicates []ledger.Duplicate,
	out map[ledger.Position]ledger.Outcome) error {
	var ids []bucket.ID
	for _, d := range duplicates {
		if !d.Reason.KeepsIDFree() {
			ids = append(ids, bucket.ID{Budget: d.Budget, RequestID: d.RequestID})
		}
	}
	recorded, err := r.deductions(ids, "")
	if err != nil {
		return err
	}
	for i := range duplicates {
		d := &duplicates[i]
		outcome := ledger.Outcome{Position: d.Position, Duplicate: d}
		if !d.Reason.KeepsIDFree() {
			outcome.Deduction = recorded[bucket.ID{Budget: d.Budget, RequestID: d.RequestID}]
		}
		out[d.Position] = outcome
	}
	return nil
}

// selectCovers is I3's sum of each budget in one row, and selectJudged the rows of ids, as one statement: one
// moment. U counts where some bucket that no operator took offline may apply for it, and where there is no such bucket
// at all: one that is brought online may.
const (
	selectCovers = `SELECT 1 AS is_cover,
		u.unfunded_quantity AS unfunded, u.period, u.period_start_ms, u.period_end_ms, u.is_over, u.roll_over_ms,
		u.undistributed_quantity * (SELECT COUNT(*) = 0 OR SUM(u.adjust_cnt = 0 OR b.out_cnt < u.adjust_cnt) > 0
			FROM sharding_budget_management_bucket b /*by budget_id*/
			WHERE b.budget_id = u.id AND b.offline_by NOT IN ('operator', 'resize')) AS undistributed,
		(SELECT COALESCE(SUM(CASE WHEN e.period = u.period OR u.unused IN ('next', 'whole')
				THEN e.outstanding_quantity ELSE 0 END), 0)
			FROM bucket_epoch e /*by bucket_epoch_units*/
			WHERE e.budget_id = u.id AND e.has_units = 1) AS outstanding,
		(SELECT COALESCE(SUM(CASE WHEN e.period = u.period THEN e.returning_quantity ELSE
				CASE WHEN u.unused IN ('next', 'whole') THEN e.returning_quantity - e.late_quantity ELSE 0 END +
				CASE WHEN u.late_refund = 'next' OR u.unused = 'whole' AND u.late_refund <> 'forfeit'
				THEN e.late_quantity ELSE 0 END END), 0)
			FROM bucket_epoch e /*by bucket_epoch_units*/
			WHERE e.budget_id = u.id AND e.has_units = 1) AS returning_sum,
		(SELECT COALESCE(SUM(e.outstanding_quantity + e.returning_quantity), 0)
			FROM bucket_epoch e /*by bucket_epoch_units*/
			WHERE e.budget_id = u.id AND e.has_units = 1) AS in_epochs,
		u.id AS budget_id, NULL AS request_id, NULL AS state, 0 AS amount, 0 AS rolled_back,
		NULL AS fingerprint, NULL AS nonce, NULL AS reference, NULL AS dimensions,
		NULL AS counts, NULL AS hold_group, 0 AS hold_until_ms, 0 AS confirmed, NULL AS bucket_id, NULL AS epoch, NULL AS seq, NULL AS entry, 0 AS counted_at
		FROM budget_management_bucket u WHERE u.id `
	selectJudged = ` UNION ALL SELECT 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ` + deductionColumns + `
		FROM deduction d /*by PRIMARY*/ WHERE `
)

type judgedRow struct {
	IsCover       int64  `db:"is_cover"`
	Undistributed int64  `db:"undistributed"`
	Outstanding   int64  `db:"outstanding"`
	Returning     int64  `db:"returning_sum"`
	InEpochs      int64  `db:"in_epochs"`
	Unfunded      int64  `db:"unfunded"`
	Period        int64  `db:"period"`
	PeriodStartMS int64  `db:"period_start_ms"`
	PeriodEndMS   int64  `db:"period_end_ms"`
	IsOver        int64  `db:"is_over"`
	RollOverMS    int64  `db:"roll_over_ms"`
	Budget        int64  `db:"budget_id"`
	RequestID     []byte `db:"request_id"`
	State         []byte `db:"state"`
	Amount        int64  `db:"amount"`
	RolledBack    int64  `db:"rolled_back"`
	Fingerprint   []byte `db:"fingerprint"`
	Nonce         []byte `db:"nonce"`
	Reference     []byte `db:"reference"`
	Dimensions    []byte `db:"dimensions"`
	Counts        []byte `db:"counts"`
	Group         []byte `db:"hold_group"`
	HoldUntil     int64  `db:"hold_until_ms"`
	Confirmed     int64  `db:"confirmed"`
	Bucket        *int64 `db:"bucket_id"`
	Epoch         *int64 `db:"epoch"`
	Seq           *int64 `db:"seq"`
	Entry         *int64 `db:"entry"`
	CountedAt     int64  `db:"counted_at"`
}

func (r *judgedRow) deduction() ledger.Deduction {
	row := deductionRow{Budget: r.Budget, RequestID: string(r.RequestID), State: string(r.State),
		Amount: r.Amount, RolledBack: r.RolledBack, Fingerprint: string(r.Fingerprint),
		Nonce: string(r.Nonce), Reference: r.Reference, Dimensions: r.Dimensions, Bucket: r.Bucket,
		Counts: r.Counts, Group: r.Group, HoldUntil: r.HoldUntil, Confirmed: r.Confirmed,
		Epoch: r.Epoch, Seq: r.Seq, Entry: r.Entry, CountedAt: r.CountedAt}
	return row.deduction()
}

func (r *judgedRow) cover() bucket.Cover {
	return bucket.Cover{Undistributed: r.Undistributed, Outstanding: r.Outstanding, Returning: r.Returning,
		Later: r.Unfunded + r.InEpochs - r.Outstanding - r.Returning}
}

// judgeLimit is the most ids that one statement can judge: SQLite takes 32,766 parameters.
const judgeLimit = 16_384

// Judge reads ids of one budget and I3's sum in one statement, without locks: under READ COMMITTED
// two statements would see two moments, and units between them in neither. Error: BudgetNotFound.
func (db *DB) Judge(ctx context.Context, budgetID int64, requestIDs []string) (
	bucket.Judgement, error) {
	ids := slices.Compact(slices.Sorted(slices.Values(requestIDs)))
	if len(ids) > judgeLimit {
		return bucket.Judgement{}, budget.Refuse(budget.TooLarge, "judge",
			"%d request ids at once, at most %d", len(ids), judgeLimit)
	}
	out := bucket.Judgement{Recorded: map[string]ledger.Deduction{}}
	err := db.read(ctx, "judge", func(r *reader) error {
		query, args := selectCovers+"= ?", []any{budgetID}
		if len(ids) > 0 {
			list := padded(r.conn.dialect, ids)
			query += selectJudged + ofBudget + repeat("?", ",", len(list)) + ")"
			args = append(args, budgetID)
			for _, id := range list {
				args = append(args, []byte(id))
			}
		}
		var rows []judgedRow
		if err := r.list(&rows, query, args...); err != nil {
			return err
		}
		found := false
		for i := range rows {
			if row := &rows[i]; row.IsCover == 1 {
				found = true
				out.Cover = row.cover()
				out.Period = budget.Period{Number: row.Period, Over: row.IsOver == 1,
					Start: fromMS(row.PeriodStartMS), End: fromMS(row.PeriodEndMS)}
				continue
			}
			d := rows[i].deduction()
			out.Recorded[d.RequestID] = d
		}
		if !found {
			return budget.Refuse(budget.BudgetNotFound, "judge", "there is no budget %d", budgetID)
		}
		return nil
	})
	if err != nil {
		return bucket.Judgement{}, err
	}
	return out, nil
}

// Covers reads I3's sum of many budgets, without locks, several in a statement; one that does not exist is missing.
func (db *DB) Covers(ctx context.Context, budgetIDs []int64) (map[int64]bucket.Cover, error) {
	ids := slices.Compact(slices.Sorted(slices.Values(budgetIDs)))
	out := make(map[int64]bucket.Cover, len(ids))
	err := db.read(ctx, "covers", func(r *reader) error {
		for chunk := range slices.Chunk(ids, listChunk) {
			list := padded(r.conn.dialect, chunk)
			args := make([]any, len(list))
			for i, id := range list {
				args[i] = id
			}
			var rows []judgedRow
			if err := r.list(&rows, selectCovers+"IN ("+repeat("?", ",", len(list))+")", args...); err != nil {
				return err
			}
			for i := range rows {
				out[rows[i].Budget] = rows[i].cover()
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
