package alerting

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/series"
)

// evaluateEvery is the shortest interval at which a node evaluates thresholds by the snapshots,
// sampleEvery by samples.
const evaluateEvery, sampleEvery = time.Second, time.Minute

// Evaluator evaluates the thresholds of all budgets during the audit's pass over their snapshots.
// Every node has one. They decide the same, and the first node's transaction stays. Only one
// goroutine may use it.
type Evaluator struct {
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
func (e *Evaluator) Begin() {
	e.at = e.DB.Now().Truncate(time.Millisecond)
	e.due = e.at.Sub(e.judged) >= evaluateEvery
	e.sampled = e.due && e.at.Sub(e.looked) >= sampleEvery
	e.firing, e.failed = map[alert.Kind]int{}, false
}

// End is called when a pass is complete.
func (e *Evaluator) End() {
	if e.due {
		e.judged = e.at
	}
	if e.due && !e.failed {
		e.Observer.AlertsFiring(e.firing)
	}
	if e.sampled {
		e.looked = e.at
	}
}

// Page evaluates the thresholds of budgets that were just read, in id order. Errors: Unavailable,
// OutcomeUnknown; the next pass tries again.
func (e *Evaluator) Page(ctx context.Context, snapshots []bucket.Snapshot) error {
	if !e.due || len(snapshots) == 0 {
		return nil
	}
	err := e.page(ctx, snapshots)
	e.failed = e.failed || err != nil
	return err
}

func (e *Evaluator) page(ctx context.Context, snapshots []bucket.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	first, last := snapshots[0].ID, snapshots[len(snapshots)-1].ID
	own, err := e.thresholds(ctx, first, last)
	if err != nil {
		return err
	}
	firing, err := e.readFiring(ctx, first, last)
	if err != nil {
		return err
	}
	subjects := e.subjects(snapshots, own, firing)
	if err := e.complete(ctx, snapshots, subjects); err != nil {
		return err
	}
	var changed []alert.Subject
	for i := range subjects {
		s := &subjects[i]
		if len(alert.Decide(firing[s.Budget], s.Figures, s.Thresholds, e.at)) > 0 {
			changed = append(changed, *s)
		}
	}
	var done map[int64][]alert.Transition
	if len(changed) > 0 {
		if done, err = e.Evaluate(ctx, changed); err != nil {
			return err
		}
		e.logTransitions(ctx, changed, done)
	}
	e.count(subjects, firing, done)
	return nil
}

// count counts the thresholds of a page, and the alerts that fire after its transitions.
func (e *Evaluator) count(subjects []alert.Subject, firing map[int64][]alert.State,
	done map[int64][]alert.Transition) {
	evaluated := map[alert.Kind]int{}
	for i := range subjects {
		for _, t := range subjects[i].Thresholds {
			if e.sampled || t.Kind != alert.Projected && t.Kind != alert.StrandedShare {
				evaluated[t.Kind]++
			}
		}
	}
	e.Observer.AlertsEvaluated(evaluated)
	for _, states := range firing {
		for i := range states {
			e.firing[states[i].Kind()]++
		}
	}
	for _, transitions := range done {
		for i := range transitions {
			change := 1
			if !transitions[i].State.Firing() {
				change = -1
			}
			e.firing[transitions[i].State.Kind()] += change
		}
	}
}

// subjects returns the budgets that have thresholds or alerts, with the figures of their snapshots.
func (e *Evaluator) subjects(snapshots []bucket.Snapshot, own map[int64][]alert.Threshold,
	firing map[int64][]alert.State) []alert.Subject {
	out := make([]alert.Subject, 0, len(snapshots))
	for i := range snapshots {
		b := &snapshots[i]
		list, has := own[b.ID]
		if !has && e.Defaults {
			list = alert.Defaults()
		}
		if len(list) == 0 && len(firing[b.ID]) == 0 {
			continue
		}
		out = append(out, alert.Subject{Budget: b.ID, Tenant: b.Tenant, Name: b.Name,
			Thresholds: list, Figures: e.figures(b)})
	}
	return out
}

// figures returns the figures of a book alone.
func (e *Evaluator) figures(b *bucket.Snapshot) alert.Figures {
	f := &b.Figures
	out := alert.Figures{At: e.at, Quarantined: f.Quarantined, Of: map[string]alert.Units{},
		Ended: !b.EndAt.IsZero() && !e.at.Before(b.EndAt)}
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
	case !f.Period.OverAt(e.at):
		out.Period = f.Period.Number
		out.Of[string(alert.Period)] = alert.Units{Total: f.PeriodUnits, Left: left, End: f.Period.End}
	}
	return out
}

