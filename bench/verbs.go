package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// verbs measures the median time of each administrative verb in ledger mode, with one caller and
// nothing else to do. Its figures are named; it has no calls a second.
type verbs struct{ away *time.Duration }

const (
	seldom = 5 // how often a verb is measured
	often  = 25
	// large is the budget of 1,024 buckets, buyers those who deduct from it while it is recycled.
	large  = "large-0"
	buyers = 8
)

// verb is one call, made several times.
type verb struct {
	name   string
	times  int
	before func(ctx context.Context, i int) error // not measured; nil does nothing
	do     func(ctx context.Context, i int) error
}

func (v verbs) measure(s *stage) (measurement, error) {
	b, err := s.budgetd(ours{durability: "ledger", sqlAway: v.away})
	if err != nil {
		return measurement{}, err
	}
	// A retry would be measured too.
	c, err := client.New("http://"+b.address, client.WithRetry(client.Retry{Attempts: 1,
		AttemptTimeout: time.Minute}))
	if err != nil {
		return measurement{}, err
	}
	create := func(name string, buckets int) error {
		return s.create(c, 1, func(int) client.CreateRequest {
			// A bucket applies for up to 1,000 units at a time, so most stay undistributed.
			return client.CreateRequest{Name: name, TotalQuantity: 1_000_000_000,
				BucketQuantity: buckets, ShardingQuantity: 1_000, Durability: budget.Ledger}
		})
	}
	if err := errors.Join(create("small", 64), create(large, 1024)); err != nil {
		return measurement{}, err
	}
	list, err := c.Buckets(s.ctx, "small")
	if err != nil {
		return measurement{}, err
	}
	var m measurement
	all := append([]verb{{"create, 64 buckets", often, nil, func(_ context.Context, i int) error {
		return create(fmt.Sprint("made-", i), 64)
	}}}, append(ofBudgets(c, list.Buckets), ofDeductions(c)...)...)
	for _, one := range all {
		took, err := one.median(s)
		if err != nil {
			return m, fmt.Errorf("%s: %w", one.name, err)
		}
		m.named = append(m.named, figure{one.name + ", ms", milliseconds(took)})
	}
	longest, err := longestDeduct(s, b, c)
	m.named = append(m.named, figure{"longest deduct during a recycle of 1,024 buckets, ms",
		milliseconds(longest)})
	return m, err
}

// median makes the calls, and one before that is not measured.
func (v verb) median(s *stage) (time.Duration, error) {
	if s.quick {
		v.times = 1
	}
	var took []time.Duration
	for i := range v.times + 1 {
		ctx, cancel := context.WithTimeout(s.ctx, 2*time.Minute)
		if v.before != nil {
			if err := v.before(ctx, i); err != nil {
				cancel()
				return 0, err
			}
		}
		began := time.Now()
		err := v.do(ctx, i)
		took = append(took, time.Since(began))
		cancel()
		if err != nil {
			return 0, err
		}
	}
	return median(took[1:]), nil
}

// median returns the middle of some figures, the lower one of two; 0 of none.
func median[T cmp.Ordered](all []T) T {
	if len(all) == 0 {
		return *new(T)
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)/2]
}

// ofBudgets are the verbs on a budget and its buckets.
func ofBudgets(c *client.Client, buckets []client.Bucket) []verb {
	change := func(by int64) func(ctx context.Context, i int) error {
		return func(ctx context.Context, _ int) error {
			_, err := c.Append(ctx, "small", client.AppendRequest{RequestID: client.NewRequestID(),
				Quantity: by})
			return err
		}
	}
	key := func(i int) string { return buckets[i%len(buckets)].Key }
	offline := func(ctx context.Context, i int) error {
		return second(c.Offline(ctx, "small", key(i)))
	}
	recycle := func(name string) func(ctx context.Context, i int) error {
		return func(ctx context.Context, _ int) error {
			return second(c.Recycle(ctx, name))
		}
	}
	return []verb{
		{"get", often, nil, func(ctx context.Context, _ int) error {
			return second(c.Budget(ctx, "small"))
		}},
		{"set", often, nil, func(ctx context.Context, i int) error {
			return second(c.Patch(ctx, "small", client.PatchRequest{AdjustCnt: new(1_000 + i)}))
		}},
		{"append", often, nil, change(1_000)},
		{"shrink", often, nil, change(-1_000)},
		{"apply", often, nil, func(ctx context.Context, i int) error {
			return second(c.Apply(ctx, "small", key(i)))
		}},
		{"offline", often, nil, offline},
		{"online", often, offline, func(ctx context.Context, i int) error {
			return second(c.Online(ctx, "small", key(i)))
		}},
		{"recycle, 64 buckets", often, nil, recycle("small")},
		{"recycle, 1,024 buckets", seldom, nil, recycle(large)},
	}
}

// ofDeductions are the verbs on deductions, with the deduct itself.
func ofDeductions(c *client.Client) []verb {
	var id string
	deduct := func(ttl string) func(ctx context.Context, i int) error {
		return func(ctx context.Context, _ int) error {
			id = client.NewRequestID()
			return second(c.Deduct(ctx, "small", client.DeductRequest{RequestID: id, Amount: 1,
				HoldTTL: ttl}))
		}
	}
	return []verb{
		{"deduct", often, nil, deduct("")},
		{"rollback", often, deduct(""), func(ctx context.Context, _ int) error {
			return second(c.Rollback(ctx, "small", client.RollbackRequest{RequestID: id}))
		}},
		{"cancel", often, deduct(""), func(ctx context.Context, _ int) error {
			return second(c.Cancel(ctx, "small", client.CancelRequest{RequestID: id}))
		}},
		{"extend", often, deduct("10m"), func(ctx context.Context, _ int) error {
			return second(c.Extend(ctx, "small", client.ExtendRequest{RequestID: id, HoldTTL: "20m"}))
		}},
		{"confirm", often, deduct("10m"), func(ctx context.Context, _ int) error {
			return second(c.Confirm(ctx, "small", client.ConfirmRequest{RequestID: id}))
		}},
	}
}

// second drops the first result of a call.
func second[T any](_ T, err error) error { return err }

// longestDeduct returns the longest of the single calls that buyers make during a recycle of
// 1,024 buckets.
func longestDeduct(s *stage, b budgetd, c *client.Client) (time.Duration, error) {
	sale := &sale{stage: s, client: c, name: "large", budgets: make([]books, 1)}
	sale.budgets[0].total = endless
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	var recycled error
	var all sync.WaitGroup
	all.Go(func() {
		recycled = second(c.Recycle(s.ctx, large))
		stop()
	})
	_, longest, err := sale.sell(ctx, b, buyers, 0, 2*time.Minute)
	all.Wait()
	return longest, errors.Join(recycled, err)
}
