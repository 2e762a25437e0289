package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// plan is a statement whose way to its rows matters: because they are locked, and any other row on
// the way would be too, or because the tables grow.
type plan struct {
	name, query string
	args        []any
}

func plans(d *dialect) []plan {
	id, two := []byte("a"), []any{1, 1, 2, 1, 1, 1, 2, 1}
	return append(written(d), []plan{
		{"lock deductions", selectDeductions + ofBudget + "?, ?)" + locked, []any{1, id, id}},
		{"lock deductions of two budgets", selectDeductions + ofBudget + "?, ?) OR " + ofBudget + "?)" +
			locked, []any{1, id, id, 2, id}},
		{"kept entries", selectKept + keptWhere + " OR " + keptWhere, []any{1, 1, 1, 2, 1, 1}},
		{"lock counters", selectCounter + ofCounters + "?, ?)) OR " + ofCounters + "?, ?))" + inCounterOrder + locked,
			[]any{1, id, 0, id, id, 1, id, 7, id, id}},
		{"slots", selectCounter + ofSlots + "?, ?)) OR " + ofSlots + "?, ?))" + inCounterOrder,
			[]any{1, id, 5, id, id, 1, id, 7, id, id}},
		{"expired counters", selectExpired, []any{1, 500}},
		{"events of a value", selectEvents + itsDeduction + ofValue + inTimeOrder, []any{1, id, id, 0, 9}},
		{"events of two values", selectEvents + strings.ReplaceAll(andValue, "$", "v1") + itsDeduction + ofValue +
			inTimeOrder, []any{id, id, 1, id, id, 0, 9}},
		{"sweep", sweepEpochs + sweepWhere + " OR " + sweepWhere, []any{1, 1, 0, 2, 1, 0}},
		{"open", openEpochs + openWhere + " OR " + openWhere, []any{1, 1, 2, 1}},
		{"ending", endingEpochs + endingWhere + " OR " + endingWhere, []any{1, 1, 2, 1}},
		{"arrived", markGrants + "(" + ofGrant + ") OR (" + ofGrant + ")", []any{1, 1, 1, 2, 1, 1}},
		{"advance", strings.ReplaceAll(advanceEpochs, "$value", "1") + " WHERE (" + advanceWhere + ") OR (" +
			advanceWhere + ")", two},
		{"trim", trimLines + trimWhere + " OR " + trimWhere, []any{1, 1, 1, 1, 2, 1, 1, 1}},
		{"unfinished", selectUnfinished + inKeyOrder + ` LIMIT ?`, []any{500}},
		{"fenced", selectFenced, []any{500}},
		{"pending grants", selectPendingGrants + grantOrder + ` LIMIT ?`, []any{500}},
		{"live", selectLive, []any{[]byte("sql"), 0, 1, 1, 1, 500}},
		{"stale", selectStale, []any{[]byte("sql"), 0, 2, 500}},
		{"unsettled", selectUnsettled, []any{[]byte("sql"), 0, 2, 500}},
		{"on lane", selectOnLane, []any{[]byte("sql"), 0, 1, 500}},
		{"count on lane", countOnLane, []any{[]byte("sql"), 0}},
		{"resizes", selectResizes, []any{500}},
		{"over", selectOver, []any{1, 500}},
		{"period", selectPeriod, []any{1, 1}},
		{"periods", selectPeriods, []any{1}},
		{"counted since", selectCounted, []any{1, 1, 1, 1}},
		{"used since", selectUsedSince, []any{1, 1, 1}},
		{"departed", selectDeparted + unheardOf + ` ORDER BY d.bucket_id LIMIT ?`, []any{[]byte("sql"), 0, 1, 500}},
		{"lane uses", selectUses, []any{[]byte("node")}},
		{"lane users", selectUsers, []any{[]byte("sql"), 0, 1}},
		{"last void", selectLastVoid, []any{1}},
		{"voids", selectVoids, []any{1, 1, 500}},
		{"quarantines", selectQuarantines, []any{1}},
		{"span", selectSpan + " UNION ALL " + selectSpan, repeated(46)},
		{"part", selectPart, repeated(10)},
		{"end", selectEnd, repeated(18)},
		{"epochs after", selectEpochsAfter, []any{1, 1, 1, 500}},
		{"budgets after", selectBudgetIDs, []any{1, 200}},
		{"units of a lane", selectLaneUnits, []any{[]byte("sql"), 0}},
		{"units of fenced buckets", selectFencedUnits, nil},
		{"feed bounds", selectFeedBounds, []any{1}},
		{"feed, deductions", selectFeedDeductions + deductionSpan + " OR " + deductionSpan, []any{1, 2, 9, 2, 0, 9}},
		{"feed, rollbacks", selectFeedRollbacks + rollbackSpan + " OR " + rollbackSpan, []any{1, 2, 9, 2, 0, 9}},
		{"feed, holds", selectFeedHolds + holdSpan + " OR " + holdSpan, []any{1, 2, 9, 2, 0, 9}},
		{"due holds", selectDueHolds, []any{1, 500, 0}},
		{"lock holds", selectAllWithNewest + "?, ?) ORDER BY d.request_id" + locked, []any{1, id, id}},
		{"end holds", strings.ReplaceAll(updateEnded, "$value", "1") + "(" + stillHeld + ") OR (" + stillHeld + ")",
			[]any{1, id, id, 0, 1, id, id, 0}},
		{"forget holds", endOpenHolds + ofOpenHold + " OR " + ofOpenHold, []any{1, id, 1, id}},
		{"members of a group", selectMembers, []any{id, 1}},
		{"lock groups", selectGroup + oneGroup + " OR " + oneGroup + locked, []any{1, id, 2, id}},
		{"open holds", selectOpenHolds, []any{1000}},
		{"known samples", selectKnownSamples + ofSample + " OR " + ofSample, []any{1, 1, 2, 1}},
		{"last samples", selectLastSamples, []any{1, 200}},
		{"sample before", selectSampleBefore, []any{1, 1}},
		{"samples after", selectSamplesAfter, []any{1, 1, 9, 5000}},
		{"old samples", selectOldSamples, []any{1, 500}},
		{"drop samples", dropSamples + ofOldSample + " OR " + ofOldSample, []any{1, 1, 2, 1}},
		{"holdings", selectHoldings, []any{1, 200}},
		{"open recycles", selectOpenRecycles, []any{500}},
		{"open recycle", selectOpenRecycle, []any{1}},
		{"recycles", selectRecycles, []any{1, 9, 100}},
		{"recycles since", selectSince, []any{1, "schedule", 1}},
		{"last entries", selectLastEntries, []any{1}},
		{"demand", selectUsed + deductionSpan + " OR " + deductionSpan + " GROUP BY d.bucket_id", []any{1, 2, 9, 2, 0, 9}},
		{"covers", selectCovers + "IN (?, ?)", []any{1, 2}},
		{"judge", selectSum + andIDs + "?, ?)", []any{1, 1, 1, 1, id, id}},
	}...)
}

