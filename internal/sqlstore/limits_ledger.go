package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// recordedIDs are the ledger's rows of the ids that one transaction looks at.
type recordedIDs map[bucket.ID]*ledger.Deduction

func (r recordedIDs) has(budget int64, requestID string) bool {
	return r[bucket.ID{Budget: budget, RequestID: requestID}] != nil
}

const (
	insertValue = `INSERT INTO deduction_value (budget_id, dimension, value, counted_at, request_id)`

	// selectEvents reads the deductions that carry a value; andValue, before it, those that carry others too.
	selectEvents = `SELECT v.counted_at, d.amount, d.rolled_back, d.counts FROM deduction_value v /*by PRIMARY*/`
	andValue     = ` /*in order*/ JOIN deduction_value $ /*by PRIMARY*/ ON $.budget_id = v.budget_id AND $.dimension = ?
		AND $.value = ? AND $.counted_at = v.counted_at AND $.request_id = v.request_id`
	itsDeduction = ` /*in order*/ JOIN deduction d /*by PRIMARY*/ ON d.budget_id = v.budget_id
		AND d.request_id = v.request_id`
	ofValue     = ` WHERE v.budget_id = ? AND v.dimension = ? AND v.value = ? AND v.counted_at >= ? AND v.counted_at < ?`
	inTimeOrder = ` ORDER BY v.counted_at, v.request_id`
)

// carriedValue is a row of deduction_value.
type carriedValue struct {
	ledger.Dimension
	of *ledger.Deduction
}

func compareValues(a, b carriedValue) int {
	if c := cmp.Compare(a.of.Budget, b.of.Budget); c != 0 {
		return c
	}
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	if c := strings.Compare(a.Value, b.Value); c != 0 {
		return c
	}
	if c := cmp.Compare(toMS(a.of.CountedAt), toMS(b.of.CountedAt)); c != 0 {
		return c
	}
	return strings.Compare(a.of.RequestID, b.of.RequestID)
}

// insertValues writes which values deductions carry, in the order of the keys.
func (t *tx) insertValues(made []*ledger.Deduction) error {
	var rows []carriedValue
	var dimensions []ledger.Dimension
	for _, d := range made {
		dimensions = ledger.AppendDimensions(dimensions[:0], d.Dimensions)
		for _, of := range dimensions {
			if len(of.Name) > budget.MaxKeyBytes || len(of.Value) > budget.MaxKeyBytes {
				continue // no request has such a one: somebody else wrote the entry
			}
			if rows == nil {
				rows = make([]carriedValue, 0, len(made)*len(dimensions))
			}
			rows = append(rows, carriedValue{of, d})
		}
	}
	slices.SortFunc(rows, compareValues)
	to := t.inserting(insertValue, "", len(rows), t.inserted)
	for _, r := range rows {
		to.row()
		to.number(r.of.Budget)
		to.bytes(r.Name)
		to.bytes(r.Value)
		to.number(toMS(r.of.CountedAt))
		to.bytes(r.of.RequestID)
	}
	return to.end()
}

// carried makes a statement over the deductions of a budget that carry values of dimensions and were
// counted in a span: selected names its columns, of v and d.
func carried(selected string, budgetID int64, dimensions, values []string, fromMS, toMS int64) (string, []any) {
	var text strings.Builder
	var args []any
	text.WriteString(selected)
	for i := 1; i < len(dimensions); i++ {
		text.WriteString(strings.ReplaceAll(andValue, "$", "v"+string(rune('0'+i))))
		args = append(args, []byte(dimensions[i]), []byte(values[i]))
	}
	text.WriteString(itsDeduction + ofValue)
	return text.String(), append(args, budgetID, []byte(dimensions[0]), []byte(values[0]), fromMS, toMS)
}

// events reads what the ledger has of a tally's value in a span of time.
func (r *reader) events(budgetID int64, tally *limit.Tally, fromMS, toMS int64) ([]limit.Event, error) {
	var rows []struct {
		CountedAt  int64  `db:"counted_at"`
		Amount     int64  `db:"amount"`
		RolledBack int64  `db:"rolled_back"`
		Counts     []byte `db:"counts"`
	}
	query, args := carried(selectEvents, budgetID, tally.Limit.Dimensions(), tally.Values, fromMS, toMS)
	if err := r.list(&rows, query+inTimeOrder, args...); err != nil {
		return nil, err
	}
	var events []limit.Event
	for _, row := range rows {
		kept, counted := tally.Limit.Counted(row.Amount, row.RolledBack, ledger.ReadCounts(string(row.Counts)))
		if counted {
			events = append(events, limit.Event{AtMS: row.CountedAt, Kept: kept})
		}
	}
	return events, nil
}

// countsBack is a locked deduction as it was before more of it was given back; after is what was rolled
// back of it then, version that of the limits on its bucket's newest epoch, which is locked.
type countsBack struct {
	deduction      ledger.Deduction
	after, version int64
}

