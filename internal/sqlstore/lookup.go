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

// The parts of I3's sum, of a budget u, its buckets b and its epochs e. U counts where some bucket that no operator took
// offline may apply for it, and where there is no such bucket at all: one that is brought online may.
const (
	mayApply     = `COUNT(*) = 0 OR SUM(u.adjust_cnt = 0 OR b.out_cnt < u.adjust_cnt) > 0`
	applying     = `b.offline_by NOT IN ('operator', 'resize')`
	outstandingO = `COALESCE(SUM(CASE WHEN e.period = u.period OR u.unused IN ('next', 'whole')
				THEN e.outstanding_quantity ELSE 0 END), 0)`
	returningR = `COALESCE(SUM(CASE WHEN e.period = u.period THEN e.returning_quantity ELSE
				CASE WHEN u.unused IN ('next', 'whole') THEN e.returning_quantity - e.late_quantity ELSE 0 END +
				CASE WHEN u.late_refund = 'next' OR u.unused = 'whole' AND u.late_refund <> 'forfeit'
				THEN e.late_quantity ELSE 0 END END), 0)`
	inEpochs = `COALESCE(SUM(e.outstanding_quantity + e.returning_quantity), 0)`
	ofUnits  = `FROM bucket_epoch e /*by bucket_epoch_units*/ WHERE e.budget_id = u.id AND e.has_units = 1`
)

// selectCovers is I3's sum of each budget in one row.
const selectCovers = `SELECT u.id AS budget_id, u.unfunded_quantity AS unfunded,
		u.undistributed_quantity * (SELECT ` + mayApply + ` FROM sharding_budget_management_bucket b /*by budget_id*/
			WHERE b.budget_id = u.id AND ` + applying + `) AS undistributed,
		(SELECT ` + outstandingO + ` ` + ofUnits + `) AS outstanding,
		(SELECT ` + returningR + ` ` + ofUnits + `) AS returning_sum,
		(SELECT ` + inEpochs + ` ` + ofUnits + `) AS in_epochs
	FROM budget_management_bucket u WHERE u.id `

type coverRow struct {
	Budget        int64 `db:"budget_id"`
	Unfunded      int64 `db:"unfunded"`
	Undistributed int64 `db:"undistributed"`
	Outstanding   int64 `db:"outstanding"`
	Returning     int64 `db:"returning_sum"`
	InEpochs      int64 `db:"in_epochs"`
}

func (r *coverRow) cover() bucket.Cover {
	return bucket.Cover{Undistributed: r.Undistributed, Outstanding: r.Outstanding, Returning: r.Returning,
		Later: r.Unfunded + r.InEpochs - r.Outstanding - r.Returning}
}

// The statement of Judge: I3's sum of one budget in three rows, of the budget, its epochs and its buckets, and those of
// the ids that are recorded, as one: one moment. Its branches are simple and narrow and it is kept prepared, because
// reading and planning it costs a server more than carrying it out. The buckets are not read where nothing is undistributed.
const (
	selectSum = kept + `SELECT 1 AS part, u.undistributed_quantity AS f1, u.unfunded_quantity AS f2, u.period AS f3,
		u.period_start_ms AS f4, u.period_end_ms AS f5, u.is_over AS f6, x'' AS request_id
		FROM budget_management_bucket u WHERE u.id = ?
	UNION ALL SELECT 2, ` + outstandingO + `, ` + returningR + `, ` + inEpochs + `, 0, 0, 0, x''
		FROM budget_management_bucket u JOIN bucket_epoch e /*by bucket_epoch_units*/
		ON e.budget_id = u.id AND e.has_units = 1 WHERE u.id = ?
	UNION ALL SELECT 3, ` + mayApply + `, 0, 0, 0, 0, 0, x''
		FROM budget_management_bucket u JOIN sharding_budget_management_bucket b /*by budget_id*/
		ON b.budget_id = u.id AND ` + applying + ` WHERE u.id = ? AND u.undistributed_quantity > 0`

	andIDs = ` UNION ALL SELECT 4, 0, 0, 0, 0, 0, 0, d.request_id FROM deduction d /*by PRIMARY*/ WHERE ` + ofBudget
)

