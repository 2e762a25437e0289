package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

var diffPeriodGoals = []diffGoal{
	{"roll over: next period", (*diffRun).rollOver},
	{"roll over: several", func(g *diffRun) (diffOp, bool) {
		return g.rollOverAfter(func(p budget.Period) time.Duration {
			return min(p.End.Sub(p.Start), 10*time.Minute) * time.Duration(g.between(1, 3))
		})
	}},
	{"roll over: the last", func(g *diffRun) (diffOp, bool) {
		b := g.any()
		if d := g.ref.read(b.index); d.EndAt.IsZero() || d.Period.Over {
			if b.made.start < g.elapsed() {
				g.do(diffEnd(b, g.elapsed()+time.Duration(g.between(1, 20))*time.Second))
			}
			return diffOp{}, false
		} else if until := d.EndAt.Sub(g.ref.db.Now()); until > 0 && until < 5*time.Minute {
			g.quiet(diffWait(until))
		}
		return diffRollOver(b.index, g.lanesOut()), true
	}},
	{"roll over: begun again", func(g *diffRun) (diffOp, bool) {
		b := g.any()
		for _, one := range g.active {
			if g.ref.read(one.index).Period.Over {
				b = one
			}
		}
		if b.made.start >= g.elapsed() {
			return diffOp{}, false
		}
		if !g.ref.read(b.index).Period.Over {
			g.do(diffEnd(b, g.elapsed()))
			g.do(diffRollOver(b.index, nil))
		}
		g.do(diffEnd(b, g.elapsed()+time.Duration(g.between(1, 600))*time.Second))
		return also("roll over: begun again", diffRollOver(b.index, g.lanesOut())), true
	}},
	{"roll over: nothing", always(func(g *diffRun) diffOp {
		b := g.any()
		g.quiet(diffRollOver(b.index, nil))
		return diffRollOver(b.index, nil)
	})},
	{"over: some", func(g *diffRun) (diffOp, bool) {
		if b, found := g.endingSoon(0); found {
			g.quiet(diffWait(g.ref.read(b.index).Period.End.Sub(g.ref.db.Now())))
		}
		return diffOver(g.between(1, 1_000)), true
	}},
	{"change: rule", func(g *diffRun) (diffOp, bool) {
		b := g.any()
		if b.made.rule.Kind == "" {
			return diffOp{}, false
		}
		return g.changeRule(b), true
	}},
	{"change: rule, the period ends", func(g *diffRun) (diffOp, bool) {
		b := g.any()
		if b.made.rule.Kind == "" {
			return diffOp{}, false
		}
		op := g.changeRule(b)
		run := op.run
		op.run = func(s *diffStore) diffAnswer {
			before := s.read(b.index)
			answer := run(s)
			if s.read(b.index).Period.End.Before(before.Period.End) {
				answer.met = append(answer.met, "change: rule, the period ends")
			}
			return answer
		}
		return op, true
	}},
}

// also makes an operation count as one more result.
func also(result string, op diffOp) diffOp {
	run := op.run
	op.run = func(s *diffStore) diffAnswer {
		answer := run(s)
		if !slices.Contains(answer.met, "roll over: nothing") {
			answer.met = append(answer.met, result)
		}
		return answer
	}
	return op
}

// daily makes a definition a daily one, with periods that end within minutes, or some days later.
func (g *diffRun) daily(d *diffDefinition) {
	d.rule, d.late = g.rule(), pick(g, []budget.Where{"", budget.ToTotal, budget.Next, budget.Forfeit})
	d.zone = pick(g, []string{"", "", "Europe/Berlin"})
	d.inStore = g.chance(4)
	if d.end == 0 && (d.rule.Quantity == 0 || g.chance(3)) {
		d.end = g.elapsed() + time.Duration(g.between(60, 100_000))*time.Second
	}
}

// rule makes a rule.
func (g *diffRun) rule() budget.Rule {
	unused := pick(g, []budget.Where{"", budget.Spread, budget.Next, budget.Forfeit})
	switch g.random.IntN(8) {
	case 0:
		return budget.Rule{Kind: budget.Free}
	case 1:
		return budget.Rule{Kind: budget.Calendar, Every: pick(g, []budget.Every{budget.Hour, budget.Day, budget.Week,
			budget.Month}), Unused: unused}
	case 2:
		return budget.Rule{Kind: budget.Calendar, Every: pick(g, []budget.Every{budget.Hour, budget.Day}),
			Quantity: int64(g.between(20, 1_000)), Unused: unused}
	}
	rule := budget.Rule{Kind: budget.Windows, Unused: unused}
	const minutes = 24 * 60
	clock := func(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }
	// Around what the clock shows, in UTC; where it shows something else most windows are hours away.
	at := int(g.ref.db.Now().Sub(diffStart)/time.Minute)%minutes - g.between(0, 4)
	for at = max(at, 0); at < minutes-5 && len(rule.Windows) < 60; {
		to := at + g.between(1, 4)
		rule.Windows = append(rule.Windows, budget.Window{From: clock(at), To: clock(to),
			Quantity: int64(g.between(20, 800))})
		at = to + g.between(0, 1)*g.between(0, 3)
	}
	if len(rule.Windows) == 0 {
		rule.Windows = []budget.Window{{From: "00:00", To: "24:00", Quantity: 500}}
	}
	return rule
}

