package storetest

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

var diffLimitGoals = []diffGoal{
	{"commit: limit", always((*diffRun).commit)},
	{"change: limits", func(g *diffRun) (diffOp, bool) {
		b := g.any()
		limits := g.limits()
		if !b.made.inStore {
			b.limited = len(limits) > 0
		}
		return diffOp{fmt.Sprintf("change limits of %d to %+v", b.index, limits), func(s *diffStore) diffAnswer {
			d, err := s.db.Change(s.ctx, s.id(b.index), bucket.Change{Limits: &limits})
			if err != nil {
				return failure("change limits", err)
			}
			return answer("change: limits", "%s", s.definition(d))
		}}, !b.made.inStore
	}},
	{"limits: checked", func(g *diffRun) (diffOp, bool) { return diffCheck(g.any(), g.limitAsks()), true }},
	{"limits: expired", always(func(*diffRun) diffOp {
		return diffOp{"expire counters", func(s *diffStore) diffAnswer {
			if _, err := s.db.ExpireCounters(s.ctx, 100); err != nil {
				return failure("expire counters", err)
			}
			return answer("limits: expired", "")
		}}
	})},
	{"usage: added up", func(g *diffRun) (diffOp, bool) {
		b, dimensions := g.any(), g.dimensions()
		return diffOp{fmt.Sprintf("usage of %d by %v", b.index, dimensions), func(s *diffStore) diffAnswer {
			sum, err := s.db.Usage(s.ctx, s.id(b.index), dimensions, time.Time{}, time.Time{})
			if err != nil {
				return failure("usage", err)
			}
			return answer("usage: added up", "%+v", sum)
		}}, true
	}},
}

// limits draws a list, sometimes an empty one.
func (g *diffRun) limits() (list []budget.Limit) {
	for i := range g.between(0, 3) {
		l := []budget.Limit{
			daily("", "user", int64(g.between(1, 4))), lifetime("", "user", int64(g.between(5, 30))),
			sliding("", "user+ad", 90*time.Second, time.Duration(g.between(1, 40))*time.Second, int64(g.between(1, 4))),
			firstHit("", "ad", time.Duration(g.between(10, 200))*time.Second, int64(g.between(2, 6))),
		}[g.random.IntN(4)]
		l.Name, l.Optional, l.Enforce = fmt.Sprint("l", i), !g.chance(10), !g.chance(8)
		if l.Window.Kind == budget.WindowCalendar {
			l.Window.Every = pick(g, []budget.Every{budget.Minute, budget.Hour, budget.Day})
		}
		if l.Dimension == "user" && g.chance(2) {
			l.Overrides = []budget.Override{{Value: "u0", Max: 2}, {Value: "u1", Exempt: true}}
		}
		list = append(list, l)
	}
	return list
}

func (g *diffRun) dimensions() map[string]string {
	return dims("user", fmt.Sprint("u", g.random.IntN(5)), "ad", fmt.Sprint("a", g.random.IntN(3)))
}

func (g *diffRun) limitAsks() (asks []bucket.LimitAsk) {
	for range g.between(1, 6) {
		asks = append(asks, bucket.LimitAsk{Amount: int64(g.between(1, 9)), Dimensions: g.dimensions()})
	}
	return asks
}

func diffCheck(b *diffBudget, asks []bucket.LimitAsk) diffOp {
	return diffOp{fmt.Sprintf("check limits of %d: %+v", b.index, asks), func(s *diffStore) diffAnswer {
		answers, err := s.db.CheckLimits(s.ctx, s.id(b.index), asks)
		if err != nil {
			return failure("limits", err)
		}
		text := ""
		for _, a := range answers {
			text += "\n    " + s.states(a.States)
			for _, one := range []*budget.LimitState{a.Refusal, a.Missing} {
				if one != nil {
					text += " refused " + s.states([]budget.LimitState{*one})
				}
			}
		}
		return answer("limits: checked", "%s", text)
	}}
}

// states tells how far limits are used.
func (s *diffStore) states(states []budget.LimitState) (text string) {
	for _, state := range states {
		at := state.ResetAt
		state.ResetAt = time.Time{}
		text += fmt.Sprintf(" %+v until %s", state, s.since(at))
	}
	return text
}

// figures tells what a refusal reports.
func (s *diffStore) figures(d *ledger.Duplicate) string {
	r, ok := ledger.ReadLimitRefusal(d.Figures)
	if !ok {
		return d.Figures
	}
	return fmt.Sprint(s.states([]budget.LimitState{r.LimitState}), r.Missing)
}

// limitsText tells limits from each other.
func (s *diffStore) limitsText(limits *budget.Limits) string {
	if limits == nil {
		return ""
	}
	text := fmt.Sprintf(" limits %d", limits.Version)
	for _, l := range limits.List {
		text += fmt.Sprintf(" %s since %d %s", limit.Encode(l), l.ChangedVersion, s.since(l.ChangedAt))
	}
	return text
}