// judgedRow is a row of that statement: the figures of one part of it, or an id.
type judgedRow struct {
	Part      int64  `db:"part"`
	F1        int64  `db:"f1"`
	F2        int64  `db:"f2"`
	F3        int64  `db:"f3"`
	F4        int64  `db:"f4"`
	F5        int64  `db:"f5"`
	F6        int64  `db:"f6"`
	RequestID string `db:"request_id"`
}

const partBudget, partEpochs, partBuckets = 1, 2, 3

// judgement reads the rows of one statement. found: there is such a budget.
func judgement(rows []judgedRow) (j bucket.Judgement, recorded []string, found bool) {
	mayApply := int64(0)
	for i := range rows {
		switch r := &rows[i]; r.Part {
		case partBudget:
			found, j.Cover.Undistributed = true, r.F1
			j.Cover.Later += r.F2
			j.Period = budget.Period{Number: r.F3, Over: r.F6 == 1, Start: fromMS(r.F4), End: fromMS(r.F5)}
		case partEpochs:
			j.Cover.Outstanding, j.Cover.Returning = r.F1, r.F2
			j.Cover.Later += r.F3 - r.F1 - r.F2
		case partBuckets:
			mayApply = r.F1
		default:
			recorded = append(recorded, r.RequestID)
		}
	}
	j.Cover.Undistributed *= mayApply
	return j, recorded, found
}

// judgeLimit is the most ids that one statement can judge: SQLite takes 32,766 parameters.
const judgeLimit = 16_384

// keptIDs is the most ids of a statement that a server keeps prepared: the lists are filled up to powers of two.
const keptIDs = 128

// Judge looks for ids of one budget and reads I3's sum in one statement, without locks: under READ COMMITTED
// two statements would see two moments, and units between them in neither. The rows of ids that are
// recorded are read after it: they stay recorded. Error: BudgetNotFound.
func (db *DB) Judge(ctx context.Context, budgetID int64, requestIDs []string) (
	bucket.Judgement, error) {
	ids := slices.Compact(slices.Sorted(slices.Values(requestIDs)))
	if len(ids) > judgeLimit {
		return bucket.Judgement{}, budget.Refuse(budget.TooLarge, "judge",
			"%d request ids at once, at most %d", len(ids), judgeLimit)
	}
	var out bucket.Judgement
	err := db.read(ctx, "judge", func(r *reader) error {
		query, args := judgeOf(budgetID, ids)
		var rows []judgedRow
		if err := r.list(&rows, query, args...); err != nil {
			return err
		}
		j, recorded, found := judgement(rows)
		if !found {
			return budget.Refuse(budget.BudgetNotFound, "judge", "there is no budget %d", budgetID)
		}
		out = j
		var err error
		out.Recorded, err = r.recorded(budgetID, recorded)
		return err
	})
	if err != nil {
		return bucket.Judgement{}, err
	}
	return out, nil
}

// judgeOf makes the statement that judges ids of a budget.
func judgeOf(budgetID int64, ids []string) (query string, args []any) {
	args = make([]any, 0, 2*len(ids)+4)
	args = append(args, budgetID, budgetID, budgetID)
	if len(ids) == 0 {
		return selectSum, args
	}
	return keptList(selectSum+andIDs, args, budgetID, ids)
}

// keptList ends a statement that is kept with a list of ids of a budget. Its text is one of few, or long and not kept.
func keptList(query string, args []any, budgetID int64, ids []string) (string, []any) {
	list := filledUp(ids)
	if len(list) > keptIDs {
		query = strings.TrimPrefix(query, kept)
	}
	args = append(args, budgetID)
	for _, id := range list {
		args = append(args, []byte(id))
	}
	return query + repeat("?", ",", len(list)) + ")", args
}

// recorded reads the rows of ids that were found recorded; nil: there are none.
func (r *reader) recorded(budgetID int64, ids []string) (map[string]ledger.Deduction, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	query, args := keptList(kept+selectDeductions+ofBudget, nil, budgetID, ids)
	var rows []deductionRow
	if err := r.list(&rows, query, args...); err != nil {
		return nil, err
	}
	out := make(map[string]ledger.Deduction, len(rows))
	for i := range rows {
		out[rows[i].RequestID] = rows[i].deduction()
	}
	if len(out) < len(ids) {
		return nil, defect("%d of %d ids of budget %d were recorded and are no more", len(ids)-len(out), len(ids), budgetID)
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
			var rows []coverRow
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
