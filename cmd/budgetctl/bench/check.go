package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// look is how often the check reads a budget that does not agree yet.
const look = 50 * time.Millisecond

// readUsed records what the budgets had used before the load.
func (r *run) readUsed(ctx context.Context) error {
	return workload.Each(ctx, len(r.plan.Budgets), nil, func(ctx context.Context, at int) error {
		b, err := r.service.Budget(ctx, r.plan.Budgets[at])
		if err == nil {
			r.used[at] = b.Used
		}
		return err
	})
}

// check settles the unknown outcomes and compares every budget with the callers' books.
func (r *run) check(ctx context.Context) Check {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.plan.Settle)
	defer cancel()
	c := &checking{run: r, check: Check{Problems: []string{}}}
	for _, one := range r.callers {
		if one.tally.wrong > 0 {
			c.problem("%d wrong answers, such as: %s", one.tally.wrong, one.tally.wrongWords[0])
		}
	}
	c.settle(ctx)
	each(len(r.plan.Budgets), func(at int) { c.budget(ctx, at) })
	c.check.OK = c.problems == 0
	if rest := c.problems - len(c.check.Problems); rest > 0 {
		c.check.Problems = append(c.check.Problems, fmt.Sprintf("and %d more", rest))
	}
	c.check.SettledS = workload.Rounded(time.Since(begin).Seconds())
	return c.check
}

// checking is the state of a check.
type checking struct {
	*run
	mu       sync.Mutex
	check    Check
	problems int // how many there are; check lists the first few
}

func (c *checking) problem(format string, args ...any) {
	const kept = 5
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problems++; c.problems <= kept {
		c.check.Problems = append(c.check.Problems, fmt.Sprintf(format, args...))
	}
}

// each calls do n times with bounded concurrency.
func each(n int, do func(i int)) {
	_ = workload.Each(context.Background(), n, nil, func(_ context.Context, i int) error {
		do(i)
		return nil
	})
}

// settle determines the unknown outcomes: of deductions first, because a rollback may belong to one
// of them.
func (c *checking) settle(ctx context.Context) {
	var deducts, rollbacks []item
	for _, one := range c.callers {
		deducts = append(deducts, one.unsettled.deducts...)
		rollbacks = append(rollbacks, one.unsettled.rollbacks...)
	}
	c.check.Settled = len(deducts) + len(rollbacks)
	each(len(deducts), func(i int) { c.settleDeduct(ctx, deducts[i]) })
	each(len(rollbacks), func(i int) { c.settleRollback(ctx, rollbacks[i]) })
}

func (c *checking) settleDeduct(ctx context.Context, i item) {
	at, request := c.plan.deductionOf(i)
	answer, err := c.service.Deduct(ctx, c.plan.Budgets[at], request)
	if err == nil {
		c.books[at].Add(answer.Amount)
		return
	}
	// A refusal concerns this attempt. The earlier one, whose answer was lost, may still arrive.
	if kind := client.KindOf(err); kind == budget.Refused || kind == budget.Conflict {
		_, err = c.service.Cancel(ctx, c.plan.Budgets[at], request.Cancellation())
	}
	if err != nil {
		c.problem("the outcome of request id %s is still unknown: %v", request.RequestID, err)
	}
}

func (c *checking) settleRollback(ctx context.Context, i item) {
	at, request := c.plan.deductionOf(i)
	answer, err := c.service.Rollback(ctx, c.plan.Budgets[at], request.Return())
	if err != nil {
		c.problem("request id %s was accepted and cannot be rolled back: %v", request.RequestID, err)
		return
	}
	c.books[at].Add(-answer.RolledBack)
}

// budget compares one budget with the callers' books and audits it. In store mode, or after calls
// that timed out, the budget agrees only once its ledger has caught up.
func (c *checking) budget(ctx context.Context, at int) {
	name, want := c.plan.Budgets[at], c.books[at].Load()
	used, err := c.usedUntil(ctx, name, c.used[at]+want)
	if err != nil {
		c.problem("budget %s cannot be read: %v", name, err)
		return
	}
	c.mu.Lock()
	c.check.ToldUnits += want
	c.check.UsedUnits += used - c.used[at]
	c.mu.Unlock()
	if used-c.used[at] != want {
		c.problem("budget %s: by the answers %d units are used, by the budget %d", name, want,
			used-c.used[at])
	}
	audit, err := c.service.Audit(context.WithoutCancel(ctx), name)
	switch {
	case err != nil:
		c.problem("budget %s cannot be audited: %v", name, err)
	case !audit.OK:
		c.problem("budget %s: the audit found %d discrepancies", name, len(audit.Discrepancies))
	case audit.Used != used:
		c.problem("budget %s: the audit counts %d used units, the budget says %d", name, audit.Used, used)
	}
	c.last(ctx, at, used)
}

// last reads a budget after its audit, which has brought the sums of its stores to SQL.
func (c *checking) last(ctx context.Context, at int, used int64) {
	name := c.plan.Budgets[at]
	b, err := c.service.Budget(context.WithoutCancel(ctx), name)
	switch {
	case err != nil:
		c.problem("budget %s cannot be read: %v", name, err)
	case b.Used != used:
		c.problem("budget %s: %d units were used when the load had ended, %d after its audit",
			name, used, b.Used)
	}
	if err != nil || !c.soldOut[at].Load() || c.plan.RollbackShare > 0 || c.check.Settled > 0 {
		return // units may have come back after the refusal
	}
	if left := client.Units(b.NotFunded) + client.Units(b.Undistributed) - b.PendingShrink +
		client.Units(b.InBuckets) + b.InTransit; left >= c.plan.Amount {
		c.problem("budget %s: an answer said that it is used up, and %d units are left", name, left)
	}
}

// usedUntil reads what a budget has used until it is the wanted figure or the context ends.
func (c *checking) usedUntil(ctx context.Context, name string, want int64) (used int64, err error) {
	for {
		b, err := c.service.Budget(context.WithoutCancel(ctx), name)
		if err != nil {
			return 0, err
		}
		if b.Used == want {
			return b.Used, nil
		}
		select {
		case <-ctx.Done():
			return b.Used, nil
		case <-time.After(look):
		}
	}
}
