package client

import (
	"net/http"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/go-json-experiment/json"
)

// correlationHeader names an answer in the service's logs.
const correlationHeader = "X-Correlation-Id"

// problemOf returns the error that a document is. For the item of a batch the status is the item's;
// otherwise it is that of the answer.
func problemOf(what call, status int, b *api.Problem) *Problem {
	p := &Problem{
		Op: what.op, Status: status, Code: b.Code, Title: b.Title, Detail: b.Detail,
		Errors: b.Errors, Available: b.Available, Reasons: b.Reasons,
		RetryAfter: seconds(b.RetryAfter), read: what.read(),
		Budget: b.Budget, RequestID: b.RequestID,
		Limits: b.Limits, Refusals: b.Refusals, State: b.State,
		Never: b.Never, StartAt: b.StartAt, Reason: b.Reason,
	}
	if b.Limit != "" {
		p.Limit = &LimitState{Name: b.Limit, Dimension: b.Dimension, Value: b.Value, Max: b.Max,
			ResetAt: b.ResetAt}
		if b.Used != nil {
			p.Limit.Used = *b.Used
		}
	}
	return p
}

// problemFrom parses a refusal. If the body is not budgetd's, the code is empty.
func problemFrom(what call, response *http.Response, body []byte) *Problem {
	var document api.Problem
	if err := json.Unmarshal(body, &document); err != nil {
		document = api.Problem{}
	}
	p := problemOf(what, response.StatusCode, &document)
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
