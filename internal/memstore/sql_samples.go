package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// AddSamples keeps samples. See bucket.Samples.
func (s *SQL) AddSamples(ctx context.Context, samples []bucket.Sample) error {
	_, err := transact(ctx, s, "AddSamples", func(time.Time) (struct{}, error) {
		for _, sample := range samples {
			sample.At = toMillisecond(sample.At)
			if i, known := s.findSample(sample); !known {
				s.samples = slices.Insert(s.samples, i, sample)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// findSample finds a sample's place among all, which are in the order of (budget, instant).
func (s *SQL) findSample(sample bucket.Sample) (int, bool) {
	return slices.BinarySearchFunc(s.samples, sample, func(a, b bucket.Sample) int {
		return cmp.Or(cmp.Compare(a.Budget, b.Budget), a.At.Compare(b.At))
	})
}

// LastSamples reads the newest sample of each budget. See bucket.Samples.
func (s *SQL) LastSamples(ctx context.Context, first, last int64) (map[int64]bucket.Sample, error) {
	return transact(ctx, s, "LastSamples", func(time.Time) (map[int64]bucket.Sample, error) {
		out := map[int64]bucket.Sample{}
		for _, sample := range s.samples {
			if sample.Budget >= first && sample.Budget <= last {
				out[sample.Budget] = sample
			}
		}
		return out, nil
	})
}

// SamplesOf reads a budget's samples of a span. See bucket.Samples.
func (s *SQL) SamplesOf(ctx context.Context, budgetID int64, from, to time.Time, limit int) ([]bucket.Sample, error) {
	return transact(ctx, s, "SamplesOf", func(time.Time) ([]bucket.Sample, error) {
		var before, after []bucket.Sample
		for _, sample := range s.samples {
			switch {
			case sample.Budget != budgetID:
			case !sample.At.After(toMillisecond(from)):
				before = []bucket.Sample{sample}
			case !sample.At.After(toMillisecond(to)) && len(after) < limit:
				after = append(after, sample)
			}
		}
		return append(before, after...), nil
	})
}

// DropSamples forgets old samples. See bucket.Samples.
func (s *SQL) DropSamples(ctx context.Context, before time.Time, limit int) (int, error) {
	return transact(ctx, s, "DropSamples", func(time.Time) (int, error) {
		var old []time.Time
		for _, sample := range s.samples {
			if sample.At.Before(toMillisecond(before)) {
				old = append(old, sample.At)
			}
		}
		slices.SortFunc(old, time.Time.Compare)
		old = old[:min(len(old), limit)]
		left := len(old)
		s.samples = slices.DeleteFunc(s.samples, func(sample bucket.Sample) bool {
			drop := left > 0 && !sample.At.After(old[len(old)-1])
			if drop {
				left--
			}
			return drop
		})
		return len(old), nil
	})
}

// Holdings reads what epochs hold. See bucket.Samples.
func (s *SQL) Holdings(ctx context.Context, first, last int64) ([]bucket.Holding, error) {
	return transact(ctx, s, "Holdings", func(time.Time) ([]bucket.Holding, error) {
		out := []bucket.Holding{}
		for _, shard := range s.buckets {
			for _, e := range shard.epochs {
				if e.Budget >= first && e.Budget <= last && e.Outstanding > 0 {
					out = append(out, bucket.Holding{Budget: e.Budget, Lane: shard.Lane, Outstanding: e.Outstanding,
						Open: e.Status == ledger.Open, Fenced: e.Fenced != ""})
				}
			}
		}
		return out, nil
	})
}
