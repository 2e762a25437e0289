package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// do sends a call, again where that is safe and can help, and decodes the answer into out. It
// returns the number of attempts made.
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

// attempt sends a call once, a deduction together with others where that is wanted.
func (c *Client) attempt(ctx context.Context, what call, out any) error {
	if answer, ok := out.(*DeductAnswer); ok && what.item != nil {
		return c.coalescer.deduct(ctx, what, answer)
	}
	return c.send(ctx, what, out)
}

// certain returns what a final answer means for the call as a whole. Alone it is the answer. After
// an unanswered attempt it still is when it shuts that one out for good (a conflict with what is
// recorded); any other refusal has to be settled: also a fault, for the server that did not answer
// may have been of another version. What a cancel finds faulty as well names an id that none takes.
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

// givenUp returns what a call comes to whose attempts have ended with one unanswered.
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

// settling returns the context in which a call is settled: the caller's, or, where
// WithCancelUnknown gives it time of its own, one that does not end with it.
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

// faultyRequest reports whether budgetd refused a request as it was written. 401, 403 and 404 say
// nothing of it: they can change between two attempts.
func faultyRequest(err error) bool {
	switch CodeOf(err) {
	case budget.Malformed, budget.Invalid, budget.TooLarge, budget.UnsupportedMediaType:
		return true
	}
	return false
}
