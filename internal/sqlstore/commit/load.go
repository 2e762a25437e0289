package commit

import (
	"strings"

	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

const (
	// selectEvents reads the deductions that carry a value; andValue those that carry others too.
	selectEvents = `SELECT v.counted_at, d.amount, d.note,
		(SELECT COALESCE(SUM(g.amount), 0) FROM give_back g WHERE g.budget_id = d.budget_id
			AND g.request_id = d.request_id) AS back
		FROM deduction_value v /*by PRIMARY*/`
	andValue = ` /*in order*/ JOIN deduction_value $ /*by PRIMARY*/ ON $.budget_id = v.budget_id
		AND $.dimension = ? AND $.value = ? AND $.counted_at = v.counted_at
		AND $.request_id = v.request_id`
	itsDeduction = ` /*in order*/ JOIN deduction d /*by PRIMARY*/ ON d.budget_id = v.budget_id
		AND d.request_id = v.request_id`
	ofValue = ` WHERE v.budget_id = ? AND v.dimension = ? AND v.value = ? AND v.counted_at >= ?
		AND v.counted_at < ? ORDER BY v.counted_at, v.request_id`
)

// load counts a tally from the ledger: its limit has changed, and what it counts was never counted.
// The limit's row is locked, or locked by nobody because it does not exist yet: then whoever else counts
// the same value makes the row first, or finds it made.
func load(r *engine.Reader, m mark) error {
	t := &m.tally.Tally
	from, to, stale := t.Stale()
	if !stale {
		return nil
	}
	names := t.Limit.Dimensions()
	var text strings.Builder
	var args []any
	text.WriteString(selectEvents)
	for i := 1; i < len(names); i++ {
		text.WriteString(strings.ReplaceAll(andValue, "$", "v"+string(rune('0'+i))))
		args = append(args, []byte(names[i]), []byte(t.Values[i]))
	}
	text.WriteString(itsDeduction + ofValue)
	args = append(args, m.page.Key.Budget, []byte(names[0]), []byte(t.Values[0]), from, to)
	var found []struct {
		CountedAt int64  `db:"counted_at"`
		Amount    int64  `db:"amount"`
		Note      []byte `db:"note"`
		Back      int64  `db:"back"`
	}
	if err := r.List(&found, text.String(), args...); err != nil {
		return err
	}
	events := make([]limit.Event, 0, len(found))
	for _, row := range found {
		note, ok := ledger.ReadNote(string(row.Note))
		if !ok {
			return engine.Defect("a note of budget %d cannot be read", m.page.Key.Budget)
		}
		kept, counted := t.Limit.Counted(row.Amount, row.Back, ledger.ReadCounts(note.Counts))
		if counted {
			events = append(events, limit.Event{AtMS: row.CountedAt, Kept: kept})
		}
	}
	t.Load(events)
	return nil
}
