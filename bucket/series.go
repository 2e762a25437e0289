package bucket

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

// SeriesRequest asks for a budget's figures over time. Zero fields: see series.Choose.
type SeriesRequest struct {
	Budget BudgetRef
	Span   series.Span
}

// SeriesAnswer is a budget's figures over time.
type SeriesAnswer struct {
	Span   series.Span
	Points []series.Point
	// Now are the present figures, which the projection starts from.
	Now        series.Point
	Projection series.Projection
}

// samplePage is how many samples one statement reads.
const samplePage = 5000

// Series reads a budget's figures over time, of what is kept (Settings.KeepSeries), and projects when it
// will be used up. It reads every sample of the span, at most one a minute, and the bucket list.
// Errors: BudgetNotFound; Invalid with the faulty field; Unavailable.
func (s *Service) Series(ctx context.Context, r SeriesRequest) (SeriesAnswer, error) {
	entry, err := s.budgets.find(ctx, r.Budget)
	if err != nil {
		return SeriesAnswer{}, err
	}
	now := s.sql.Now()
	span, faults := series.Choose(r.Span, now)
	if len(faults) > 0 {
		return SeriesAnswer{}, &budget.Error{Code: budget.Invalid, Op: "series", Fields: faults,
			Message: "the span has faults"}
	}
	samples, err := s.samplesOf(ctx, entry.id, span.From, span.To)
	if err != nil {
		return SeriesAnswer{}, err
	}
	present, err := s.present(ctx, entry.id, now)
	if err != nil {
		return SeriesAnswer{}, err
	}
	recent, err := s.samplesOf(ctx, entry.id, now.Add(-series.RateWindow), now)
	if err != nil {
		return SeriesAnswer{}, err
	}
	return SeriesAnswer{Span: span, Points: series.Thin(samples, span, now), Now: present,
		Projection: series.Project(recent, present, entry.value.Load().EndAt)}, nil
}

// samplesOf reads the samples of a span, page by page.
func (s *Service) samplesOf(ctx context.Context, budgetID int64, from, to time.Time) (out []series.Point, err error) {
	for {
		page, err := s.sql.SamplesOf(ctx, budgetID, from, to, samplePage)
		if err != nil {
			return nil, s.sqlFailed(err)
		}
		before := len(out)
		for i := range page {
			if before == 0 || page[i].At.After(out[before-1].At) { // the first of a page ends the one before
				out = append(out, page[i].Point)
			}
		}
		if len(page) < samplePage || len(out) == before {
			return out, nil
		}
		from = out[len(out)-1].At
	}
}

// present reads a budget's figures as they are now.
func (s *Service) present(ctx context.Context, budgetID int64, now time.Time) (series.Point, error) {
	f, err := s.sql.Figures(ctx, budgetID)
	if err != nil {
		return series.Point{}, s.sqlFailed(err)
	}
	holdings, err := s.sql.Holdings(ctx, budgetID, budgetID)
	if err != nil {
		return series.Point{}, s.sqlFailed(err)
	}
	return series.Point{At: now, Figures: sampled(f, holdings, s.unusable())}, nil
}

// sampled is what a sample keeps of a budget.
func sampled(f ledger.Figures, holdings []Holding, unusable []Lane) series.Figures {
	return series.Figures{Total: f.Total, Undistributed: f.Unfunded + f.Undistributed, Quarantined: f.Quarantined,
		Forfeited: f.Forfeited, Remaining: f.Remaining, InTransit: f.InTransit(), Held: f.Held, Used: f.Used,
		Stranded: stranded(f, holdings, unusable)}
}

// stranded is how many units of a budget lie where they are of no use now: in buckets that are fenced or on
// lanes that cannot be used, whatever their state, and in open buckets that hold only a fragment.
func stranded(f ledger.Figures, holdings []Holding, unusable []Lane) (units int64) {
	for _, h := range holdings {
		if h.Fenced || slices.Contains(unusable, h.Lane) ||
			h.Open && fragment.Is(h.Outstanding, f.PeriodUnits, f.Online+f.Offline) {
			units += h.Outstanding
		}
	}
	return units
}
