package sqlstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

const (
	insertPeriods = `INSERT INTO budget_period (budget_id, number, start_ms, end_ms, funded_quantity,
		carried_quantity, before_quantity, returned_quantity, passed_quantity, forfeited_quantity, created_at)`
	periodWidth  = 11
	selectPeriod = `SELECT funded_quantity, carried_quantity, before_quantity FROM budget_period
		WHERE budget_id = ? AND number = ?`
	fundPeriod = `UPDATE budget_period SET funded_quantity = funded_quantity + ?
		WHERE budget_id = ? AND number = ?`
	carryInto = `UPDATE budget_period SET carried_quantity = carried_quantity + ?
		WHERE budget_id = ? AND number = ?`
	leavePeriod = `UPDATE budget_period SET returned_quantity = returned_quantity + ?,
		passed_quantity = passed_quantity + ?, forfeited_quantity = forfeited_quantity + ?
		WHERE budget_id = ? AND number = ?`
	moveUnits = `UPDATE budget_management_bucket SET unfunded_quantity = unfunded_quantity + ?,
		undistributed_quantity = undistributed_quantity + ?, forfeited_quantity = forfeited_quantity + ?,
		out_quantity = out_quantity - ? WHERE id = ?`
	turnPeriod = `UPDATE budget_management_bucket SET period = ?, period_start_ms = ?, period_end_ms = ?,
		is_over = ?, roll_over_ms = ?, list_version = list_version + 1 WHERE id = ?`
	listOffline = `UPDATE sharding_budget_management_bucket SET status = 'offline',
		offline_by = 'service', is_idle = 0, updated_at = ? WHERE budget_id = ? AND status = 'online'`
	selectOver = `SELECT id FROM budget_management_bucket /*by budget_management_bucket_roll_over*/
		WHERE roll_over_ms > 0 AND roll_over_ms <= ? ORDER BY roll_over_ms, id LIMIT ?`
	// selectUsedSince sums what epochs used and hold of periods that begin at an instant or later and did not end before;
	// selectCounted, row by row, what was counted since then in epochs of those that had begun before and ended later.
	// After changes of a rule a period may begin before the one with the number before, and end before it begins.
	selectUsedSince = `SELECT COALESCE(SUM(e.used_quantity + e.held_quantity), 0) FROM bucket_epoch e /*by bucket_epoch_units*/
		/*in order*/ JOIN budget_period p /*by PRIMARY*/ ON p.budget_id = e.budget_id AND p.number = e.period
		WHERE e.budget_id = ? AND p.start_ms >= ? AND (p.end_ms = 0 OR p.end_ms > ?)`
	selectCounted = `SELECT COALESCE(SUM(d.amount - d.rolled_back), 0) FROM bucket_epoch e /*by bucket_epoch_units*/
		/*in order*/ JOIN budget_period p /*by PRIMARY*/ ON p.budget_id = e.budget_id AND p.number = e.period
		/*in order*/ JOIN deduction d /*by bucket_id*/ ON d.bucket_id = e.bucket_id AND d.epoch = e.epoch
		WHERE e.budget_id = ? AND p.start_ms < ? AND (p.end_ms = 0 OR p.end_ms > ?) AND d.counted_at >= ?`
)

// oneIf is how a column holds a truth.
func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// rollOverMS is when a period needs a roll-over; 0: never.
func rollOverMS(p budget.Period) int64 {
	if p.Over {
		return 0
	}
	return endMS(p.End)
}

// commitsEndMS is bucket_epoch.period_end_ms: in store mode an entry counts whenever it is drained.
func commitsEndMS(durability budget.Durability, p budget.Period) int64 {
	if durability == budget.Store {
		return 0
	}
	return endMS(p.End)
}

// insertPeriod writes a period's row.
func (t *tx) insertPeriod(budgetID int64, p budget.Period) error {
	return t.insert(insertPeriods, periodWidth, []any{budgetID, p.Number, toMS(p.Start), endMS(p.End),
		p.Funded, p.Carried, p.Before, 0, 0, 0, toMS(t.now)})
}

