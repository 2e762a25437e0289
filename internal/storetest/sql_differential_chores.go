package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// diffAdjustment is an adjustment in words that mean the same to every database.
type diffAdjustment struct {
	id       string
	quantity int64
	deadline time.Duration
	pending  bool
}

var diffAdjustGoals = []diffGoal{
	{"append: done", always(func(g *diffRun) diffOp {
		return g.adjust(g.any(), int64(g.between(1, 60)))
	})},
	{"append: replayed", func(g *diffRun) (diffOp, bool) {
		b, a, found := g.adjusted(func(a diffAdjustment) bool { return a.quantity > 0 })
		return diffAdjust(b, a), found
	}},
	{"adjust: request_conflict", func(g *diffRun) (diffOp, bool) {
		b, a, found := g.adjusted(func(diffAdjustment) bool { return true })
		a.quantity++
		if a.quantity == 0 {
			a.quantity = 1
		}
		return diffAdjust(b, a), found
	}},
	{"adjust: invalid", always(func(g *diffRun) diffOp {
		b := g.any()
		total := g.ref.read(b.index).TotalQuantity
		return diffAdjust(b, diffAdjustment{id: "invalid", quantity: pick(g, []int64{
			budget.MaxAmount, budget.MaxAmount - total + 1, -total, -budget.MaxAmount})})
	})},
	{"shrink: done", func(g *diffRun) (diffOp, bool) {
		b, u := g.any(), int64(0)
		if f, err := g.ref.db.Figures(g.ref.ctx, g.ref.id(b.index)); err == nil {
			u = min(f.Undistributed+f.Unfunded, f.Total-f.PendingShrink-1)
		}
		if u < 1 {
			return g.adjust(b, int64(g.between(10, 40))), true
		}
		return g.adjust(b, -int64(g.between(1, int(min(u, 20))))), true
	}},
	{"shrink: replayed", func(g *diffRun) (diffOp, bool) {
		b, a, found := g.adjusted(func(a diffAdjustment) bool { return a.quantity < 0 && !a.pending })
		return diffAdjust(b, a), found
	}},
	{"shrink: pending", func(g *diffRun) (diffOp, bool) {
		b := g.any()
		f, err := g.ref.db.Figures(g.ref.ctx, g.ref.id(b.index))
		here := f.Undistributed + f.Unfunded
		free := here + f.Remaining + f.Unsettled + f.Returning - f.PendingShrink
		if most := min(free, f.Total-f.PendingShrink-1); err == nil && most > here {
			return g.adjust(b, -min(most, here+int64(g.between(1, 30)))), true
		}
		return diffOp{}, false
	}},
	{"shrink: continued", func(g *diffRun) (diffOp, bool) {
		b, a, found := g.adjusted(func(a diffAdjustment) bool { return a.pending })
		op := diffAdjust(b, a)
		run := op.run
		op.run = func(s *diffStore) diffAnswer {
			answer := run(s)
			answer.met = append(answer.met, "shrink: continued")
			return answer
		}
		return op, found
	}},
	{"adjust: amount_exceeds_remaining", func(g *diffRun) (diffOp, bool) {
		b, a, found := g.adjusted(func(a diffAdjustment) bool { return a.pending })
		if found && g.chance(3) {
			if late := a.deadline - g.elapsed(); late > 0 { // past its deadline
				g.quiet(diffOp{"wait for the deadline", func(s *diffStore) diffAnswer {
					s.clock.Advance(late)
					return diffAnswer{}
				}})
			}
			return diffAdjust(b, a), true
		}
		b = g.any()
		f, err := g.ref.db.Figures(g.ref.ctx, g.ref.id(b.index))
		here := f.Undistributed + f.Unfunded
		free := max(here, here+f.Remaining+f.Unsettled+f.Returning-f.PendingShrink)
		if err != nil || free+1 >= f.Total-f.PendingShrink {
			return diffOp{}, false // nothing is used yet
		}
		return diffAdjust(b, diffAdjustment{id: "too much", quantity: -free - 1,
			deadline: g.elapsed() + time.Hour}), true
	}},
}

