package sample

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/series"
)

const (
	// dropPage is how many old samples one transaction forgets, drops how many transactions a run
	// makes.
	dropPage, drops = 1000, 100
	// DropEvery is how often RunOnce is to be called.
	DropEvery = time.Minute
)

// Sampler takes the samples while somebody else passes over the books of all budgets, so that these
// are read once. Every node has one; of a minute, the first node's sample of a budget stays. Use it
// from one goroutine.
type Sampler struct {
	*Service
	// minute is the one whose samples are taken, or were; zero: this node has just begun, and waits
	// for the next one, because a sample shows what was there when its minute began.
	minute time.Time
	// due says that samples are taken in this pass.
	due bool
}

// Begin is called when a pass over all budgets begins.
func (k *Sampler) Begin() {
	if k.Keep <= 0 {
		return
	}
	minute := k.Now().Truncate(series.LeastStep)
	switch {
	case k.minute.IsZero():
		k.minute = minute
	case minute.After(k.minute):
		k.minute, k.due = minute, true
	}
}

// Page keeps the figures of budgets that were just read, in the order of their ids, where they have
// changed since their last sample. Errors: Unavailable, OutcomeUnknown; the next minute's samples
// say what this one's would have.
func (k *Sampler) Page(ctx context.Context, books []bucket.Book) error {
	if !k.due || len(books) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	first, last := books[0].Budget, books[len(books)-1].Budget
	known, err := k.Ledger.LastSamples(ctx, first, last)
	if err != nil {
		return err
	}
	holdings, err := k.Ledger.Holdings(ctx, first, last)
	if err != nil {
		return err
	}
	byBudget := map[int64][]bucket.Holding{}
	for _, h := range holdings {
		byBudget[h.Budget] = append(byBudget[h.Budget], h)
	}
	var changed []bucket.Sample
	for i := range books {
		b := &books[i]
		old, ok := known[b.Budget]
		now := bucket.Sample{Budget: b.Budget, Point: series.Point{At: k.minute,
			Figures: sampled(b.Figures, byBudget[b.Budget], k.away(b.Durability))}}
		if !ok || now.At.After(old.At) && now.Figures != old.Figures {
			changed = append(changed, now)
		}
	}
	return k.Ledger.AddSamples(ctx, changed)
}

// End is called when a pass is complete.
func (k *Sampler) End() { k.due = false }

// RunOnce forgets samples that are older than they are kept, a bounded number of them. Errors:
// Unavailable, OutcomeUnknown; a repetition is harmless.
func (s *Service) RunOnce(ctx context.Context) error {
	if s.Keep <= 0 {
		return nil
	}
	before := s.Now().Add(-s.Keep)
	for range drops {
		step, cancel := context.WithTimeout(ctx, stepTime)
		n, err := s.Ledger.DropSamples(step, before, dropPage)
		cancel()
		if err != nil || n < dropPage {
			return err
		}
	}
	return nil
}
