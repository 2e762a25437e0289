package main

import "fmt"

// check returns the first broken invariant, "" if all hold.
func (m *model) check(s *State) string {
	if broken := m.checkSteps(s); broken != "" {
		return broken
	}
	sum := s.U + s.books.F + s.books.X
	for b := range int8(m.Buckets) {
		for e := range s.bucket[b].epoch {
			x := &s.bucket[b].epoch[e]
			if broken := m.checkEpoch(s, b, int8(e), x); broken != "" {
				return broken
			}
			sum += x.O + x.H + x.S + x.R + x.Q
		}
		if s.faults == 0 &&
			(s.newest(b).fenced || m.signs(s, b)&(sign(mismatch)|sign(wentBack)) != 0) {
			return "a bucket is fenced although nothing failed"
		}
	}
	switch {
	case s.U < 0 || sum != s.T:
		return fmt.Sprintf("I1: F + U + X + O + H + S + R + Q is %d of %d", sum, s.T)
	case s.T != total+s.appended*appendUnits-s.shrunk() || s.appended > 1:
		return "I1: T is not the sum of the adjustments"
	case s.remembered > 0 && m.cover(s) >= s.remembered:
		return falseRefusal
	}
	if m.Turn {
		if broken := m.checkPeriods(s); broken != "" {
			return broken
		}
	}
	if broken := m.checkRows(s); broken != "" || m.Mode == ledgerMode {
		return broken
	}
	return m.checkAcknowledged(s)
}

const falseRefusal = "I3: exhausted, and at no moment was less than the amount there"

// checkSteps looks at what steps have noted, and at holds one by one.
func (m *model) checkSteps(s *State) string {
	switch s.broke {
	case falseNo:
		return falseRefusal
	case countedLate:
		return "periods: counted after the end of its period"
	case tookLate:
		return "periods: a store admitted it after the end of its period"
	case notFound:
		return "I7: accepted, and a confirm or a rollback does not find it"
	}
	for id := range s.row[:m.IDs] {
		if broken := s.row[id].checkHold(); broken != "" && m.hold[id] {
			return broken
		}
	}
	return ""
}

func (s *State) shrunk() int8 {
	if s.shrink == done {
		return shrinkUnits
	}
	return 0
}

// checkEpoch is accounting 1 and 3 of DESIGN 3 for one epoch.
func (m *model) checkEpoch(s *State, b, e int8, x *Epoch) string {
	if x.O < 0 || x.H < 0 || x.S < 0 || x.R < 0 || x.Q < 0 {
		return "I1: a column below zero"
	}
	rows, holds := int8(0), int8(0)
	for id := range s.row[:m.IDs] {
		switch r := &s.row[id]; {
		case r.counted == 0 || r.bucket != b || r.epoch != e:
		case r.state == held:
			holds += r.amount - r.rolled
		default:
			rows += r.amount - r.rolled
		}
	}
	if rows != x.S || holds != x.H {
		return fmt.Sprintf("I1: S is %d and H %d, their rows give %d and %d", x.S, x.H, rows, holds)
	}
	if !x.live() {
		return ""
	}
	in, out, _ := m.sums(x, &x.drained, x.drained.n)
	if granted := x.granted(0); x.O != granted-out {
		return fmt.Sprintf("accounting 3: O is %d of %d granted, %d arrived, %d drained",
			x.O, granted, in, out)
	}
	c := &s.bucket[b]
	healthy := x.status != opening && x.activation == c.activation && c.verified && !x.fenced
	if healthy && x.log.n >= x.drained.n && m.match(x, &x.log) && !x.log.begins(&x.drained) {
		return "I7: an entry at or below drained_seq is not in the ledger, and the log match passes"
	}
	return ""
}

// checkRows looks at the ledger and at what its callers were told.
func (m *model) checkRows(s *State) string {
	counted, sold := int8(0), int8(0)
	for id := range s.row[:m.IDs] {
		r := &s.row[id]
		effective := r.state.effective()
		switch {
		case r.counted > 1:
			return "I4: an id took effect twice"
		case r.toldVoid && effective && r.rolled != r.amount:
			return "I4: a cancelled id has an effect"
		case r.rolled > r.amount || r.rollbacks == 1<<rollbackPart && r.rolled-r.hold.returned > 1:
			return "I5: more was given back than was asked for, or deducted"
		case effective && r.amount != m.amounts[id]:
			return "I7: the ledger has another amount than was asked for"
		case effective && r.refused>>r.nonce&1 == 1:
			return "I6: a refused attempt took effect"
		case m.Mode == ledgerMode && r.toldAccepted && !effective:
			return "I7: accepted, and not in the ledger"
		}
		if effective {
			sold += r.amount - r.rolled
		} else if r.toldAccepted && !r.toldVoid {
			sold += m.amounts[id]
		}
		if (r.state == used || r.state == held) && m.limited(int8(id)) {
			counted++
		}
	}
	switch {
	case counted > limitMax || counted != s.count:
		return "limit: exceeded, or counted wrongly"
	case sold > s.T:
		return fmt.Sprintf("I2: oversold, %d of %d", sold, s.T)
	}
	return ""
}

// checkAcknowledged: in store mode what was told "accepted" is in the ledger, outstanding, or
// inside what is quarantined.
func (m *model) checkAcknowledged(s *State) string {
	for b := range int8(m.Buckets) {
		var quarantined [maxEpochs + 1]int8
		missing := int8(0)
		for id := range s.row[:m.IDs] {
			r := &s.row[id]
			switch {
			case m.home(int8(id)) != b || !r.toldAccepted || r.state.effective():
			case r.lostIn > 0:
				quarantined[r.lostIn] += m.amounts[id]
			case r.state == void:
				return "I4, I7: accepted, and void"
			default:
				missing += m.amounts[id]
			}
		}
		for e := range s.bucket[b].epoch {
			if quarantined[e+1] > s.bucket[b].epoch[e].Q {
				return "I7: accepted, lost, and not quarantined"
			}
		}
		if missing > s.newest(b).O {
			return "I7: accepted, and neither in the ledger nor outstanding nor quarantined"
		}
	}
	return ""
}
