// Package sample stores budgets' figures over time, once a minute if something changed, and returns
// them as series with a projection.
package sample

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
	"github.com/budgetd/budgetd/internal/sql/engine"
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
	DB      *engine.DB
	Budgets *bucket.Budgets
	// Figures reads a budget's figures in one snapshot. Errors: BudgetNotFound, Unavailable.
	Figures func(ctx context.Context, budgetID int64) (ledger.Figures, error)
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
	now := s.DB.Now()
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
	projection := series.Project(recent, present, b.EndAt)
	if b.Unlimited {
		projection = series.Projection{Rate: projection.Rate, Outlook: series.Unlimited}
	}
	return bucket.SeriesAnswer{Span: span, Unlimited: b.Unlimited,
		Points: series.Thin(samples, span, now), Now: present, Projection: projection}, nil
}

// present reads a budget's current figures.
func (s *Service) present(ctx context.Context, b *bucket.Budget, now time.Time) (
	series.Point, error) {
	f, err := s.Figures(ctx, b.ID)
	if err != nil {
		return series.Point{}, err
	}
	holdings, err := s.holdings(ctx, b.ID, b.ID)
	if err != nil {
		return series.Point{}, err
	}
	units, _ := bucket.Remaining(&b.Definition, f.Period.Start, f.Available(), now)
	return series.Point{At: now, Figures: sampled(f, units, holdings, s.away(b.Durability))}, nil
}

// away lists the partitions where units of a budget are out of reach.
func (s *Service) away(d budget.Durability) []bucket.Partition {
	if d != budget.Store || s.Unreachable == nil {
		return nil
	}
	return s.Unreachable()
}

// holding is what an epoch holds, and on which partition.
type holding struct {
	Budget      int64  `db:"budget_id"`
	Instance    string `db:"instance"`
	Partition   int    `db:"partition_number"`
	Outstanding int64  `db:"outstanding_quantity"`
	Status      string `db:"status"`
	Halt        int64  `db:"halt"`
}

const selectHoldings = `SELECT e.budget_id, b.instance, b.partition_number, e.outstanding_quantity,
	e.status, LENGTH(e.halted) AS halt FROM bucket_epoch e /*by bucket_epoch_units*/
	JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id
	WHERE e.budget_id >= ? AND e.budget_id <= ? AND e.has_units = 1
	AND e.outstanding_quantity > 0 ORDER BY e.bucket_id, e.epoch`

// holdings returns what the epochs of the budgets from first to last hold, without empty ones.
func (s *Service) holdings(ctx context.Context, first, last int64) ([]holding, error) {
	return engine.List[holding](ctx, s.DB, "holdings", selectHoldings, first, last)
}

// sampled returns the sample of a budget's figures.
func sampled(f ledger.Figures, remaining int64, holdings []holding,
	away []bucket.Partition) series.Figures {
	return series.Figures{Total: f.Total, Undistributed: f.Undistributed,
		NotFunded: f.Unfunded, Quarantined: f.Quarantined, Forfeited: f.Forfeited, InBuckets: f.InBuckets,
		InTransit: f.InTransit(), Held: f.Held, Used: f.Used, Remaining: remaining,
		Stranded: stranded(f, holdings, away)}
}

// stranded returns how many units of a budget cannot be used where they are: in buckets that are
// halted or out of reach, and in open buckets that hold only a fragment. Nothing of an unlimited
// budget is stranded: its total is 0.
func stranded(f ledger.Figures, holdings []holding, away []bucket.Partition) (units int64) {
	for _, h := range holdings {
		partition := bucket.Partition{Instance: h.Instance, Index: h.Partition}
		open := ledger.Status(h.Status) == ledger.Open
		if h.Halt > 0 || slices.Contains(away, partition) ||
			open && fragment.Is(h.Outstanding, f.PeriodUnits, f.Online+f.Offline) {
			units += h.Outstanding
		}
	}
	return min(units, f.Total)
}
