package main

import (
	"fmt"
	"slices"
)

// rule is a condition that must not hold, and the text of the violation.
type rule struct {
	broken bool
	text   string
}

func first(rules ...rule) string {
	for _, r := range rules {
		if r.broken {
			return r.text
		}
	}
	return ""
}

func (s *State) check() string {
	counts := [2]int8{}
	for k := int8(0); int(k) < *ids; k++ {
		if v := s.checkID(k); v != "" {
			return v
		}
		if r := &s.row[0][k]; limited(k) && (r.state == used || r.state == held) {
			counts[r.window]++
		}
	}
	for i := int8(0); i < 2; i++ {
		if v := s.checkBudget(i); v != "" {
			return v
		}
	}
	return first(
		rule{s.bad != 0, problems[s.bad]},
		rule{
			feature["limit"] && counts != s.count,
			"limit: counter rows differ from the deductions counted in that window",
		},
	)
}

func (s *State) checkBudget(i int8) string {
	bud := &s.bud[i]
	sum, period1 := bud.F+bud.U+bud.X, bud.U-bud.late
	for b := int8(0); b < N; b++ {
		for e := int8(0); e <= s.b[b].cur && budgetOf(b) == i; e++ {
			x := &s.b[b].epoch[e]
			sum += x.O + x.S + x.R + x.H
			if x.period == 1 {
				period1 += x.O + x.S + x.R + x.H
			}
			S, H := int8(0), int8(0)
			for k := range s.row[i][:*ids] {
				switch r := &s.row[i][k]; {
				case r.b != b || r.e != e:
				case r.state == used:
					S += r.left
				case r.state == held:
					H += r.left
				}
			}
			if v := first(
				rule{min(x.O, x.S, x.R, x.H) < 0, "I1: a column below zero"},
				rule{x.status != open && x.O > 0, "stranded: a closed epoch has outstanding units"},
				rule{S != x.S || H != x.H, "audit 2: the columns differ from the rows"}); v != "" {
				return v
			}
		}
	}
	return first(
		rule{bud.U < 0 || sum != bud.T, "I1: conservation"},
		rule{
			i == 0 && bud.period == 1 && period1 != 1,
			"period 1 was funded with one unit and has more or less (unused: forfeit)",
		},
		rule{i == 0 && bud.T != 3+bud.appended-bud.shrunk, "append or shrink counted twice"},
	)
}

func (s *State) checkID(k int8) string {
	l0, l1 := legs(k)
	for i := range s.row {
		r, asked := &s.row[i][k], int8(0)
		for _, e := range r.back {
			asked += min(e, 1)
		}
		if v := first(
			rule{r.times > 1, "I4: id counted twice"},
			rule{s.told[k]&1 == 1 && r.state == used, "I4: a cancelled id took effect"},
			rule{s.told[k]&2 == 2 && i == 0 && l0 && r.state == absent && s.pend.op.kind == 0,
				"I7: accepted was said and there is no row"},
			rule{r.confirmed && r.state == returned && asked == 0, "holds: a confirmed hold expired"},
			rule{feature["parts"] && r.times > 0 && amount(k)-r.left > asked,
				"I5: more was rolled back than the rollback ids asked for"},
			rule{r.call > 0 && s.call[k][max(0, r.call-1)].refused,
				"contract: a call that was told a refusal or 503 took effect"}); v != "" {
			return v
		}
	}
	r0, r1 := &s.row[0][k], &s.row[1][k]
	unseen := false
	for j, e := range [...]int8{r0.entry, r0.back[0], r0.back[1]} {
		unseen = unseen || feature["feed"] && e > 0 && s.cursor[r0.b] >= e && s.seen[k]>>j&1 == 0
	}
	return first(
		rule{
			l0 && l1 && (r0.times != r1.times || r0.left != r1.left),
			"I6: one leg without the other",
		},
		rule{unseen, "I7: the reader's cursor is past an event that it has not seen"},
	)
}

