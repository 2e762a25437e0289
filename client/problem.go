package client

import (
	"net/http"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/go-json-experiment/json"
)

// correlationHeader names an answer in the service's logs.
const correlationHeader = "X-Correlation-Id"

// problemBody is a document of type application/problem+json. For the item of a batch its status is
// the item's; otherwise it is that of the answer.
type problemBody struct {
	Code       budget.Code  `json:"code"`
	Budget     string       `json:"budget"`
	RequestID  string       `json:"request_id"`
	Title      string       `json:"title"`
	Detail     string       `json:"detail"`
	Errors     []FieldError `json:"errors"`
	Available  *int64       `json:"available"`
	Reasons    []string     `json:"reasons"`
	RetryAfter float64      `json:"retry_after"` // seconds

	Limit     string    `json:"limit"`
	Dimension string    `json:"dimension"`
	Value     string    `json:"value"`
	Used      int64     `json:"used"`
	Max       *int64    `json:"max"`
	ResetAt   time.Time `json:"reset_at"`

	Limits  []LimitState  `json:"limits"`
	State   string        `json:"state"`
	Never   bool          `json:"never"`
	StartAt time.Time     `json:"start_at"`
	Reason  budget.Reason `json:"reason"`
}

func (b problemBody) problem(what call, status int) *Problem {
	p := &Problem{
		Op: what.op, Status: status, Code: b.Code, Title: b.Title, Detail: b.Detail,
		Errors: b.Errors, Available: b.Available, Reasons: b.Reasons,
		RetryAfter: seconds(b.RetryAfter), read: what.read(),
		Budget: b.Budget, RequestID: b.RequestID,
		Limits: b.Limits, State: b.State, Never: b.Never, StartAt: b.StartAt, Reason: b.Reason,
	}
	if b.Limit != "" {
		p.Limit = &LimitState{Name: b.Limit, Dimension: b.Dimension, Value: b.Value, Used: b.Used,
			Max:     b.Max,
			ResetAt: b.ResetAt}
	}
	return p
}

// problemFrom parses a refusal. If the body is not budgetd's, the code is empty.
func problemFrom(what call, response *http.Response, body []byte) *Problem {
	var wire problemBody
	if err := json.Unmarshal(body, &wire); err != nil {
		wire = problemBody{}
	}
	p := wire.problem(what, response.StatusCode)
	p.CorrelationID = response.Header.Get(correlationHeader)
	if header, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 32); err == nil {
		p.RetryAfter = max(p.RetryAfter, seconds(float64(header)))
	}
	if p.Code == "" && len(p.Reasons) == 0 {
		p.Title = response.Status
		p.Detail = "not an answer of budgetd; is this the right address?"
		if to := response.Header.Get("Location"); to != "" {
			p.Detail = "the server redirects to " + to + "; use that address"
		}
	}
	return p
}

// seconds returns a duration of n seconds, at most a century, to avoid an overflow.
func seconds(n float64) time.Duration {
	const century = 100 * 365 * 24 * 60 * 60
	return time.Duration(min(max(n, 0), century) * float64(time.Second))
}
