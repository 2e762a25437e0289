package commit_test

import (
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// consistent compares the feed, the values and the limit counters with the rows of deductions; the
// columns are compared by the fixture.
func (w *world) consistent() {
	w.Helper()
	for what, query := range map[string]string{
		"a bucket's feed": `SELECT COUNT(*) FROM (SELECT d.bucket_id, SUM(d.amount) AS units, COUNT(*) AS n
			FROM deduction d GROUP BY d.bucket_id) x LEFT JOIN (SELECT f.bucket_id, SUM(f.units) AS units,
			SUM(f.entries) AS n FROM feed f GROUP BY f.bucket_id) y ON y.bucket_id = x.bucket_id
			WHERE y.units IS NULL OR x.units <> y.units OR x.n <> y.n`,
		"a bucket's next entry": `SELECT COUNT(*) FROM sharding_budget_management_bucket b
			JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
			WHERE e.next_entry <> 1 + (SELECT COALESCE(SUM(f.entries), 0) FROM feed f
			WHERE f.bucket_id = b.id)`,
		"two feed rows": `SELECT COUNT(*) FROM feed f JOIN feed g ON g.bucket_id = f.bucket_id
			AND g.first_entry > f.first_entry AND g.first_entry < f.first_entry + f.entries`,
		"a value": `SELECT COUNT(*) FROM deduction_value v LEFT JOIN deduction d
			ON d.budget_id = v.budget_id AND d.request_id = v.request_id AND d.counted_at = v.counted_at
			WHERE d.budget_id IS NULL`,
	} {
		if n := w.figure(query); n != 0 {
			w.Errorf("%s does not agree with the rows, %d times", what, n)
		}
	}
	w.feedHasEach()
	w.countersAgree()
}

// feedHasEach compares the entries of the feed with the rows one by one.
func (w *world) feedHasEach() {
	w.Helper()
	entries, count := map[string]int64{}, 0
	var bodies []string
	w.list(&bodies, `SELECT body FROM feed`)
	for _, body := range bodies {
		list, err := ledger.ReadFeed(body)
		w.OK(err)
		for _, e := range list {
			entries[e.RequestID] += e.Amount
			count++
		}
	}
	var rows []struct {
		ID     string `db:"request_id"`
		Amount int64  `db:"amount"`
	}
	w.list(&rows, `SELECT request_id, amount FROM deduction WHERE bucket_id > 0`)
	for _, row := range rows {
		if entries[row.ID] != row.Amount {
			w.Errorf("%q took %d, its entries say %d", row.ID, row.Amount, entries[row.ID])
		}
	}
	if count != len(rows) {
		w.Errorf("%d entries of %d deductions", count, len(rows))
	}
}

// countersAgree compares what limits have counted with the rows: no test lets a window end.
func (w *world) countersAgree() {
	w.Helper()
	var rows []struct {
		Value  string `db:"value"`
		Counts string `db:"counts"`
	}
	w.list(&rows, `SELECT value, counts FROM limit_counter`)
	for _, row := range rows {
		counts, err := limit.ReadCounters(row.Counts)
		w.OK(err)
		for _, c := range counts.List {
			sum := `SUM(d.amount)`
			if c.Limit == "calls" {
				sum = `COUNT(*)`
			}
			taken := w.figure(`SELECT COALESCE(`+sum+`, 0) FROM deduction_value v JOIN deduction d
				ON d.budget_id = v.budget_id AND d.request_id = v.request_id WHERE v.value = ?`,
				[]byte(row.Value))
			if c.Row.Counted != taken {
				w.Errorf("limit %s counts %d for %s, its rows say %d", c.Limit, c.Row.Counted, row.Value,
					taken)
			}
		}
	}
}

func (w *world) list(to any, query string, args ...any) {
	w.Helper()
	w.OK(w.DB.Read(w.Ctx, "list", func(r *engine.Reader) error { return r.List(to, query, args...) }))
}
