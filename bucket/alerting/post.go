package alerting

import (
	"slices"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const (
	insertMessages   = `INSERT INTO webhook_message (id, tenant, type, body, created_ms)`
	messageWidth     = 5
	insertDeliveries = `INSERT INTO webhook_delivery (endpoint_id, message_id, state, tries, due_ms,
		attempts)`
	deliveryWidth = 6
)

// post writes messages and their deliveries to the endpoints that get them. It drops a message that
// no endpoint gets.
func (o *Outbox) post(t *engine.Tx, messages []alert.Message) error {
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
		if m.ID, err = o.newMessageID(t.Now); err != nil {
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
