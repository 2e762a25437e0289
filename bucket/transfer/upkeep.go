package transfer

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	selectStatusDue = `SELECT id FROM budget_management_bucket /*by budget_management_bucket_status*/
		WHERE status_due_ms > 0 AND status_due_ms <= ? ORDER BY status_due_ms, id LIMIT ?`
)

// Restate updates the status column of at most limit budgets whose status by SQL's clock differs,
// each in a transaction of its own. If another node was faster, nothing changes. Only readers of
// the table need it; no decision uses it.
func (l *Ledger) Restate(ctx context.Context, limit int) error {
	var ids []int64
	now := engine.ToMS(l.db.Now())
	err := l.db.Read(ctx, "restate", func(r *engine.Reader) error {
		ids = nil
		return r.List(&ids, selectStatusDue, now, limit)
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := bookkeeper.Do(ctx, l.db, "restate", bookkeeper.WholeBudget(id)[:1],
			func(b *books.Books) ([]bookkeeper.Query, error) {
				if u := b.Budgets.Get(id); u != nil {
					b.Restate(u)
				}
				return nil, nil
			})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	selectExpired = `SELECT budget_id, dimension, value, version
		FROM limit_counter /*by limit_counter_expires*/
		WHERE expires_ms > 0 AND expires_ms <= ? ORDER BY expires_ms LIMIT ?`
	// deleteExpired names the version and the instant, so that a counter written since then stays.
	deleteExpired = `DELETE FROM limit_counter WHERE budget_id = ? AND dimension = ? AND value = ?
		AND version = ? AND expires_ms > 0 AND expires_ms <= ?`
)

// ExpireCounters deletes limit counters whose windows have ended by SQL's clock, at most limit, in
// key order. A counter that is written meanwhile stays.
func (l *Ledger) ExpireCounters(ctx context.Context, limit int) (removed int, err error) {
	now := engine.ToMS(l.db.Now())
	var due []counterRow
	err = l.db.Read(ctx, "expire counters", func(r *engine.Reader) error {
		due = nil
		return r.List(&due, selectExpired, now, limit)
	})
	if err != nil || len(due) == 0 {
		return 0, err
	}
	sortCounters(due)
	err = l.db.Write(ctx, "expire counters", func(t *engine.Tx) error {
		removed = 0
		for i := range due {
			d := &due[i]
			n, err := t.Exec(deleteExpired, d.Budget, d.Dimension, d.Value, d.Version, now)
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

const (
	selectGoneSeries = `SELECT budget_id, series FROM limit_override_series
		WHERE gone_ms <= ? ORDER BY gone_ms LIMIT 1`
	// selectOverrideAt reads where a step ends.
	selectOverrideAt = `SELECT value FROM limit_override WHERE budget_id = ? AND series = ?
		ORDER BY value LIMIT 1 OFFSET ?`
	deleteOverridesTo = `DELETE FROM limit_override WHERE budget_id = ? AND series = ?
		AND value <= ?`
	deleteOverrides = `DELETE FROM limit_override WHERE budget_id = ? AND series = ?`
	deleteSeries    = `DELETE FROM limit_override_series WHERE budget_id = ? AND series = ?`
	// goneFor is how long nodes may still judge by the overrides of a series that is gone, in ms.
	goneFor = 60_000
)

// RemoveOverrides removes at most limit overrides of a series that no limit has any more. It
// reports whether there may be others.
func (l *Ledger) RemoveOverrides(ctx context.Context, limit int) (more bool, err error) {
	before := engine.ToMS(l.db.Now()) - goneFor
	err = l.db.Write(ctx, "remove overrides", func(t *engine.Tx) error {
		var gone struct {
			Budget int64 `db:"budget_id"`
			Series int64 `db:"series"`
		}
		more, err = t.Get(&gone, selectGoneSeries, before)
		if err != nil || !more {
			return err
		}
		var last []byte
		found, err := t.Get(&last, selectOverrideAt, gone.Budget, gone.Series, limit-1)
		if err != nil {
			return err
		}
		if found {
			_, err = t.Exec(deleteOverridesTo, gone.Budget, gone.Series, last)
			return err
		}
		if _, err = t.Exec(deleteOverrides, gone.Budget, gone.Series); err == nil {
			_, err = t.Exec(deleteSeries, gone.Budget, gone.Series)
		}
		return err
	})
	return more, err
}

// counterRow identifies a version of a row of limit_counter.
type counterRow struct {
	Budget    int64  `db:"budget_id"`
	Dimension []byte `db:"dimension"`
	Value     []byte `db:"value"`
	Version   int64  `db:"version"`
}

// sortCounters orders rows as they are locked.
func sortCounters(list []counterRow) {
	slices.SortFunc(list, func(a, b counterRow) int {
		return cmp.Or(cmp.Compare(a.Budget, b.Budget), bytes.Compare(a.Dimension, b.Dimension),
			bytes.Compare(a.Value, b.Value))
	})
}
