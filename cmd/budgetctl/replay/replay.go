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
	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// maxUnexpected is the number of unexpected errors after which a replay ends.
const maxUnexpected = 100

// Plan says how a log is replayed.
type Plan struct {
	// Budget is the name or id of the budget.
	Budget string
	// Bytes deducts a line's bytes and skips lines with 0. Without it each line is one unit.
	Bytes bool
	// Dimensions has the column of each dimension's value, by the dimension's name. A line whose
	// column is empty is deducted without that dimension.
	Dimensions map[string]string
	// IDPrefix begins the request ids: the one of line 7 is "<prefix>-7".
	IDPrefix string
	// RollbackEvery rolls back every n-th accepted deduction; 0 means none. Deductions of an
	// earlier replay do not count.
	RollbackEvery int
	// Concurrency is the number of concurrent calls, at least 1.
	Concurrency int
	// Batch is the number of deductions per call, 1 … client.MaxBatch.
	Batch int
	// Timeout bounds one call with its repeats.
	Timeout time.Duration
}

// Service is the part of *client.Client that a replay uses.
type Service interface {
	Deduct(ctx context.Context, name string, r client.DeductRequest) (*client.DeductAnswer, error)
	DeductBatch(ctx context.Context, items []client.BatchItem) ([]client.BatchResult, error)
	Rollback(ctx context.Context, name string, r client.RollbackRequest) (*client.Deduction, error)
}

// Run replays a log and returns a report, even if it did not reach the end (Report.Complete). It
// calls progress with the number of processed entries, from one goroutine at a time. When ctx ends
// it sends nothing more and waits for the current calls. The error is that of reading the log.
func Run(ctx context.Context, service Service, plan Plan, log io.Reader, progress func(done int)) (
	Report, error,
) {
	feed, stop := context.WithCancel(ctx)
	defer stop()
	r := &run{service: service, plan: plan, ctx: context.WithoutCancel(ctx), progress: progress,
		stop: stop, inProgress: make(chan struct{}, plan.Concurrency), report: newReport(plan),
		took: workload.NewHistogram()}
	begin := time.Now()
	skipped, complete, err := r.feed(feed, log)
	r.calls.Wait()
	r.report.Skipped, r.report.Complete = skipped, complete
	r.report.finish(time.Since(begin), r.took)
	return r.report, err
}

// run is the state of a replay.
type run struct {
	service    Service
	plan       Plan
	ctx        context.Context // for calls; the end of the replay's context does not end it
	progress   func(done int)
	stop       func()        // ends the replay early
	inProgress chan struct{} // has an element per call
	calls      sync.WaitGroup
	accepted   atomic.Int64

	mu     sync.Mutex
	report Report
	took   *workload.Histogram
}

// outcome is the result of one call and of the rollbacks that followed it.
type outcome struct {
	results  []client.BatchResult
	given    []int64 // units that each rollback gave back
	failures []error // of rollbacks
}

// feed makes a call for each batch of the log's entries. complete is false if ctx ended before the
// log.
func (r *run) feed(ctx context.Context, log io.Reader) (skipped int, complete bool, err error) {
	var batch []entry
	send := func() bool {
		if len(batch) == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case r.inProgress <- struct{}{}:
			full := batch
			batch = nil
			r.calls.Go(func() { r.call(full) })
			return true
		}
	}
	for e, err := range entries(log, r.plan) {
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

// call makes one call and the rollbacks after it, and counts the outcome.
func (r *run) call(batch []entry) {
	defer func() { <-r.inProgress }()
	begin := time.Now()
	o := outcome{results: r.deduct(batch)}
	took := time.Since(begin)
	for i, result := range o.results {
		r.maybeRollBack(&o, result, r.requestID(batch[i]))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.add(o)
	r.took.Add(took)
	if r.report.unexpected() >= maxUnexpected {
		r.stop()
	}
	r.progress(r.report.Deductions)
}

func (r *run) requestID(e entry) string { return fmt.Sprintf("%s-%d", r.plan.IDPrefix, e.line) }

// deduct makes the deductions of several entries in one call.
func (r *run) deduct(batch []entry) []client.BatchResult {
	ctx, cancel := context.WithTimeout(r.ctx, r.plan.Timeout)
	defer cancel()
	items := make([]client.BatchItem, len(batch))
	for i, e := range batch {
		items[i] = client.BatchItem{Budget: r.plan.Budget, DeductRequest: client.DeductRequest{
			RequestID: r.requestID(e), Amount: e.amount, Key: e.client,
			Dimensions: e.dimensions}}
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

// maybeRollBack rolls back every n-th deduction.
func (r *run) maybeRollBack(o *outcome, result client.BatchResult, id string) {
	if r.plan.RollbackEvery == 0 || result.Err != nil || earlier(result.Answer) {
		return
	}
	if r.accepted.Add(1)%int64(r.plan.RollbackEvery) != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.plan.Timeout)
	defer cancel()
	_, err := r.service.Rollback(ctx, r.plan.Budget, client.RollbackRequest{RequestID: id,
		Receipt: result.Answer.Receipt})
	if err != nil {
		o.failures = append(o.failures, fmt.Errorf("request id %s: %w", id, err))
		return
	}
	o.given = append(o.given, result.Answer.Amount)
}

// earlier reports whether an earlier replay of the file may have made a deduction. One of this
// replay whose first answer was lost looks the same; it is not rolled back either.
func earlier(a *client.DeductAnswer) bool { return a.Replayed }

// expected reports whether a refusal is normal for a replay: the budget, its period or a limit is
// used up, or an earlier replay made the deduction and rolled it back.
func expected(code budget.Code) bool {
	switch code {
	case budget.BudgetExhausted, budget.PeriodExhausted, budget.LimitExceeded,
		budget.AlreadyRolledBack:
		return true
	}
	return false
}
