package warn

import (
	"context"
	"log/slog"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/series"
)

// watchEvery is the shortest interval at which a node evaluates thresholds by the books,
// sampleEvery by samples.
const watchEvery, sampleEvery = time.Second, time.Minute

// Watch evaluates the thresholds of all budgets during the audit's pass over their books. Every
// node has one. They decide the same, and the first node's transaction stays. Only one goroutine
// may use it.
type Watch struct {
	*Service
	// at is when the pass began. No figure is older.
	at time.Time
	// due says that this pass evaluates thresholds, sampled that it also does so by samples.
	due, sampled bool
	judged       time.Time
	looked       time.Time
	// firing counts the alerts that fire, by kind. failed says that a page of the pass is missing.
	firing map[alert.Kind]int
	failed bool
}

// Begin is called when a pass over all budgets begins.
func (w *Watch) Begin() {
	w.at = w.Now().Truncate(time.Millisecond)
	w.due = w.at.Sub(w.judged) >= watchEvery
	w.sampled = w.due && w.at.Sub(w.looked) >= sampleEvery
	w.firing, w.failed = map[alert.Kind]int{}, false
}

// End is called when a pass is complete.
func (w *Watch) End() {
	if w.due {
		w.judged = w.at
	}
	if w.due && !w.failed {
		w.Observer.AlertsFiring(w.firing)
	}
	if w.sampled {
		w.looked = w.at
	}
}

// Page evaluates the thresholds of budgets that were just read, in id order. Errors: Unavailable,
// OutcomeUnknown; the next pass tries again.
func (w *Watch) Page(ctx context.Context, books []bucket.Book) error {
	if !w.due || len(books) == 0 {
		return nil
	}
	err := w.page(ctx, books)
	w.failed = w.failed || err != nil
	return err
}

func (w *Watch) page(ctx context.Context, books []bucket.Book) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	first, last := books[0].Budget, books[len(books)-1].Budget
	own, err := w.Ledger.Thresholds(ctx, first, last)
	if err != nil {
		return err
	}
	firing, err := w.Ledger.Firing(ctx, first, last)
	if err != nil {
		return err
	}
	subjects := w.subjects(books, own, firing)
	if err := w.complete(ctx, books, subjects); err != nil {
		return err
	}
	var changed []alert.Subject
	for i := range subjects {
		s := &subjects[i]
		if len(alert.Decide(firing[s.Budget], s.Figures, s.Thresholds, w.at)) > 0 {
			changed = append(changed, *s)
		}
	}
	var done map[int64][]alert.Transition
	if len(changed) > 0 {
		if done, err = w.Ledger.Evaluate(ctx, changed); err != nil {
			return err
		}
		w.logTransitions(ctx, changed, done)
	}
	w.count(subjects, firing, done)
	return nil
}

// count counts the thresholds of a page, and the alerts that fire after its transitions.
func (w *Watch) count(subjects []alert.Subject, firing map[int64][]alert.State,
	done map[int64][]alert.Transition) {
	evaluated := map[alert.Kind]int{}
	for i := range subjects {
		for _, t := range subjects[i].Thresholds {
			if w.sampled || t.Kind != alert.Projected && t.Kind != alert.StrandedShare {
				evaluated[t.Kind]++
			}
		}
	}
	w.Observer.AlertsEvaluated(evaluated)
	for _, states := range firing {
		for i := range states {
			w.firing[states[i].Kind()]++
		}
	}
	for _, transitions := range done {
		for i := range transitions {
			change := 1
			if !transitions[i].State.Firing() {
				change = -1
			}
			w.firing[transitions[i].State.Kind()] += change
		}
	}
}

// subjects returns the budgets that have thresholds or alerts, with the figures of their books.
func (w *Watch) subjects(books []bucket.Book, own map[int64][]alert.Threshold,
	firing map[int64][]alert.State) []alert.Subject {
	out := make([]alert.Subject, 0, len(books))
	for i := range books {
		b := &books[i]
		list, has := own[b.Budget]
		if !has && w.Defaults {
			list = alert.Defaults()
		}
		if len(list) == 0 && len(firing[b.Budget]) == 0 {
			continue
		}
		out = append(out, alert.Subject{Budget: b.Budget, Tenant: b.Tenant, Name: b.Name,
			Thresholds: list, Figures: w.figures(b)})
	}
	return out
}

// figures returns the figures of a book alone.
func (w *Watch) figures(b *bucket.Book) alert.Figures {
	f := &b.Figures
	out := alert.Figures{At: w.at, Quarantined: f.Quarantined, Of: map[string]alert.Units{},
		Ended: !b.EndAt.IsZero() && !w.at.Before(b.EndAt)}
	if b.Unlimited {
		return out
	}
	left := f.Undistributed + f.InBuckets + f.InTransit()
	total := alert.Units{Total: f.Total, Spent: f.Used + f.Held, Left: f.Unfunded + left,
		End: b.EndAt}
	out.Of[string(alert.Total)] = total
	switch {
	case b.Type != budget.Daily:
		out.Period, out.Of[string(alert.Period)] = f.Period.Number, total
	case !f.Period.OverAt(w.at):
		out.Period = f.Period.Number
		out.Of[string(alert.Period)] = alert.Units{Total: f.PeriodUnits, Left: left, End: f.Period.End}
	}
	return out
}

