package client

import (
	"context"
	"net/http"

	"github.com/budgetd/budgetd/api"
)

// Append raises a budget's total, or lowers it if the quantity is negative, down to what is used or
// held. The same request id again returns the same answer; with another quantity it is
// request_conflict. Errors: budget_not_found, invalid (the total would leave its range),
// amount_exceeds_remaining (nothing was changed), unavailable (a shrink is still collecting units:
// repeat the same id), *UnknownOutcome (repeat the same id).
func (c *Client) Append(ctx context.Context, name string, request AppendRequest) (
	*Adjustment, error,
) {
	what := c.post("append", request, name, "append")
	if request.Quantity < 0 {
		what.op = "shrink"
	}
	what.requestID, what.repeatable = request.RequestID, true
	var answer Adjustment
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// MaxBulk is the most budgets that ChangeMany changes.
const MaxBulk = api.MaxBulk

// ChangeMany makes the same change to many budgets, each as its single call does. Repeated with the
// same request id, it goes on with what is not done; Left of the answer counts the budgets that
// another call must change. Errors: version_conflict (the filter selects another number of budgets
// than Expected; nothing was changed), unavailable, *UnknownOutcome (repeat the same id).
func (c *Client) ChangeMany(ctx context.Context, request BulkRequest) (*BulkAnswer, error) {
	if request.Filter.Tenant == "" {
		request.Filter.Tenant = c.tenant
	}
	var answer BulkAnswer
	_, err := c.do(ctx, call{op: "bulk", method: http.MethodPost, path: []string{"v1", "budgets:bulk"},
		body: request, requestID: request.RequestID, repeatable: true, longer: auditAnswered}, &answer)
	return result(&answer, err)
}

// Close ends a budget that was carved out of another, and its children. All that they neither use
// nor hold goes back to its parent at once, holds when they end. A repeated call changes nothing.
// Errors: budget_not_found, invalid (it has no parent), unavailable, *UnknownOutcome (repeat it).
func (c *Client) Close(ctx context.Context, name string) (*Budget, error) {
	what := c.post("close", struct{}{}, name, "close")
	what.repeatable = true
	var answer Budget
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Delete deletes a budget that never had a deduction, and returns it as it was. Its name is free
// afterwards. A lost answer is not retried, because another budget may have the name by then.
// Errors: budget_not_found, has_deductions, in_use.
func (c *Client) Delete(ctx context.Context, name string) (*Budget, error) {
	what := c.get("delete", name)
	what.method, what.repeatable = http.MethodDelete, false
	var answer Budget
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
