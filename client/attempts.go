package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// do sends a call, with retries if they are safe and can help, and decodes the answer into out. It
// returns the number of attempts.
func (c *Client) do(ctx context.Context, what call, out any) (attempts int, err error) {
	what.trace = c.traceOf(ctx)
	began, unanswered := time.Now(), false
	for n := 1; ; n++ {
		err := c.attempt(ctx, what, out)
		if err == nil {
			return n, nil
		}
		if !undecided(err) {
			return n, c.certain(ctx, what, n, unanswered, err)
		}
		unanswered = unanswered || KindOf(err) == budget.MayBeDone
		if !what.repeatable || !c.retry.pause(ctx, n, began, err) {
			if unanswered {
				err = c.givenUp(ctx, what, n, err)
			}
			return n, err
		}
	}
}

// attempt sends a call once, a deduction possibly together with others.
func (c *Client) attempt(ctx context.Context, what call, out any) error {
	if answer, ok := out.(*DeductAnswer); ok && what.item != nil {
		return c.coalescer.deduct(ctx, what, answer)
	}
	return c.send(ctx, what, out)
}

// certain returns what a final answer means for the call as a whole. Without an unanswered attempt
// it is the answer. After one it still is if it excludes that attempt (a conflict with the ledger).
// Any other refusal has to be settled, even a fault, because the server that did not answer may
// have had another version. If a cancel finds the same fault, no server accepts the id.
func (c *Client) certain(
	ctx context.Context, what call, attempts int, unanswered bool, final error,
) error {
	if !unanswered || KindOf(final) == budget.Conflict {
		return final
	}
	if what.settle == nil {
		return &UnknownOutcome{what.op, what.requestID, attempts, final}
	}
	ctx, end := c.settling(ctx, what)
	defer end()
	if err := what.settle(ctx); err != nil {
		if faultyRequest(final) && faultyRequest(err) {
			return final
		}
		return &UnknownOutcome{what.op, what.requestID, attempts, errors.Join(final, err)}
	}
	var p *Problem
	if errors.As(final, &p) {
		settled := *p
		settled.Cancelled = true
		return &settled
	}
	return final
}

// givenUp returns the error of a call whose attempts ended with one unanswered.
func (c *Client) givenUp(ctx context.Context, what call, attempts int, last error) error {
	if what.settle == nil || c.cancelWithin == 0 {
		return &UnknownOutcome{what.op, what.requestID, attempts, last}
	}
	ctx, end := c.settling(ctx, what)
	defer end()
	if err := what.settle(ctx); err != nil {
		return &UnknownOutcome{what.op, what.requestID, attempts, errors.Join(last, err)}
	}
	return &Problem{Op: what.op, Status: http.StatusConflict, Code: budget.RequestVoid,
		Cancelled: true,
		Detail:    "no attempt was answered in time"}
}

// settling returns the context in which a call is settled: the caller's, or an independent one with
// the time that WithCancelUnknown grants.
func (c *Client) settling(ctx context.Context, what call) (context.Context, context.CancelFunc) {
	if what.settleIn != nil {
		return what.settleIn, func() {}
	}
	if what.trace.Parent != "" {
		ctx = ContextWithTrace(ctx, what.trace)
	}
	if c.cancelWithin == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), c.cancelWithin)
}

// faultyRequest reports whether budgetd refused a request as malformed or invalid. 401, 403 and 404
// prove nothing about the request: they can change between two attempts.
func faultyRequest(err error) bool {
	switch CodeOf(err) {
	case budget.Malformed, budget.Invalid, budget.TooLarge, budget.UnsupportedMediaType:
		return true
	}
	return false
}
