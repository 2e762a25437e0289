package alerting

import (
	"context"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const (
	stateColumns = `a.id, a.budget_id, a.threshold, a.period, a.episode, a.told_by,
		a.total_quantity, a.spent_quantity, a.left_quantity, a.fired_ms, a.resolved_ms, a.reason`
	selectFiring = `SELECT ` + stateColumns + ` FROM alert a /*by alert_firing*/
		WHERE a.is_firing = 1 AND a.budget_id >= ? AND a.budget_id <= ?`
	// lockStates reads the firing states and those of the present period, whose episodes the next
	// ones follow.
	lockStates = `SELECT ` + stateColumns + ` FROM alert a /*by PRIMARY*/ WHERE a.budget_id = ?
		AND (a.is_firing = 1 OR a.period = 0 OR a.period = ?) /*locked*/`
	insertStates = `INSERT INTO alert (budget_id, threshold, period, episode, id, told_by,
		total_quantity, spent_quantity, left_quantity, fired_ms, resolved_ms, reason)`
	stateWidth   = 12
	resolveState = `UPDATE alert /*by PRIMARY*/ SET resolved_ms = ?, reason = ?
		WHERE budget_id = ? AND threshold = ? AND period = ? AND episode = ? AND resolved_ms = 0`
	takeNumbers = `UPDATE sequence SET next_id = next_id + ? WHERE name = ?`
	nextNumber  = `SELECT next_id FROM sequence WHERE name = ?`
)

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

// readFiring reads the firing states of the budgets with ids from first to last. Error:
// Unavailable.
func (s *Service) readFiring(ctx context.Context, first, last int64) (
	map[int64][]alert.State, error) {
	found, err := engine.List[stateRow](ctx, s.DB, "alerts", selectFiring, first, last)
	out := make(map[int64][]alert.State, len(found))
	for i := range found {
		out[found[i].Budget] = append(out[found[i].Budget], found[i].state())
	}
	return out, err
}

// Evaluate compares budgets with their locked states, and writes the transitions and their messages
// in one transaction. It returns the transitions by budget. Errors: Unavailable, OutcomeUnknown. It
// is idempotent: a second call with the same figures changes nothing.
func (s *Service) Evaluate(ctx context.Context, subjects []alert.Subject) (
	out map[int64][]alert.Transition, err error) {
	err = s.DB.Write(ctx, "alerts", func(t *engine.Tx) error {
		out = map[int64][]alert.Transition{}
		fired := 0
		for i := range subjects {
			one := &subjects[i]
			var found []stateRow
			if err := t.List(&found, lockStates, one.Budget, one.Figures.Period); err != nil {
				return err
			}
			states := make([]alert.State, len(found))
			for j := range found {
				states[j] = found[j].state()
			}
			list := alert.Decide(states, one.Figures, one.Thresholds, t.Now)
			for j := range list {
				if list[j].State.Firing() {
					fired++
				}
			}
			if len(list) > 0 {
				out[one.Budget] = list
			}
		}
		next, err := numbers(t, fired)
		if err != nil {
			return err
		}
		var messages []alert.Message
		for i := range subjects {
			told, err := write(t, &subjects[i], out[subjects[i].Budget], &next)
			if err != nil {
				return err
			}
			messages = append(messages, told...)
		}
		return s.Outbox.post(t, messages)
	})
	return out, err
}

// numbers reserves n ids of alerts and returns the first.
func numbers(t *engine.Tx, n int) (first int64, err error) {
	if n == 0 {
		return 0, nil
	}
	name := []byte(engine.SequenceAlert)
	if err := t.Hit(1, takeNumbers, n, name); err != nil {
		return 0, err
	}
	_, err = t.Get(&first, nextNumber, name)
	return first - int64(n), err
}

// write writes the transitions of a budget and returns their messages. New states get ids from next
// on.
func write(t *engine.Tx, s *alert.Subject, list []alert.Transition, next *int64) (
	messages []alert.Message, err error) {
	var values []any
	var top int64 // of the present ladder: its first transition has the message
	for i := range list {
		one := &list[i]
		state := &one.State
		if state.Firing() {
			state.ID = *next
			*next++
		}
		if one.Top == state.Threshold {
			top = state.ID
			kind, body := s.Tell(*one)
			messages = append(messages, alert.Message{Type: kind, Tenant: s.Tenant, Body: body,
				CreatedAt: t.Now})
		}
		name := []byte(state.Threshold)
		if state.Firing() {
			state.ToldBy = top
		}
		if !state.Firing() {
			err := t.Hit(1, resolveState, engine.ToMS(state.ResolvedAt), string(state.Reason),
				s.Budget, name, state.Period, state.Episode)
			if err != nil {
				return nil, err
			}
			continue
		}
		values = append(values, s.Budget, name, state.Period, state.Episode, state.ID, state.ToldBy,
			state.Units.Total, state.Units.Spent, state.Units.Left, engine.ToMS(state.FiredAt), 0, "")
	}
	return messages, t.Insert(insertStates, stateWidth, values)
}
