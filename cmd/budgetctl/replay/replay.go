package replay

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// maxUnexpected ends a replay that goes wrong: what does not work 100 times is not going to.
const maxUnexpected = 100

// Plan says how a log is replayed.
type Plan struct {
	// Budget is its name or id.
	Budget string
	// Bytes deducts a line's bytes, and skips lines with 0; otherwise each line is one unit.
	Bytes bool
	// IDPrefix begins the request ids: the one of line 7 is "<prefix>-7".
	IDPrefix string
	// RollbackEvery gives every so many accepted deductions back; 0: none. What an earlier replay
	// deducted does not count.
	RollbackEvery int
	// Concurrency is the number of calls under way at a time, at least 1.
	Concurrency int
	// Batch is the number of deductions per call, 1 … client.MaxBatch.
	Batch int
	// Timeout ends one call with its repeats.
	Timeout time.Duration
}

// Service is what a replay needs of *client.Client.
type Service interface {
	Deduct(ctx context.Context, name string, r client.DeductRequest) (*client.DeductAnswer, error)
	DeductBatch(ctx context.Context, items []client.BatchItem) ([]client.BatchResult, error)
	Rollback(ctx context.Context, name string, r client.RollbackRequest) (*client.Deduction, error)
}

// Run replays a log and returns what became of it, also when it did not get to the end
// (Report.Complete). progress is called with the number of entries dealt with, from one goroutine
// at a time. When ctx ends nothing new is sent, and the calls under way are waited for. The error
// is that of reading the log.
func Run(ctx context.Context, service Service, plan Plan, log io.Reader, progress func(done int)) (
	Report, error,
) {
	feed, stop := context.WithCancel(ctx)
	defer stop()
	r := &run{service: service, plan: plan, ctx: context.WithoutCancel(ctx),
		jobs: make(chan []entry), outcomes: make(chan outcome, plan.Concurrency)}
	var workers sync.WaitGroup
	for range plan.Concurrency {
		workers.Go(r.work)
	}
	var skipped int
	var complete bool
	var readErr error
	go func() {
		skipped, complete, readErr = r.feed(feed, log)
		close(r.jobs)
		workers.Wait()
		close(r.outcomes)
	}()
	report, took := newReport(plan), new(latencies)
	begin, done := time.Now(), 0
	for o := range r.outcomes {
		report.add(o)
		took.add(o.took)
		if report.unexpected() >= maxUnexpected {
			stop()
		}
		done += len(o.results)
		progress(done)
	}
	report.Skipped, report.Complete = skipped, complete
	report.finish(time.Since(begin), took)
	return report, readErr
}

// run is one replay under way.
type run struct {
	service  Service
	plan     Plan
	ctx      context.Context // of calls: does not end with the replay's
	jobs     chan []entry
	outcomes chan outcome
	accepted atomic.Int64
}

// outcome is what became of one call, and of the rollbacks that followed it.
type outcome struct {
	results  []client.BatchResult
	took     time.Duration
	given    []int64 // units of each rollback
	failures []error // of rollbacks
}

// feed hands the log's entries to the workers. complete is false when ctx ended before the log.
func (r *run) feed(ctx context.Context, log io.Reader) (skipped int, complete bool, err error) {
	batch := make([]entry, 0, r.plan.Batch)
	send := func() bool {
		if len(batch) == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case r.jobs <- batch:
			batch = make([]entry, 0, r.plan.Batch)
			return true
		}
	}
	for e, err := range entries(log, r.plan.Bytes) {
		switch {
		case err != nil:
			return skipped, false, err
		case e.amount == 0:
			skipped++
			continue
		}
		if batch = append(batch, e); len(batch) == r.plan.Batch && !send() {
			return skipped, false, nil
		}
	}
	return skipped, send(), nil
}

func (r *run) work() {
	for batch := range r.jobs {
		begin := time.Now()
		o := outcome{results: r.deduct(batch)}
		o.took = time.Since(begin)
		for i, result := range o.results {
			r.maybeRollBack(&o, result, r.requestID(batch[i]))
		}
		r.outcomes <- o
	}
}

func (r *run) requestID(e entry) string { return fmt.Sprintf("%s-%d", r.plan.IDPrefix, e.line) }

// deduct makes the deductions of some entries in one call.
func (r *run) deduct(batch []entry) []client.BatchResult {
	ctx, cancel := context.WithTimeout(r.ctx, r.plan.Timeout)
	defer cancel()
	items := make([]client.BatchItem, len(batch))
	for i, e := range batch {
		items[i] = client.BatchItem{Budget: r.plan.Budget, DeductRequest: client.DeductRequest{
			RequestID: r.requestID(e), Amount: e.amount, Key: e.client}}
	}
	if r.plan.Batch == 1 {
		answer, err := r.service.Deduct(ctx, r.plan.Budget, items[0].DeductRequest)
		return []client.BatchResult{{Answer: answer, Err: err}}
	}
	results, err := r.service.DeductBatch(ctx, items)
	if err != nil {
		results = make([]client.BatchResult, len(items))
		for i := range results {
			results[i].Err = err
		}
	}
	return results
}

// maybeRollBack gives a deduction back when its turn has come.
func (r *run) maybeRollBack(o *outcome, result client.BatchResult, id string) {
	if r.plan.RollbackEvery == 0 || result.Err != nil || earlier(result.Answer) {
		return
	}
	if r.accepted.Add(1)%int64(r.plan.RollbackEvery) != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.plan.Timeout)
	defer cancel()
	_, err := r.service.Rollback(ctx, r.plan.Budget, client.RollbackRequest{RequestID: id})
	if err != nil {
		o.failures = append(o.failures, fmt.Errorf("request id %s: %w", id, err))
		return
	}
	o.given = append(o.given, result.Answer.Amount)
}

// earlier reports whether a deduction may have been made by an earlier replay of the file. One
// whose first answer was lost looks the same and may be this one's: it is not rolled back either.
func earlier(a *client.DeductAnswer) bool { return a.Replayed }

// expected reports whether a replay is meant to meet this refusal: the budget, its period or
// a limit is used up.
func expected(code budget.Code) bool {
	switch code {
	case budget.BudgetExhausted, budget.PeriodExhausted, "limit_exceeded":
		return true
	}
	return false
}