// complete reads figures that the snapshots do not have, for the budgets whose thresholds need
// them.
func (e *Evaluator) complete(ctx context.Context, snapshots []bucket.Snapshot,
	list []alert.Subject) error {
	if err := e.completePeriods(ctx, snapshots, list); err != nil {
		return err
	}
	if err := e.completeLimits(ctx, list); err != nil {
		return err
	}
	if !e.sampled || len(list) == 0 {
		return nil
	}
	first, last := snapshots[0].ID, snapshots[len(snapshots)-1].ID
	newest, err := e.LastSamples(ctx, first, last)
	if err != nil {
		return err
	}
	past, err := e.SamplesAt(ctx, first, last, e.at.Add(-series.RateWindow))
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
		if earlier.Budget == 0 || e.at.Sub(earlier.At) < series.RateWindow || total.Left <= 0 {
			continue // a shorter past tells no rate, and none is needed once nothing is left
		}
		p := series.Project([]series.Point{earlier.Point}, series.Point{At: e.at,
			Figures: series.Figures{Used: total.Spent, InBuckets: total.Left}}, time.Time{})
		f.Rate, f.HasRate = p.Rate, p.Outlook != series.NotKnown
	}
	return nil
}

// completePeriods sets what was spent of the open periods of daily budgets.
func (e *Evaluator) completePeriods(ctx context.Context, snapshots []bucket.Snapshot,
	list []alert.Subject) error {
	daily := map[int64]bool{}
	for i := range snapshots {
		daily[snapshots[i].ID] = snapshots[i].Type == budget.Daily
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
	spent, err := e.periodSpent(ctx, asked)
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

// periodSpent is what is used and held of a period, in minor units.
type periodSpent struct {
	Budget int64 `db:"budget_id"`
	Period int64 `db:"period"`
	Units  int64 `db:"spent"`
}

const selectPeriodSpent = `SELECT e.budget_id, u.period,
		SUM(e.used_quantity + e.held_quantity) AS spent
		FROM bucket_epoch e /*by bucket_epoch_units*/
		JOIN budget_management_bucket u ON u.id = e.budget_id AND u.period = e.period WHERE `

// periodSpent reads the units used and held in the open periods of budgets. The result has no
// element for a budget that has used nothing. Error: Unavailable.
func (s *Service) periodSpent(ctx context.Context, budgets []int64) (
	out map[int64]periodSpent, err error) {
	out = map[int64]periodSpent{}
	err = s.DB.Read(ctx, "alerts", func(r *engine.Reader) error {
		for chunk := range slices.Chunk(budgets, engine.ListChunk) {
			var found []periodSpent
			statement := r.Statement()
			statement.SQL(selectPeriodSpent)
			statement.Numbers("e.budget_id", chunk)
			statement.SQL(` GROUP BY e.budget_id, u.period`)
			if err := r.RowsOf(&found, statement); err != nil {
				return err
			}
			for _, row := range found {
				out[row.Budget] = row
			}
		}
		return nil
	})
	return out, err
}

// completeLimits sets how far the watched limits are used.
func (e *Evaluator) completeLimits(ctx context.Context, list []alert.Subject) error {
	var asked []bucket.Charged
	var into []func(alert.Units)
	for i := range list {
		s := &list[i]
		if !watches(s, alert.Limit) {
			continue
		}
		b, err := e.Budgets.Find(ctx, bucket.BudgetRef{ID: s.Budget})
		if err != nil {
			return err
		}
		for _, t := range s.Thresholds {
			if t.Of != alert.Limit {
				continue
			}
			charge := chargeOf(b, t)
			if charge == nil {
				continue // the limit was removed: its threshold keeps its state
			}
			asked = append(asked, bucket.Charged{Budget: s.Budget, Charges: []limit.Charge{*charge}})
			into = append(into, func(u alert.Units) { s.Figures.Of[t.Units()] = u })
		}
	}
	if len(asked) == 0 {
		return nil
	}
	usages, err := e.Usages(ctx, asked)
	if err != nil {
		return err
	}
	for i := range asked {
		state := asked[i].Charges[0].State(usages[i][0])
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
func (e *Evaluator) logTransitions(ctx context.Context, subjects []alert.Subject,
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
			e.Log.LogAttrs(ctx, slog.LevelInfo, text, slog.Int64("alert", t.State.ID),
				slog.String("tenant", s.Tenant), slog.String("budget", s.Name),
				slog.String("threshold", t.State.Threshold), slog.Any("also", t.Also),
				slog.String("reason", string(t.State.Reason)))
		}
	}
}
