package console

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

// Dashboard knows the state of all budgets and the recent answers of this node. It does not query
// the database: it gets the pages of the audit's pass over all snapshots, and the deductions of
// this node. It is safe for concurrent use, except that Begin, Page and End must be called from one
// goroutine.
type Dashboard struct {
	// Find returns a definition that is at most a second old.
	Find func(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
	// Known returns the number of known discrepancies and the sum of their units.
	Known func() (discrepancies int, gap int64)
	// Away returns what budgets have on stores that this node does not reach. It may be nil.
	Away func(ctx context.Context, ids []int64) (map[int64]bucket.Away, error)
	Now  func() time.Time

	recent recent

	mu        sync.RWMutex
	summaries []summary // of the last pass, sorted by id
	at        time.Time
	next      []summary // of the pass in progress
	began     time.Time
	seen      map[trouble]time.Time // since when a trouble is known
}

// summary is the state of a budget at a pass. It takes about 600 bytes.
type summary struct {
	id                int64
	tenant, name, key string
	kind              budget.Type
	unit              budget.Unit
	terms             budget.Definition // the input of StatusAt
	figures           ledger.Figures
	away              bucket.Away
	halted            int
	// past holds two earlier figures, the older one first. The rate is measured since the older
	// one.
	past [2]spending
}

// spending is what a budget had spent at an instant.
type spending struct {
	at    time.Time
	units int64
}

// Begin begins a pass over all budgets.
func (o *Dashboard) Begin() {
	o.next, o.began = make([]summary, 0, len(o.summaries)+len(o.summaries)/8), o.Now()
}

// Page adds the snapshots of some budgets, which are sorted by id. Error: Unavailable; they are
// added without what is out of reach.
func (o *Dashboard) Page(ctx context.Context, snapshots []bucket.Snapshot) error {
	now := o.Now()
	away, err := o.away(ctx, snapshots)
	for i := range snapshots {
		b := &snapshots[i]
		s := summary{id: b.ID, tenant: b.Tenant, name: b.Name, kind: b.Type, unit: b.Unit,
			key:   strings.ToLower(b.Tenant + "/" + b.Name),
			terms: b.Definition, figures: b.Figures, away: away[b.ID], halted: b.Halted}
		s.past = o.pastOf(s.id, spending{now, s.figures.Used + s.figures.Held})
		o.next = append(o.next, s)
	}
	return err
}

// away reads what budgets in store mode have out of reach. Error: Unavailable.
func (o *Dashboard) away(ctx context.Context, snapshots []bucket.Snapshot) (
	map[int64]bucket.Away, error) {
	var ids []int64
	for i := range snapshots {
		if snapshots[i].Durability == budget.Store {
			ids = append(ids, snapshots[i].ID)
		}
	}
	if o.Away == nil || len(ids) == 0 {
		return nil, nil
	}
	return o.Away(ctx, ids)
}

// pastOf returns the earlier figures of a budget. They are at most series.RateWindow old and, once
// enough time has passed, at least half of that.
func (o *Dashboard) pastOf(id int64, now spending) [2]spending {
	i, known := slices.BinarySearchFunc(o.summaries, id,
		func(s summary, id int64) int { return cmp.Compare(s.id, id) })
	if !known {
		return [2]spending{now, now}
	}
	past := o.summaries[i].past
	if now.at.Sub(past[1].at) >= series.RateWindow/2 {
		past = [2]spending{past[1], now}
	}
	return past
}

// End completes a pass.
func (o *Dashboard) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.summaries, o.at, o.next = o.next, o.began, nil
}

// pass returns the last pass, which does not change.
func (o *Dashboard) pass() ([]summary, time.Time) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.summaries, o.at
}

// projection returns when a budget runs out at its recent rate.
func (s *summary) projection(now time.Time) series.Projection {
	f := &s.figures
	past := series.Point{At: s.past[0].at, Figures: series.Figures{Used: s.past[0].units}}
	present := series.Point{At: now, Figures: series.Figures{Used: f.Used + f.Held,
		InBuckets: f.Unfunded + f.Undistributed + f.InBuckets + f.InTransit()}}
	if s.terms.Unlimited || s.terms.StatusAt(now) != budget.Effective {
		return series.Projection{}
	}
	return series.Project([]series.Point{past}, present, s.terms.EndAt)
}

// serving returns whether a budget serves, what deductions can take, and when they can begin if
// that is later.
func (s *summary) serving(now time.Time) (bucket.Serving, int64, time.Time) {
	state := bucket.State{Definition: &s.terms, Begin: s.figures.Period.Start, Figures: s.figures,
		Away: s.away}
	return state.Serving(now)
}

