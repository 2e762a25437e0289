package httpapi

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// batch makes many deductions in one call, each for itself. Items of one request id are made one
// after the other, in the order of the request; all others side by side.
func (a *API) batch(c *call) (answer, error) {
	tenant := c.tenant(c.query("tenant"))
	body := deductions{limit: a.limits.BatchItems}
	err := c.readAtMost(a.limits.BatchBytes, &body)
	if body.tooMany {
		return answer{}, budget.Refuse(budget.TooLarge, "batch",
			"a batch holds at most %d deductions", body.limit)
	}
	if err != nil {
		return answer{}, err
	}
	results := make([]any, len(body.items))
	chains := chainsOf(body.items)
	workers := min(a.limits.BatchConcurrency, len(chains))
	var next atomic.Int64
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(chains) {
					return
				}
				for _, i := range chains[n] {
					results[i] = a.batchItem(c.ctx, tenant, body.items[i])
				}
			}
		})
	}
	running.Wait()
	return answer{body: batchAnswer{results}}, nil
}

// chainsOf groups the items of each request id, in order. The budget does not matter: it may be
// named in two ways, and waiting for another budget's item does no harm.
func chainsOf(items []*batchItem) [][]int {
	chains := make([][]int, 0, len(items))
	byID := make(map[string]int, len(items))
	for i, item := range items {
		id := item.request.RequestID
		at, found := byID[id]
		if !found || id == "" {
			at = len(chains)
			byID[id] = at
			chains = append(chains, nil)
		}
		chains[at] = append(chains[at], i)
	}
	return chains
}

// batchItem makes one deduction and returns its answer or its problem.
func (a *API) batchItem(ctx context.Context, tenant string, item *batchItem) (result any) {
	var got bucket.DeductAnswer
	err := item.faults.Err("deduct")
	defer func() {
		if why := recover(); why != nil {
			err = &budget.Error{Code: budget.Internal, Op: "deduct",
				Err: fmt.Errorf("panic: %v\n%s", why, debug.Stack())}
		}
		if !item.dryRun {
			a.observeDeduction(got, err)
		}
		if err != nil {
			e := settle(err, "deduct", true)
			a.logError(ctx, "deduct", e)
			result = problemOf(e)
		}
	}()
	if err == nil {
		item.request.Budget, err = refOf("deduct", tenant, item.budget)
	}
	if err == nil && item.dryRun {
		foreseen, err := a.dryRun(ctx, item.request)
		if err != nil {
			return problemOf(settle(err, "deduct", false))
		}
		return foreseen.body
	}
	if err == nil {
		got, err = a.service.Deduct(ctx, item.request)
	}
	return acceptedOf(&got)
}

// deductions is the body of a batch.
type deductions struct {
	items   []*batchItem
	limit   int
	tooMany bool
}

func (d *deductions) Member(r *strictjson.Reader, name string) bool {
	if name != "deductions" {
		return false
	}
	r.Objects(name, func(i int) (strictjson.Body, *strictjson.Faults) {
		if i == d.limit {
			d.tooMany = true
			return nil, nil
		}
		item := new(batchItem)
		d.items = append(d.items, item)
		return item, &item.faults
	})
	return true
}

func (d *deductions) Check(r *strictjson.Reader) {
	r.Require("deductions")
	if len(d.items) == 0 && r.Seen("deductions") && !r.Has("deductions") {
		r.Invalid("deductions", "must hold 1 to %d deductions", d.limit)
	}
}

// batchItem is one deduction of a batch.
type batchItem struct {
	deduction
	budget string
	faults strictjson.Faults
}

func (d *batchItem) Member(r *strictjson.Reader, name string) bool {
	if name == "budget" {
		r.ID(name, &d.budget)
		return true
	}
	return d.deduction.Member(r, name)
}

func (d *batchItem) Check(r *strictjson.Reader) {
	r.Require("budget")
	d.deduction.Check(r)
}

// batchAnswer has an accepted or a problem for each deduction, in order.
type batchAnswer struct {
	Results []any `json:"results"`
}
