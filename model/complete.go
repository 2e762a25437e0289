package main

import "fmt"

// completionRounds is more than any completion needs.
const completionRounds = 100

// complete goes on from a state without faults and without requests: the chores alone must end
// every epoch and leave every unit in U, S or Q and nothing pending. Then each id that has no
// outcome yet must get one.
func (m *model) complete(from *State) string {
	s := *from
	s.peek = 0
	for round := 0; ; round++ {
		moved := m.rollOver(&s) || m.adjustPending(&s)
		for b := range int8(m.Buckets) {
			moved = m.completeBucket(&s, b) || moved
		}
		for id := range int8(m.IDs) {
			if r := &s.row[id]; r.state == held && r.hold.due {
				m.list(&s, id)
				moved = m.expire(&s, id, false) || moved
			}
			if m.Mode == storeMode && s.row[id].voidIn > 0 {
				moved = m.completeCancel(&s, id) || moved
			}
		}
		if !moved {
			break
		}
		if round == completionRounds {
			return "completion: it does not end"
		}
	}
	for b := range int8(m.Buckets) {
		if s.newest(b).live() {
			return "completion: an epoch does not end"
		}
	}
	switch {
	case s.inEpochs() != 0 || s.hand > 0:
		return "completion: units stay where nobody finds them"
	case s.due():
		return "completion: the period is not rolled over"
	case s.shrink == pending:
		return "completion: a shrink stays pending"
	}
	for id := range s.row[:m.IDs] {
		if r := &s.row[id]; r.state == held && r.hold.due {
			return "completion: a hold whose time is over has not ended"
		}
	}
	if broken := m.check(&s); broken != "" {
		return broken + " (after completion)"
	}
	for id := range int8(m.IDs) {
		if broken := m.answer(&s, id); broken != "" {
			return broken
		}
	}
	return ""
}

func (m *model) adjustPending(s *State) bool { return s.shrink == pending && m.adjustShrink(s) }

// completeBucket does the next chore of a bucket.
func (m *model) completeBucket(s *State, b int8) bool {
	moved := false
	c := &s.bucket[b]
	for e := int8(0); e <= c.current; e++ {
		moved = m.sweep(s, b, e, false) || moved
	}
	if m.recover(s, b) || c.activate() {
		return true
	}
	x := c.newest()
	switch {
	case !x.live():
		return moved
	case x.activation < c.activation || x.fenced:
		return m.lose(s, b) || moved
	case x.status == opening && x.log.n == 0:
		return m.storeOpen(c, c.current, running) || moved
	case x.status == opening:
		return m.markOpen(s, b)
	case x.status == open:
		return m.ending(s, b)
	case !x.log.closed():
		return m.storeClose(c, c.current, running) || moved
	}
	l := x.log
	before := *s
	if m.commit(s, b, c.current, &l, span{from: x.drained.n, to: l.n - 1}) == committed {
		return true
	}
	*s = before
	if m.closeEpoch(s, b, c.current, &l, -1) == committed {
		return true
	}
	*s = before
	return m.fence(s, b) || moved
}

// completeCancel goes on with a store-mode cancel.
func (m *model) completeCancel(s *State, id int8) bool {
	if m.cancel(s, id, false) {
		return true
	}
	b := m.home(id)
	c := &s.bucket[b]
	return s.row[id].voidIn != 1+c.current && m.storeVoid(s, b, c.current, id, running)
}

// answer asks for an id that has no outcome, in a new epoch.
func (m *model) answer(from *State, id int8) string {
	r, a := &from.row[id], m.amounts[id]
	if r.state != absent || r.refused > 0 || from.U < a || m.limited(id) && from.count >= limitMax {
		return ""
	}
	s := *from
	b := m.home(id)
	if !m.online(&s, b, a, maxEpochs) {
		return "completion: no new epoch"
	}
	c := &s.bucket[b]
	e, l := c.current, &c.newest().log
	if !m.storeOpen(c, e, running) || !m.markOpen(&s, b) || !m.storeGrant(c, e, 0, running) ||
		!m.storeDeduct(&s, b, e, id, 0, running) ||
		m.commit(&s, b, e, l, span{from: 1, to: l.n}) != committed || !s.row[id].state.effective() {
		if broken := m.check(&s); broken != "" {
			return broken + " (after completion)"
		}
		return fmt.Sprintf("completion: id %d cannot be answered", id)
	}
	return ""
}
