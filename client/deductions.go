package client

import (
	"context"
	"fmt"
	"time"
)

// DeductRequest asks for units of a budget.
type DeductRequest struct {
	// RequestID identifies the deduction permanently: 1-128 bytes of UTF-8 without control
	// characters. See NewRequestID.
	RequestID string `json:"request_id"`
	// Amount is in minor units, 1 … 9007199254740991.
	Amount int64 `json:"amount"`
	// Key routes the request to a bucket; "" routes it by the request id.
	Key string `json:"key,omitzero"`
	// Dimensions say whom the deduction is for, such as {"user": "u1"}. They are recorded, and
	// limits count by them.
	Dimensions map[string]string `json:"dimensions,omitempty"`
	// Counts are the request's own amounts by limit name; 0 counts nothing.
	Counts map[string]int64 `json:"counts,omitempty"`
	// Reference is the caller's note, recorded.
	Reference string `json:"reference,omitzero"`
	// HoldTTL makes a hold, which expires after this time unless it is confirmed, and then gives
	// its units back: 1 ms to 366 days, such as "15m"; "" uses the units at once.
	HoldTTL string `json:"hold_ttl,omitzero"`
	// Group names holds that are confirmed or rolled back together: 1-128 bytes.
	Group string `json:"group,omitzero"`
}

// DeductAnswer is an accepted deduction.
type DeductAnswer struct {
	RequestID string `json:"request_id"`
	// Outcome is "accepted".
	Outcome string `json:"outcome"`
	Amount  int64  `json:"amount"`
	// State is the present state of the deduction, even in a replay: "used" or "held".
	State  string `json:"state"`
	Bucket string `json:"bucket"`
	// BucketRemaining is what the serving bucket still holds, in minor units. It is nil if Unlimited,
	// and if it could not be read in time.
	BucketRemaining *int64 `json:"bucket_remaining"`
	// BudgetRemaining is what the whole budget still holds after the deduction, except for changes
	// of other nodes within the last second. It is nil if Unlimited, and if it could not be read in
	// time.
	BudgetRemaining *int64 `json:"budget_remaining"`
	// PeriodRemaining is what the open period of a daily budget still holds; nil for other budgets,
	// and if it could not be read in time.
	PeriodRemaining *int64 `json:"period_remaining,omitzero"`
	// Unlimited means that the budget has no total.
	Unlimited bool `json:"unlimited,omitzero"`
	// HoldUntil is when a hold expires, by the database's clock.
	HoldUntil time.Time `json:"hold_until,omitzero"`
	// Limits are those that it counts for, and their usage.
	Limits []LimitState `json:"limits,omitempty"`
	// Receipt helps a later rollback or cancel to find the deduction; it is opaque.
	Receipt string `json:"receipt"`
	// Replayed means that the request id was known, from an earlier call or an earlier attempt of
	// this one.
	Replayed bool `json:"replayed"`
	// Attempts is the number of attempts until this answer.
	Attempts int `json:"-"`
}

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
		what.item = &BatchItem{name, request}
	}
	var answer DeductAnswer
	attempts, err := c.do(ctx, what, &answer)
	answer.Attempts = attempts
	return result(&answer, err)
}

// of implements outcome. An answer without an id belongs to the call.
func (a *DeductAnswer) of(requestID string) error {
	return aboutRequest(requestID, a.RequestID, "outcome", a.Outcome)
}

// of implements outcome.
func (d *Deduction) of(requestID string) error {
	return aboutRequest(requestID, d.RequestID, "state", d.State)
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

// RollbackRequest gives a deduction's units back.
type RollbackRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id"`
	// Amount is the part to give back; 0 means all that is left.
	Amount int64 `json:"amount,omitzero"`
	// RollbackID names the rollback; "" means the rollback of the whole. The same id again replays.
	RollbackID string `json:"rollback_id,omitzero"`
	// Key and Dimensions are the deduction's, NoKey means that it had no key, and Receipt is from its
	// answer. Store mode needs one of Key, NoKey and Receipt, and of a budget with a routing dimension
	// its value in Key or Dimensions, or the receipt. DeductRequest.Return sets what is needed.
	Key        string            `json:"key,omitzero"`
	NoKey      bool              `json:"-"`
	Dimensions map[string]string `json:"dimensions,omitzero"`
	Receipt    string            `json:"receipt,omitzero"`
}