// written are plans of statements that the dialect writes in its own way.
func written(d *dialect) (out []plan) {
	add := func(name string, s *statement) { out = append(out, plan{name, s.text.String(), s.args}) }
	r := &reader{conn: &conn{dialect: d}}
	for _, n := range []int{1, 5, 25, 125, listChunk} {
		epochs := make([]position, n)
		for i := range epochs {
			epochs[i] = position{int64(i), 1}
		}
		add(fmt.Sprintf("lock %d epochs", n), r.ofPositions(selectEpochs, epochs, inKeyOrder+locked))
		add(fmt.Sprintf("lock %d balances", n), r.ofPositions(selectLives, epochs, inKeyOrder+locked))
	}
	if d.joinRows == 0 {
		return out
	}
	for _, valuesList := range []bool{true, false} {
		other := &dialect{name: d.name, marks: d.marks, valuesList: valuesList}
		advance, ends := make([]rowChange, d.joinRows), make([]rowChange, d.joinRows)
		for i := range advance {
			key := int64(i)
			advance[i] = rowChange{values: []any{key, key, key, key, []byte("chain")}, where: []any{key, 1, key, key}}
			ends[i] = rowChange{values: []any{1, 1, "used"}, where: []any{1, []byte{byte(i)}, "held", 0}}
		}
		add(fmt.Sprint("advance by a join ", valuesList), other.joined(advanceEpochs+" WHERE ", advanceWhere, advance))
		add(fmt.Sprint("end holds by a join ", valuesList), other.joined(updateEnded, stillHeld, ends))
	}
	return out
}

// repeated is n parameters of a statement whose plan does not depend on them.
func repeated(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// TestPlans: no statement that locks or is asked often walks through a table or an index of it, not
// even where the table is so small that an engine would like to.
func TestPlans(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		db := openFile(t, nil)
		openBudget(t, db, "b", 100, 8)
		addSamples(t, db)
		explain(t, db, "EXPLAIN QUERY PLAN ", func(row []string) bool {
			return !strings.HasPrefix(row[len(row)-1], "SCAN ") || strings.HasSuffix(row[len(row)-1], " s")
		})
	})
	t.Run("mariadb", func(t *testing.T) {
		db := openMariaDB(t, nil)
		openBudget(t, db, "b", 100, 8)
		addSamples(t, db)
		explain(t, db, "EXPLAIN ", func(row []string) bool {
			ofConstants := strings.HasPrefix(row[2], "<") // a list that the statement holds
			return ofConstants || !slices.Contains(row, "ALL") && !slices.Contains(row, "index")
		})
	})
}

// addSamples keeps a few samples: an engine walks through a table that is smaller than the list of keys.
func addSamples(t *testing.T, db *DB) {
	t.Helper()
	for i := range int64(16) {
		sample := bucket.Sample{Budget: i + 1}
		sample.At = time.UnixMilli(i)
		if err := db.AddSamples(t.Context(), []bucket.Sample{sample}); err != nil {
			t.Fatal(err)
		}
	}
}

func explain(t *testing.T, db *DB, prefix string, fine func(row []string) bool) {
	t.Helper()
	err := db.read(t.Context(), "explain", func(r *reader) error {
		for _, p := range plans(db.dialect) {
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
