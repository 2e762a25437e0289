package alerting

import (
	"context"
	"encoding/json"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const (
	deliveryColumns = `d.endpoint_id, d.message_id, d.state, d.tries, COALESCE(d.due_ms, 0) AS due_ms,
		d.attempts, m.tenant, m.type, m.body, m.created_ms`
	fromDeliveries = ` FROM webhook_delivery d /*by PRIMARY*/
		/*in order*/ JOIN webhook_message m /*by PRIMARY*/ ON m.id = d.message_id`
	firstDue = `SELECT x.message_id FROM webhook_delivery x /*by webhook_delivery_due*/
		WHERE x.endpoint_id = e.id AND x.due_ms <= ? ORDER BY x.due_ms LIMIT 1`
	selectDue = `SELECT d.endpoint_id, d.message_id, d.due_ms FROM webhook_endpoint e
		/*in order*/ JOIN webhook_delivery d /*by PRIMARY*/
		ON d.endpoint_id = e.id AND d.message_id = (` + firstDue + `)`
	pageDue = selectDue + ` ORDER BY d.due_ms LIMIT ?`
	nextDue = selectDue + ` WHERE e.id = ?`
	claim   = `UPDATE webhook_delivery SET due_ms = ?
		WHERE endpoint_id = ? AND message_id = ? AND due_ms = ?`
	oneDelivery = `SELECT ` + deliveryColumns + fromDeliveries +
		` WHERE d.endpoint_id = ? AND d.message_id = ?`
	lockDelivery   = oneDelivery + ` /*locked*/`
	pageDeliveries = `SELECT ` + deliveryColumns + fromDeliveries +
		` WHERE d.endpoint_id = ? AND d.message_id < ? ORDER BY d.message_id DESC LIMIT ?`
	selectWaiting = `SELECT COUNT(*) AS waiting, COALESCE(MIN(w.message_id), '') AS oldest
		FROM (SELECT d.message_id FROM webhook_endpoint e
		/*in order*/ JOIN webhook_delivery d /*by webhook_delivery_due*/
		ON d.endpoint_id = e.id AND d.due_ms >= 0 LIMIT ?) w`
	selectWritten  = `SELECT created_ms FROM webhook_message WHERE id = ?`
	updateDelivery = `UPDATE webhook_delivery SET state = ?, tries = ?, due_ms = ?, attempts = ?
		WHERE endpoint_id = ? AND message_id = ?`
)

type deliveryRow struct {
	Endpoint  string `db:"endpoint_id"`
	Message   string `db:"message_id"`
	State     string `db:"state"`
	Tries     int    `db:"tries"`
	DueMS     int64  `db:"due_ms"`
	Attempts  []byte `db:"attempts"`
	Tenant    string `db:"tenant"`
	Type      string `db:"type"`
	Body      []byte `db:"body"`
	CreatedMS int64  `db:"created_ms"`
}

func (r *deliveryRow) delivery() (alert.Delivery, error) {
	d := alert.Delivery{Endpoint: r.Endpoint, State: alert.DeliveryState(r.State), Tries: r.Tries,
		DueAt: engine.FromMS(r.DueMS), Message: alert.Message{ID: r.Message, Type: r.Type,
			Tenant: r.Tenant, Body: r.Body, CreatedAt: engine.FromMS(r.CreatedMS)}}
	if err := json.Unmarshal(r.Attempts, &d.Attempts); err != nil {
		return d, engine.Defect("attempts of %s at %s: %v", r.Message, r.Endpoint, err)
	}
	return d, nil
}

// Due lists, of at most `most` endpoints, the delivery that is longest overdue, the longest overdue
// first. It takes one look into the index for each endpoint, however many deliveries wait. Error:
// Unavailable.
func (o *Outbox) Due(ctx context.Context, most int) ([]alert.Due, error) {
	return o.due(ctx, pageDue, most)
}

// Next returns the delivery of an endpoint that is longest overdue. ok is false if none is due.
// Error: Unavailable.
func (o *Outbox) Next(ctx context.Context, endpoint string) (due alert.Due, ok bool, err error) {
	found, err := o.due(ctx, nextDue, []byte(endpoint))
	if err != nil || len(found) == 0 {
		return due, false, err
	}
	return found[0], true, nil
}

func (o *Outbox) due(ctx context.Context, query string, arg any) (out []alert.Due, err error) {
	found, err := engine.List[deliveryRow](ctx, o.DB, "webhooks due", query,
		engine.ToMS(o.DB.Now()), arg)
	for _, row := range found {
		out = append(out, alert.Due{Endpoint: row.Endpoint, Message: row.Message,
			At: engine.FromMS(row.DueMS)})
	}
	return out, err
}

// Claim reserves a due delivery for one attempt: no other node gets it for the time of lease. ok is
// false if another node was faster or the endpoint is gone. Errors: Unavailable, OutcomeUnknown.
// After an error the delivery is due again when lease is over.
func (o *Outbox) Claim(ctx context.Context, due alert.Due, lease time.Duration) (
	d alert.Delivery, e alert.Endpoint, ok bool, err error) {
	err = o.DB.Write(ctx, "claim webhook", func(t *engine.Tx) error {
		ok = false
		n, err := t.Exec(claim, engine.ToMS(t.Now.Add(lease)), []byte(due.Endpoint),
			[]byte(due.Message), engine.ToMS(due.At))
		if err != nil || n == 0 {
			return err
		}
		var row deliveryRow
		if ok, err = t.Get(&row, oneDelivery, []byte(due.Endpoint), []byte(due.Message)); err != nil ||
			!ok {
			return err
		}
		if d, err = row.delivery(); err != nil {
			return err
		}
		found, err := readEndpoints(&t.Reader, oneEndpoint, []byte(due.Endpoint))
		if ok = len(found) == 1; ok {
			e = found[0]
		}
		return err
	})
	return d, e, ok, err
}

// Finish records an attempt and its consequence: the time of the next attempt, or a disabled
// endpoint, which the tenant's other endpoints are told of. It returns the state of the delivery
// and the endpoint after that; the state is "" if one of them was deleted meanwhile. Errors:
// Unavailable, OutcomeUnknown.
func (o *Outbox) Finish(ctx context.Context, d alert.Delivery, a alert.Attempt, jitter float64) (
	state alert.DeliveryState, e alert.Endpoint, err error) {
	err = o.DB.Write(ctx, "finish webhook", func(t *engine.Tx) error {
		state = ""
		before, err := one(&t.Reader, lockEndpoint, d.Endpoint)
		if err != nil {
			return gone(err)
		}
		current, found, err := lock(t, d.Endpoint, d.Message.ID)
		if err != nil || !found {
			return err
		}
		var after alert.Delivery
		after, e = alert.After(current, before, a, jitter)
		if err := put(t, &after); err != nil {
			return err
		}
		state = after.State
		if e.Disabled == before.Disabled && e.FailingSince.Equal(before.FailingSince) {
			return nil
		}
		if err := o.update(t, &e); err != nil || e.Disabled == before.Disabled {
			return err
		}
		return o.post(t, []alert.Message{{Type: alert.TypeDisabled, Tenant: e.Tenant, CreatedAt: t.Now,
			Body: alert.Body(alert.TypeDisabled, t.Now, disabledData{e.ID, e.Tenant, e.URL, e.Disabled,
				e.FailingSince})}})
	})
	return state, e, err
}

// Waiting counts the pending deliveries, up to most, and returns when the oldest message of these
// was written; zero means that none is pending. Error: Unavailable.
func (o *Outbox) Waiting(ctx context.Context, most int) (n int, oldest time.Time, err error) {
	var found struct {
		Waiting int    `db:"waiting"`
		Oldest  []byte `db:"oldest"`
	}
	var writtenMS int64
	err = o.DB.Read(ctx, "outbox", func(r *engine.Reader) error {
		writtenMS = 0
		if _, err := r.Get(&found, selectWaiting, most); err != nil || found.Waiting == 0 {
			return err
		}
		_, err := r.Get(&writtenMS, selectWritten, found.Oldest)
		return err
	})
	return found.Waiting, engine.FromMS(writtenMS), err
}

// disabledData is the data of a message of type endpoint.disabled.
type disabledData struct {
	Endpoint     string         `json:"endpoint"`
	Tenant       string         `json:"tenant"`
	URL          string         `json:"url"`
	Disabled     alert.Disabled `json:"disabled"`
	FailingSince time.Time      `json:"failing_since,omitzero"`
}

// gone returns nil for WebhookNotFound, because the endpoint was deleted meanwhile.
func gone(err error) error {
	if budget.Is(err, budget.WebhookNotFound) {
		return nil
	}
	return err
}

func lock(t *engine.Tx, endpoint, message string) (d alert.Delivery, found bool, err error) {
	var row deliveryRow
	found, err = t.Get(&row, lockDelivery, []byte(endpoint), []byte(message))
	if err != nil || !found {
		return d, found, err
	}
	d, err = row.delivery()
	return d, true, err
}

// put writes the columns of a delivery that change.
func put(t *engine.Tx, d *alert.Delivery) error {
	attempts, err := json.Marshal(d.Attempts)
	if err != nil {
		return err
	}
	var due any
	if !d.DueAt.IsZero() {
		due = engine.ToMS(d.DueAt)
	}
	_, err = t.Exec(updateDelivery, string(d.State), d.Tries, due, attempts, []byte(d.Endpoint),
		[]byte(d.Message.ID))
	return err
}

// Deliveries reads the deliveries of an endpoint before a message, newest first; "" begins with the
// newest. Error: Unavailable.
func (o *Outbox) Deliveries(ctx context.Context, endpoint, before string, limit int) (
	out []alert.Delivery, err error) {
	if before == "" {
		before = "n" // above every id
	}
	err = o.DB.Read(ctx, "deliveries", func(r *engine.Reader) error {
		out = nil
		var found []deliveryRow
		err := r.List(&found, pageDeliveries, []byte(endpoint), []byte(before), limit)
		for i := range found {
			d, err := found[i].delivery()
			if err != nil {
				return err
			}
			out = append(out, d)
		}
		return err
	})
	return out, err
}

// Test writes a message for one endpoint, which gets it even while disabled. Errors:
// WebhookNotFound, Unavailable, OutcomeUnknown. A repeated call writes another message.
func (o *Outbox) Test(ctx context.Context, id string) (d alert.Delivery, err error) {
	err = o.DB.Write(ctx, "test webhook", func(t *engine.Tx) error {
		e, err := one(&t.Reader, lockEndpoint, id)
		if err != nil {
			return err
		}
		d = alert.Delivery{Endpoint: id, State: alert.Pending, Attempts: []alert.Attempt{},
			DueAt: engine.FromMS(engine.ToMS(t.Now)),
			Message: alert.Message{Type: alert.TypeTest, Tenant: e.Tenant,
				CreatedAt: engine.FromMS(engine.ToMS(t.Now)),
				Body:      alert.Body(alert.TypeTest, t.Now, map[string]string{"endpoint": id})}}
		if d.Message.ID, err = o.newMessageID(t.Now); err != nil {
			return err
		}
		auditlog.FromContext(ctx).Change(e.Tenant, id, nil, nil)
		m := &d.Message
		if err := t.Insert(insertMessages, messageWidth, []any{[]byte(m.ID), []byte(m.Tenant), m.Type,
			m.Body, engine.ToMS(m.CreatedAt)}); err != nil {
			return err
		}
		return t.Insert(insertDeliveries, deliveryWidth, []any{[]byte(id), []byte(m.ID),
			string(d.State), 0, engine.ToMS(d.DueAt), []byte("[]")})
	})
	return d, err
}

// Resend makes a message pending again under its id, with all attempts. Errors: WebhookNotFound,
// DeliveryNotFound, Unavailable, OutcomeUnknown.
func (o *Outbox) Resend(ctx context.Context, id, message string) (d alert.Delivery, err error) {
	err = o.DB.Write(ctx, "resend webhook", func(t *engine.Tx) error {
		e, err := one(&t.Reader, lockEndpoint, id)
		if err != nil {
			return err
		}
		found := false
		if d, found, err = lock(t, id, message); err != nil {
			return err
		}
		if !found {
			return budget.Refuse(budget.DeliveryNotFound, "resend webhook",
				"endpoint %s has no message %.60q", id, message)
		}
		d.State, d.Tries, d.DueAt = alert.Pending, 0, engine.FromMS(engine.ToMS(t.Now))
		auditlog.FromContext(ctx).Change(e.Tenant, id, nil, nil)
		return put(t, &d)
	})
	return d, err
}