// complete reads figures that the books do not have, for the budgets whose thresholds need them.
func (w *Watch) complete(ctx context.Context, books []bucket.Book, list []alert.Subject) error {
	if err := w.completePeriods(ctx, books, list); err != nil {
		return err
	}
	if err := w.completeLimits(ctx, list); err != nil {
		return err
	}
	if !w.sampled || len(list) == 0 {
		return nil
	}
	first, last := books[0].Budget, books[len(books)-1].Budget
	newest, err := w.Samples.Last(ctx, first, last)
	if err != nil {
		return err
	}
	past, err := w.Samples.At(ctx, first, last, w.at.Add(-series.RateWindow))
	if err != nil {
		return err
	}
	for i := range list {
		s := &list[i]
		f := &s.Figures
		if sample, known := newest[s.Budget]; known {
			f.Stranded, f.Sampled = sample.Stranded, true
		}
		total, earlier := f.Of[string(alert.Total)], past[s.Budget]
		if earlier.Budget == 0 || w.at.Sub(earlier.At) < series.RateWindow || total.Left <= 0 {
			continue // a shorter past tells no rate, and none is needed once nothing is left
		}
		p := series.Project([]series.Point{earlier.Point}, series.Point{At: w.at,
			Figures: series.Figures{Used: total.Spent, InBuckets: total.Left}}, time.Time{})
		f.Rate, f.HasRate = p.Rate, p.Outlook != series.NotKnown
	}
	return nil
}

// completePeriods sets what was spent of the open periods of daily budgets.
func (w *Watch) completePeriods(ctx context.Context, books []bucket.Book,
	list []alert.Subject) error {
	daily := map[int64]bool{}
	for i := range books {
		daily[books[i].Budget] = books[i].Type == budget.Daily
	}
	var asked []int64
	for i := range list {
		s := &list[i]
		if _, open := s.Figures.Of[string(alert.Period)]; open && daily[s.Budget] && watches(s,
			alert.Period) {
			asked = append(asked, s.Budget)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	spent, err := w.Ledger.PeriodSpent(ctx, asked)
	if err != nil {
		return err
	}
	for i := range list {
		f := &list[i].Figures
		units, known := spent[list[i].Budget]
		if !known || !daily[list[i].Budget] {
			continue
		}
		if units.Period != f.Period { // it rolled over between the two reads
			delete(f.Of, string(alert.Period))
			continue
		}
		of := f.Of[string(alert.Period)]
		of.Spent = units.Units
		f.Of[string(alert.Period)] = of
	}
	return nil
}

// completeLimits sets how far the watched limits are used.
func (w *Watch) completeLimits(ctx context.Context, list []alert.Subject) error {
	var asked []bucket.Touched
	var into []func(alert.Units)
	for i := range list {
		s := &list[i]
		if !watches(s, alert.Limit) {
			continue
		}
		b, err := w.Budgets.Find(ctx, bucket.BudgetRef{ID: s.Budget})
		if err != nil {
			return err
		}
		for _, t := range s.Thresholds {
			if t.Of != alert.Limit {
				continue
			}
			touch := touchOf(b, t)
			if touch == nil {
				continue // the limit was removed: its threshold keeps its state
			}
			asked = append(asked, bucket.Touched{Budget: s.Budget, Touches: []limit.Touch{*touch}})
			into = append(into, func(u alert.Units) { s.Figures.Of[t.Units()] = u })
		}
	}
	if len(asked) == 0 {
		return nil
	}
	tallies, err := w.Tallies(ctx, asked)
	if err != nil {
		return err
	}
	for i := range asked {
		state := asked[i].Touches[0].State(tallies[i][0])
		into[i](alert.Units{Total: state.Max, Spent: state.Used, Left: max(state.Max-state.Used, 0),
			End: state.ResetAt})
	}
	return nil
}

// watches reports whether a threshold of a budget is about such units.
func watches(s *alert.Subject, of alert.Of) bool {
	for _, t := range s.Thresholds {
		if t.Of == of {
			return true
		}
	}
	return false
}

// logTransitions logs transitions that have a message.
func (w *Watch) logTransitions(ctx context.Context, subjects []alert.Subject,
	done map[int64][]alert.Transition) {
	for i := range subjects {
		s := &subjects[i]
		for _, t := range done[s.Budget] {
			if t.Top != t.State.Threshold {
				continue
			}
			text := "alert fires"
			if !t.State.Firing() {
				text = "alert is resolved"
			}
			w.Log.LogAttrs(ctx, slog.LevelInfo, text, slog.Int64("alert", t.State.ID),
				slog.String("tenant", s.Tenant), slog.String("budget", s.Name),
				slog.String("threshold", t.State.Threshold), slog.Any("also", t.Also),
				slog.String("reason", string(t.State.Reason)))
		}
	}
}

// pruneStep and pruneSteps bound what Prune deletes in a run.
const pruneStep, pruneSteps = 500, 20

// Pruner deletes old alerts and messages.
type Pruner interface {
	Prune(ctx context.Context, before time.Time, limit int) (int, error)
}

// Prune deletes a bounded number of alerts that were resolved before an instant, and messages from
// before it. Errors: Unavailable, OutcomeUnknown.
func Prune(ctx context.Context, p Pruner, before time.Time) error {
	for range pruneSteps {
		step, cancel := context.WithTimeout(ctx, stepTime)
		n, err := p.Prune(step, before, pruneStep)
		cancel()
		if err != nil || n < pruneStep {
			return err
		}
	}
	return nil
}
