package httpapi

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/contract"
)

// errorOf recognises the errors of a context.
var errTimeout, errGone = context.DeadlineExceeded, context.Canceled

// statuses is the only table from codes to HTTP statuses and titles.
var statuses = map[budget.Code]struct {
	status int
	title  string
}{
	budget.Malformed:            {http.StatusBadRequest, "The request is malformed"},
	budget.Invalid:              {http.StatusUnprocessableEntity, "The request has invalid values"},
	budget.TooLarge:             {http.StatusRequestEntityTooLarge, "The request is too large"},
	budget.UnsupportedMediaType: {http.StatusUnsupportedMediaType, "The body is not JSON"},
	budget.MethodNotAllowed:     {http.StatusMethodNotAllowed, "The method is not allowed here"},

	budget.RouteNotFound:     {http.StatusNotFound, "There is no such call"},
	budget.BudgetNotFound:    {http.StatusNotFound, "There is no such budget"},
	budget.DeductionNotFound: {http.StatusNotFound, "There is no such deduction"},
	budget.BucketNotFound:    {http.StatusNotFound, "There is no such bucket"},
	budget.InstanceNotFound:  {http.StatusNotFound, "There is no such instance"},

	budget.BudgetExhausted: {http.StatusConflict, "The budget does not cover the amount"},
	budget.PeriodExhausted: {http.StatusConflict,
		"The period does not cover the amount; a later one may"},
	budget.BudgetNotEffective:     {http.StatusConflict, "The budget is not effective yet"},
	budget.BudgetPaused:           {http.StatusConflict, "The budget is paused"},
	budget.BudgetExpired:          {http.StatusConflict, "The budget has ended"},
	budget.BudgetNotOver:          {http.StatusConflict, "The budget is not over"},
	budget.HasDeductions:          {http.StatusConflict, "The budget has deductions"},
	budget.InUse:                  {http.StatusConflict, "The budget is in use"},
	budget.LastBucket:             {http.StatusConflict, "The last online bucket stays"},
	budget.BucketOffline:          {http.StatusConflict, "The bucket is offline"},
	budget.LastInstance:           {http.StatusConflict, "No other instance can take its buckets"},
	budget.BucketHalted:           {http.StatusConflict, "The figures of the bucket disagree"},
	budget.InstanceAnswers:        {http.StatusConflict, "The instance answers"},
	budget.RequestConflict:        {http.StatusConflict, "The id was used for another request"},
	budget.RequestVoid:            {http.StatusConflict, "The request was cancelled"},
	budget.AlreadyRolledBack:      {http.StatusConflict, "Nothing is left of the deduction"},
	budget.AmountExceedsRemaining: {http.StatusConflict, "Less is left than requested"},
	budget.NotHeld:                {http.StatusConflict, "The deduction is not held"},
	budget.HoldExpired:            {http.StatusConflict, "The hold has expired"},
	budget.GroupClosed:            {http.StatusConflict, "The group was confirmed or rolled back"},
	budget.StepConflict:           {http.StatusConflict, "The step does not follow the last one"},
	budget.NameTaken:              {http.StatusConflict, "The name is taken"},
	budget.VersionConflict:        {http.StatusPreconditionFailed, "The budget has another version"},

	budget.LegRefused:    {http.StatusConflict, "Legs of the set refuse it"},
	budget.LimitExceeded: {http.StatusTooManyRequests, "A limit would be exceeded"},

	budget.LedgerModeOnly: {http.StatusConflict, "The budget's durability does not allow it"},

	budget.Unauthenticated: {http.StatusUnauthorized, "The caller is not authenticated"},
	budget.Forbidden:       {http.StatusForbidden, "The key does not allow this"},
	budget.RateLimited:     {http.StatusTooManyRequests, "The key makes too many requests"},
	budget.KeyNotFound:     {http.StatusNotFound, "There is no such key"},
	budget.TooManyKeys:     {http.StatusConflict, "There are too many live keys"},
	budget.KeyNotLive:      {http.StatusConflict, "The key is revoked or expired"},

	budget.WebhookNotFound:  {http.StatusNotFound, "There is no such endpoint"},
	budget.DeliveryNotFound: {http.StatusNotFound, "The endpoint has no such message"},
	budget.TooManyWebhooks:  {http.StatusConflict, "There are too many endpoints"},

	budget.Unavailable: {http.StatusServiceUnavailable, "Not done: try again"},
	budget.OutcomeUnknown: {http.StatusGatewayTimeout,
		"The outcome is unknown: repeat the same request"},
	budget.Internal: {http.StatusInternalServerError,
		"An internal error: the outcome is unknown"},
}

