package counters

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

const (
	selectEvents = `SELECT v.counted_at, d.counted_at AS since, d.amount, d.note,
		(SELECT COALESCE(SUM(g.amount), 0) FROM give_back g WHERE g.budget_id = d.budget_id
			AND g.request_id = d.request_id AND g.number = 0) AS back,
		(SELECT COALESCE(SUM(x.amount - x.back_quantity), 0) FROM extra x /*by PRIMARY*/
			WHERE x.budget_id = d.budget_id AND x.request_id = d.request_id
			AND x.created_at = v.counted_at AND x.is_late = 0) AS extra,
		(SELECT COALESCE(SUM(x.amount), 0) FROM extra x /*by PRIMARY*/
			WHERE x.budget_id = d.budget_id AND x.request_id = d.request_id
			AND x.created_at = v.counted_at AND x.is_late = 1) AS late,
		(SELECT COALESCE(SUM(x.back_quantity), 0) FROM extra x /*by PRIMARY*/
			WHERE x.budget_id = d.budget_id AND x.request_id = d.request_id
			AND x.created_at = v.counted_at AND x.is_late = 1) AS late_back
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
// least one, and were counted from fromMS to toMS, exclusive, at v.counted_at: d.counted_at or
// created_at of extras.
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

// event is a row of selectEvents.
type event struct {
	CountedAt int64  `db:"counted_at"`
	Since     int64  `db:"since"`
	Amount    int64  `db:"amount"`
	Note      []byte `db:"note"`
	Back      int64  `db:"back"`
	Extra     int64  `db:"extra"`
	Late      int64  `db:"late"`
	LateBack  int64  `db:"late_back"`
}

// Events reads the deductions that carry the values of a limit's dimensions in a span, the end
// exclusive, and what deductions took later in it, in the order of time. It leaves out what the
// limit does not count.
func Events(r *engine.Reader, budgetID int64, l *limit.Limit, values []string, fromMS, toMS int64) (
	[]limit.Event, error) {
	query, args := Carrying(selectEvents, budgetID, l.Dimensions(), values, fromMS, toMS)
	var found []event
	if err := r.List(&found, query+inTimeOrder, args...); err != nil {
		return nil, err
	}
	return eventsOf(budgetID, l, found)
}

func eventsOf(budgetID int64, l *limit.Limit, found []event) ([]limit.Event, error) {
	events := make([]limit.Event, 0, len(found))
	for _, row := range found {
		note, ok := ledger.ReadNote(string(row.Note))
		if !ok {
			return nil, engine.Defect("a note of budget %d cannot be read", budgetID)
		}
		counts := ledger.ReadCounts(note.Counts)
		if row.CountedAt == row.Since {
			if kept, counted := l.Counted(row.Amount, row.Back, counts); counted {
				events = append(events, limit.Event{AtMS: row.CountedAt, Kept: kept})
			}
		}
		if row.Late > 0 {
			if kept, counted := l.Counted(row.Late, row.LateBack, counts); counted {
				events = append(events, limit.Event{AtMS: row.CountedAt, Kept: kept})
			}
		}
		if row.Extra > 0 && l.CountsExtra(counts) {
			events = append(events, limit.Event{AtMS: row.CountedAt, Kept: row.Extra})
		}
	}
	return events, nil
}

// EventsOf returns the queries of Events that fill Books.Events.
func EventsOf(spans []books.UsageSpan, failed *error) (out []bookkeeper.Query) {
	for _, span := range spans {
		query, args := Carrying(selectEvents, span.Budget, span.Of.Dimensions(), span.Values,
			span.FromMS, span.ToMS)
		out = append(out, func(s *engine.Statement, b *books.Books) (any, func()) {
			var found []event
			s.Fill(query+inTimeOrder, func(at int) { s.Value(args[at]) })
			return &found, func() {
				events, err := eventsOf(span.Budget, span.Of, found)
				*failed = cmp.Or(*failed, err)
				b.Events[span.UsageID] = events
			}
		})
	}
	return out
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
