package sample

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/series"
)

const (
	// dropPage is the number of old samples that one transaction deletes, drops the number of
	// transactions in a run.
	dropPage, drops = 1000, 100
	// DropEvery is the interval at which RunOnce must be called.
	DropEvery = time.Minute
)

// Sampler takes samples during another pass over the snapshots of all budgets, so that these are
// read once. Every node has one; the first node's sample of a budget and minute stays. Only one
// goroutine may use it.
type Sampler struct {
	*Service
	// minute is the minute of the latest samples. It is zero on a node that has just started; it
	// waits for the next minute, because a sample shows the beginning of its minute.
	minute time.Time
	// due means that this pass takes samples.
	due bool
}

// Begin is called when a pass over all budgets begins.
func (k *Sampler) Begin() {
	if k.Keep <= 0 {
		return
	}
	minute := k.DB.Now().Truncate(series.LeastStep)
	switch {
	case k.minute.IsZero():
		k.minute = minute
	case minute.After(k.minute):
		k.minute, k.due = minute, true
	}
}

// Page stores the figures of budgets that were just read, in id order, if they have changed since
// their last sample. Errors: Unavailable, OutcomeUnknown; the next minute's samples then include
// the change.
func (k *Sampler) Page(ctx context.Context, snapshots []bucket.Snapshot) error {
	if !k.due || len(snapshots) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	first, last := snapshots[0].ID, snapshots[len(snapshots)-1].ID
	known, err := k.Last(ctx, first, last)
	if err != nil {
		return err
	}
	holdings, err := k.holdings(ctx, first, last)
	if err != nil {
		return err
	}
	byBudget := map[int64][]holding{}
	for _, h := range holdings {
		byBudget[h.Budget] = append(byBudget[h.Budget], h)
	}
	var changed []bucket.Sample
	for i := range snapshots {
		b := &snapshots[i]
		old, ok := known[b.ID]
		now := bucket.Sample{Budget: b.ID, Point: series.Point{At: k.minute,
			Figures: sampled(b.Figures, b.Remaining(k.minute), byBudget[b.ID],
				k.away(b.Durability))}}
		if !ok || now.At.After(old.At) && now.Figures != old.Figures {
			changed = append(changed, now)
		}
	}
	return k.Add(ctx, changed)
}

// End is called when a pass is complete.
func (k *Sampler) End() { k.due = false }

// RunOnce deletes a bounded number of samples that are older than Keep. Errors: Unavailable,
// OutcomeUnknown. It is idempotent.
func (s *Service) RunOnce(ctx context.Context) error {
	if s.Keep <= 0 {
		return nil
	}
	before := s.DB.Now().Add(-s.Keep)
	for range drops {
		step, cancel := context.WithTimeout(ctx, stepTime)
		n, err := s.drop(step, before, dropPage)
		cancel()
		if err != nil || n < dropPage {
			return err
		}
	}
	return nil
}
