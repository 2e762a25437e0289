package ledger_test

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/ledger"
)

// drainCase is a log with the state it meets.
type drainCase struct {
	row   ledger.Epoch
	log   *log
	known map[string]ledger.Deduction
}

func drainCases() *rapid.Generator[drainCase] {
	return rapid.Custom(func(t *rapid.T) drainCase {
		c := drainCase{row: row(0), log: newLog(), known: map[string]ledger.Deduction{}}
		ids := []string{"a", "b", "c", "d", "e", "A", "a "}
		for _, id := range ids[:3] {
			switch rapid.IntRange(0, 5).Draw(t, "recorded "+id) {
			case 0:
				c.known[id] = ledger.Deduction{RequestID: id, Amount: 3, State: ledger.StateUsed}
			case 1:
				c.known[id] = ledger.Deduction{RequestID: id, State: ledger.StateVoid}
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "ends") == 0 {
			c.row.EndAt = noon.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "end")))
		}
		balance, grants := int64(0), int64(0)
		for range rapid.IntRange(0, 25).Draw(t, "entries") {
			n := rapid.Int64Range(1, 9).Draw(t, "amount")
			if n <= balance && rapid.IntRange(0, 4).Draw(t, "grant") > 0 {
				c.log.deduct(rapid.SampledFrom(ids).Draw(t, "id"), n)
				balance -= n
			} else {
				grants++
				c.log.grant(grants, 4*n)
				balance += 4 * n
				c.row.Outstanding += 4 * n
			}
		}
		c.row.NextGrant = grants + 1 + rapid.Int64Range(0, 2).Draw(t, "grants under way")
		if rapid.IntRange(0, 3).Draw(t, "closed") == 0 {
			c.row.Status = ledger.Closing
			c.log.close(balance, grants)
		}
		return c
	})
}

// books are a fresh copy of what the ledger knows.
func (c drainCase) books() books {
	b := books{}
	for id, d := range c.known {
		b[id] = &d
	}
	return b
}

// TestDrainInPiecesIsDrainAtOnce: a log may be drained in any prefixes, by reads that begin
// anywhere at or before the drained entry, again and again: the rows are the same (I4, I7).
func TestDrainInPiecesIsDrainAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drainCases().Draw(t, "case")
		all, err := drain(c.row, c.log.from(0), c.books())
		if err != nil {
			t.Fatal(err)
		}
		b := c.books()
		pieces := ledger.Drained{Before: c.row, After: c.row}
		for pieces.After.DrainedSeq < all.After.DrainedSeq {
			drained := int(pieces.After.DrainedSeq)
			from := rapid.IntRange(0, drained).Draw(t, "from")
			end := rapid.IntRange(drained+1, len(c.log.entries)).Draw(t, "end")
			part := c.log.from(int64(from))
			part.Entries = part.Entries[:end-from]
			for i := range 2 { // the second time changes nothing
				got, err := drain(pieces.After, part, b)
				if err != nil {
					t.Fatal(err)
				}
				if i == 1 && (got.Changed() || got.After != got.Before || len(got.Outcomes) > 0) {
					t.Fatalf("drained again: %+v", got)
				}
				pieces.After = got.After
				pieces.Deductions = append(pieces.Deductions, got.Deductions...)
				pieces.Duplicates = append(pieces.Duplicates, got.Duplicates...)
				pieces.Arrived = append(pieces.Arrived, got.Arrived...)
				pieces.Outcomes = append(pieces.Outcomes, got.Outcomes...)
				pieces.Close = got.Close
			}
		}
		last, err := drain(pieces.After, c.log.from(pieces.After.DrainedSeq), b)
		if err != nil || last.Changed() {
			t.Fatalf("%+v, %v", last, err)
		}
		pieces.Close = last.Close
		if !reflect.DeepEqual(pieces, all) {
			t.Fatalf("in pieces\n%+v\nat once\n%+v", pieces, all)
		}
	})
}

// TestDrainKeepsUnits is I1 and I4 for one log: no unit appears or vanishes, and each id is
// deducted at most once.
func TestDrainKeepsUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drainCases().Draw(t, "case")
		got, err := drain(c.row, c.log.from(0), c.books())
		if err != nil {
			t.Fatal(err)
		}
		deducted, returned, admitted := int64(0), int64(0), 0
		seen := map[string]bool{}
		for id := range c.known {
			seen[id] = true
		}
		for i, d := range got.Deductions {
			if seen[d.RequestID] || d.Entry != c.row.NextEntry+int64(i) {
				t.Fatalf("%q is deducted again, or as entry %d", d.RequestID, d.Entry)
			}
			seen[d.RequestID] = true
			deducted += d.Amount
		}
		for _, d := range got.Duplicates {
			returned += d.Amount
		}
		for _, e := range c.log.entries {
			if e.Kind == ledger.KindDeduct {
				admitted++
			}
		}
		a, b := got.After, got.Before
		if a.Outstanding+a.Used+a.Returning != b.Outstanding || a.Used != deducted ||
			a.Returning != returned ||
			a.Outstanding < 0 || a.Held != 0 || a.NextEntry != b.NextEntry+int64(len(got.Deductions)) {
			t.Fatalf("%+v became %+v", b, a)
		}
		if len(got.Outcomes) != admitted || len(got.Deductions)+len(got.Duplicates) != admitted {
			t.Fatalf("%d outcomes for %d entries", len(got.Outcomes), admitted)
		}
		if got.Close != nil {
			units, err := ledger.CloseAmount(a, *got.Close, 0)
			if err != nil || units != a.Outstanding {
				t.Fatalf("closed with %d of %d: %v", units, a.Outstanding, err)
			}
		}
	})
}

// TestDrainNoticesAnyChange: a log of which one byte of any line, one chain value or one position
// is another is not drained as it stands.
func TestDrainNoticesAnyChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drainCases().Draw(t, "case")
		l := c.log.from(0)
		i := rapid.IntRange(0, len(l.Entries)-1).Draw(t, "entry")
		e := &l.Entries[i]
		flip := func(text string) string {
			at := rapid.IntRange(0, len(text)-1).Draw(t, "byte")
			return text[:at] + string([]byte{text[at] ^ 1}) + text[at+1:]
		}
		switch rapid.IntRange(0, 2).Draw(t, "what") {
		case 0:
			e.Chain = flip(e.Chain)
		case 1:
			e.Line = flip(e.Line)
			if i == 0 {
				return // entry 0 is compared by its chain value, which SQL made
			}
		default:
			e.Seq++
		}
		got, err := drain(c.row, l, c.books())
		if err == nil {
			t.Fatalf("entry %d: %+v", i, got)
		}
	})
}
