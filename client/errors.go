package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// FieldError names one faulty field of a request and says what it must be.
type FieldError = budget.FieldError

// Problem is an error answer of the service (RFC 9457).
type Problem struct {
	// Op is the call, in the API's words: "deduct", "create".
	Op string
	// Status is the HTTP status.
	Status int
	// Code is the stable name of the reason; "" if the answer was not budgetd's, for example a
	// proxy's.
	Code   budget.Code
	Title  string
	Detail string
	// Budget and RequestID identify the item of a batch or a check; "" elsewhere.
	Budget, RequestID string
	// Errors lists every faulty field, for "malformed" and "invalid".
	Errors []FieldError
	// Available is what the budget can still cover, in minor units; nil if unknown.
	Available *int64
	// Limit is the exceeded limit that resets last, for "limit_exceeded"; nil otherwise. Limits
	// holds all exceeded limits.
	Limit  *LimitState
	Limits []LimitState
	// Refusals are those of the legs of a set, for "leg_refused".
	Refusals []LegRefusal
	// State is that of the deduction, for "already_rolled_back": "rolled_back" or "expired".
	State string
	// Never means that the request cannot be accepted under the present definition. It is final;
	// RetryAfter is 0.
	Never bool
	// StartAt is when the budget becomes effective, for "budget_not_effective"; zero otherwise.
	StartAt time.Time
	// Reason says why something is "unavailable"; "" if unknown.
	Reason budget.Reason
	// Reasons say why the service is not ready (Readyz).
	Reasons []string
	// RetryAfter is the time after which to repeat the request; 0 if unknown.
	RetryAfter time.Duration
	// CorrelationID finds this answer in the service's logs.
	CorrelationID string
	// Cancelled means that an earlier attempt was unanswered, so the client cancelled the request
	// id to ensure that it has no effect. Another try needs another id.
	Cancelled bool

	read bool
}

// Error says what was refused and why, and what to do if the code alone determines it.
func (p *Problem) Error() string {
	var text strings.Builder
	text.WriteString(p.Op)
	if p.Code == "" {
		fmt.Fprintf(&text, ": HTTP status %d", p.Status)
	} else {
		fmt.Fprintf(&text, ": %s", p.Code)
	}
	switch {
	case p.Detail != "":
		text.WriteString(": " + p.Detail)
	case p.Title != "":
		text.WriteString(": " + p.Title)
	}
	for _, f := range p.Errors {
		fmt.Fprintf(&text, "; %s: %s", f.Field, f.Message)
	}
	if len(p.Reasons) > 0 {
		text.WriteString(": " + strings.Join(p.Reasons, "; "))
	}
	if p.Available != nil {
		fmt.Fprintf(&text, " (available: %d)", *p.Available)
	}
	if p.Reason != "" {
		fmt.Fprintf(&text, " (reason: %s)", p.Reason)
	}
	if p.Never {
		text.WriteString(" (never: do not repeat it)")
	}
	if p.RetryAfter > 0 {
		fmt.Fprintf(&text, " (retry after %s)", p.RetryAfter)
	}
	if p.Cancelled {
		text.WriteString(" (the request id was cancelled: try again with another)")
	}
	if p.CorrelationID != "" {
		fmt.Fprintf(&text, " [correlation id %s]", p.CorrelationID)
	}
	return text.String()
}

// kind returns the kind of the code or, for an unknown code, of the status. Without a code the
// answer is not budgetd's, and only a status that blames the request proves that nothing was done.
func (p *Problem) kind() budget.Kind {
	kind := p.Code.Kind()
	known := kind != budget.MayBeDone || p.Code == budget.OutcomeUnknown || p.Code == budget.Internal
	if !known {
		kind = p.kindOfStatus()
	}
	if kind == budget.MayBeDone && p.read {
		return budget.NotDone
	}
	return kind
}