func diffWait(d time.Duration) diffOp {
	return diffOp{fmt.Sprintf("wait %v", d), func(s *diffStore) diffAnswer {
		s.clock.Advance(d)
		return diffAnswer{}
	}}
}

// ending finds a daily budget whose period is over, or ends in a few minutes.
func (g *diffRun) endingSoon(over time.Duration) (*diffBudget, bool) {
	const soon = 4 * time.Minute
	for _, i := range g.random.Perm(len(g.active)) {
		b := g.active[i]
		p := g.ref.read(b.index).Period
		if until := p.End.Sub(g.ref.db.Now()); b.made.rule.Kind != "" && !p.Over && !p.End.IsZero() && until > over && until < soon {
			return b, true
		}
	}
	return nil, false
}

// rollOver waits until a period is over, mostly rolls over those that are, too, and rolls it over.
func (g *diffRun) rollOver() (diffOp, bool) {
	return g.rollOverAfter(func(budget.Period) time.Duration { return 0 })
}

// rollOverAfter rolls a budget over so long after its period has ended.
func (g *diffRun) rollOverAfter(late func(budget.Period) time.Duration) (diffOp, bool) {
	b, found := g.endingSoon(-time.Hour)
	if !found {
		if g.chance(3) {
			return g.create(), true
		}
		return diffOp{}, false
	}
	p := g.ref.read(b.index).Period
	if until := p.End.Sub(g.ref.db.Now()); until > 0 {
		g.quiet(diffRollOver(b.index, nil)) // not yet
		g.quiet(diffWait(until + min(late(p), 10*time.Minute)))
	}
	if g.chance(3) {
		g.do(g.commit()) // what comes too late
	}
	op := diffRollOver(b.index, g.lanesOut())
	if !g.chance(4) {
		g.rollOverSome()
	}
	return op, true
}

// rollOverSome rolls over most of the budgets that are due, and opens their epochs.
func (g *diffRun) rollOverSome() {
	for _, b := range g.active {
		if p := g.ref.read(b.index).Period; p.OverAt(g.ref.db.Now()) && !p.Over && !g.chance(5) {
			g.do(diffRollOver(b.index, nil))
			for ordinal, shard := range g.ref.read(b.index).Buckets {
				if shard.Epoch.Status.Live() && g.ref.books[diffPlace{b.index, ordinal, shard.Epoch.Number}] == nil {
					g.do(g.markOpen(diffPlace{b.index, ordinal, shard.Epoch.Number}))
				}
			}
		}
	}
}

func diffRollOver(index int, without []bucket.Lane) diffOp {
	return diffOp{fmt.Sprintf("roll over %d without %v", index, without), func(s *diffStore) diffAnswer {
		before := s.read(index).Period
		done, err := s.db.RollOver(s.ctx, s.id(index), without...)
		if err != nil {
			return failure("roll over", err)
		}
		if !done.Done {
			return answer("roll over: nothing", "%s", s.period(done.Period))
		}
		out := s.handout("roll over", done.Handout)
		out.met = []string{"roll over: next period"}
		switch {
		case done.Period.Over:
			out.met = append(out.met, "roll over: the last")
		case done.Period.Number > before.Number+1:
			out.met = append(out.met, "roll over: several")
		}
		out.text += fmt.Sprintf("\n   %s\n   %s", s.period(done.Period), s.budget(s.read(index)))
		return out
	}}
}

func diffOver(limit int) diffOp {
	return diffOp{fmt.Sprintf("over, at most %d", limit), func(s *diffStore) diffAnswer {
		ids, err := s.db.Over(s.ctx, limit)
		if err != nil {
			return failure("over", err)
		}
		text, result := "", "over: none"
		for _, id := range ids {
			text, result = text+s.indexOf(id)+" ", "over: some"
		}
		return answer(result, "%s", text)
	}}
}

// changeRule gives a daily budget another rule, or the same with another quantity.
func (g *diffRun) changeRule(b *diffBudget) diffOp {
	change, rule := bucket.Change{}, g.rule()
	if now := g.ref.read(b.index).Rule; now.Kind == budget.Calendar && now.Quantity > 0 && g.chance(2) {
		rule = *now
		rule.Quantity = int64(g.between(1, 2*int(now.Quantity)))
	} else if now.Kind == budget.Windows && g.chance(2) {
		rule = *now
		rule.Windows = append([]budget.Window(nil), rule.Windows...)
		for i := range rule.Windows {
			rule.Windows[i].Quantity = int64(g.between(1, 2*int(rule.Windows[i].Quantity)))
		}
	}
	change.Rule = &rule
	if g.chance(3) {
		late := pick(g, []budget.Where{budget.ToTotal, budget.Next, budget.Forfeit})
		change.LateRefund = &late
	}
	return diffOp{fmt.Sprintf("change %d to %s, late %v", b.index, ruleText(&rule), change.LateRefund != nil),
		func(s *diffStore) diffAnswer {
			d, err := s.db.Change(s.ctx, s.id(b.index), change)
			if err != nil {
				return failure("change", err)
			}
			return answer("change: rule", "%s %s", s.definition(d), s.budget(s.read(b.index)))
		}}
}
