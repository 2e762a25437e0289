package client

import (
	"context"
	"errors"
	"fmt"
)

// Deduct takes units from a budget, at most once per request id. It returns once they certainly are
// or are not taken, or with an *UnknownOutcome. The id must not be empty.
//
// It retries lost answers, "unavailable" and "outcome_unknown" with the same id. It returns a
// refusal after an unanswered attempt only after it has cancelled the id (Problem.Cancelled), so
// that the earlier attempt has no effect either; another try then needs another id. Retry and the
// context bound the attempts. If they end with one unanswered, the error is *UnknownOutcome or,
// with WithCancelUnknown, request_void with Problem.Cancelled.
//
// Errors: budget_not_found, invalid, budget_paused, budget_not_effective, budget_expired,
// budget_exhausted (with Available), period_exhausted (with Available and RetryAfter: a later
// period may cover it; it is not retried), limit_exceeded (with Limit and RetryAfter; it is not
// retried either), request_conflict (the id has another payload), request_void (it was cancelled
// before it had an effect), already_rolled_back (it was accepted, and nothing of it is left:
// Problem.State says why), group_closed.
func (c *Client) Deduct(ctx context.Context, name string, request DeductRequest) (
	*DeductAnswer, error,
) {
	what := c.post("deduct", request, name, "deduct")
	what.requestID, what.repeatable = request.RequestID, true
	what.settle = func(ctx context.Context) error {
		_, err := c.Cancel(ctx, name, request.Cancellation())
		return err
	}
	if c.coalescer != nil {
		what.item = &BatchItem{Budget: name, DeductRequest: request}
	}
	var answer DeductAnswer
	attempts, err := c.do(ctx, what, &answer)
	answer.Attempts = attempts
	return result(&answer, err)
}

// about returns an error unless an answer is about a request id or a group. An answer without an id
// belongs to the call.
func about(requestID string, out any) error {
	switch answer := out.(type) {
	case *DeductAnswer:
		return aboutRequest(requestID, answer.RequestID, "outcome", answer.Outcome)
	case *SetAnswer:
		return aboutRequest(requestID, answer.RequestID, "outcome", answer.Outcome)
	case *Set:
		return aboutRequest(requestID, answer.RequestID, "state", answer.State)
	case *Deduction:
		return aboutRequest(requestID, answer.RequestID, "state", answer.State)
	case *Renewal:
		if answer.Step == 0 {
			return errors.New("the answer has no step")
		}
		return aboutRequest(requestID, answer.RequestID, "", "step")
	case *Group:
		if answer.Group != requestID || len(answer.Deductions) == 0 {
			return fmt.Errorf("the answer is not about group %q", requestID)
		}
		for i := range answer.Deductions {
			if err := about("", &answer.Deductions[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// aboutRequest returns an error if an answer is not about a request id; named is the id in the
// answer, if any. A proxy may have made such an answer.
func aboutRequest(requestID, named, field, value string) error {
	switch {
	case value == "":
		return fmt.Errorf("the answer has no %s", field)
	case requestID != "" && named != "" && named != requestID:
		return fmt.Errorf("the answer is that of request id %q", named)
	}
	return nil
}

// Rollback gives units of a deduction back, never more than it took, wherever its bucket is by now.
// The same rollback id replays. Errors: deduction_not_found (not final: the deduction may still
// arrive; Cancel is final), already_rolled_back (by another rollback id), amount_exceeds_remaining,
// request_conflict.
func (c *Client) Rollback(ctx context.Context, name string, request RollbackRequest) (
	*Deduction, error,
) {
	what := c.post("rollback", request, name, "rollback")
	what.requestID, what.repeatable = request.RequestID, true
	var answer Deduction
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Cancel ensures that a request id has no effect. A deduction that happened is rolled back (state
// "rolled_back"); one that did not never will (state "void", and a late deduct returns
// request_void). Repeats replay.
func (c *Client) Cancel(ctx context.Context, name string, request CancelRequest) (
	*Deduction, error,
) {
	what := c.post("cancel", request, name, "cancel")
	what.requestID, what.repeatable = request.RequestID, true
	var answer Deduction
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Deduction returns the record of a request id. A budget in store mode finds only deductions that
// had no key; see KeyedDeduction. Errors: deduction_not_found, which is not final
// while an attempt may be running; in store mode also invalid, if the budget has a routing
// dimension, and outcome_unknown, if the record may have been forgotten.
func (c *Client) Deduction(ctx context.Context, name, requestID string) (*Deduction, error) {
	return c.KeyedDeduction(ctx, name, requestID, "")
}

// KeyedDeduction is Deduction with the deduction's routing key, which names it together with the id
// in store mode: the value of the budget's routing dimension, else the key of its request, "" if it
// had neither. Ledger mode needs no key and ignores it.
func (c *Client) KeyedDeduction(ctx context.Context, name, requestID, key string) (*Deduction,
	error) {
	what := c.get("deduction", name, "deductions")
	what.query.Set("request_id", requestID)
	what.query.Set("key", key)
	var answer Deduction
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