// lowered is a counter's part in a deduction of which something was given back.
type lowered struct {
	head      rowKey
	touch     limit.Touch
	countedMS int64
	units     int64
}

// returnCounts lowers the counters of locked deductions. It comes after everything else that the transaction
// locks, and locks all counters in the order of their keys. A window that is over, or was never counted
// under the present definition, is left alone: a refund of yesterday gives nothing back to today.
func (t *tx) returnCounts(all ...countsBack) error {
	var parts []lowered
	heads, mayLoad := map[rowKey]int64{}, false
	for _, c := range all {
		set, err := t.limitSet(c.deduction.Budget, c.version)
		if err != nil {
			return err
		}
		if len(set.List) > 0 && !set.InStores && c.after > c.deduction.RolledBack && !safeguard.Off(safeguard.CountsReturned) {
			of, load := lowers(set, c, toMS(t.now), heads)
			parts, mayLoad = append(parts, of...), mayLoad || load
		}
	}
	if len(parts) == 0 {
		return nil
	}
	keys, rows := slices.SortedFunc(maps.Keys(heads), compareRowKeys), map[rowKey]limit.Row{}
	var expires func(i int) int64
	if mayLoad {
		expires = func(i int) int64 { return heads[keys[i]] }
	}
	if err := t.lockCounters(keys, expires, func(i int, row limit.Row) { rows[keys[i]] = row }); err != nil {
		return err
	}
	changed := map[rowKey]limit.Row{}
	for _, p := range parts {
		if err := t.lower(p, rows, changed); err != nil {
			return err
		}
	}
	return t.writeCounters(changed)
}

// lowers lists the counters that a deduction gives something back to, with when their rows expire in heads. mayLoad is
// true where one of them has to be locked though it be missing.
func lowers(set *limit.Set, c countsBack, nowMS int64, heads map[rowKey]int64) (parts []lowered, mayLoad bool) {
	d := &c.deduction
	touches, _ := set.Touches(d.Amount, ledger.ReadDimensions(d.Dimensions), ledger.ReadCounts(d.Counts))
	countedMS := toMS(d.CountedAt)
	for _, touch := range touches {
		keeps, load := touch.Limit.Keeps(countedMS, nowMS)
		if !keeps {
			continue
		}
		tally := limit.NewTally(touch.Limit, touch.Key, countedMS)
		head := rowKey{counterKey{d.Budget, touch.Limit.Name, touch.Key}, tally.WindowMS}
		heads[head], mayLoad = tally.ExpiresMS(), mayLoad || load
		kept := touch.Limit.Kept
		parts = append(parts, lowered{head, touch, countedMS,
			kept(touch.Counts, d.Amount, d.RolledBack) - kept(touch.Counts, d.Amount, c.after)})
	}
	return parts, mayLoad
}

// lower notes in changed what becomes of a counter: rows are the heads, which are locked.
func (t *tx) lower(p lowered, rows, changed map[rowKey]limit.Row) error {
	head, found := rows[p.head]
	if !found {
		return nil
	}
	at := p.head
	if p.touch.Limit.Sliding() {
		at.window = p.touch.Limit.SlotAt(p.countedMS)
	}
	row, known := changed[at]
	switch {
	case known:
	case at == p.head:
		row = head
	default:
		err := t.readCounters([]rowKey{at}, "", func(_ int, slot limit.Row) { row = slot }) // none: of no version
		if err != nil {
			return err
		}
	}
	if row, lower := p.touch.Limit.GivenBack(head, row, p.countedMS, p.units); lower {
		changed[at] = row
	}
	return nil
}

