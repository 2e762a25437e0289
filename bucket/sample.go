package bucket

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/series"
)

// dropPage is how many old samples one transaction forgets, drops how many of those one look makes.
const dropPage, drops = 1000, 100

// sampling is how far the samples of this minute have come. The loop of the books has it.
type sampling struct {
	// minute is the one whose samples are taken, or were; zero: this node has just begun, and waits for the
	// next one, because a sample is what was there when its minute began.
	minute time.Time
	// due: they are being taken with this look through the budgets.
	due bool
}

// begin is called when a look through all budgets begins. One that could not take the samples leaves them
// due.
func (k *sampling) begin(now time.Time, every time.Duration) {
	minute := now.Truncate(every)
	switch {
	case k.minute.IsZero():
		k.minute = minute
	case minute.After(k.minute):
		k.minute, k.due = minute, true
	}
}

// sample keeps the figures of budgets that were just read, in the order of their ids, where they changed
// since their last sample. Any node does it; whoever is first in a minute has the say.
func (s *Service) sample(ctx context.Context, books []Book) {
	if !s.sampling.due || len(books) == 0 {
		return
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	first, last := books[0].Budget, books[len(books)-1].Budget
	known, err := s.sql.LastSamples(step, first, last)
	if err != nil {
		s.failed("sql", err)
		return
	}
	holdings, err := s.sql.Holdings(step, first, last)
	if err != nil {
		s.failed("sql", err)
		return
	}
	byBudget := map[int64][]Holding{}
	for _, h := range holdings {
		byBudget[h.Budget] = append(byBudget[h.Budget], h)
	}
	unusable := s.unusable()
	var changed []Sample
	for i := range books {
		b := &books[i]
		old, ok := known[b.Budget]
		now := Sample{Budget: b.Budget, Point: series.Point{At: s.sampling.minute,
			Figures: sampled(b.Figures, byBudget[b.Budget], unusable)}}
		if !ok || now.At.After(old.At) && now.Figures != old.Figures {
			changed = append(changed, now)
		}
	}
	if len(changed) == 0 {
		return
	}
	if err := s.sql.AddSamples(step, changed); err != nil {
		s.failed("sql", err)
	}
}

// dropSamples forgets samples that are older than they are kept, a bounded number at a time.
func (s *Service) dropSamples(ctx context.Context) {
	before := s.sql.Now().Add(-s.set.KeepSeries)
	for range drops {
		step, cancel := s.bounded(ctx)
		n, err := s.sql.DropSamples(step, before, dropPage)
		cancel()
		if err != nil {
			s.failed("sql", err)
			return
		}
		if n < dropPage {
			return
		}
	}
}