// fund moves units F -> U of the open period. The budget is locked.
func (t *tx) fund(b *budgetRow, units int64) error {
	if units == 0 {
		return nil
	}
	if err := t.moveUnits(b, allocation.Movement{Unfunded: -units, Undistributed: units}); err != nil {
		return err
	}
	return t.hit(1, fundPeriod, units, b.ID, b.Period)
}

// takeBack moves units U -> F for a shrink: first what the period got of F, then what others left to it. The
// budget is locked.
func (t *tx) takeBack(b *budgetRow, units int64) error {
	p, err := t.openPeriodOf(b)
	if err != nil {
		return err
	}
	funded := min(units, p.Funded)
	if err := t.fund(b, -funded); err != nil || units == funded {
		return err
	}
	carried := units - funded
	if err := t.moveUnits(b, allocation.Movement{Unfunded: carried, Undistributed: -carried}); err != nil {
		return err
	}
	return t.hit(1, leavePeriod, carried, 0, 0, b.ID, b.Period)
}

// moveUnits changes F, U and X of a locked budget; what is left over comes out of what is handed out.
func (t *tx) moveUnits(b *budgetRow, m allocation.Movement) error {
	if m == (allocation.Movement{}) {
		return nil
	}
	b.Unfunded, b.Undistributed, b.Forfeited = b.Unfunded+m.Unfunded, b.Undistributed+m.Undistributed,
		b.Forfeited+m.Forfeited
	return t.hit(1, moveUnits, m.Unfunded, m.Undistributed, m.Forfeited,
		m.Unfunded+m.Undistributed+m.Forfeited, b.ID)
}

// coming is units that come back from a locked epoch; late ones were used when its period ended.
type coming struct {
	row         *epochRow
	never, late int64
}

// comeBack moves units that have left their epochs to where their periods say: to U of the open period,
// or, where theirs is over, by the budget's rule. The budget is locked. Keeps I1.
func (t *tx) comeBack(b *budgetRow, all ...coming) error {
	var sum allocation.Movement
	carried := int64(0)
	older := map[int64]allocation.Movement{}
	for _, c := range all {
		if c.row.Period == b.Period && b.IsOver == 0 || safeguard.Off(safeguard.PeriodOfReturns) {
			sum.Undistributed += c.never + c.late
			continue
		}
		m := allocation.Return(b.definition(), b.period(), c.never, c.late)
		sum, older[c.row.Period] = sum.Plus(m), older[c.row.Period].Plus(m)
		carried += m.Undistributed
	}
	for _, number := range slices.Sorted(maps.Keys(older)) {
		m := older[number]
		if m == (allocation.Movement{}) {
			continue
		}
		if err := t.hit(1, leavePeriod, m.Unfunded, m.Undistributed, m.Forfeited, b.ID, number); err != nil {
			return err
		}
	}
	if carried > 0 {
		if err := t.hit(1, carryInto, carried, b.ID, b.Period); err != nil {
			return err
		}
	}
	return t.moveUnits(b, sum)
}

// Over lists budgets whose period needs a roll-over, by SQL's clock.
func (db *DB) Over(ctx context.Context, limit int) (ids []int64, err error) {
	now := toMS(db.Now())
	err = db.read(ctx, "roll over", func(r *reader) error {
		ids = nil
		return r.list(&ids, selectOver, now, limit)
	})
	return ids, err
}

// RollOver ends the period of a budget that is over, and opens the next. See bucket.Periods. Keeps I1.
func (db *DB) RollOver(ctx context.Context, budgetID int64, without ...bucket.Lane) (
	out bucket.RolledOver, err error) {
	err = db.write(ctx, "roll over", func(t *tx) error {
		out = bucket.RolledOver{}
		b, err := t.lockBudget("roll over", budgetID)
		if err != nil {
			return err
		}
		out.Period = b.period()
		if !b.due(t.now) {
			return nil
		}
		if err := t.checkClock("roll over"); err != nil {
			return err
		}
		out.Done = true
		return t.rollOver(b, without, &out)
	})
	if err != nil {
		return bucket.RolledOver{}, err
	}
	return out, nil
}