// unavailable holds the detail of "unavailable" by reason: what failed, and what to do. It is used
// if the error has no detail.
var unavailable = map[budget.Reason]string{
	"":                        "no answer in time; nothing was done; repeat it",
	budget.ReasonOverloaded:   "too many requests are waiting; nothing was done; repeat it later",
	budget.ReasonCollecting:   "units did not come together in time; nothing was done; repeat it",
	budget.ReasonDatabaseDown: "the database does not answer; nothing was done; repeat it later",
	budget.ReasonStoreDown:    "a store does not answer; nothing was done; repeat it later",
	budget.ReasonOffline:      "no bucket is online; nothing was done; ask an operator",
}

// defaultRetryAfter is the advice with "unavailable" if nothing better is known.
const defaultRetryAfter = time.Second

// errorOf returns err as an error with a code. Without a code it becomes outcome_unknown for a
// call that changes something, because that may have happened. It becomes unavailable for a read
// that ran out of time or whose caller is gone, and internal for any other read.
func errorOf(err error, op string, changes bool) *budget.Error {
	e, ok := err.(*budget.Error) //nolint:errorlint // the usual case, without the cost of errors.As
	if ok || errors.As(err, &e) {
		return e
	}
	code := budget.Internal
	switch {
	case changes:
		code = budget.OutcomeUnknown
	case errors.Is(err, errTimeout), errors.Is(err, errGone):
		code = budget.Unavailable
	}
	return &budget.Error{Code: code, Op: op, Err: err}
}

// ProblemOf returns the document for an error. It does not contain the cause.
func ProblemOf(e *budget.Error) *api.Problem {
	known, ok := statuses[e.Code]
	if !ok {
		known = statuses[budget.Internal]
	}
	p := &api.Problem{Type: "urn:budgetd:problem:" + string(e.Code), Title: known.title,
		Status: known.status,
		Detail: e.Message, Code: e.Code, Docs: contract.DocsLink + string(e.Code),
		Errors: e.Fields, Available: e.Available,
		RetryAfter: math.Ceil(e.RetryAfter.Seconds()*1000) / 1000}
	if s := e.Limit; s != nil {
		p.Limit, p.Dimension, p.Value, p.Used, p.Max = s.Limit, s.Dimension, s.Value, &s.Used, &s.Max
		p.ResetAt = inUTC(s.ResetAt)
	}
	if len(e.Limits) > 0 {
		p.Limits = statesOf(e.Limits)
	}
	if len(e.Refusals) > 0 {
		p.Refusals, p.Status = refusalsOf(e.Refusals)
	}
	p.Never, p.StartAt, p.Reason = e.Never, inUTC(e.StartAt), e.Reason
	p.State = e.State
	switch {
	case e.Code == budget.Unavailable:
		if e.RetryAfter <= 0 {
			p.RetryAfter = defaultRetryAfter.Seconds()
		}
		p.Detail = cmp.Or(p.Detail, unavailable[e.Reason])
	case e.Code == budget.OutcomeUnknown && p.Detail == "":
		p.Detail = "no certain answer in time; repeat it with the same request id, or cancel that id"
	case e.Code == budget.Internal && p.Detail == "":
		p.Detail = "the log of the service has it under the correlation id"
	}
	return p
}

// refusalsOf returns the refusals of the legs of a set, and the status of all: that of a limit if
// limits alone refuse.
func refusalsOf(list []budget.LegRefusal) (out []api.LegRefusal, status int) {
	status = http.StatusTooManyRequests
	for _, r := range list {
		leg := ProblemOf(r.Reason)
		out = append(out, api.LegRefusal{Budget: r.Budget, Code: leg.Code, Detail: leg.Detail,
			Available: leg.Available, Limit: leg.Limit, Limits: leg.Limits, Never: leg.Never,
			StartAt: leg.StartAt, RetryAfter: leg.RetryAfter})
		if leg.Status != status {
			status = http.StatusConflict
		}
	}
	return out, status
}

func statesOf(states []budget.LimitState) []api.LimitState {
	out := make([]api.LimitState, len(states))
	for i, s := range states {
		out[i] = api.LimitState{Name: s.Limit, Dimension: s.Dimension, Value: s.Value, Used: s.Used,
			Exempt: s.Exempt, Asked: s.Asked, ResetAt: inUTC(s.ResetAt)}
		if !s.Exempt {
			out[i].Max = &s.Max
		}
	}
	return out
}

// inUTC converts a time to UTC. The zero time stays zero, so that it is left out.
func inUTC(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
