package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// plan is a statement whose way to its rows matters: because they are locked, and any other row on
// the way would be too, or because the tables grow.
type plan struct {
	name, query string
	args        []any
}

func plans() []plan {
	id, epochs := []byte("a"), []any{1, 1, 2, 1, 3, 1, 4, 1}
	two := []any{1, 1, 2, 1, 1, 1, 2, 1}
	return []plan{
		{"lock epochs", selectEpochs + repeat(onePosition, " OR ", 4) + inKeyOrder + locked, epochs},
		{"lock deductions", selectDeductions + ofBudget + "?, ?)" + locked, []any{1, id, id}},
		{"lock deductions of two budgets", selectDeductions + ofBudget + "?, ?) OR " + ofBudget + "?)" +
			locked, []any{1, id, id, 2, id}},
		{"lock balances", selectLives + repeat(onePosition, " OR ", 4) + inKeyOrder + locked, epochs},
		{"kept entries", selectKept + keptWhere + " OR " + keptWhere, []any{1, 1, 1, 2, 1, 1}},
		{"sweep", sweepEpochs + sweepWhere + " OR " + sweepWhere, []any{1, 1, 0, 2, 1, 0}},
		{"open", openEpochs + openWhere + " OR " + openWhere, []any{1, 1, 2, 1}},
		{"arrived", markGrants + "(" + ofGrant + ") OR (" + ofGrant + ")", []any{1, 1, 1, 2, 1, 1}},
		{"advance", strings.ReplaceAll(advanceEpochs, "$value", "1") + "(" + advanceWhere + ") OR (" +
			advanceWhere + ")", two},
		{"trim", trimLines + trimWhere + " OR " + trimWhere, []any{1, 1, 1, 1, 2, 1, 1, 1}},
		{"unfinished", selectUnfinished + inKeyOrder + ` LIMIT ?`, []any{500}},
		{"fenced", selectFenced, []any{500}},
		{"pending grants", selectPendingGrants + grantOrder + ` LIMIT ?`, []any{500}},
		{"live", selectLive, []any{[]byte("sql"), 0, 1, 1, 1, 500}},
		{"stale", selectStale, []any{[]byte("sql"), 0, 2, 500}},
		{"judge", selectJudgement + selectJudged + ofBudget + "?, ?)", []any{1, 1, id, id}},
	}
}

// TestPlans: no statement that locks or is asked often walks through a table or an index of it, not
// even where the table is so small that an engine would like to.
func TestPlans(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		db := openFile(t, nil)
		openBudget(t, db, "b", 100, 8)
		explain(t, db, "EXPLAIN QUERY PLAN ", func(row []string) bool {
			return !strings.HasPrefix(row[len(row)-1], "SCAN ") || strings.HasSuffix(row[len(row)-1], " s")
		})
	})
	t.Run("mariadb", func(t *testing.T) {
		db := openMariaDB(t, nil)
		openBudget(t, db, "b", 100, 8)
		explain(t, db, "EXPLAIN ", func(row []string) bool {
			return !slices.Contains(row, "ALL") && !slices.Contains(row, "index")
		})
	})
}

func explain(t *testing.T, db *DB, prefix string, fine func(row []string) bool) {
	t.Helper()
	err := db.read(t.Context(), "explain", func(r *reader) error {
		for _, p := range plans() {
			rows, err := r.conn.raw.QueryxContext(t.Context(), prefix+db.dialect.text(p.query), p.args...)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			for rows.Next() {
				values, err := rows.SliceScan()
				if err != nil {
					return err
				}
				var row []string
				for _, v := range values {
					if text, ok := v.([]byte); ok {
						v = string(text)
					}
					row = append(row, fmt.Sprint(v))
				}
				if !fine(row) {
					t.Errorf("%s: %q", p.name, row)
				}
			}
			if err := rows.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
