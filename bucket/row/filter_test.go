package row_test

import (
	"context"
	"errors"
	"sync"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/row"
)

// filter is a filter in memory that obeys the contract of bucket.Filter.
type filter struct {
	mu       sync.Mutex
	contents map[int64]content
	down     bool
	takes    int
}

type content struct{ fill, balance int64 }

var errDown = errors.New("the filter is down")

func newFilter() *filter { return &filter{contents: map[int64]content{}} }

// use makes a filter that of instance m.
func (f *filter) use(c *row.Config) { c.Filters = map[string]bucket.Filter{"m": f} }

func (f *filter) Set(_ context.Context, _ bucket.Partition, levels []bucket.Level) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return errDown
	}
	for _, l := range levels {
		c, known := f.contents[l.Bucket]
		switch {
		case known && l.Added > 0 && c.fill == l.Fill-1:
			f.contents[l.Bucket] = content{l.Fill, c.balance + l.Added}
		case !known || c.fill < l.Fill:
			f.contents[l.Bucket] = content{l.Fill, l.Outstanding}
		}
	}
	return nil
}

func (f *filter) Take(_ context.Context, _ bucket.Partition, takes []bucket.Take) ([]bucket.Taken, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, errDown
	}
	out := make([]bucket.Taken, len(takes))
	for i, t := range takes {
		f.takes += len(t.Amounts)
		c, known := f.contents[t.Bucket]
		if !known || c.fill < t.Fill {
			out[i].Stale = true
			continue
		}
		c.balance += t.Back
		for _, amount := range t.Amounts {
			fits := amount <= c.balance
			if fits {
				c.balance -= amount
			}
			out[i].Fits = append(out[i].Fits, fits)
		}
		f.contents[t.Bucket] = c
		out[i].Fill, out[i].Balance = c.fill, c.balance
	}
	return out, nil
}

// put replaces the content of a bucket.
func (f *filter) put(bucketID int64, c content) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.contents[bucketID] = c
}

func (f *filter) get(bucketID int64) content {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.contents[bucketID]
}