// complete checks that every unit comes back if no more faults and requests occur.
func (s *State) complete(commit bool) string {
	if s.pend.op.kind != 0 {
		s.settle(commit)
	}
	s.rollover(0)
	for b := int8(0); b < N; b++ {
		if exists(b) {
			s.offline(b)
			for e := range s.b[b].epoch {
				s.sweep(b, int8(e))
			}
		}
	}
	s.rollover(0)
	for b := range s.b {
		for e := range s.b[b].epoch {
			if x := &s.b[b].epoch[e]; x.O > 0 || x.R > 0 {
				return "completion: units stay in O or R"
			}
		}
	}
	return s.check()
}

// serve reports whether the service's own steps can accept a further call of id k.
func (s State) serve(k int8) bool {
	l0, l1 := legs(k)
	at := [2]int8{-1, -1}
	for i, b := range []int8{0, 2} {
		if i == 0 && !l0 || i == 1 && !l1 {
			continue
		}
		if i == 0 && !s.mayTake(0, amount(k)) {
			b = 1
		}
		if !s.online(b, amount(k), E) {
			return false
		}
		at[i] = b
	}
	s.peekCount, s.paused = 1+s.count[s.clock], false
	return s.mayDeduct(k, at)
}

// verdict checks the state and its possible completions.
func (s *State) verdict() string {
	if v := s.check(); v != "" {
		return v
	}
	if n := *s; feature["shrink"] && n.pend.op.kind == 0 && n.bud[0].shrunk == 0 &&
		n.covered(0) > 0 &&
		!n.shrink() {
		return "I8: a shrink is refused although unsold units are there"
	}
	var before [K]bool
	for k := range before[:*ids] {
		before[k] = s.exhausted(int8(k))
	}
	for _, commit := range []bool{false, true} {
		n := *s
		if v := n.complete(commit); v != "" {
			return v
		}
		for k := int8(0); int(k) < *ids; k++ {
			if n.accepted(k) || n.row[0][k].state == void || n.row[1][k].state == void ||
				limited(k) && n.count[n.clock] >= n.max {
				continue
			}
			ok := n.serve(k)
			// What gives units and has not been answered may come after the refusal.
			late := commit && slices.Contains([]int8{rollback, confirm, appendT}, s.pend.op.kind)
			if ok && before[k] && !late {
				return fmt.Sprintf(
					"I3: budget_exhausted may be answered to id %d, and the service can serve it",
					k,
				)
			}
			if !ok && !n.exhausted(k) {
				return fmt.Sprintf("I3: id %d is covered by the sum and cannot be served", k)
			}
		}
	}
	return ""
}

func start() State {
	s := State{max: 2}
	s.bud[0] = Budget{T: 3, U: 3}
	if feature["period"] {
		s.bud[0].U, s.bud[0].F = 2, 1
	}
	if feature["legs"] {
		s.bud[1] = Budget{T: 2, U: 2}
	}
	if feature["adjust"] {
		s.bud[0].fresh = 1
	}
	for b := int8(0); b < N; b++ {
		if bud := &s.bud[budgetOf(b)]; exists(b) {
			n := max(1, bud.U/2)
			if feature["one"] {
				n = bud.U
			}
			n = min(n, bud.U)
			bud.U -= n
			s.newest(b).status = open
			s.newest(b).O += n
		}
	}
	s.view, s.peekMin = s.covered(0), s.covered(0)
	return s
}

func (s *State) show() string {
	t := ""
	for i, d := range s.bud {
		if d.T > 0 {
			t += fmt.Sprintf(" T%d F%d U%d X%d", d.T, d.F, d.U, d.X)
		}
		for b := int8(0); b < N && d.T > 0; b++ {
			if x := s.newest(b); budgetOf(b) == int8(i) && exists(b) {
				t += fmt.Sprintf(" | b%d e%d st%d O%d H%d S%d R%d", b, s.b[b].cur, x.status, x.O, x.H, x.S, x.R)
			}
		}
	}
	return t
}
