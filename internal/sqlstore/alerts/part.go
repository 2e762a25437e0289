// Package alerts stores thresholds, alerts, and the outbox of messages about them, from which
// package webhook sends.
package alerts

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket/warn"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/trail"
)

// Part stores alerts in a database. It is safe for concurrent use.
type Part struct {
	db     *engine.DB
	random io.Reader
}

var _ warn.Ledger = (*Part)(nil)

// New returns the part of a database. It makes ids from random.
func New(db *engine.DB, random io.Reader) *Part { return &Part{db: db, random: random} }

const (
	selectThresholds = `SELECT budget_id, thresholds FROM alert_threshold /*by PRIMARY*/
		WHERE budget_id >= ? AND budget_id <= ?`
	lockThresholds = `SELECT budget_id, thresholds FROM alert_threshold /*by PRIMARY*/
		WHERE budget_id = ? /*locked*/`
	insertThresholds = `INSERT INTO alert_threshold (budget_id, thresholds, changed_ms)
		VALUES (?, ?, ?)`
	updateThresholds = `UPDATE alert_threshold SET thresholds = ?, changed_ms = ?
		WHERE budget_id = ?`
	deleteThresholds = `DELETE FROM alert_threshold WHERE budget_id = ?`

	stateColumns = `a.id, a.budget_id, a.threshold, a.period, a.episode, a.told_by,
		a.total_quantity, a.spent_quantity, a.left_quantity, a.fired_ms, a.resolved_ms, a.reason`
	selectFiring = `SELECT ` + stateColumns + ` FROM alert a /*by alert_firing*/
		WHERE a.is_firing = 1 AND a.budget_id >= ? AND a.budget_id <= ?`

	selectPeriodSpent = `SELECT e.budget_id, u.period, SUM(e.used_quantity + e.held_quantity) AS spent
		FROM bucket_epoch e /*by bucket_epoch_units*/
		JOIN budget_management_bucket u ON u.id = e.budget_id AND u.period = e.period WHERE `
)

type thresholdsRow struct {
	Budget int64  `db:"budget_id"`
	Text   []byte `db:"thresholds"`
}

// stateRow is a row of table alert.
type stateRow struct {
	ID         int64  `db:"id"`
	Budget     int64  `db:"budget_id"`
	Threshold  string `db:"threshold"`
	Period     int64  `db:"period"`
	Episode    int64  `db:"episode"`
	ToldBy     int64  `db:"told_by"`
	Total      int64  `db:"total_quantity"`
	Spent      int64  `db:"spent_quantity"`
	Left       int64  `db:"left_quantity"`
	FiredMS    int64  `db:"fired_ms"`
	ResolvedMS int64  `db:"resolved_ms"`
	Reason     string `db:"reason"`
}

func (r *stateRow) state() alert.State {
	return alert.State{ID: r.ID, ToldBy: r.ToldBy, Threshold: r.Threshold, Period: r.Period,
		Episode: r.Episode,
		FiredAt: engine.FromMS(r.FiredMS), ResolvedAt: engine.FromMS(r.ResolvedMS),
		Reason: alert.Reason(r.Reason),
		Units:  alert.Units{Total: r.Total, Spent: r.Spent, Left: r.Left}}
}

// Thresholds reads the thresholds of the budgets with ids from first to last that have their own.
// Error: Unavailable.
func (p *Part) Thresholds(ctx context.Context, first, last int64) (
	out map[int64][]alert.Threshold, err error) {
	var found []thresholdsRow
	err = p.db.Read(ctx, "thresholds", func(r *engine.Reader) error {
		found = nil
		return r.List(&found, selectThresholds, first, last)
	})
	out = make(map[int64][]alert.Threshold, len(found))
	for _, row := range found {
		list := []alert.Threshold{}
		if e := json.Unmarshal(row.Text, &list); e != nil {
			return nil, engine.Defect("thresholds of budget %d: %v", row.Budget, e)
		}
		out[row.Budget] = list
	}
	return out, err
}

// SetThresholds replaces the thresholds of a budget; nil restores the defaults. It records the
// change for the audit log. Errors: Unavailable, OutcomeUnknown. It is idempotent.
func (p *Part) SetThresholds(ctx context.Context, budgetID int64, tenant, name string,
	list []alert.Threshold) error {
	after, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return p.db.Write(ctx, "thresholds", func(t *engine.Tx) error {
		var before thresholdsRow
		found, err := t.Get(&before, lockThresholds, budgetID)
		if err != nil {
			return err
		}
		if list == nil {
			trail.FromContext(ctx).Change(tenant, name, before.Text, nil)
			_, err = t.Exec(deleteThresholds, budgetID)
			return err
		}
		trail.FromContext(ctx).Change(tenant, name, before.Text, after)
		if found {
			_, err = t.Exec(updateThresholds, after, engine.ToMS(t.Now), budgetID)
			return err
		}
		_, err = t.Exec(insertThresholds, budgetID, after, engine.ToMS(t.Now))
		return err
	})
}

// Firing reads the firing states of the budgets with ids from first to last. Error: Unavailable.
func (p *Part) Firing(ctx context.Context, first, last int64) (
	map[int64][]alert.State, error) {
	var found []stateRow
	err := p.db.Read(ctx, "alerts", func(r *engine.Reader) error {
		found = nil
		return r.List(&found, selectFiring, first, last)
	})
	out := make(map[int64][]alert.State, len(found))
	for i := range found {
		out[found[i].Budget] = append(out[found[i].Budget], found[i].state())
	}
	return out, err
}

// PeriodSpent reads the units used and held in the open periods of budgets. The result has no
// element for a budget that has used nothing. Error: Unavailable.
func (p *Part) PeriodSpent(ctx context.Context, budgets []int64) (
	out map[int64]warn.PeriodSpent, err error) {
	out = map[int64]warn.PeriodSpent{}
	err = p.db.Read(ctx, "alerts", func(r *engine.Reader) error {
		for chunk := range slices.Chunk(budgets, engine.ListChunk) {
			var found []struct {
				Budget int64 `db:"budget_id"`
				Period int64 `db:"period"`
				Spent  int64 `db:"spent"`
			}
			s := r.Statement()
			s.SQL(selectPeriodSpent)
			s.Numbers("e.budget_id", chunk)
			s.SQL(` GROUP BY e.budget_id, u.period`)
			if err := r.RowsOf(&found, s); err != nil {
				return err
			}
			for _, row := range found {
				out[row.Budget] = warn.PeriodSpent{Period: row.Period, Units: row.Spent}
			}
		}
		return nil
	})
	return out, err
}
