package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// dimensionValue is a value of a dimension.
type dimensionValue struct{ dimension, value string }

// carrier is a deduction with the dimensions that it carried, also after it was archived. The model keeps
// no counters: it counts carriers each time, which is what a counter stands for.
type carrier struct {
	deduction  *ledger.Deduction
	dimensions map[string]string
	counts     map[string]int64
}

// carry enters a deduction under each of its values.
func (b *sqlBudget) carry(d *ledger.Deduction) {
	c := &carrier{d, ledger.ReadDimensions(d.Dimensions), ledger.ReadCounts(d.Counts)}
	for dimension, value := range c.dimensions {
		at := dimensionValue{dimension, value}
		b.values[at] = append(b.values[at], c)
	}
}

// carries reports whether the deduction carries a value of each dimension.
func (c *carrier) carries(dimensions, values []string) bool {
	for i, name := range dimensions {
		if value, ok := c.dimensions[name]; !ok || value != values[i] {
			return false
		}
	}
	return true
}

// compile prepares limits that were checked.
func compile(limits *budget.Limits) *limit.Set {
	set, err := limit.Compile(limits)
	if err != nil {
		panic(err)
	}
	return set
}

// judge decides the entries of one log by the budget's limits; nil where there are none. What it lets
// through is known to the log's later entries, and to others only once it is in the ledger. In store mode the
// store has judged, and told its caller, unless it is direct.
func (b *sqlBudget) judge(now time.Time, direct bool) ledger.Judge {
	if len(b.limits.List) == 0 || b.definition.Durability == budget.Store && !direct {
		return nil
	}
	var made []*carrier
	return func(r *ledger.Request, amount int64) ledger.Verdict {
		c := &carrier{dimensions: ledger.ReadDimensions(r.Dimensions), counts: ledger.ReadCounts(r.Counts),
			deduction: &ledger.Deduction{Amount: amount, CountedAt: now}}
		touches, missing := b.limits.Touches(amount, c.dimensions, c.counts)
		if missing != nil {
			return ledger.Verdict{Refusal: ledger.LimitRefusal{LimitState: missing.Absent(), Missing: true}.Figures()}
		}
		states, refusal := limit.Judge(touches, b.tallies(touches, now, made))
		if refusal != nil {
			return ledger.Verdict{Refusal: ledger.LimitRefusal{LimitState: *refusal}.Figures()}
		}
		made = append(made, c)
		return ledger.Verdict{States: states}
	}
}

// tallies counts the carriers of each touch's values.
func (b *sqlBudget) tallies(touches []limit.Touch, now time.Time, made []*carrier) []*limit.Tally {
	out := make([]*limit.Tally, len(touches))
	for i, touch := range touches {
		l := touch.Limit
		tally := limit.NewTally(l, touch.Key, now.UnixMilli())
		var events []limit.Event
		add := func(c *carrier) {
			kept, counted := l.Counted(c.deduction.Amount, c.deduction.RolledBack, c.counts)
			if counted && c.carries(l.Dimensions(), touch.Values) {
				events = append(events, limit.Event{AtMS: c.deduction.CountedAt.UnixMilli(), Kept: kept})
			}
		}
		for _, c := range b.values[dimensionValue{l.Dimensions()[0], touch.Values[0]}] {
			add(c)
		}
		for _, c := range made {
			add(c)
		}
		slices.SortStableFunc(events, func(a, b limit.Event) int { return cmp.Compare(a.AtMS, b.AtMS) })
		tally.Load(events)
		out[i] = &tally
	}
	return out
}

// CheckLimits judges asks. See bucket.Limits.
func (s *SQL) CheckLimits(ctx context.Context, budgetID int64, asks []bucket.LimitAsk) (
	[]bucket.LimitAnswer, error) {
	return transact(ctx, s, "CheckLimits", func(now time.Time) ([]bucket.LimitAnswer, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return nil, err
		}
		out := make([]bucket.LimitAnswer, len(asks))
		for i, ask := range asks {
			touches, missing := b.limits.Touches(ask.Amount, ask.Dimensions, ask.Counts)
			out[i] = bucket.AnswerLimits(touches, missing, b.tallies(touches, now, nil))
			out[i].Recorded = copied(b.deductions[ask.RequestID])
		}
		return out, nil
	})
}

// LoadLimits counts what the ledger has. See bucket.Limits.
func (s *SQL) LoadLimits(ctx context.Context, budgetID int64, touches []limit.Touch, at time.Time) (
	[]*limit.Tally, error) {
	return transact(ctx, s, "LoadLimits", func(time.Time) ([]*limit.Tally, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return nil, err
		}
		return b.tallies(touches, at, nil), nil
	})
}

// Usage adds up deductions. See bucket.Limits.
func (s *SQL) Usage(ctx context.Context, budgetID int64, dimensions map[string]string, from, to time.Time) (
	bucket.Usage, error) {
	return transact(ctx, s, "Usage", func(time.Time) (bucket.Usage, error) {
		var sum bucket.Usage
		b, err := s.find(budgetID)
		if err != nil {
			return sum, err
		}
		names, values, err := bucket.UsageOf(dimensions)
		if err != nil {
			return sum, err
		}
		for _, c := range b.values[dimensionValue{names[0], values[0]}] {
			at := c.deduction.CountedAt
			if c.carries(names, values) && !at.Before(from) && (to.IsZero() || at.Before(to)) {
				sum.Calls++
				sum.Amount += c.deduction.Amount
				sum.RolledBack += c.deduction.RolledBack
			}
		}
		return sum, nil
	})
}

// ExpireCounters removes nothing: the model has no counters. See bucket.Limits.
func (s *SQL) ExpireCounters(ctx context.Context, _ int) (int, error) {
	return transact(ctx, s, "ExpireCounters", func(time.Time) (int, error) { return 0, nil })
}