// adjust makes an adjustment with a new id.
func (g *diffRun) adjust(b *diffBudget, quantity int64) diffOp {
	b.requests++
	a := diffAdjustment{id: fmt.Sprintf("a-%d", b.requests), quantity: quantity,
		deadline: g.elapsed() + time.Duration(g.between(1, 120))*time.Second}
	op := diffAdjust(b, a)
	run, first := op.run, true
	op.run = func(s *diffStore) diffAnswer {
		answer := run(s)
		if first && s == g.ref { // what the reference answered is what the sequence knows
			first = false
			a.pending = slices.Contains(answer.met, "shrink: pending")
			if a.pending || !slices.Contains(answer.met, "adjust: amount_exceeds_remaining") {
				b.adjustments = append(b.adjustments, a)
			}
		}
		return answer
	}
	return op
}

// adjusted finds an adjustment that was made. A pending one may have been settled since.
func (g *diffRun) adjusted(wanted func(diffAdjustment) bool) (*diffBudget, diffAdjustment, bool) {
	for range 12 {
		b := g.any()
		for _, i := range g.random.Perm(len(b.adjustments)) {
			if wanted(b.adjustments[i]) {
				return b, b.adjustments[i], true
			}
		}
	}
	return g.any(), diffAdjustment{}, false
}

func diffAdjust(b *diffBudget, a diffAdjustment) diffOp {
	verb := "append"
	if a.quantity < 0 {
		verb = "shrink"
	}
	return diffOp{fmt.Sprintf("adjust %d %+v", b.index, a), func(s *diffStore) diffAnswer {
		state, replayed, err := s.db.Adjust(s.ctx, bucket.Adjustment{
			Budget: s.id(b.index), RequestID: a.id, Quantity: a.quantity, Deadline: s.at(a.deadline)})
		switch {
		case err != nil:
			out := failure("adjust", err)
			out.text += " " + string(state)
			return out
		case replayed:
			return answer(verb+": replayed", "%s replayed", state)
		}
		return answer(verb+": "+string(state), "%s", state)
	}}
}

var diffLaneGoals = []diffGoal{
	{"lane: read", always(func(g *diffRun) diffOp {
		return diffLane(laneOf(g.random.IntN(diffLanes)))
	})},
	{"lane: made", always(func(g *diffRun) diffOp {
		g.names++
		op := diffLane(bucket.Lane{Instance: fmt.Sprint("spare-", g.names)})
		run := op.run
		op.run = func(s *diffStore) diffAnswer {
			answer := run(s)
			answer.met = []string{"lane: made"}
			return answer
		}
		return op
	})},
	{"next activation: moved", always(func(g *diffRun) diffOp { return g.nextActivation(0) })},
	{"next activation: not moved", always(func(g *diffRun) diffOp {
		return g.nextActivation(int64(g.between(1, 3)))
	})},
	{"next activation: instance_not_found", always(func(*diffRun) diffOp {
		return diffNext(bucket.Lane{Instance: "nowhere", Index: 7}, 1, "x")
	})},
	{"lanes: read", always(func(*diffRun) diffOp { return diffLaneRows() })},
	{"reached: noted", always(func(g *diffRun) diffOp {
		lanes := g.lanesOut()
		lanes = append(lanes, laneOf(g.random.IntN(diffLanes)), bucket.Lane{Instance: "nowhere"})
		g.do(diffReached(lanes))
		return diffLaneRows()
	})},
	{"declare down: true", always(func(g *diffRun) diffOp { return g.declareDown(0) })},
	{"declare down: false", always(func(g *diffRun) diffOp { return g.declareDown(1) })},
	{"declare down: instance_not_found", always(func(*diffRun) diffOp {
		return diffDeclare(bucket.Lane{Instance: "nowhere", Index: 7}, 0, 0)
	})},
	{"stale: read", always(func(g *diffRun) diffOp {
		lane, activation := laneOf(g.random.IntN(diffLanes)), int64(g.between(1, 300))
		return diffOp{fmt.Sprintf("stale %v %d", lane, activation), func(s *diffStore) diffAnswer {
			found, err := s.db.Stale(s.ctx, lane, activation, 1_000_000)
			if err != nil {
				return failure("stale", err)
			}
			return answer("stale: read", "%s", s.epochsOf(found))
		}}
	})},
	{"live: read", always(func(g *diffRun) diffOp {
		lane, limit := laneOf(g.random.IntN(diffLanes)), g.between(1, 6)
		after, found := g.place(func(*diffBudget, bucket.Bucket) bool { return true })
		if g.chance(4) {
			found = false
		}
		return diffOp{fmt.Sprintf("live %v after %v %v, %d", lane, after, found, limit),
			func(s *diffStore) diffAnswer {
				ref := bucket.Ref{}
				if found {
					ref = s.ref(after)
				}
				list, err := s.db.Live(s.ctx, lane, ref, limit)
				if err != nil {
					return failure("live", err)
				}
				return answer("live: read", "%s", s.epochsOf(list))
			}}
	})},
}

