package deduct

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// tooLate is the answer for an operation that ran out of time before anything was deducted.
func tooLate(o *Op, cause error) error {
	e := Unavailable(cause)
	e.Reason = budget.ReasonOverloaded
	e.Message = "the deadline passed before the deduction was done; repeat later"
	if o.Seeking {
		e.Reason = budget.ReasonCollecting
		e.Message = "units could not be collected in time; repeat later"
	}
	return e
}

// Unavailable is the answer for an attempt that is known not to have happened. If the cause is a
// refusal, or Unavailable with a reason, the cause itself is the answer.
func Unavailable(cause error) *budget.Error {
	var known *budget.Error
	if errors.As(cause, &known) {
		kind := known.Code.Kind()
		if kind != budget.MayBeDone && (kind != budget.NotDone || known.Reason != "") {
			return known
		}
	}
	e := &budget.Error{Code: budget.Unavailable, Op: "deduct", RetryAfter: time.Second, Err: cause,
		Message: "the database does not answer; nothing was deducted; repeat later",
		Reason:  budget.ReasonDatabaseDown}
	if known != nil && known.Reason == budget.ReasonStoreDown { // it did not confirm a grant
		e.Message, e.Reason = "a store does not answer; nothing was deducted; repeat later", known.Reason
	}
	if cause == nil || errors.Is(cause, context.Canceled) {
		e.Reason, e.Message = "", "the caller canceled the request; nothing was deducted"
	}
	return e
}

// outcomeUnknown is the answer for an attempt that may have happened.
func (h *Host) outcomeUnknown(cause error) error {
	return &budget.Error{Code: budget.OutcomeUnknown, Op: "deduct", Err: cause,
		Message: h.Truth + " did not confirm the deduction; repeat the same request id"}
}

// Overloaded is the answer for an operation that finds its queue full.
func Overloaded(op string) *budget.Error {
	e := budget.Refuse(budget.Unavailable, op, "too many requests are waiting; repeat later")
	e.Reason, e.RetryAfter = budget.ReasonOverloaded, time.Second
	return e
}

// Voided is the answer for a request whose id was cancelled.
func Voided(id string) error {
	return budget.Refuse(budget.RequestVoid, "deduct",
		"request %q was cancelled and will never have an effect; use a new id", id)
}

// Conflicting is the answer for a request whose id was used with another payload.
func Conflicting(id string) error {
	return budget.Refuse(budget.RequestConflict, "deduct",
		"request %q was accepted with another amount, key, dimension or reference; use a new id", id)
}