// checkClock refuses to end anything for good when the node's idea of SQL's clock is wrong: SQL's clock decides.
func (t *tx) checkClock(op string) error {
	if t.conn.dialect.name == sqliteName {
		return nil
	}
	var micros int64
	if _, err := t.get(&micros, selectClock); err != nil {
		return err
	}
	if off := time.UnixMicro(micros).Sub(t.db.Now()); off > t.db.tolerance || off < -t.db.tolerance {
		return &budget.Error{Code: budget.Unavailable, Op: op, RetryAfter: time.Second,
			Message: "this node's clock is " + off.String() + " off the database's: nothing is ended by it until it agrees"}
	}
	return nil
}

// rollOver goes on period by period to the one that the present instant is in: those that nobody rolled
// over in time were open for nobody, and what they got goes where the rule says.
func (t *tx) rollOver(b *budgetRow, without []bucket.Lane, out *bucket.RolledOver) error {
	all, err := t.lockBucketsOf(map[int64]*budgetRow{b.ID: b})
	if err != nil {
		return err
	}
	held, err := t.endPeriodsEpochs(b, all)
	if err != nil {
		return err
	}
	p := b.period()
	for range bucket.PeriodsAtOnce {
		next, ok := allocation.Next(b.definition(), p, t.now)
		used := int64(0)
		if ok {
			if used, err = t.countedSince(b, p, next.Start); err != nil {
				return err
			}
		}
		turn := allocation.RollOver(b.definition(), p, next, ok, allocation.Account{Unfunded: b.Unfunded,
			Undistributed: b.Undistributed, Held: held, Pending: b.PendingShrink, Used: used})
		if left := turn.Left; left != (allocation.Movement{}) {
			if err := t.hit(1, leavePeriod, left.Unfunded, left.Undistributed, left.Forfeited, b.ID, p.Number); err != nil {
				return err
			}
		}
		if err := t.moveUnits(b, turn.Moved); err != nil {
			return err
		}
		held, p = 0, turn.Period
		if err := t.insertPeriod(b.ID, p); err != nil {
			return err
		}
		if p.Over || !p.OverAt(t.now) {
			break
		}
	}
	return t.openPeriod(b, all, p, without, out)
}

// endPeriodsEpochs ends the live epochs of a period that is over, where their stores need not be asked:
// in ledger mode nothing of them can be committed any more. It returns what they held.
func (t *tx) endPeriodsEpochs(b *budgetRow, all []*bucketRow) (held int64, err error) {
	if b.Durability == string(budget.Store) {
		return 0, t.endInStores(all)
	}
	var live []*epochRow
	for _, row := range all {
		if row.live() && row.Fenced == "" {
			live = append(live, &row.epochRow)
		}
	}
	if len(live) == 0 {
		return 0, nil
	}
	if err := t.end(ledger.Lost, live...); err != nil {
		return 0, err
	}
	for _, row := range live {
		held += row.Outstanding
		row.Status, row.Outstanding = string(ledger.Lost), 0
	}
	for _, row := range all {
		if !row.live() {
			row.OutCnt = 0 // as the rows of those that have just ended say now
		}
	}
	return held, nil
}

// endInStores moves the open epochs to closing: their stores are asked for what they still have as soon as they
// can be.
func (t *tx) endInStores(all []*bucketRow) error {
	var keys []any
	for _, row := range all {
		if row.Status == string(ledger.Open) {
			row.Status = string(ledger.Closing)
			keys = append(keys, row.Bucket, row.Number)
		}
	}
	return t.hitAll(endingEpochs, nil, endingWhere, keys)
}

// openPeriod writes the period that follows, and gives its buckets epochs and units; or takes the buckets
// offline where none follows.
func (t *tx) openPeriod(b *budgetRow, all []*bucketRow, p budget.Period, without []bucket.Lane,
	out *bucket.RolledOver) error {
	err := t.hit(1, turnPeriod, p.Number, toMS(p.Start), endMS(p.End), oneIf(p.Over), rollOverMS(p), b.ID)
	if err != nil {
		return err
	}
	b.Period, b.PeriodStartMS, b.PeriodEndMS = p.Number, toMS(p.Start), endMS(p.End)
	b.IsOver, b.RollOverMS = int64(oneIf(p.Over)), rollOverMS(p)
	out.Period = b.period()
	if p.Over {
		_, err := t.exec(listOffline, toMS(t.now), b.ID)
		return err
	}
	if b.halted() {
		return nil // its buckets are given epochs when it has its new number of them
	}
	lanes, err := t.takingLanes(without)
	if err != nil {
		return err
	}
	ended, shares := settle(b, all, t.now, lanes)
	if err := t.beginAll("roll over", map[int64]*budgetRow{b.ID: b}, ended); err != nil {
		return err
	}
	if out.Grants, err = t.giveShares(shares); err != nil {
		return err
	}
	for _, row := range ended {
		out.Opened = append(out.Opened, row.bucket())
	}
	return nil
}

