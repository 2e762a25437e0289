package main

import (
	"fmt"
	"math/bits"
)

func (s *State) sold() int8 {
	n := s.other
	for k := range s.out {
		n += s.out[k]
	}
	return n
}

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
	sum, S := s.U+s.Q+s.other, s.other
	for e := range s.epoch {
		x := &s.epoch[e]
		if v := first(
			rule{min(x.O, x.S, x.R) < 0, "I1: a column below zero"},
			rule{x.O > 0 && !x.alive(), "stranded: an ended epoch has outstanding units"}); v != "" {
			return v
		}
		sum += x.O + x.S + x.R
		S += x.S
	}
	if v := first(
		rule{s.bad != 0, problems[s.bad]},
		rule{min(s.U, s.Q) < 0 || int(sum) != *total, "I1: conservation"},
		rule{s.partition[0].act > s.faults, "availability: the memory is given up without a fault"},
		rule{int(s.sold()) > *total+int(s.released+s.assumed), "I2: oversell"}); v != "" || s.forgot {
		return v
	}
	counted := int8(0)
	for k := int8(0); int(k) < *ids; k++ {
		back := s.times[k]*amount(k) - s.out[k]
		if v := first(
			rule{s.times[k] > 1, "I4: an id took effect twice, memory kept"},
			rule{back > part(k)*int8(bits.OnesCount8(s.asked[k])),
				"I5: more rolled back than the rollback ids asked for"}); v != "" {
			return v
		}
		if limited(k) && s.out[k] > 0 {
			counted++
		}
	}
	m := &s.mem[s.row().partition]
	if feature["limit"] && (counted > 1 || counted != m.count && m.e > 0) {
		return "limit: the counter differs from what is counted"
	}
	return s.checkSums(S)
}

// checkSums compares SQL with the memory, as long as nothing was lost.
func (s *State) checkSums(S int8) string {
	if s.gap || s.partition[0].act > 0 {
		return ""
	}
	out := int8(0) // rolled back in a store, but not yet in SQL and so not answered
	for i := range s.mem {
		m := &s.mem[i]
		if m.e > 0 && s.epoch[m.e-1].alive() {
			x := &s.epoch[m.e-1]
			if m.taken < x.taken || m.given < x.given {
				return "audit 3: SQL knows more than the store"
			}
			out += m.given - x.given
		}
	}
	for e := range s.epoch {
		out += max(s.mem[0].late[e], s.mem[1].late[e]) - s.epoch[e].late
	}
	if mut("answerearly") {
		out = 0
	}
	if S > s.sold()+out {
		return "I3: a rollback was answered and the sum does not have it"
	}
	return ""
}

// complete checks that every epoch ends and every accepted rollback reaches SQL if no more faults
// and calls occur.
func (s *State) complete() string {
	for moved := true; moved; {
		moved = s.giveUp()
		for l := int8(0); l < 2; l++ {
			moved = s.verify(l) || moved
			moved = s.settle(l) || moved
			moved = s.marker(l, s.partition[l].act) || moved
		}
		moved = s.lostAlone() || moved
		x := s.row()
		m := &s.mem[x.partition]
		if x.status == opening || x.status == open {
			x.status = closing
			moved = true
		}
		if x.status == closing && s.runs(m, x.partition, x.act) {
			x.answer = s.close(m, s.cur)
			moved = s.sqlClosed(s.cur) || moved
		}
		for i := int8(0); i < 2; i++ {
			if m := &s.mem[i]; s.runs(m, m.partition, s.partition[m.partition].act) {
				moved = s.tell(s.readSync(i)) || moved
			}
		}
		for e := range s.epoch {
			s.U += s.epoch[e].R
			s.epoch[e].R = 0
		}
	}
	for e := range s.epoch {
		if x := &s.epoch[e]; x.O > 0 || x.alive() {
			return fmt.Sprintf("completion: epoch %d does not end (status %d, O %d)", e, x.status, x.O)
		}
	}
	if !s.forgot && !s.gap && s.partition[0].act == 0 && int(s.U+s.sold()) != *total {
		return fmt.Sprintf("I5: units without a home, and nothing was lost: U %d sold %d of %d", s.U,
			s.sold(), *total)
	}
	return s.check()
}

// serve reports whether U can be sold again.
func (s *State) serve() bool {
	l := s.row().partition
	m := &s.mem[l]
	if s.U == 0 || s.partition[l].act >= M-1 {
		return true
	}
	return s.online(1, l, E) && s.runs(m, l, s.partition[l].act) && s.open(m, s.cur) &&
		s.sqlOpen(s.cur) &&
		s.grant(m, s.cur, 0)
}

func (s *State) verdict() string {
	if v := s.check(); v != "" {
		return v
	}
	n := *s
	if v := n.complete(); v != "" {
		return v
	}
	if !n.serve() {
		return "completion: U has units and the bucket cannot serve them"
	}
	return ""
}

func start() State {
	s := State{U: int8(*total)}
	for l := range s.partition {
		s.partition[l].checked = true
	}
	s.partition[1].since[1] = 1
	s.mem[0] = Mem{alive: true, mark: 1}
	if feature["drain"] {
		s.ids = 1
		s.partition[1].act, s.partition[1].ident[1] = 1, 1
		s.mem[1] = Mem{alive: true, partition: 1, id: 1, mark: 2}
	}
	s.epoch[0] = Epoch{status: opening, acts: 1}
	s.apply(1)
	return s
}

func (s *State) show() string {
	t := fmt.Sprintf(" U%d Q%d sold %d", s.U, s.Q, s.sold())
	for e := int8(0); e <= s.cur; e++ {
		x := &s.epoch[e]
		t += fmt.Sprintf(" | e%d st%d act%d O%d S%d R%d", e, x.status, x.act, x.O, x.S, x.R)
	}
	for i := range s.mem {
		if m := &s.mem[i]; m.alive {
			t += fmt.Sprintf(" | mem%d id%d mark%d e%d bal%d taken%d given%d g%d late%v closed %v", i, m.id,
				m.mark-1, m.e-1, m.bal, m.taken, m.given, m.g, m.late, m.closed)
		}
	}
	return t
}
