package bench

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// Run sends the load, measures it, settles unknown outcomes and checks the budgets. When ctx ends
// it sends no more load; settling and checks still run. It calls progress with the completed share
// of the load, from one goroutine. An error means that a budget or a process cannot be read, so
// that nothing was measured.
func Run(
	ctx context.Context, service *client.Client, plan Plan, progress func(share float64),
) (Report, error) {
	plan.Load.Kinds = kinds
	r := &run{service: service, plan: &plan, used: make([]int64, len(plan.Budgets)),
		books: make([]atomic.Int64, len(plan.Budgets)), soldOut: make([]atomic.Bool, len(plan.Budgets))}
	lasting := context.WithoutCancel(ctx)
	if err := r.readUsed(ctx); err != nil {
		return Report{}, err
	}
	if _, err := r.usages(); err != nil {
		return Report{}, err
	}
	for n := range plan.Connections {
		r.callers = append(r.callers, newCaller(&plan, n, r.books, r.soldOut))
	}
	stop := r.watch(progress)
	measured, counted, uses, err := r.load(ctx)
	stop()
	if err != nil {
		return Report{}, err
	}
	report := r.report(measured, counted, uses)
	report.Complete = ctx.Err() == nil
	report.Check = r.check(lasting)
	return report, nil
}

// run is the state of a Run.
type run struct {
	service *client.Client
	plan    *Plan
	callers []*caller
	books   []atomic.Int64
	soldOut []atomic.Bool
	used    []int64 // before the load, by budget
}

// load warms up and measures.
func (r *run) load(ctx context.Context) (m workload.Measured, c counts, uses []Use, err error) {
	callers := make([]workload.Caller, len(r.callers))
	for n, c := range r.callers {
		callers[n] = c
	}
	if r.plan.Warmup > 0 {
		warmup := r.plan.Load
		warmup.Duration, warmup.Calls = r.plan.Warmup, 0
		workload.Run(ctx, warmup, callers)
	}
	for _, c := range r.callers {
		c.tally.counts = counts{}
	}
	before, err := r.usages()
	if err != nil {
		return m, c, nil, err
	}
	m = workload.Run(ctx, r.plan.Load, callers)
	after, err := r.usages()
	c = r.counted()
	return m, c, usesOf(before, after, c.deductions), err
}

// counted adds up the callers' counts.
func (r *run) counted() counts {
	sum := counts{}
	for _, c := range r.callers {
		one := c.tally.counts
		sum.deductions += one.deductions
		sum.accepted += one.accepted
		sum.replayed += one.replayed
		sum.rolledBack += one.rolledBack
		for _, a := range one.answers {
			sum.answers.add([]byte(a.code), a.times)
		}
	}
	return sum
}

// usage is what a process has used up to an instant.
type usage struct {
	workload.Process
	workload.Usage
}

// usages reads this process, whose failure is ignored, and those of the plan.
func (r *run) usages() ([]usage, error) {
	var list []usage
	own := workload.Process{Name: "budgetctl", Pid: os.Getpid()}
	if u, err := workload.ReadUsage(own.Pid); err == nil {
		list = append(list, usage{own, u})
	}
	for _, p := range r.plan.Processes {
		u, err := workload.ReadUsage(p.Pid)
		if err != nil {
			return nil, fmt.Errorf("process %s: %w", p.Name, err)
		}
		list = append(list, usage{p, u})
	}
	return list, nil
}

// usesOf returns what was used between two instants, in total and per deduction.
func usesOf(before, after []usage, deductions int64) []Use {
	uses := make([]Use, 0, len(before))
	for i := range min(len(before), len(after)) {
		cpu := after[i].CPU - before[i].CPU
		use := Use{Name: after[i].Name, Pid: after[i].Pid, CPUS: workload.Rounded(cpu.Seconds()),
			MemoryMiB: workload.Rounded(float64(after[i].MemoryBytes) / (1 << 20))}
		if deductions > 0 {
			use.CPUPerDeductionUS = workload.Rounded(float64(cpu.Microseconds()) / float64(deductions))
		}
		uses = append(uses, use)
	}
	return uses
}

// watch reports progress by the clock until it is told to stop.
func (r *run) watch(progress func(float64)) (stop func()) {
	const every = 200 * time.Millisecond
	total := r.plan.Warmup + r.plan.Load.Duration
	if total <= 0 || r.plan.Load.Duration == 0 {
		return func() {}
	}
	begin, over, done := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				progress(1)
				return
			case <-ticker.C:
				progress(min(1, time.Since(begin).Seconds()/total.Seconds()))
			}
		}
	}()
	return func() { close(over); <-done }
}