func (p *Problem) kindOfStatus() budget.Kind {
	ours := p.Code != ""
	switch p.Status {
	case http.StatusTooManyRequests:
		if ours {
			return budget.Refused
		}
		return budget.MayBeDone
	case http.StatusRequestTimeout:
		return budget.MayBeDone
	case http.StatusConflict:
		if ours {
			return budget.Refused
		}
	case http.StatusPreconditionFailed:
		if ours {
			return budget.Conflict
		}
	}
	if p.Status < 500 {
		return budget.Faulty
	}
	return budget.MayBeDone
}

// TransportError means that no usable answer arrived.
type TransportError struct {
	// Op is the call, in the API's words: "deduct", "create".
	Op string
	// Server is the base URL that was called.
	Server string
	// Sent means that there was a connection, so the service may have received the request.
	// Otherwise the request certainly did not happen.
	Sent bool
	// Err is the cause; errors.Is finds context.Canceled and context.DeadlineExceeded in it.
	Err error

	read bool
	// kept means that the request never left the client, which says nothing about the server.
	kept bool
}

// Error says which server did not answer, and whether it may have acted.
func (e *TransportError) Error() string {
	switch {
	case e.kept:
		return fmt.Sprintf("%s: nothing was sent to %s: %v", e.Op, e.Server, e.Err)
	case !e.Sent:
		return fmt.Sprintf("%s: %s is not reachable, nothing was sent: %v", e.Op, e.Server, e.Err)
	case e.read:
		return fmt.Sprintf("%s: no usable answer from %s: %v", e.Op, e.Server, e.Err)
	default:
		return fmt.Sprintf("%s: no usable answer from %s, it may have happened: %v",
			e.Op, e.Server, e.Err)
	}
}

func (e *TransportError) Unwrap() error { return e.Err }

// UnknownOutcome means that all attempts together do not show whether the request took effect.
// Repeat it with the same request id, or cancel that id (DeductRequest.Cancellation).
type UnknownOutcome struct {
	// Op is the call, in the API's words: "deduct", "append".
	Op string
	// RequestID is the id to repeat or to cancel; "" for calls without one.
	RequestID string
	// Attempts is the number of attempts.
	Attempts int
	// Last is the error that ended the attempts. It does not say what happened to the earlier ones.
	Last error
}

// Error says that the outcome is unknown, and how to settle it.
func (e *UnknownOutcome) Error() string {
	id := ""
	if e.RequestID != "" {
		id = fmt.Sprintf(" of request id %q", e.RequestID)
	}
	return fmt.Sprintf("%s: outcome%s unknown after %d attempt(s): %v", e.Op, id, e.Attempts, e.Last)
}

func (e *UnknownOutcome) Unwrap() error { return e.Last }

// KindOf returns what err means for the caller, 0 for nil. Errors that did not come from a call (a
// request that cannot be encoded as JSON) are budget.Faulty: nothing was sent.
func KindOf(err error) budget.Kind {
	if err == nil {
		return 0
	}
	var unknown *UnknownOutcome
	if errors.As(err, &unknown) {
		return budget.MayBeDone
	}
	var p *Problem
	if errors.As(err, &p) {
		return p.kind()
	}
	var t *TransportError
	if errors.As(err, &t) {
		if t.Sent && !t.read {
			return budget.MayBeDone
		}
		return budget.NotDone
	}
	return budget.Faulty
}

// CodeOf returns the service's code for err: outcome_unknown for an *UnknownOutcome, the code of a
// *Problem, "" for everything else.
func CodeOf(err error) budget.Code {
	var unknown *UnknownOutcome
	if errors.As(err, &unknown) {
		return budget.OutcomeUnknown
	}
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// Unreachable reports whether err means that no server could be reached.
func Unreachable(err error) bool {
	var unknown *UnknownOutcome
	var t *TransportError
	return !errors.As(err, &unknown) && errors.As(err, &t) && !t.Sent && !t.kept
}
