package storetest

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// diffGoal is a result that a sequence must show, and how to try for it. try returns false where
// there is nothing to try it on.
type diffGoal struct {
	result string
	try    func(g *diffRun) (diffOp, bool)
}

// diffGoals are all results of all verbs.
var diffGoals []diffGoal

func init() {
	for _, goals := range [][]diffGoal{
		diffDefinitionGoals, diffCommitGoals, diffLookupGoals, diffReturnGoals, diffGrantGoals,
		diffEndGoals, diffPeriodGoals, diffAdjustGoals, diffLaneGoals, diffChoreGoals,
		diffLimitGoals,
	} {
		diffGoals = append(diffGoals, goals...)
	}
}

// always makes a goal of an operation that is always possible.
func always(op func(g *diffRun) diffOp) func(g *diffRun) (diffOp, bool) {
	return func(g *diffRun) (diffOp, bool) { return op(g), true }
}

const diffLanes = 6

// diffDefinition is a definition in words that mean the same to every database.
type diffDefinition struct {
	tenant, name string
	total        int64
	sharding     int64
	cnt          int
	start, end   time.Duration // after the start of the run; 0: none
	lanes        []bucket.Lane
	// rule is that of a daily budget; of no kind: promo.
	rule    budget.Rule
	late    budget.Where
	zone    string
	inStore bool
	limits  []budget.Limit
}

func (d diffDefinition) of(s *diffStore) budget.Definition {
	out := budget.Definition{
		Tenant: d.tenant, Name: d.name, Unit: budget.Count, Durability: budget.Ledger, Type: budget.Promo,
		TotalQuantity: d.total, BucketQuantity: len(d.lanes), ShardingQuantity: d.sharding,
		AdjustCnt: d.cnt, StartAt: s.at(d.start), EndAt: s.at(d.end), Timezone: d.zone, LateRefund: d.late,
	}
	if d.rule.Kind != "" {
		out.Type, out.Rule = budget.Daily, &d.rule
	}
	if d.inStore {
		out.Durability = budget.Store
	} else if len(d.limits) > 0 {
		out.Limits = &budget.Limits{List: d.limits}
	}
	return out
}

var diffDefinitionGoals = []diffGoal{
	{"create: created", always((*diffRun).create)},
	{"create: existing", always(func(g *diffRun) diffOp { return diffCreate(pick(g, g.all).made) })},
	{"create: name_taken", always(func(g *diffRun) diffOp {
		d := pick(g, g.all).made
		switch g.random.IntN(5) {
		case 0:
			d.total++
		case 1:
			d.cnt++
		case 2:
			d.end += time.Hour
		case 3:
			d.zone += "UTC" // "" is UTC too, but another definition
		default:
			d.lanes = append(d.lanes[:len(d.lanes):len(d.lanes)], laneOf(0))
		}
		return diffCreate(d)
	})},
	{"create: unavailable", always(func(g *diffRun) diffOp {
		d := g.definition()
		d.lanes = append(d.lanes, bucket.Lane{Instance: "nowhere", Index: g.random.IntN(3)})
		return diffCreate(d)
	})},
	{"change: changed", always(func(g *diffRun) diffOp { return g.change(g.any(), 0) })},
	{"change: version_conflict", always(func(g *diffRun) diffOp { return g.change(g.any(), 1) })},
	{"change: invalid", always(func(g *diffRun) diffOp {
		b, bad := g.any(), int64(-1)
		return diffOp{fmt.Sprintf("change %d to a sharding quantity of -1", b.index),
			func(s *diffStore) diffAnswer {
				_, err := s.db.Change(s.ctx, s.id(b.index), bucket.Change{ShardingQuantity: &bad})
				return failure("change", err)
			}}
	})},
	{"budget: found", always(func(g *diffRun) diffOp { return diffRead(g.any().index) })},
	{"budget: by name", always(func(g *diffRun) diffOp {
		d := pick(g, g.all).made
		if g.chance(2) {
			d.name += "-none"
		}
		return diffOp{"budget " + d.name, func(s *diffStore) diffAnswer {
			b, err := s.db.Budget(s.ctx, bucket.BudgetRef{Tenant: d.tenant, Name: d.name})
			if err != nil {
				a := failure("budget", err)
				a.met = append(a.met, "budget: by name")
				return a
			}
			return answer("budget: by name", "%s", s.budget(b))
		}}
	})},
	{"budgets: page", always(func(g *diffRun) diffOp {
		after := pick(g, g.all).index
		statuses := []budget.Status{"", budget.Pending, budget.Effective, budget.Paused, budget.Expired}
		page := bucket.Page{Size: g.between(1, 8), Status: pick(g, statuses),
			Tenant: pick(g, []string{"", "games", "none"})}
		return diffOp{fmt.Sprintf("budgets after %d %+v", after, page), func(s *diffStore) diffAnswer {
			mine := page
			mine.AfterID = s.id(after)
			found, err := s.db.Budgets(s.ctx, mine)
			if err != nil {
				return failure("budgets", err)
			}
			text := ""
			for _, d := range found {
				text += s.definition(d) + "; "
			}
			return answer("budgets: page", "%s", text)
		}}
	})},
	{"versions: read", always(func(g *diffRun) diffOp {
		some := []int{-1, g.any().index, g.any().index}
		return diffOp{fmt.Sprintf("versions %v", some), func(s *diffStore) diffAnswer {
			found, err := s.db.Versions(s.ctx, []int64{s.id(some[0]), s.id(some[1]), s.id(some[2])})
			if err != nil {
				return failure("versions", err)
			}
			text := fmt.Sprintf("%d found", len(found))
			for _, index := range some {
				v := found[s.id(index)]
				// How much a list's version grows is nobody's concern, only that it does.
				text += fmt.Sprintf(" %d: %d, grown %v;", index, v.Definition, v.List > s.lists[index])
				s.lists[index] = v.List
			}
			return answer("versions: read", "%s", text)
		}}
	})},
	{"no such budget", always((*diffRun).nobody)},
	{"now", always((*diffRun).advance)},
}

