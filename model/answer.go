package main

// What callers are told, beside what storeDeduct, drainDeduct and acknowledge tell them.

// refuse answers budget_exhausted, or period_exhausted, to an attempt: one statement shows that the
// id is not recorded and that I3's sum is below the amount, no roll-over is due, and no command or
// entry of the attempt can take effect any more. That requests skip the buckets while the budget is
// sold out changes nothing here: an attempt that asked no bucket is refused in the same way.
func (m *model) refuse(s *State, id, nonce int8) bool {
	r := &s.row[id]
	if r.state != absent || r.refused>>nonce&1 == 1 || m.cover(s) >= m.amounts[id] ||
		s.due() && !m.Lag ||
		m.mayCommit(s, deductEntry(id, nonce), nil, 0) {
		return false
	}
	r.refused |= 1 << nonce
	if m.Turn {
		m.exhausted(s, m.amounts[id])
	}
	return true
}

// misread answers from the ledger's row at the position of an entry, whoever's row it is.
func (m *model) misread(s *State, b, id int8) bool {
	x, r := s.newest(b), &s.row[id]
	if m.mutant != noNonce || r.toldAccepted || x.status != open && x.status != closing {
		return false
	}
	for at := range min(x.drained.n, x.log.n) {
		v := x.log.at[at]
		if !isDeduct(v) || idOf(v) != id || !isDeduct(x.drained.at[at]) {
			continue
		}
		if other := &s.row[idOf(x.drained.at[at])]; other.state == used && int8(other.nonce) ==
			nonceOf(x.drained.at[at]) {
			r.toldAccepted = true
			return true
		}
	}
	return false
}

// The rest of this file are the steps that only mutants take.

// rememberExhausted is a node that keeps a refusal and answers from it later.
func (m *model) rememberExhausted(s *State, id int8) bool {
	a := m.amounts[id]
	if m.mutant != oldSnapshot || m.cover(s) >= a || s.remembered > 0 && s.remembered <= a {
		return false
	}
	s.remembered = a
	return true
}

// readUndistributed is the first of two statements that make up I3's sum.
func (m *model) readUndistributed(s *State) bool {
	if m.mutant != twoStatements || s.peek == 1+s.U {
		return false
	}
	s.peek, s.least = 1+s.U, m.cover(s)
	return true
}

// refuseBySum is the second one, and the refusal.
func (m *model) refuseBySum(s *State, id int8) bool {
	if s.peek == 0 || m.mutant != twoStatements || s.row[id].state != absent ||
		s.peek-1+m.outside(s) >= m.amounts[id] {
		return false
	}
	if s.least < m.amounts[id] {
		return false
	}
	s.broke = falseNo
	return true
}

// readLimit is a committer that reads the limit's counter before its transaction.
func (m *model) readLimit(s *State) bool {
	if m.mutant != limitOutside || s.peek == 1+s.count {
		return false
	}
	s.peek = 1 + s.count
	return true
}

// refuseLessShrink judges with the pending shrinks subtracted.
func (m *model) refuseLessShrink(s *State, id int8) bool {
	if m.mutant != shrinkSubtracted || s.row[id].state != absent || m.cover(s) < m.amounts[id] ||
		m.cover(s)-s.pendingShrink() >= m.amounts[id] {
		return false
	}
	s.broke = falseNo
	return true
}

// collectRest is the second transaction of a collect cut in two.
func (m *model) collectRest(s *State, b int8) bool {
	if s.hand == 0 || !m.mayGrow(s.newest(b)) {
		return false
	}
	s.newest(b).take(s.hand)
	s.hand = 0
	return true
}
