package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxChecks is the most deductions in one Check.
const MaxChecks = 1000

// CheckResult is the answer to one CheckItem: either Answer or Err is set. Err is the refusal that
// Deduct would return.
type CheckResult struct {
	Answer *Foreseen
	Err    error
	// JSON is the result as the server wrote it.
	JSON []byte
}

type checkRequest struct {
	Checks []CheckItem `json:"checks"`
}

// Check reports which of up to MaxChecks independent deductions would be accepted now, such as
// which of these ads a user may see. It changes nothing and promises nothing for later.
func (c *Client) Check(ctx context.Context, items []CheckItem) ([]CheckResult, error) {
	if len(items) > MaxChecks {
		return nil, fmt.Errorf("check: %d deductions, at most %d are allowed", len(items), MaxChecks)
	}
	if len(items) == 0 {
		return nil, nil
	}
	what := call{op: "check", method: http.MethodPost, path: []string{"v1", "checks"},
		query: c.inTenant(),
		body:  checkRequest{items}, repeatable: true, harmless: true}
	var answer batchAnswer
	if _, err := c.do(ctx, what, &answer); err != nil {
		return nil, err
	}
	if err := c.complete(what, answer, len(items)); err != nil {
		return nil, err
	}
	results := make([]CheckResult, len(items))
	for i, text := range answer.Results {
		results[i].JSON = text
		results[i].Answer, results[i].Err = c.checked(what, text)
	}
	return results, nil
}

// checked parses one result of a check: what would be accepted, or a problem.
func (c *Client) checked(what call, text jsontext.Value) (*Foreseen, error) {
	var answer Foreseen
	if err := json.Unmarshal(text, &answer); err == nil && answer.Outcome != "" {
		return &answer, nil
	}
	p, err := problemIn(what, text)
	if err != nil {
		return nil, c.unreadable(what, fmt.Errorf("result cannot be read: %w", err))
	}
	return nil, p
}

// DryRun returns what Deduct would now answer to the same request, and changes nothing. Errors:
// those of Deduct.
func (c *Client) DryRun(
	ctx context.Context, name string, request DeductRequest,
) (*Foreseen, error) {
	what := c.post("deduct", api.DeductBody{DeductRequest: request, DryRun: true}, name, "deduct")
	what.repeatable, what.harmless = true, true
	var answer Foreseen
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// UsageRequest selects the deductions that Usage counts.
type UsageRequest struct {
	// Dimensions are the values that a deduction must carry, at least one.
	Dimensions map[string]string
	// From is the first instant that counts, To the first one that does not; zero means no bound.
	From, To time.Time
}

// Usage returns what was counted for values of dimensions in any span. Errors: budget_not_found,
// invalid.
func (c *Client) Usage(ctx context.Context, name string, request UsageRequest) (*Usage, error) {
	what := c.get("usage", name, "usage")
	for dimension, value := range request.Dimensions {
		what.query.Set("dimension."+dimension, value)
	}
	if !request.From.IsZero() {
		what.query.Set("from", request.From.Format(time.RFC3339Nano))
	}
	if !request.To.IsZero() {
		what.query.Set("to", request.To.Format(time.RFC3339Nano))
	}
	var answer Usage
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
