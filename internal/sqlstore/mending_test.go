package sqlstore

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/ledger"
)

// mend is a row of the table of docs/OPERATIONS.md on discrepancies: a figure, and the statement for it.
type mend struct{ figure, statement string }

// mendsOf reads that table.
func mendsOf(t *testing.T) (out []mend) {
	t.Helper()
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^   \\| `([^`]+)`[^|]* \\| `(UPDATE [^`…]+)`").FindAllSubmatch(text, -1) {
		out = append(out, mend{string(m[1]), string(m[2])})
	}
	return out
}

// TestMendingADiscrepancy: each statement that docs/OPERATIONS.md has for a wrong column puts it right again, when
// they are taken in the order of the table.
func TestMendingADiscrepancy(t *testing.T) {
	s := newScenario(t, Config{Driver: "sqlite", DSN: filepath.Join(t.TempDir(), "data", "budgetd.db")})
	s.run()
	const epoch, total = " WHERE bucket_id = B AND epoch = E", " WHERE id = ID"
	spoils := map[string]string{
		"outstanding":     `UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity + 1` + epoch,
		"held":            `UPDATE bucket_epoch SET held_quantity = held_quantity + 1` + epoch,
		"used":            `UPDATE bucket_epoch SET used_quantity = used_quantity + 1` + epoch,
		"returning":       `UPDATE bucket_epoch SET returning_quantity = returning_quantity + 1` + epoch,
		"released":        `UPDATE quarantine SET released_quantity = released_quantity - 1` + epoch,
		"total":           `UPDATE budget_management_bucket SET total_quantity = total_quantity + 1, out_quantity = out_quantity + 1` + total,
		"forfeited":       `UPDATE budget_management_bucket SET forfeited_quantity = forfeited_quantity + 1, out_quantity = out_quantity - 1` + total,
		"not funded":      `UPDATE budget_management_bucket SET unfunded_quantity = unfunded_quantity + 1, out_quantity = out_quantity - 1` + total,
		"quarantined":     `UPDATE budget_management_bucket SET quarantined_quantity = quarantined_quantity + 1` + total,
		"undistributed":   `UPDATE budget_management_bucket SET undistributed_quantity = undistributed_quantity + 1, out_quantity = out_quantity - 1` + total,
		"pending shrinks": `UPDATE budget_management_bucket SET pending_shrink_quantity = pending_shrink_quantity + 1` + total,
	}
	mends := mendsOf(t)
	if len(mends) != len(spoils) {
		t.Fatalf("%d statements in the table, %d are tested", len(mends), len(spoils))
	}
	var budgets []int64
	s.rowsOf(&budgets, `SELECT id FROM budget_management_bucket ORDER BY id`)
	tried := map[string]int{}
	for _, m := range mends {
		for _, id := range budgets {
			var of []struct {
				Bucket int64 `db:"bucket_id"`
				Epoch  int64 `db:"epoch"`
			}
			s.rowsOf(&of, `SELECT e.bucket_id, e.epoch FROM bucket_epoch e
				JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id WHERE b.budget_id = ?
				AND (? <> 'released' OR EXISTS (SELECT 1 FROM quarantine q WHERE q.bucket_id = e.bucket_id
					AND q.epoch = e.epoch AND q.released_quantity > 0)) ORDER BY 1, 2`, id, m.figure)
			if len(of) == 0 {
				continue
			}
			place := placed(id, of[0].Bucket, of[0].Epoch)
			s.change(place.Replace(spoils[m.figure]))
			if found := s.discrepancies(id); !names(found, m.figure) {
				t.Errorf("budget %d, %s + 1: the audit says %v", id, m.figure, found)
			}
			s.mended(mends, id, place)
			tried[m.figure]++
		}
		if tried[m.figure] == 0 {
			t.Errorf("no budget to spoil %s of", m.figure)
		}
	}
	t.Logf("mended: %v", tried)
}

// mended does what the table says until the audit is satisfied.
func (s *scenario) mended(mends []mend, id int64, place *strings.Replacer) {
	s.Helper()
	for range mends {
		found := s.discrepancies(id)
		if len(found) == 0 {
			return
		}
		for _, m := range mends {
			if d, ok := named(found, m.figure); ok {
				s.change(strings.ReplaceAll(place.Replace(m.statement), "COUNTED", strconv.FormatInt(d.Counted, 10)))
				break
			}
		}
	}
	s.Fatalf("budget %d is not mended: %v", id, s.discrepancies(id))
}

func placed(id, bucketID, epoch int64) *strings.Replacer {
	n := func(i int64) string { return " = " + strconv.FormatInt(i, 10) }
	return strings.NewReplacer(" = ID", n(id), " = B", n(bucketID), " = E", n(epoch))
}

func named(found []ledger.Discrepancy, figure string) (ledger.Discrepancy, bool) {
	for _, d := range found {
		if d.What == figure {
			return d, true
		}
	}
	return ledger.Discrepancy{}, false
}

func names(found []ledger.Discrepancy, figure string) bool {
	_, ok := named(found, figure)
	return ok
}

// discrepancies are what an audit of a budget finds.
func (s *scenario) discrepancies(id int64) []ledger.Discrepancy {
	s.Helper()
	a, err := s.db.Accounts(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return a.Check()
}

// rowsOf reads rows by hand.
func (s *scenario) rowsOf(dest any, query string, args ...any) {
	s.Helper()
	err := s.db.snapshot(s.Context(), "test", func(r *reader) error { return r.list(dest, query, args...) })
	if err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}

// change runs a statement by hand.
func (s *scenario) change(statement string) {
	s.Helper()
	err := s.db.write(s.Context(), "test", func(tx *tx) error {
		n, err := tx.exec(statement)
		if err == nil && n == 0 {
			s.Errorf("%s: no row", statement)
		}
		return err
	})
	if err != nil {
		s.Fatalf("%s: %v", statement, err)
	}
}