// advance moves the clock.
func (g *diffRun) advance() diffOp {
	g.rollOverSome()
	d := time.Duration(g.between(1, 40_000)) * time.Millisecond
	return diffOp{fmt.Sprintf("advance %v", d), func(s *diffStore) diffAnswer {
		s.clock.Advance(d)
		return answer("now", "%s", s.since(s.db.Now()))
	}}
}

// elapsed is how far the clock has moved.
func (g *diffRun) elapsed() time.Duration { return g.ref.clock.Now().Sub(g.ref.start) }

// definition makes a definition with a new name.
func (g *diffRun) definition() diffDefinition {
	g.names++
	d := diffDefinition{
		tenant: pick(g, []string{"default", "default", "games"}), name: fmt.Sprintf("b-%d", g.names),
		total: int64(g.between(300, 4_000)),
	}
	for range g.between(1, 5) {
		d.lanes = append(d.lanes, laneOf(g.random.IntN(diffLanes)))
	}
	if g.chance(20) {
		d.total = int64(g.between(1, 4))
	}
	if g.chance(3) {
		d.sharding = int64(g.between(10, 60))
	}
	if g.chance(3) {
		d.cnt = g.between(1, 6)
	}
	if g.chance(5) {
		d.start = g.elapsed() + time.Duration(g.between(-60, 60))*time.Second
	}
	if g.chance(5) {
		d.end = g.elapsed() + time.Duration(g.between(61, 300))*time.Second
	}
	if g.chance(2) {
		g.daily(&d)
	}
	if g.chance(3) {
		d.limits = g.limits()
	}
	return d
}

// create makes a budget that replaces one of those that operations are about.
func (g *diffRun) create() diffOp {
	made := g.definition()
	b := &diffBudget{index: len(g.all), made: made, limited: len(made.limits) > 0}
	g.all = append(g.all, b)
	if len(g.active) < activeBudgets {
		g.active = append(g.active, b)
		return diffCreate(made)
	}
	i := g.random.IntN(len(g.active))
	g.retire(g.active[i])
	g.active[i] = b
	return diffCreate(made)
}

// retire leaves nothing of a budget unfinished that could be finished, and compares its accounts.
func (g *diffRun) retire(b *diffBudget) {
	for ordinal, shard := range g.ref.read(b.index).Buckets {
		if shard.Epoch.Status.Live() {
			g.do(diffLose(diffPlace{b.index, ordinal, shard.Epoch.Number}))
		}
	}
	g.do(diffSweep(b.index))
	for _, a := range b.adjustments {
		if a.pending && g.ref.pending(b.index) {
			g.do(diffAdjust(b, a))
		}
	}
	g.do(diffAccounts(b.index))
}

// pending reports whether shrinks of a budget wait for units.
func (s *diffStore) pending(index int) bool {
	f, err := s.db.Figures(s.ctx, s.id(index))
	return err == nil && f.PendingShrink > 0
}

