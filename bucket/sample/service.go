package sample

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

const (
	// samplePage is the number of samples that one statement reads.
	samplePage = 5000
	// stepTime bounds one read or transaction.
	stepTime = 5 * time.Second
)

// Config configures a Service.
type Config struct {
	Budgets Budgets
	Ledger  Ledger
	Figures Figures
	// Now is this node's estimate of SQL's time.
	Now func() time.Time
	// Unreachable lists the partitions whose stores do not answer; nil means that all do. Only units
	// in store mode are out of reach there.
	Unreachable func() []bucket.Partition
	// Keep is how long samples are kept; 0 means that none are taken.
	Keep time.Duration
}

// Service returns budgets' figures over time. It is safe for concurrent use.
type Service struct{ Config }

// New returns a service. It contacts nothing.
func New(c Config) *Service { return &Service{c} }

// Series returns a budget's stored figures over time, and projects when it will be used up. It
// reads every sample of the span, at most one a minute, and the holdings of the buckets. Errors:
// BudgetNotFound; Invalid with the faulty field; Unavailable.
func (s *Service) Series(ctx context.Context, r bucket.SeriesRequest) (bucket.SeriesAnswer, error) {
	b, err := s.Budgets.Find(ctx, r.Budget)
	if err != nil {
		return bucket.SeriesAnswer{}, err
	}
	now := s.Now()
	span, faults := series.Choose(r.Span, now)
	if len(faults) > 0 {
		return bucket.SeriesAnswer{}, &budget.Error{Code: budget.Invalid, Op: "series", Fields: faults,
			Message: "the span has faults"}
	}
	samples, err := s.samplesOf(ctx, b.ID, span.From, span.To)
	if err != nil {
		return bucket.SeriesAnswer{}, err
	}
	present, err := s.present(ctx, b, now)
	if err != nil {
		return bucket.SeriesAnswer{}, err
	}
	recent, err := s.samplesOf(ctx, b.ID, now.Add(-series.RateWindow), now)
	if err != nil {
		return bucket.SeriesAnswer{}, err
	}
	return bucket.SeriesAnswer{Span: span, Points: series.Thin(samples, span, now), Now: present,
		Projection: series.Project(recent, present, b.EndAt)}, nil
}

// samplesOf reads the samples of a span, page by page.
func (s *Service) samplesOf(ctx context.Context, budgetID int64, from, to time.Time) (
	out []series.Point, err error) {
	for {
		page, err := s.Ledger.SamplesOf(ctx, budgetID, from, to, samplePage)
		if err != nil {
			return nil, err
		}
		before := len(out)
		for i := range page {
			if before == 0 || page[i].At.After(out[before-1].At) { // the last one comes again
				out = append(out, page[i].Point)
			}
		}
		if len(page) < samplePage || len(out) == before {
			return out, nil
		}
		from = out[len(out)-1].At
	}
}

// present reads a budget's current figures.
func (s *Service) present(ctx context.Context, b *bucket.Budget, now time.Time) (
	series.Point, error) {
	f, err := s.Figures.Figures(ctx, b.ID)
	if err != nil {
		return series.Point{}, err
	}
	holdings, err := s.Ledger.Holdings(ctx, b.ID, b.ID)
	if err != nil {
		return series.Point{}, err
	}
	return series.Point{At: now, Figures: sampled(f, holdings, s.away(b.Durability))}, nil
}

// away lists the partitions where units of a budget are out of reach.
func (s *Service) away(d budget.Durability) []bucket.Partition {
	if d != budget.Store || s.Unreachable == nil {
		return nil
	}
	return s.Unreachable()
}

// sampled returns the sample of a budget's figures.
func sampled(f ledger.Figures, holdings []bucket.Holding, away []bucket.Partition) series.Figures {
	return series.Figures{Total: f.Total, Undistributed: f.Unfunded + f.Undistributed,
		NotFunded: f.Unfunded, Quarantined: f.Quarantined, Forfeited: f.Forfeited, InBuckets: f.InBuckets,
		InTransit: f.InTransit(), Held: f.Held, Used: f.Used, Stranded: stranded(f, holdings, away)}
}

// stranded returns how many units of a budget cannot be used where they are: in buckets that are
// halted or out of reach, and in open buckets that hold only a fragment. Nothing of an unlimited
// budget is stranded: its total is 0.
func stranded(f ledger.Figures, holdings []bucket.Holding, away []bucket.Partition) (units int64) {
	for _, h := range holdings {
		if h.Halted || slices.Contains(away, h.Partition) ||
			h.Open && fragment.Is(h.Outstanding, f.PeriodUnits, f.Online+f.Offline) {
			units += h.Outstanding
		}
	}
	return min(units, f.Total)
}
