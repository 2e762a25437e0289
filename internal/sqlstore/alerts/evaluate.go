package alerts

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
)

const (
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

// Evaluate compares budgets with their locked states, and writes the transitions and their messages
// in one transaction. It returns the transitions by budget. Errors: Unavailable, OutcomeUnknown. It
// is idempotent: a second call with the same figures changes nothing.
func (p *Part) Evaluate(ctx context.Context, subjects []alert.Subject) (
	out map[int64][]alert.Transition, err error) {
	err = p.db.Write(ctx, "alerts", func(t *engine.Tx) error {
		out = map[int64][]alert.Transition{}
		fired := 0
		for i := range subjects {
			s := &subjects[i]
			var found []stateRow
			if err := t.List(&found, lockStates, s.Budget, s.Figures.Period); err != nil {
				return err
			}
			states := make([]alert.State, len(found))
			for j := range found {
				states[j] = found[j].state()
			}
			list := alert.Decide(states, s.Figures, s.Thresholds, t.Now)
			for _, one := range list {
				if one.State.Firing() {
					fired++
				}
			}
			if len(list) > 0 {
				out[s.Budget] = list
			}
		}
		next, err := numbers(t, fired)
		if err != nil {
			return err
		}
		var messages []alert.Message
		for i := range subjects {
			s := &subjects[i]
			told, err := write(t, s, out[s.Budget], &next)
			if err != nil {
				return err
			}
			messages = append(messages, told...)
		}
		return p.post(t, messages)
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

const (
	insertMessages   = `INSERT INTO webhook_message (id, tenant, type, body, created_ms)`
	messageWidth     = 5
	insertDeliveries = `INSERT INTO webhook_delivery (endpoint_id, message_id, state, tries, due_ms,
		attempts)`
	deliveryWidth = 6
)

// post writes messages and their deliveries to the endpoints that get them. It drops a message that
// no endpoint gets.
func (p *Part) post(t *engine.Tx, messages []alert.Message) error {
	if len(messages) == 0 {
		return nil
	}
	endpoints, err := readEndpoints(&t.Reader, selectEndpoints+` ORDER BY e.id`)
	if err != nil {
		return err
	}
	var kept, deliveries []any
	for i := range messages {
		m := &messages[i]
		getters := slices.DeleteFunc(slices.Clone(endpoints), func(e alert.Endpoint) bool {
			return !e.Gets(m.Type, m.Tenant)
		})
		if len(getters) == 0 {
			continue
		}
		if m.ID, err = p.newMessageID(t.Now); err != nil {
			return err
		}
		kept = append(kept, []byte(m.ID), []byte(m.Tenant), m.Type, m.Body,
			engine.ToMS(m.CreatedAt))
		for _, e := range getters {
			var due any // of a disabled one: when it is enabled
			if e.Disabled == "" {
				due = engine.ToMS(t.Now)
			}
			deliveries = append(deliveries, []byte(e.ID), []byte(m.ID), string(alert.Pending), 0, due,
				[]byte("[]"))
		}
	}
	if err := t.Insert(insertMessages, messageWidth, kept); err != nil {
		return err
	}
	return t.Insert(insertDeliveries, deliveryWidth, deliveries)
}

// encodeTypes encodes the message types of an endpoint; nil means all types.
func encodeTypes(types []string) ([]byte, error) {
	if len(types) == 0 {
		return nil, nil
	}
	return json.Marshal(types)
}
