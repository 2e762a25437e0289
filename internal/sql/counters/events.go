package counters

import (
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

const (
	selectEvents = `SELECT v.counted_at, d.amount, d.note,
		(SELECT COALESCE(SUM(g.amount), 0) FROM give_back g WHERE g.budget_id = d.budget_id
			AND g.request_id = d.request_id AND g.number = 0) AS back
		FROM deduction_value v /*by PRIMARY*/`
	inTimeOrder = ` ORDER BY v.counted_at, v.request_id`
	andValue    = ` /*in order*/ JOIN deduction_value $ /*by PRIMARY*/ ON $.budget_id = v.budget_id
		AND $.dimension = ? AND $.value = ? AND $.counted_at = v.counted_at
		AND $.request_id = v.request_id`
	itsDeduction = ` /*in order*/ JOIN deduction d /*by PRIMARY*/ ON d.budget_id = v.budget_id
		AND d.request_id = v.request_id`
	ofValue = ` WHERE v.budget_id = ? AND v.dimension = ? AND v.value = ? AND v.counted_at >= ?
		AND v.counted_at < ?`
)

// Carrying completes selected, a SELECT from deduction_value v, and returns it with its parameters.
// It joins the deductions d of a budget that carry each value of its name, of which there is at
// least one, and were counted from fromMS to toMS, exclusive.
func Carrying(selected string, budgetID int64, names, values []string, fromMS, toMS int64) (
	query string, args []any) {
	var text strings.Builder
	text.WriteString(selected)
	for i := 1; i < len(names); i++ {
		text.WriteString(strings.ReplaceAll(andValue, "$", "v"+strconv.Itoa(i)))
		args = append(args, []byte(names[i]), []byte(values[i]))
	}
	text.WriteString(itsDeduction + ofValue)
	return text.String(), append(args, budgetID, []byte(names[0]), []byte(values[0]), fromMS, toMS)
}

// Events reads the deductions that carry the values of a limit's dimensions in a span, the end
// exclusive, in the order of time. It leaves out deductions that the limit does not count.
func Events(r *engine.Reader, budgetID int64, l *limit.Limit, values []string, fromMS, toMS int64) (
	[]limit.Event, error) {
	query, args := Carrying(selectEvents, budgetID, l.Dimensions(), values, fromMS, toMS)
	var found []struct {
		CountedAt int64  `db:"counted_at"`
		Amount    int64  `db:"amount"`
		Note      []byte `db:"note"`
		Back      int64  `db:"back"`
	}
	if err := r.List(&found, query+inTimeOrder, args...); err != nil {
		return nil, err
	}
	events := make([]limit.Event, 0, len(found))
	for _, row := range found {
		note, ok := ledger.ReadNote(string(row.Note))
		if !ok {
			return nil, engine.Defect("a note of budget %d cannot be read", budgetID)
		}
		kept, counted := l.Counted(row.Amount, row.Back, ledger.ReadCounts(note.Counts))
		if counted {
			events = append(events, limit.Event{AtMS: row.CountedAt, Kept: kept})
		}
	}
	return events, nil
}

// Load counts a usage from the ledger if its limit has changed, so that its row does not hold the
// count. Otherwise it does nothing.
func Load(r *engine.Reader, budgetID int64, t *limit.Usage) error {
	from, to, stale := t.Stale()
	if !stale {
		return nil
	}
	events, err := Events(r, budgetID, t.Limit, t.Values, from, to)
	if err == nil {
		t.Load(events)
	}
	return err
}