func diffLane(lane bucket.Lane) diffOp {
	return diffOp{fmt.Sprintf("lane %v", lane), func(s *diffStore) diffAnswer {
		row, err := s.db.Lane(s.ctx, lane, "run-1")
		if err != nil {
			return failure("lane", err)
		}
		return answer("lane: read", "%s", s.laneRow(row))
	}}
}

// laneRow shows a row; its instant counts from the start of the sequence.
func (s *diffStore) laneRow(row bucket.LaneRow) string {
	reached := time.Time{}
	if row.ReachedMS != 0 {
		reached = time.UnixMilli(row.ReachedMS).UTC()
	}
	return fmt.Sprintf("%v %s %d reached %s", row.Lane, row.Identity, row.Activation, s.since(reached))
}

func diffLaneRows() diffOp {
	return diffOp{"rows of all lanes", func(s *diffStore) diffAnswer {
		lanes := []bucket.Lane{{Instance: "nowhere"}}
		for i := range diffLanes {
			lanes = append(lanes, laneOf(i))
		}
		rows, err := s.db.LaneRows(s.ctx, lanes)
		if err != nil {
			return failure("lanes", err)
		}
		var texts []string
		for _, row := range rows {
			texts = append(texts, s.laneRow(row))
		}
		slices.Sort(texts)
		return answer("lanes: read", "%s", strings.Join(texts, "; "))
	}}
}

func diffReached(lanes []bucket.Lane) diffOp {
	return diffOp{fmt.Sprintf("reached %v", lanes), func(s *diffStore) diffAnswer {
		if err := s.db.Reached(s.ctx, lanes); err != nil {
			return failure("reached", err)
		}
		return answer("reached: noted", "noted")
	}}
}

// declareDown declares a lane down as it is, or as it was so many notes ago.
func (g *diffRun) declareDown(notes int64) diffOp {
	lane := laneOf(g.random.IntN(diffLanes))
	if g.chance(2) {
		return diffDeclare(lane, notes, 0)
	}
	return diffDeclare(lane, 0, notes)
}

func diffDeclare(lane bucket.Lane, notes, activations int64) diffOp {
	return diffOp{fmt.Sprintf("declare %v down as of %d notes and %d activations ago", lane, notes, activations),
		func(s *diffStore) diffAnswer {
			rows, err := s.db.LaneRows(s.ctx, []bucket.Lane{lane})
			if err != nil {
				return failure("declare down", err)
			}
			seen := rows[lane]
			seen.Lane, seen.ReachedMS, seen.Activation = lane, seen.ReachedMS-notes, seen.Activation-activations
			row, declared, err := s.db.DeclareDown(s.ctx, seen)
			if err != nil {
				return failure("declare down", err)
			}
			return answer(fmt.Sprintf("declare down: %v", declared), "%v %s", declared, s.laneRow(row))
		}}
}

// nextActivation moves a lane on from its activation, or from one that is off by that much.
func (g *diffRun) nextActivation(off int64) diffOp {
	lane := laneOf(g.random.IntN(diffLanes))
	row, err := g.ref.db.Lane(g.ref.ctx, lane, "")
	if err != nil {
		panic(err)
	}
	return diffNext(lane, row.Activation-off, fmt.Sprint("run-", g.number))
}