// CancelRequest ensures that a request id has no effect.
type CancelRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id"`
	// Key, NoKey, Dimensions and Receipt find the deduction; see RollbackRequest.
	// DeductRequest.Cancellation sets what is needed.
	Key        string            `json:"key,omitzero"`
	NoKey      bool              `json:"-"`
	Dimensions map[string]string `json:"dimensions,omitzero"`
	Receipt    string            `json:"receipt,omitzero"`
}

// Cancellation returns the cancel of the request, which finds it wherever it was routed.
func (r DeductRequest) Cancellation() CancelRequest {
	return CancelRequest{
		RequestID:  r.RequestID,
		Key:        r.Key,
		NoKey:      r.Key == "",
		Dimensions: r.allDimensions(),
	}
}

// Return returns the rollback of the whole request, which finds it wherever it was routed.
func (r DeductRequest) Return() RollbackRequest {
	return RollbackRequest{
		RequestID:  r.RequestID,
		Key:        r.Key,
		NoKey:      r.Key == "",
		Dimensions: r.allDimensions(),
	}
}

// allDimensions returns the dimensions, {} instead of nil: it has no others.
func (r DeductRequest) allDimensions() map[string]string {
	if r.Dimensions == nil {
		return map[string]string{}
	}
	return r.Dimensions
}

// body returns the request as it is sent: with "key": "" if the deduction had no key.
func (r RollbackRequest) body() any {
	if r.NoKey && r.Key == "" {
		return struct {
			RollbackRequest
			Key string `json:"key"`
		}{RollbackRequest: r}
	}
	return r
}

// body is that of a rollback.
func (r CancelRequest) body() any {
	if r.NoKey && r.Key == "" {
		return struct {
			CancelRequest
			Key string `json:"key"`
		}{CancelRequest: r}
	}
	return r
}

// Deduction is the ledger's record of a request id. Quantities are minor units.
type Deduction struct {
	RequestID string `json:"request_id"`
	// State is "used", "held", "rolled_back", "expired", or "void" if it never happened and never
	// will.
	State      string `json:"state"`
	Amount     int64  `json:"amount"`
	RolledBack int64  `json:"rolled_back"`
	// Confirmed is the confirmed part of a hold, HoldUntil its expiry, Group its group.
	Confirmed  int64             `json:"confirmed,omitzero"`
	HoldUntil  time.Time         `json:"hold_until,omitzero"`
	Group      string            `json:"group,omitzero"`
	Bucket     string            `json:"bucket,omitzero"`
	Dimensions map[string]string `json:"dimensions,omitempty"`
	Reference  string            `json:"reference,omitzero"`
	// CountedAt is when the deduction was committed, by the database's clock.
	CountedAt time.Time `json:"counted_at,omitzero"`
	// Receipt helps a later rollback or cancel to find the deduction; it is opaque.
	Receipt string `json:"receipt,omitzero"`
	// Replayed means that the rollback was known and nothing was given back again.
	Replayed bool `json:"replayed,omitzero"`
}

// Rollback gives units of a deduction back, never more than it took, wherever its bucket is by now.
// The same rollback id replays. Errors: deduction_not_found (not final: the deduction may still
// arrive; Cancel is final), already_rolled_back (by another rollback id), amount_exceeds_remaining,
// request_conflict.
func (c *Client) Rollback(ctx context.Context, name string, request RollbackRequest) (
	*Deduction, error,
) {
	what := c.post("rollback", request.body(), name, "rollback")
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
	what := c.post("cancel", request.body(), name, "cancel")
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