// countedSince sums what was used since the start of a period that begins before the one that is over has
// ended: a rule was changed within it. Of a period that lies within that time the columns of its epochs say it: its rows
// may be millions. Those of one that had begun before have to be looked at.
func (t *tx) countedSince(b *budgetRow, ended budget.Period, start time.Time) (units int64, err error) {
	if ended.End.IsZero() || !start.Before(ended.End) {
		return 0, nil
	}
	since := toMS(start)
	if _, err := t.get(&units, selectUsedSince, b.ID, since, since); err != nil {
		return 0, err
	}
	var part int64
	_, err = t.get(&part, selectCounted, b.ID, since, since, since)
	return units + part, err
}

// topUp gives the open period of a locked budget its part of an append.
func (t *tx) topUp(b *budgetRow, d budget.Definition) error {
	if b.period().OverAt(t.now) {
		return nil
	}
	p, err := t.openPeriodOf(b)
	if err != nil {
		return err
	}
	return t.fund(b, allocation.TopUp(d, p, allocation.Fundable(d, b.Unfunded, b.PendingShrink)))
}

// openPeriodOf is the open period of a budget, with what it got.
func (t *tx) openPeriodOf(b *budgetRow) (budget.Period, error) {
	p := b.period()
	var row struct {
		Funded  int64 `db:"funded_quantity"`
		Carried int64 `db:"carried_quantity"`
		Before  int64 `db:"before_quantity"`
	}
	found, err := t.get(&row, selectPeriod, b.ID, b.Period)
	if err == nil && !found {
		err = defect("period %d of budget %d is gone", b.Period, b.ID)
	}
	p.Funded, p.Carried, p.Before = row.Funded, row.Carried, row.Before
	return p, err
}

const (
	selectPeriods = `SELECT u.period, u.is_over, p.number, p.start_ms, p.end_ms, p.funded_quantity,
		p.carried_quantity, p.before_quantity, p.returned_quantity, p.passed_quantity, p.forfeited_quantity
		FROM budget_period p JOIN budget_management_bucket u ON u.id = p.budget_id
		WHERE p.budget_id = ? ORDER BY p.number`
)

// periods reads the number of the open or last period, and all of them.
func (r *reader) periods(budgetID int64) (current budget.Period, out []ledger.PeriodFigures, err error) {
	var rows []struct {
		Current   int64 `db:"period"`
		Over      int64 `db:"is_over"`
		Number    int64 `db:"number"`
		StartMS   int64 `db:"start_ms"`
		EndMS     int64 `db:"end_ms"`
		Funded    int64 `db:"funded_quantity"`
		Carried   int64 `db:"carried_quantity"`
		Before    int64 `db:"before_quantity"`
		Returned  int64 `db:"returned_quantity"`
		Passed    int64 `db:"passed_quantity"`
		Forfeited int64 `db:"forfeited_quantity"`
	}
	if err := r.list(&rows, selectPeriods, budgetID); err != nil {
		return current, nil, err
	}
	for _, row := range rows {
		current.Number, current.Over = row.Current, row.Over == 1
		p := budget.Period{Number: row.Number, Start: fromMS(row.StartMS), End: fromMS(row.EndMS),
			Funded: row.Funded, Carried: row.Carried, Before: row.Before,
			Over: current.Over && row.Number == current.Number}
		out = append(out, ledger.PeriodFigures{Period: p, Returned: row.Returned, Passed: row.Passed,
			Forfeited: row.Forfeited})
	}
	return current, out, nil
}
