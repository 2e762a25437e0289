package alert

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Endpoint is a receiver of messages.
type Endpoint struct {
	ID string
	// Tenant is the only tenant whose messages it gets; "" means all tenants.
	Tenant, URL, Description string
	// Secret is the name of the file with its secrets in its tenant's folder.
	Secret string
	// Types are the types of messages that it gets; none means all types.
	Types []string
	// Disabled says why it gets no messages. It is "" while the endpoint is enabled.
	Disabled Disabled
	// FailingSince is the time of the first failed attempt after the last success; zero means that
	// none has failed.
	FailingSince time.Time
	CreatedAt    time.Time
	CreatedBy    string
}

// Disabled says why an endpoint gets no messages.
type Disabled string

// The reasons for being disabled.
const (
	ByOperator Disabled = "operator"
	// Failing means that no attempt succeeded for DisableAfter, Gone that the endpoint answered
	// 410.
	Failing Disabled = "failing"
	Gone    Disabled = "gone"
)

// EndpointChange changes the fields that are not nil.
type EndpointChange struct {
	URL, Secret *string
	Types       *[]string
	Description *string
	// Enabled disables the endpoint, or enables it and clears its failures.
	Enabled *bool
}

// The most endpoints of one tenant or of all tenants, and the most bytes of their texts.
const (
	MaxEndpoints   = 20
	maxURL         = 2048
	maxDescription = 256
)

// Apply changes an endpoint.
func (c *EndpointChange) Apply(e *Endpoint) {
	set := func(into *string, from *string) {
		if from != nil {
			*into = *from
		}
	}
	set(&e.URL, c.URL)
	set(&e.Description, c.Description)
	set(&e.Secret, c.Secret)
	if c.Types != nil {
		e.Types = *c.Types
	}
	switch {
	case c.Enabled == nil:
	case *c.Enabled:
		e.Disabled, e.FailingSince = "", time.Time{}
	case e.Disabled == "":
		e.Disabled = ByOperator
	}
}

// Check returns the faulty fields of an endpoint.
func (e *Endpoint) Check() (faults []budget.FieldError) {
	add := func(field, message string) {
		faults = append(faults, budget.FieldError{Field: field, Message: message})
	}
	if !validURL(e.URL) {
		add("url", "must be an absolute URL of http or https without user, password and fragment")
	}
	if why := budget.CheckName(e.Secret); why != "" {
		add("secret", why+": it names a secret of the tenant")
	}
	if len(e.Description) > maxDescription {
		add("description", "must be at most 256 bytes")
	}
	for _, kind := range e.Types {
		if !slices.Contains(Types(), kind) {
			add("types", "must be of "+strings.Join(Types(), ", "))
			break
		}
	}
	return faults
}

func validURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= maxURL && (u.Scheme == "https" || u.Scheme == "http") &&
		u.Hostname() != "" && u.User == nil && u.Fragment == "" && u.Opaque == ""
}

// Gets reports whether an endpoint gets messages of a type and a tenant. What is for one that an
// operator disabled waits until it is enabled again, as for a receiver that is down.
func (e *Endpoint) Gets(kind, tenant string) bool {
	return (e.Disabled == "" || e.Disabled == ByOperator) && (e.Tenant == "" || e.Tenant == tenant) &&
		(len(e.Types) == 0 || slices.Contains(e.Types, kind))
}

// DeliveryState is the state of a message at an endpoint.
type DeliveryState string

// The states of a delivery.
const (
	Pending   DeliveryState = "pending"
	Delivered DeliveryState = "delivered"
	// Failed means that the last attempt failed, or that the endpoint was disabled.
	Failed DeliveryState = "failed"
)

// Attempt is one try to deliver a message.
type Attempt struct {
	At time.Time `json:"at"`
	// Status is the HTTP status of the answer; 0 means no answer. Error says what went wrong; ""
	// means nothing.
	Status int           `json:"status,omitempty"`
	Error  string        `json:"error,omitempty"`
	Took   time.Duration `json:"took_ns"`
}

// Succeeded reports whether the receiver accepted the message.
func (a *Attempt) Succeeded() bool { return a.Status >= 200 && a.Status < 300 }

// Delivery is a message for one endpoint.
type Delivery struct {
	Endpoint string
	Message  Message
	State    DeliveryState
	// Attempts are the last MaxAttempts attempts. Tries counts the attempts since the message was
	// sent or resent.
	Attempts []Attempt
	Tries    int
	// DueAt is the time of the next attempt; zero means that there is no further attempt.
	DueAt time.Time
}

// Due identifies a delivery whose attempt is due.
type Due struct {
	Endpoint, Message string
	At                time.Time
}

// MaxAttempts bounds the attempts that a delivery keeps.
const MaxAttempts = 16

// pauses are the recommended pauses of Standard Webhooks, one after each failed attempt.
var pauses = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
	5 * time.Hour, 10 * time.Hour, 10 * time.Hour}

// DisableAfter is how long an endpoint may fail before it is disabled.
const DisableAfter = 5 * 24 * time.Hour

// After returns a delivery and its endpoint after an attempt. jitter, in 0 … 1, lengthens the pause
// by up to a tenth, so that deliveries that failed together are not retried together. It is pure
// and does not change d or e.
func After(d Delivery, e Endpoint, a Attempt, jitter float64) (Delivery, Endpoint) {
	d.Attempts = append(slices.Clone(d.Attempts[max(len(d.Attempts)-MaxAttempts+1, 0):]), a)
	d.Tries++
	d.DueAt = time.Time{}
	if a.Succeeded() {
		d.State, e.FailingSince = Delivered, time.Time{}
		return d, e
	}
	if e.FailingSince.IsZero() {
		e.FailingSince = a.At
	}
	d.State = Failed
	switch {
	case e.Disabled == ByOperator && d.Message.Type != TypeTest:
		d.State = Pending // it is due when the endpoint is enabled
	case e.Disabled != "":
	case a.Status == 410:
		e.Disabled = Gone
	case a.At.Sub(e.FailingSince) >= DisableAfter:
		e.Disabled = Failing
	case d.Tries <= len(pauses):
		pause := pauses[d.Tries-1]
		pause += time.Duration(jitter * float64(pause/10))
		d.State, d.DueAt = Pending, a.At.Add(a.Took+pause)
	}
	return d, e
}