func diffNext(lane bucket.Lane, from int64, identity string) diffOp {
	return diffOp{fmt.Sprintf("next activation of %v from %d %s", lane, from, identity),
		func(s *diffStore) diffAnswer {
			row, err := s.db.NextActivation(s.ctx, lane, from, identity)
			switch {
			case err != nil:
				return failure("next activation", err)
			case row.Identity == identity:
				return answer("next activation: moved", "%s", s.laneRow(row))
			}
			return answer("next activation: not moved", "%s", s.laneRow(row))
		}}
}

var diffChoreGoals = []diffGoal{
	{"unfinished: read", always(func(g *diffRun) diffOp {
		return diffUnfinished(1_000_000, g.lanesOut()...)
	})},
	{"unfinished of: read", always(func(g *diffRun) diffOp {
		b := g.any()
		return diffOp{fmt.Sprintf("unfinished of %d", b.index), func(s *diffStore) diffAnswer {
			u, err := s.db.UnfinishedOf(s.ctx, s.id(b.index))
			if err != nil {
				return failure("unfinished of", err)
			}
			return answer("unfinished of: read", "%s", s.unfinished(u))
		}}
	})},
	{"run: begun", always(func(g *diffRun) diffOp {
		b := g.any()
		g.do(diffEndRun(b, b.runs))
		return g.beginRun(b, "run: begun")
	})},
	{"run: going on", always(func(g *diffRun) diffOp {
		b := g.any()
		g.do(g.beginRun(b, "run: begun"))
		return g.beginRun(b, "run: going on")
	})},
	{"run: ended", always(func(g *diffRun) diffOp {
		b := g.any()
		return diffEndRun(b, b.runs+int64(g.between(0, 1)))
	})},
}

func (g *diffRun) beginRun(b *diffBudget, result string) diffOp {
	units, ordinal := int64(g.between(1, 100)), g.random.IntN(len(b.made.lanes))
	return diffOp{fmt.Sprintf("begin run of %d, %d to bucket %d", b.index, units, ordinal),
		func(s *diffStore) diffAnswer {
			run, err := s.db.BeginRun(s.ctx, bucket.Run{Budget: s.id(b.index), Units: units,
				Target: s.ref(diffPlace{b.index, ordinal, 1})})
			if err != nil {
				return failure("run", err)
			}
			if s == g.ref {
				b.runs = run.Number
			}
			return answer(result, "#%d to %s %d", run.Number, s.refText(run.Target), run.Units)
		}}
}

func diffEndRun(b *diffBudget, number int64) diffOp {
	return diffOp{fmt.Sprintf("end run %d of %d", number, b.index), func(s *diffStore) diffAnswer {
		if err := s.db.EndRun(s.ctx, s.id(b.index), number, 5); err != nil {
			return failure("run", err)
		}
		return answer("run: ended", "ended")
	}}
}

func diffUnfinished(limit int, without ...bucket.Lane) diffOp {
	return diffOp{fmt.Sprintf("unfinished without %v", without), func(s *diffStore) diffAnswer {
		u, err := s.db.Unfinished(s.ctx, limit, without...)
		if err != nil {
			return failure("unfinished", err)
		}
		return answer("unfinished: read", "%s", s.unfinished(u))
	}}
}

func (s *diffStore) unfinished(u bucket.Unfinished) string {
	var texts []string
	for _, a := range u.Shrinks {
		texts = append(texts, fmt.Sprintf("shrink %s %q %d until %s", s.indexOf(a.Budget), a.RequestID,
			a.Quantity, s.since(a.Deadline)))
	}
	for _, id := range u.Returning {
		texts = append(texts, "returning "+s.indexOf(id))
	}
	for _, id := range u.Offline {
		texts = append(texts, "offline "+s.indexOf(id))
	}
	for _, r := range u.Runs {
		texts = append(texts, fmt.Sprintf("run %d of %s since %s", r.Number, s.indexOf(r.Budget), s.since(r.Since)))
	}
	slices.Sort(texts)
	return fmt.Sprintf("epochs %s\n   grants %s\n   fenced %s\n   %s", s.epochsOf(u.Epochs),
		s.grants(u.Grants), s.epochsOf(u.Fenced), strings.Join(texts, "; "))
}

// indexOf is a budget's place in the sequence.
func (s *diffStore) indexOf(id int64) string {
	if index, found := s.indices[id]; found {
		return fmt.Sprint(index)
	}
	return fmt.Sprintf("unknown budget %d", id)
}
