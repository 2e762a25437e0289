package alerting

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/internal/sql/engine"
)

// pruneStep and pruneSteps bound what Prune deletes in a run.
const pruneStep, pruneSteps = 500, 20

// Prune deletes a bounded number of alerts that were resolved before an instant, and messages from
// before it. Errors: Unavailable, OutcomeUnknown.
func (s *Service) Prune(ctx context.Context, before time.Time) error {
	for range pruneSteps {
		step, cancel := context.WithTimeout(ctx, stepTime)
		n, err := s.prune(step, before, pruneStep)
		cancel()
		if err != nil || n < pruneStep {
			return err
		}
	}
	return nil
}

const (
	selectOldAlerts = `SELECT id FROM alert /*by alert_resolved*/
		WHERE resolved_ms > 0 AND resolved_ms < ? ORDER BY resolved_ms LIMIT ?`
	dropAlert         = `DELETE FROM alert WHERE id = ?`
	selectOldMessages = `SELECT id FROM webhook_message /*by webhook_message_created*/
		WHERE created_ms < ? ORDER BY created_ms LIMIT ?`
	dropDeliveriesOf = `DELETE FROM webhook_delivery WHERE message_id = ?`
	dropMessage      = `DELETE FROM webhook_message WHERE id = ?`
)

// prune deletes alerts that were resolved before an instant, and older messages with their
// deliveries. It deletes at most limit of each and returns the larger number. Errors: Unavailable,
// OutcomeUnknown.
func (s *Service) prune(ctx context.Context, before time.Time, limit int) (n int, err error) {
	var alerts []int64
	var messages [][]byte
	err = s.DB.Read(ctx, "prune alerts", func(r *engine.Reader) error {
		alerts, messages = nil, nil
		if err := r.List(&alerts, selectOldAlerts, engine.ToMS(before), limit); err != nil {
			return err
		}
		return r.List(&messages, selectOldMessages, engine.ToMS(before), limit)
	})
	if n = max(len(alerts), len(messages)); err != nil || n == 0 {
		return n, err
	}
	return n, s.DB.Write(ctx, "prune alerts", func(t *engine.Tx) error {
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