func diffCreate(d diffDefinition) diffOp {
	return diffOp{fmt.Sprintf("create %+v", d), func(s *diffStore) diffAnswer {
		b, created, err := s.db.Create(s.ctx, d.of(s), d.lanes)
		if err != nil {
			return failure("create", err)
		}
		if !created {
			return answer("create: existing", "%s", s.budget(b))
		}
		ids := diffIDs{id: b.ID}
		for i := range b.Buckets {
			ids.buckets = append(ids.buckets, b.Buckets[i].ID)
			s.buckets[b.Buckets[i].ID] = diffPlace{budget: len(s.budgets), ordinal: i}
		}
		s.lists[len(s.budgets)], s.indices[b.ID] = b.ListVersion, len(s.budgets)
		s.budgets = append(s.budgets, ids)
		return answer("create: created", "%s", s.budget(b))
	}}
}

// change changes something, from a version that is off by that much where it is not 0.
func (g *diffRun) change(b *diffBudget, off int64) diffOp {
	change := bucket.Change{}
	if off != 0 || g.chance(2) {
		change.IfVersion = g.ref.read(b.index).Version + off
	}
	paused, sharding, cnt := g.chance(4), int64(g.between(0, 60)), g.between(0, 9)
	end := time.Duration(0)
	if g.chance(2) {
		change.Paused = &paused
	}
	if g.chance(2) {
		change.ShardingQuantity = &sharding
	}
	if g.chance(2) {
		change.AdjustCnt = &cnt
	}
	setEnd := g.chance(2)
	if g.chance(2) {
		end = g.elapsed() + time.Duration(g.between(1, 300))*time.Second
	}
	if b.made.start >= end { // an end before the start is refused; keep it out
		end = 0
	}
	what := fmt.Sprintf("change %d from version %d: paused %v, sharding %d, cnt %d, end %v (%v)",
		b.index, change.IfVersion, paused, sharding, cnt, end, setEnd)
	return diffOp{what, func(s *diffStore) diffAnswer {
		mine := change
		if setEnd {
			at := s.at(end)
			mine.EndAt = &at
		}
		d, err := s.db.Change(s.ctx, s.id(b.index), mine)
		if err != nil {
			return failure("change", err)
		}
		return answer("change: changed", "%s", s.definition(d))
	}}
}

func diffRead(index int) diffOp {
	return diffOp{fmt.Sprintf("read %d", index), func(s *diffStore) diffAnswer {
		return answer("budget: found", "%s", s.budget(s.read(index)))
	}}
}

// nobody calls a verb about a budget that does not exist.
func (g *diffRun) nobody() diffOp {
	verb := g.random.IntN(14)
	other := g.any().index
	return diffOp{fmt.Sprintf("verb %d about no budget", verb), func(s *diffStore) diffAnswer {
		id := s.id(-1)
		ref := s.ref(diffPlace{other, 0, 1})
		var err error
		switch verb {
		case 0:
			_, err = s.db.Budget(s.ctx, bucket.BudgetRef{ID: id})
		case 1:
			_, err = s.db.Change(s.ctx, id, bucket.Change{})
		case 2:
			_, err = s.db.Judge(s.ctx, id, []string{"a"})
		case 3:
			_, _, err = s.db.Rollback(s.ctx, bucket.RollbackOrder{Budget: id, RequestID: "a"})
		case 4:
			_, err = s.db.Cancel(s.ctx, id, "a")
		case 5:
			_, err = s.db.Sweep(s.ctx, id)
		case 6:
			_, err = s.db.Apply(s.ctx, id, bucket.Want{Ref: ref, Need: 1, Units: 1})
		case 7:
			_, err = s.db.HandOut(s.ctx, id)
		case 8:
			_, err = s.db.Reopen(s.ctx, id, ref.Bucket)
		case 9:
			_, err = s.db.Ending(s.ctx, id, ref, bucket.ByService, false)
		case 10:
			_, _, err = s.db.Adjust(s.ctx, bucket.Adjustment{Budget: id, RequestID: "a", Quantity: 1})
		case 12:
			_, err = s.db.RollOver(s.ctx, id)
		case 11:
			_, err = s.db.BeginRun(s.ctx, bucket.Run{Budget: id, Target: ref, Units: 1})
		default:
			_, err = s.db.CloseEpoch(s.ctx, id, ref, ledger.Entry{}, nil)
		}
		a := failure("nobody", err)
		if budget.Is(err, budget.BudgetNotFound) {
			a.met = []string{"no such budget"}
		}
		return a
	}}
}
