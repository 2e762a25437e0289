package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/budget"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxBatch is the most deductions in one batch.
const MaxBatch = 1000

// BatchResult is the result of one BatchItem: exactly one of its fields is set. Err is what Deduct
// would have returned.
type BatchResult struct {
	Answer *DeductAnswer
	Err    error
}

type batchRequest struct {
	Deductions []BatchItem `json:"deductions"`
}

type batchAnswer struct {
	Results []jsontext.Value `json:"results"`
}

// DeductBatch makes up to MaxBatch independent deductions in one call, and returns their results in
// order. Like Deduct it repeats only what is undecided, with the same request ids, and cancels ids
// that were refused after an unanswered attempt (one call each). Each item needs its own id: of two
// items with one id, the cancel of one undoes the other.
//
// An error means that no item had an effect: the batch as a whole was refused, or never reached the
// service. An unknown outcome is the result of its item, never an error of the batch.
func (c *Client) DeductBatch(ctx context.Context, items []BatchItem) ([]BatchResult, error) {
	if len(items) > MaxBatch {
		return nil, fmt.Errorf("batch: %d deductions, at most %d are allowed", len(items), MaxBatch)
	}
	b := batch{client: c, items: items, results: make([]BatchResult, len(items)),
		unanswered: make([]bool, len(items)), settled: make([]bool, len(items))}
	b.trace = c.traceOf(ctx)
	defer b.end()
	open := make([]int, len(items))
	for i := range items {
		open[i] = i
	}
	began := time.Now()
	for n := 1; len(open) > 0; n++ {
		b.end()
		cause := b.attempt(ctx, n, open)
		if whole := b.refusedAsWhole(open, cause); whole != nil {
			return nil, whole
		}
		open = slices.DeleteFunc(open, func(i int) bool { return b.settled[i] })
		if len(open) > 0 && !c.retry.pause(ctx, n, began, b.results[open[0]].Err) {
			return b.givenUp(ctx, n, open)
		}
	}
	return b.results, nil
}

// batch is one DeductBatch in progress.
type batch struct {
	client     *Client
	items      []BatchItem
	results    []BatchResult
	unanswered []bool // by item: an attempt may have happened
	settled    []bool // by item: its result stands
	answered   bool   // some attempt was answered item by item
	trace      Trace  // of all its attempts
	// settleIn is the context in which the items of one attempt are settled one after the other,
	// sharing its time.
	settleIn    context.Context
	endSettling context.CancelFunc
}

// attempt sends the open items once and records their results. It returns the error of the call as
// a whole, nil if it was answered item by item.
func (b *batch) attempt(ctx context.Context, n int, open []int) error {
	request := batchRequest{Deductions: make([]BatchItem, len(open))}
	for at, i := range open {
		request.Deductions[at] = b.items[i]
	}
	what := call{
		op: "batch", method: http.MethodPost, path: []string{"v1", "deductions:batch"},
		query: b.client.inTenant(), body: request, trace: b.trace,
	}
	var answer batchAnswer
	correlation, cause := b.client.exchange(ctx, what, &answer)
	if cause == nil {
		cause = b.client.complete(what, answer, len(open))
	}
	b.answered = b.answered || cause == nil
	for at, i := range open {
		err := cause
		if err == nil {
			b.results[i].Answer, err = b.client.itemAnswer(answer.Results[at],
				b.items[i].RequestID, correlation)
		}
		b.note(ctx, n, i, err)
	}
	return cause
}

// note records the outcome of item i in attempt n.
func (b *batch) note(ctx context.Context, n, i int, err error) {
	b.settled[i] = err == nil || !undecided(err)
	switch {
	case err == nil:
		b.results[i].Answer.Attempts = n
		b.results[i].Err = nil
	case undecided(err):
		b.unanswered[i] = b.unanswered[i] || KindOf(err) == budget.MayBeDone
		b.results[i].Err = err
	default:
		b.results[i].Err = b.client.certain(ctx, b.one(ctx, i), n, b.unanswered[i], err)
	}
}

// one returns item i as a call of its own, to be settled if it has to be.
func (b *batch) one(ctx context.Context, i int) call {
	if b.unanswered[i] && b.settleIn == nil {
		b.settleIn, b.endSettling = b.client.settling(ctx, call{trace: b.trace})
	}
	item := b.items[i]
	settle := func(ctx context.Context) error {
		_, err := b.client.Cancel(ctx, item.Budget, item.Cancellation())
		return err
	}
	return call{op: "deduct", requestID: item.RequestID, settle: settle, settleIn: b.settleIn}
}

// end ends the settling of one attempt's items.
func (b *batch) end() {
	if b.endSettling != nil {
		b.endSettling()
		b.settleIn, b.endSettling = nil, nil
	}
}

// refusedAsWhole returns the call's own error if it is final and no item can have had an effect.
func (b *batch) refusedAsWhole(open []int, cause error) error {
	if cause == nil || undecided(cause) || b.answered {
		return nil
	}
	for _, i := range open {
		if b.unanswered[i] {
			return nil
		}
	}
	return cause
}

// givenUp ends the batch after n attempts with items still undecided.
func (b *batch) givenUp(ctx context.Context, n int, open []int) ([]BatchResult, error) {
	b.end()
	unknown := false
	for _, i := range open {
		if b.unanswered[i] {
			unknown = true
			b.results[i].Err = b.client.givenUp(ctx, b.one(ctx, i), n, b.results[i].Err)
		}
	}
	if !unknown && !b.answered {
		return nil, b.results[open[0]].Err
	}
	return b.results, nil
}

// complete returns an error unless a call with n items was answered with n results; otherwise it is
// unknown which of them happened, unless the call only reads.
func (c *Client) complete(what call, answer batchAnswer, n int) error {
	if len(answer.Results) == n {
		return nil
	}
	return c.unreadable(what, fmt.Errorf("%d results for %d deductions", len(answer.Results), n))
}

// unreadable returns the error of a call whose answer, or a part of it, cannot be read.
func (c *Client) unreadable(what call, err error) error {
	return &TransportError{Op: what.op, Server: c.Server(), Sent: true, read: what.read(), Err: err}
}

// problemIn parses a result that is a problem. Anything else is an error.
func problemIn(what call, text jsontext.Value) (*Problem, error) {
	var body api.Problem
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, err
	}
	if body.Code == "" {
		return nil, errors.New("neither an outcome nor a code")
	}
	return problemOf(what, body.Status, &body), nil
}

// itemAnswer parses one result of a batch: a deduct answer or a problem, which lacks "outcome".
// Anything else, and an answer to another request id, may have happened. The correlation id is that
// of the batch.
func (c *Client) itemAnswer(text jsontext.Value, id, correlation string) (*DeductAnswer, error) {
	what := call{op: "deduct", method: http.MethodPost}
	var answer DeductAnswer
	err := json.Unmarshal(text, &answer)
	var p *Problem
	if answer.Outcome == "" {
		p, err = problemIn(what, text)
	} else if err == nil {
		err = about(id, &answer)
	}
	switch {
	case err != nil:
		return nil, c.unreadable(what, fmt.Errorf("result cannot be read: %w", err))
	case p == nil:
		return &answer, nil
	}
	p.CorrelationID = correlation
	if p.RetryAfter > 0 {
		// A call of its own would have a header Retry-After, which has whole seconds.
		p.RetryAfter = (p.RetryAfter + time.Second - 1).Truncate(time.Second)
	}
	return nil, p
}
