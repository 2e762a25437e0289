package alerts

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
)

const (
	selectAlerts = `SELECT ` + stateColumns + `, u.tenant, u.name FROM alert a
		JOIN budget_management_bucket u ON u.id = a.budget_id WHERE a.id < ?`
	alertsOrder = ` ORDER BY a.id DESC LIMIT ?`

	selectOldAlerts = `SELECT id FROM alert /*by alert_resolved*/
		WHERE resolved_ms > 0 AND resolved_ms < ? ORDER BY resolved_ms LIMIT ?`
	dropAlert         = `DELETE FROM alert WHERE id = ?`
	selectOldMessages = `SELECT id FROM webhook_message /*by webhook_message_created*/
		WHERE created_ms < ? ORDER BY created_ms LIMIT ?`
	dropDeliveriesOf = `DELETE FROM webhook_delivery WHERE message_id = ?`
	dropMessage      = `DELETE FROM webhook_message WHERE id = ?`
)

// Alerts lists alerts, newest first. Error: Unavailable.
func (p *Part) Alerts(ctx context.Context, q alert.Query) (out []alert.View, err error) {
	query, args := selectAlerts, []any{q.Before}
	if q.Budget != 0 {
		query, args = query+` AND a.budget_id = ?`, append(args, q.Budget)
	}
	if q.Tenant != "" {
		query, args = query+` AND u.tenant = ?`, append(args, []byte(q.Tenant))
	}
	if q.State != "" {
		firing := 0
		if q.State == alert.StateFiring {
			firing = 1
		}
		query, args = query+` AND a.is_firing = ?`, append(args, firing)
	}
	var found []struct {
		stateRow
		Tenant string `db:"tenant"`
		Name   string `db:"name"`
	}
	err = p.db.Read(ctx, "alerts", func(r *engine.Reader) error {
		found = nil
		return r.List(&found, query+alertsOrder, append(args, q.Limit)...)
	})
	for i := range found {
		row := &found[i]
		out = append(out, alert.View{Tenant: row.Tenant, Name: row.Name, State: row.state()})
	}
	return out, err
}

// Prune deletes alerts that were resolved before an instant, and older messages with their
// deliveries. It deletes at most limit of each and returns the larger number. Errors: Unavailable,
// OutcomeUnknown.
func (p *Part) Prune(ctx context.Context, before time.Time, limit int) (n int, err error) {
	var alerts []int64
	var messages [][]byte
	err = p.db.Read(ctx, "prune alerts", func(r *engine.Reader) error {
		alerts, messages = nil, nil
		if err := r.List(&alerts, selectOldAlerts, engine.ToMS(before), limit); err != nil {
			return err
		}
		return r.List(&messages, selectOldMessages, engine.ToMS(before), limit)
	})
	if n = max(len(alerts), len(messages)); err != nil || n == 0 {
		return n, err
	}
	return n, p.db.Write(ctx, "prune alerts", func(t *engine.Tx) error {
		for _, id := range alerts {
			if _, err := t.Exec(dropAlert, id); err != nil {
				return err
			}
		}
		for _, id := range messages {
			for _, drop := range []string{dropDeliveriesOf, dropMessage} {
				if _, err := t.Exec(drop, id); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
