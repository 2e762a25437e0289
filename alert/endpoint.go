package alert

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Endpoint is where messages are sent.
type Endpoint struct {
	ID string
	// Tenant is the only tenant whose messages it gets; "": all.
	Tenant, URL, Description string
	// Secret names the file of its secrets within the folder of secrets.
	Secret string
	// Types are the types of messages that it gets; none: all.
	Types []string
	// Disabled says why it gets nothing; "" while it is enabled.
	Disabled Disabled
	// FailingSince is when the first attempt after the last success failed; zero: none did.
	FailingSince time.Time
	CreatedAt    time.Time
	CreatedBy    string
}

// Disabled says why an endpoint gets nothing.
type Disabled string

// The reasons.
const (
	ByOperator Disabled = "operator"
	// Failing: no attempt succeeded for DisableAfter. Gone: it answered 410.
	Failing Disabled = "failing"
	Gone    Disabled = "gone"
)

// EndpointChange changes what is not nil.
type EndpointChange struct {
	URL, Description, Secret *string
	Types                    *[]string
	// Enabled false has it get nothing; true has it begin as if it had never failed.
	Enabled *bool
}

// The most endpoints of a tenant or of all tenants, and the most bytes of their texts.
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
		add("secret", why+": it names a file in webhooks.secrets_dir")
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

// Gets reports whether an endpoint gets messages of a type and a tenant.
func (e *Endpoint) Gets(kind, tenant string) bool {
	return e.Disabled == "" && (e.Tenant == "" || e.Tenant == tenant) &&
		(len(e.Types) == 0 || slices.Contains(e.Types, kind))
}

// DeliveryState is what became of a message at an endpoint.
type DeliveryState string

// The states of a delivery.
const (
	Pending   DeliveryState = "pending"
	Delivered DeliveryState = "delivered"
	// Failed: the last attempt failed, or the endpoint was disabled.
	Failed DeliveryState = "failed"
)

// Attempt is one try to deliver a message.
type Attempt struct {
	At time.Time `json:"at"`
	// Status is that of the answer; 0: there was none. Error says what went wrong; "": nothing.
	Status int           `json:"status,omitempty"`
	Error  string        `json:"error,omitempty"`
	Took   time.Duration `json:"took_ns"`
}

// Succeeded reports whether the receiver has taken the message.
func (a *Attempt) Succeeded() bool { return a.Status >= 200 && a.Status < 300 }

// Delivery is a message on its way to an endpoint.
type Delivery struct {
	Endpoint string
	Message  Message
	State    DeliveryState
	// Attempts are the last MaxAttempts. Tries counts those since it was sent or sent again.
	Attempts []Attempt
	Tries    int
	// DueAt is when the next attempt begins; zero: none does.
	DueAt time.Time
}

// Due names a delivery whose attempt is due.
type Due struct {
	Endpoint, Message string
	At                time.Time
}

// MaxAttempts is how many attempts a delivery remembers.
const MaxAttempts = 16

// pauses are those of Standard Webhooks, each after a failed attempt.
var pauses = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
	5 * time.Hour, 10 * time.Hour, 10 * time.Hour}

// DisableAfter is how long an endpoint may fail.
const DisableAfter = 5 * 24 * time.Hour

// After returns a delivery and its endpoint as an attempt leaves them. jitter is 0 … 1 and
// lengthens the pause by up to a tenth, so that what failed together is not tried together. It is
// pure: d and e stay as they are.
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
