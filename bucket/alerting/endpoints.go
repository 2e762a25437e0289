package alerting

import (
	"context"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const (
	selectEndpoints = `SELECT e.id, e.tenant, e.url, e.secret, e.types, e.description, e.disabled,
		e.failing_since_ms, e.created_ms, e.created_by FROM webhook_endpoint e`
	oneEndpoint    = selectEndpoints + ` WHERE e.id = ?`
	lockEndpoint   = oneEndpoint + ` /*locked*/`
	countEndpoints = `SELECT COUNT(*) FROM webhook_endpoint WHERE tenant = ?`
	insertEndpoint = `INSERT INTO webhook_endpoint (id, tenant, url, secret, types, description,
		disabled, failing_since_ms, created_ms, created_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateEndpoint = `UPDATE webhook_endpoint SET url = ?, secret = ?, types = ?, description = ?,
		disabled = ?, failing_since_ms = ? WHERE id = ?`
	deleteEndpoint   = `DELETE FROM webhook_endpoint WHERE id = ?`
	deleteDeliveries = `DELETE FROM webhook_delivery WHERE endpoint_id = ?`
	// failPending fails the pending deliveries of an endpoint that no longer gets messages.
	failPending = `UPDATE webhook_delivery SET state = 'failed', due_ms = NULL
		WHERE endpoint_id = ? AND state = 'pending'`
	// holdPending lets the pending deliveries of an endpoint wait, until resumePending makes them due.
	holdPending = `UPDATE webhook_delivery SET due_ms = NULL
		WHERE endpoint_id = ? AND state = 'pending'`
	resumePending = `UPDATE webhook_delivery SET due_ms = ?
		WHERE endpoint_id = ? AND state = 'pending' AND due_ms IS NULL`
)

// Outbox manages endpoints and the messages to them. It is safe for concurrent use.
type Outbox struct {
	DB *engine.DB
	// Random is what ids are made from.
	Random io.Reader
	// Reachable returns why no message can ever be sent to a URL, Signs why a secret of a tenant
	// cannot sign. Only the log shows the latter.
	Reachable func(url string) error
	Signs     func(tenant, name string) error
	Log       *slog.Logger
}

type endpointRow struct {
	ID             string `db:"id"`
	Tenant         string `db:"tenant"`
	URL            string `db:"url"`
	Secret         string `db:"secret"`
	Types          []byte `db:"types"`
	Description    string `db:"description"`
	Disabled       string `db:"disabled"`
	FailingSinceMS int64  `db:"failing_since_ms"`
	CreatedMS      int64  `db:"created_ms"`
	CreatedBy      string `db:"created_by"`
}

func (r *endpointRow) endpoint() (alert.Endpoint, error) {
	e := alert.Endpoint{ID: r.ID, Tenant: r.Tenant, URL: r.URL, Secret: r.Secret,
		Description: r.Description, Disabled: alert.Disabled(r.Disabled),
		FailingSince: engine.FromMS(r.FailingSinceMS), CreatedAt: engine.FromMS(r.CreatedMS),
		CreatedBy: r.CreatedBy}
	if r.Types != nil {
		if err := json.Unmarshal(r.Types, &e.Types); err != nil {
			return e, engine.Defect("types of endpoint %s: %v", r.ID, err)
		}
	}
	return e, nil
}

func readEndpoints(r *engine.Reader, query string, args ...any) ([]alert.Endpoint, error) {
	var found []endpointRow
	if err := r.List(&found, query, args...); err != nil {
		return nil, err
	}
	out := make([]alert.Endpoint, len(found))
	for i := range found {
		var err error
		if out[i], err = found[i].endpoint(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// one reads an endpoint. Error: WebhookNotFound.
func one(r *engine.Reader, query, id string) (alert.Endpoint, error) {
	found, err := readEndpoints(r, query, []byte(id))
	if err == nil && len(found) == 0 {
		err = budget.Refuse(budget.WebhookNotFound, "webhook", "there is no endpoint %.40q", id)
	}
	if err != nil {
		return alert.Endpoint{}, err
	}
	return found[0], nil
}

// Endpoints reads the endpoints of a tenant, or of all tenants if it is "", sorted by id. Error:
// Unavailable.
func (o *Outbox) Endpoints(ctx context.Context, tenant string) (out []alert.Endpoint, err error) {
	err = o.DB.Read(ctx, "webhooks", func(r *engine.Reader) error {
		query, args := selectEndpoints, []any(nil)
		if tenant != "" {
			query, args = query+` WHERE e.tenant = ?`, []any{[]byte(tenant)}
		}
		out, err = readEndpoints(r, query+` ORDER BY e.id`, args...)
		return err
	})
	return out, err
}

// Endpoint reads an endpoint. Errors: WebhookNotFound, Unavailable.
func (o *Outbox) Endpoint(ctx context.Context, id string) (e alert.Endpoint, err error) {
	err = o.DB.Read(ctx, "webhook", func(r *engine.Reader) error {
		e, err = one(r, oneEndpoint, id)
		return err
	})
	return e, err
}

// CreateEndpoint stores an endpoint and gives it an id. Errors: Invalid if the endpoint's secret
// cannot sign, or no message can ever be sent to its URL; TooManyWebhooks, Unavailable,
// OutcomeUnknown. A repeated call creates another endpoint.
func (o *Outbox) CreateEndpoint(ctx context.Context, e alert.Endpoint) (alert.Endpoint, error) {
	if err := o.check("create webhook", e.Tenant, &e.URL, &e.Secret); err != nil {
		return e, err
	}
	name, err := o.randomName()
	if err != nil {
		return e, err
	}
	types, err := encodeTypes(e.Types)
	if err != nil {
		return e, err
	}
	e.ID = "ep_" + name
	err = o.DB.Write(ctx, "create webhook", func(t *engine.Tx) error {
		var n int
		if _, err := t.Get(&n, countEndpoints, []byte(e.Tenant)); err != nil {
			return err
		}
		if n >= alert.MaxEndpoints {
			return budget.Refuse(budget.TooManyWebhooks, "create webhook",
				"there are %d endpoints already: delete one of them first", n)
		}
		e.CreatedAt = engine.FromMS(engine.ToMS(t.Now))
		attest(ctx, nil, &e)
		_, err := t.Exec(insertEndpoint, []byte(e.ID), []byte(e.Tenant), []byte(e.URL),
			[]byte(e.Secret), types, []byte(e.Description), string(e.Disabled), 0,
			engine.ToMS(t.Now), []byte(e.CreatedBy))
		return err
	})
	return e, err
}

// endpointText is an endpoint in the audit log.
type endpointText struct {
	URL         string         `json:"url"`
	Secret      string         `json:"secret"` // its name
	Types       []string       `json:"types"`
	Description string         `json:"description"`
	Disabled    alert.Disabled `json:"disabled"`
}

// attest records an endpoint before and after a change for the audit log.
func attest(ctx context.Context, before, after *alert.Endpoint) {
	text := func(e *alert.Endpoint) []byte {
		if e == nil {
			return nil
		}
		out, _ := json.Marshal(endpointText{e.URL, e.Secret, e.Types, e.Description, e.Disabled})
		return out // texts have a JSON form
	}
	either := after
	if either == nil {
		either = before
	}
	auditlog.FromContext(ctx).Change(either.Tenant, either.ID, text(before), text(after))
}

// ChangeEndpoint changes an endpoint. Disabling it fails its pending deliveries. Errors:
// WebhookNotFound; Invalid, also if a new secret cannot sign or no message can ever be sent to a
// new URL; Unavailable, OutcomeUnknown. It is idempotent.
func (o *Outbox) ChangeEndpoint(ctx context.Context, id string, c alert.EndpointChange) (
	e alert.Endpoint, err error) {
	if e, err = o.Endpoint(ctx, id); err == nil {
		err = o.check("change webhook", e.Tenant, c.URL, c.Secret)
	}
	if err != nil {
		return alert.Endpoint{}, err
	}
	err = o.DB.Write(ctx, "change webhook", func(t *engine.Tx) error {
		before, err := one(&t.Reader, lockEndpoint, id)
		if err != nil {
			return err
		}
		e = before
		c.Apply(&e)
		if faults := e.Check(); len(faults) > 0 {
			return &budget.Error{Code: budget.Invalid, Op: "change webhook", Fields: faults,
				Message: "the endpoint has faults"}
		}
		attest(ctx, &before, &e)
		if err := o.update(t, &e); err != nil || before.Disabled == "" || e.Disabled != "" {
			return err
		}
		_, err = t.Exec(resumePending, engine.ToMS(t.Now), []byte(id))
		return err
	})
	return e, err
}

// check refuses a URL to which nothing can be sent, and the name of a secret of the tenant that
// cannot sign. Nil stands for what is not changed. Only the log says why a secret cannot sign.
func (o *Outbox) check(op, tenant string, target, name *string) error {
	var faults []budget.FieldError
	if target != nil {
		if err := o.Reachable(*target); err != nil {
			faults = append(faults, budget.FieldError{Field: "url",
				Message: "no message can be sent to it: " + err.Error()})
		}
	}
	if name != nil && budget.CheckName(*name) == "" { // an invalid name is refused elsewhere
		if err := o.Signs(tenant, *name); err != nil {
			o.Log.Warn("webhook secret is not usable", "tenant", tenant, "error", err)
			faults = append(faults, budget.FieldError{Field: "secret",
				Message: "is not usable: the tenant has no secret of that name that can sign; " +
					"the log of budgetd says why"})
		}
	}
	if faults == nil {
		return nil
	}
	return &budget.Error{Code: budget.Invalid, Op: op, Message: "the endpoint has faults",
		Fields: faults}
}

// update writes the columns of an endpoint that can change.
func (o *Outbox) update(t *engine.Tx, e *alert.Endpoint) error {
	types, err := encodeTypes(e.Types)
	if err != nil {
		return err
	}
	if _, err := t.Exec(updateEndpoint, []byte(e.URL), []byte(e.Secret), types,
		[]byte(e.Description), string(e.Disabled), engine.ToMS(e.FailingSince),
		[]byte(e.ID)); err != nil {
		return err
	}
	switch e.Disabled {
	case "":
		return nil
	case alert.ByOperator:
		_, err = t.Exec(holdPending, []byte(e.ID))
	default:
		_, err = t.Exec(failPending, []byte(e.ID))
	}
	return err
}

// DeleteEndpoint deletes an endpoint and its deliveries. Errors: WebhookNotFound, Unavailable,
// OutcomeUnknown.
func (o *Outbox) DeleteEndpoint(ctx context.Context, id string) error {
	return o.DB.Write(ctx, "delete webhook", func(t *engine.Tx) error {
		before, err := one(&t.Reader, lockEndpoint, id)
		if err != nil {
			return err
		}
		attest(ctx, &before, nil)
		if _, err := t.Exec(deleteEndpoint, []byte(id)); err != nil {
			return err
		}
		_, err = t.Exec(deleteDeliveries, []byte(id))
		return err
	})
}

// randomName returns 16 random lower-case letters and digits.
func (o *Outbox) randomName() (string, error) {
	var b [10]byte
	if _, err := io.ReadFull(o.Random, b[:]); err != nil {
		return "", err
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:])), nil
}

// newMessageID returns an id that sorts after those of earlier milliseconds.
func (o *Outbox) newMessageID(now time.Time) (string, error) {
	name, err := o.randomName()
	return fmt.Sprintf("msg_%011x%s", engine.ToMS(now), name), err
}

// encodeTypes encodes the message types of an endpoint; nil means all types.
func encodeTypes(types []string) ([]byte, error) {
	if len(types) == 0 {
		return nil, nil
	}
	return json.Marshal(types)
}