// CheckLimits judges asks without locks. See bucket.Limits.
func (db *DB) CheckLimits(ctx context.Context, budgetID int64, asks []bucket.LimitAsk) (
	out []bucket.LimitAnswer, err error) {
	err = db.read(ctx, "check limits", func(r *reader) error {
		set, err := r.readLimitSet(db, budgetID)
		if err != nil {
			return err
		}
		now := toMS(db.Now())
		all, tallies := make([]touched, len(asks)), newTallies(now, len(asks))
		for i, ask := range asks {
			all[i].touches, all[i].missing = set.Touches(ask.Amount, ask.Dimensions, ask.Counts)
			for j := range all[i].touches {
				all[i].tallies = append(all[i].tallies, tallies.of(budgetID, &all[i].touches[j]))
			}
		}
		tallies.sort()
		if err := r.readTallies(set.InStores, tallies.list); err != nil {
			return err
		}
		out, err = r.answer(budgetID, asks, all)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// LoadLimits counts what the ledger has. See bucket.Limits.
func (db *DB) LoadLimits(ctx context.Context, budgetID int64, touches []limit.Touch, at time.Time) (
	out []*limit.Tally, err error) {
	err = db.read(ctx, "load limits", func(r *reader) error {
		out = make([]*limit.Tally, len(touches))
		for i, touch := range touches {
			tally := limit.NewTally(touch.Limit, touch.Key, toMS(at))
			tally.Values, out[i] = touch.Values, &tally
			if err := r.fromLedger(budgetID, &tally); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fromLedger makes a tally from what the ledger has of its value.
func (r *reader) fromLedger(budgetID int64, tally *limit.Tally) error {
	from, to := tally.LedgerSpan()
	events, err := r.events(budgetID, tally, from, to)
	tally.Load(events)
	return err
}

// readTallies is lockTallies without locks; of a budget in store mode it counts what the ledger has.
func (r *reader) readTallies(inStores bool, list []*bookTally) error {
	if inStores {
		for _, tally := range list {
			if err := r.fromLedger(tally.budget, &tally.Tally); err != nil {
				return err
			}
		}
		return nil
	}
	keys := heads(list)
	err := r.readCounters(keys, "", func(i int, row limit.Row) { list[i].Read(keys[i].window, row) })
	if err != nil {
		return err
	}
	if err := r.readSlots(list); err != nil {
		return err
	}
	return r.loadTallies(list)
}

// answer looks the ids up, after the counters were read, and judges each ask for itself.
func (r *reader) answer(budgetID int64, asks []bucket.LimitAsk, all []touched) ([]bucket.LimitAnswer, error) {
	var ids []bucket.ID
	for _, ask := range asks {
		if ask.RequestID != "" {
			ids = append(ids, bucket.ID{Budget: budgetID, RequestID: ask.RequestID})
		}
	}
	recorded, err := r.deductions(ids, "")
	if err != nil {
		return nil, err
	}
	out := make([]bucket.LimitAnswer, len(asks))
	for i, ask := range asks {
		of := make([]*limit.Tally, len(all[i].touches))
		for j, tally := range all[i].tallies {
			of[j] = &tally.Tally
		}
		out[i] = bucket.AnswerLimits(all[i].touches, all[i].missing, of)
		out[i].Recorded = recorded[bucket.ID{Budget: budgetID, RequestID: ask.RequestID}]
	}
	return out, nil
}

const selectUsage = `SELECT COUNT(*) AS calls, COALESCE(SUM(d.amount), 0) AS amount,
	COALESCE(SUM(d.rolled_back), 0) AS rolled_back FROM deduction_value v /*by PRIMARY*/`

// Usage adds up deductions that carry values. See bucket.Limits.
func (db *DB) Usage(ctx context.Context, budgetID int64, dimensions map[string]string, from, to time.Time) (
	sum bucket.Usage, err error) {
	names, values, err := bucket.UsageOf(dimensions)
	if err != nil {
		return sum, err
	}
	err = db.read(ctx, "usage", func(r *reader) error {
		if _, err := r.budget("usage", budgetID, ""); err != nil {
			return err
		}
		fromMS, endMS := int64(0), int64(lastMS)
		if !from.IsZero() {
			fromMS = from.UnixMilli()
		}
		if !to.IsZero() {
			endMS = to.UnixMilli()
		}
		var row struct {
			Calls      int64 `db:"calls"`
			Amount     int64 `db:"amount"`
			RolledBack int64 `db:"rolled_back"`
		}
		query, args := carried(selectUsage, budgetID, names, values, fromMS, endMS)
		_, err := r.get(&row, query, args...)
		sum = bucket.Usage{Calls: row.Calls, Amount: row.Amount, RolledBack: row.RolledBack}
		return err
	})
	return sum, err
}

// lastMS is later than every instant in the ledger.
const lastMS = 1 << 53

const (
	selectExpired = `SELECT c.budget_id, c.limit_name, c.value, c.window_ms, c.counted, c.began_ms, c.version,
		c.expires_ms FROM limit_counter c /*by limit_counter_expires*/
		WHERE c.expires_ms > 0 AND c.expires_ms < ? ORDER BY c.expires_ms LIMIT ?`
	deleteCounter = `DELETE FROM limit_counter WHERE budget_id = ? AND limit_name = ? AND value = ?
		AND window_ms = ? AND expires_ms > 0 AND expires_ms < ?`
)

// ExpireCounters removes counters that count no longer. See bucket.Limits. They are found without locks
// and removed by key, each if it is still as old: whoever counts in a row that was about to go finds it
// gone, or keeps it.
func (db *DB) ExpireCounters(ctx context.Context, limitRows int) (removed int, err error) {
	err = db.write(ctx, "expire counters", func(t *tx) error {
		removed = 0
		before := limit.ExpiredBefore(t.now)
		var rows []counterRow
		if err := t.list(&rows, selectExpired, before, limitRows); err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		if err := t.checkClock("expire counters"); err != nil {
			return err
		}
		keys := make([]rowKey, len(rows))
		for i := range rows {
			keys[i] = rowKey{rows[i].key(), rows[i].WindowMS}
		}
		slices.SortFunc(keys, compareRowKeys)
		for _, k := range keys {
			n, err := t.exec(deleteCounter, k.budget, []byte(k.limit), []byte(k.value), k.window, before)
			if err != nil {
				return err
			}
			removed += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}