// ended reports whether a budget is past its end.
func (s *summary) ended(now time.Time) bool {
	return !s.terms.EndAt.IsZero() && !s.terms.EndAt.After(now)
}

// Rank selects and sorts budgets by the figures of the last pass. The answer says how old they are.
func (o *Dashboard) Rank(sel bucket.Selection) bucket.Ranking {
	all, at := o.pass()
	now := o.Now()
	search := strings.ToLower(strings.TrimSpace(sel.Search))
	var calls tallies
	if sel.Trouble != "" {
		calls = o.recent.calls(now)
	}
	tenants := map[string]int{}
	var found []*summary
	for i := range all {
		s := &all[i]
		switch {
		case sel.Type != "" && s.kind != sel.Type,
			sel.Status != "" && s.terms.StatusAt(now) != sel.Status,
			s.terms.Archived && !sel.Archived, sel.Covers != nil && !sel.Covers(s.tenant, s.name):
		case sel.Trouble != "" && !slices.Contains(s.troubles(calls.of(s), now),
			trouble{sel.Trouble, sel.Instance}):
		case search == "" || strings.Contains(s.key, search):
			if tenants[s.tenant]++; sel.Tenant == "" || s.tenant == sel.Tenant {
				found = append(found, s)
			}
		}
	}
	out := bucket.Ranking{Total: len(found), Tenants: tenants, At: at}
	from := min(sel.Skip, len(found))
	for _, r := range o.sort(found, sel, now)[from:min(from+sel.Size, len(found))] {
		one := bucket.Ranked{ID: r.id, Tenant: r.tenant, Name: r.name,
			ExhaustedAt: r.projection(now).ExhaustedAt}
		if sel.By == bucket.ByRefusals {
			n := int(r.value)
			one.Refusals = &n
		}
		out.Budgets = append(out.Budgets, one)
	}
	return out
}

// ranked is a budget and the value by which it is sorted. Budgets without a value come last in both
// directions, and after them those of which the question is settled: by their end, those that
// ended.
type ranked struct {
	*summary
	value   float64
	settled bool
}

// none is the value of budgets without one.
var none = math.NaN()

func (o *Dashboard) sort(found []*summary, sel bucket.Selection, now time.Time) []ranked {
	value := o.valueBy(sel.By, now)
	list := make([]ranked, len(found))
	for i, s := range found {
		list[i] = ranked{summary: s, value: value(s)}
		list[i].settled = sel.By == bucket.ByEnd && s.ended(now)
	}
	slices.SortFunc(list, func(a, b ranked) int {
		order := cmp.Compare(a.value, b.value)
		switch {
		case a.settled != b.settled:
			if a.settled {
				return 1
			}
			return -1
		case math.IsNaN(a.value) != math.IsNaN(b.value):
			return -order // NaN sorts first
		case order == 0 && sel.By != bucket.ByName:
			return strings.Compare(a.key, b.key)
		case order == 0:
			order = cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.tenant, b.tenant))
		}
		if sel.Descending {
			return -order
		}
		return order
	})
	return list
}

// valueBy returns the function that computes the value to sort by.
func (o *Dashboard) valueBy(by bucket.RankBy, now time.Time) func(*summary) float64 {
	instant := func(at time.Time) float64 {
		if at.IsZero() {
			return none
		}
		return float64(at.UnixMilli())
	}
	switch by {
	case bucket.ByRemaining:
		return func(s *summary) float64 {
			if s.terms.Unlimited {
				return none
			}
			_, units, _ := s.serving(now)
			return float64(units)
		}
	case bucket.ByHeld:
		return func(s *summary) float64 { return float64(s.figures.Held) }
	case bucket.ByUsed:
		return func(s *summary) float64 { return float64(s.figures.Used) }
	case bucket.ByTotal:
		return func(s *summary) float64 {
			if s.terms.Unlimited {
				return none
			}
			return float64(s.figures.Total)
		}
	case bucket.ByUsedShare:
		return func(s *summary) float64 {
			if s.figures.Total == 0 {
				return none
			}
			return float64(s.figures.Used) / float64(s.figures.Total)
		}
	case bucket.ByEnd:
		return func(s *summary) float64 { return instant(s.terms.EndAt) }
	case bucket.ByExhaustion:
		return func(s *summary) float64 { return instant(s.projection(now).ExhaustedAt) }
	case bucket.ByServing:
		calls := o.recent.calls(now)
		return func(s *summary) float64 {
			word, _, _ := s.serving(now)
			return hurt(word, calls.of(s))
		}
	case bucket.ByRefusals:
		counts := o.recent.counts(now)
		return func(s *summary) float64 {
			n := 0
			for _, times := range counts.of(s) {
				n += times
			}
			return float64(n)
		}
	}
	return func(*summary) float64 { return 0 }
}
