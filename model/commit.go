package main

// verdict is what the ledger says of a log that was read.
type verdict int8

const (
	nothing   verdict = iota // read again, or the epoch has ended or is fenced
	committed                // one transaction
	wentBack                 // the log is not a continuation of what was drained
	mismatch                 // it is one, and cannot be right
)

// match is the log match: does the log that was read hold what was drained?
func (m *model) match(x *Epoch, l *Log) bool {
	last := x.drained.n - 1
	switch m.mutant {
	case noMatch:
		return l.n > last
	case lastEntry:
		return l.n > last && l.at[last] == x.drained.at[last]
	}
	return l.begins(&x.drained)
}

// judge says what a transaction that drains the log up to a position would find, closes included.
func (m *model) judge(s *State, b int8, l *Log) verdict {
	if row := s.newest(b); l.n == row.drained.n && m.match(row, l) {
		return nothing
	}
	n := *s
	x := n.newest(b)
	end := l.n
	if l.closed() {
		end--
	}
	v := m.commit(&n, b, n.bucket[b].current, l, span{from: x.drained.n, to: end})
	if v == wentBack || v == mismatch || !l.closed() {
		return v
	}
	return m.closeEpoch(&n, b, n.bucket[b].current, l, -1)
}

// span is what of a log a transaction commits: from the drained position, but for a mutant, up to
// `to`. begun: it goes by a clock from before the end of the period.
type span struct {
	from, to int8
	begun    bool
}

// commit is ledger.Drain and the transaction around it: a part of a log, all or nothing. Unless it
// answers committed, the caller forgets the state.
func (m *model) commit(s *State, b, e int8, l *Log, p span) verdict {
	x := &s.bucket[b].epoch[e]
	switch {
	case x.fenced, x.status != open && x.status != closing && m.mutant != commitLost:
		return nothing
	case !m.match(x, l):
		return wentBack
	case p.from >= p.to:
		return nothing
	}
	for at := p.from; at < p.to; at++ {
		v := l.at[at]
		switch {
		case v&tampered != 0 && m.mutant != noContinue:
			return mismatch // does not continue the chain
		case isGrant(v) && int8(v-entryGrant) >= x.nextGrant:
			return mismatch // SQL never made it
		case isDeduct(v):
			if a := m.entryAmount(v); x.O < a && m.mutant != noOutstanding &&
				m.mutant != commitLost {
				return mismatch
			}
			m.drainDeduct(s, b, e, at, v, p.begun)
		}
	}
	if m.mutant == noCompare {
		x.drained = *l
		x.drained.cut(p.to)
	}
	for at := x.drained.n; at < p.to; at++ {
		x.drained.append(l.at[at])
	}
	return committed
}

// entryAmount is what an entry says it deducts.
func (m *model) entryAmount(v uint8) int8 {
	if v&tampered != 0 {
		return 3 - m.amounts[idOf(v)]
	}
	return m.amounts[idOf(v)]
}

// drainDeduct turns an admitted entry into a deduction or a duplicate.
func (m *model) drainDeduct(s *State, b, e, at int8, v uint8, begun bool) {
	x := &s.bucket[b].epoch[e]
	id, nonce, a := idOf(v), nonceOf(v), m.entryAmount(v)
	r := &s.row[id]
	x.O -= a
	count := s.count
	if m.mutant == limitOutside && s.peek > 0 {
		count = s.peek - 1
	}
	switch {
	case r.state != absent && m.mutant != noPrimaryKey:
		if m.mutant != duplicateKeeps {
			x.R += a
		}
	case m.over(s, x, ledgerMode, begun) && m.mutant != commitOver:
		x.R += a // never used; the attempt does it anew in the present period
	case m.limited(id) && count >= limitMax:
		x.R += a
		if !m.mayCommit(s, v, x, at) {
			r.refused |= 1 << nonce // limit_exceeded is the answer
		}
	default:
		if m.over(s, x, ledgerMode, begun) {
			s.broke = countedLate
		}
		r.state, r.bucket, r.epoch, r.nonce, r.amount = used, b, e, nonce, a
		if m.hold[id] {
			r.state = held
			x.H += a
		} else {
			x.S += a
		}
		r.counted++
		if m.limited(id) {
			s.count++
		}
	}
}

// mayCommit reports whether an attempt has another entry that may still be committed.
func (m *model) mayCommit(s *State, v uint8, but *Epoch, at int8) bool {
	if m.mutant == refusedWhileOut {
		return false
	}
	for b := range s.bucket {
		for e := range s.bucket[b].epoch {
			x := &s.bucket[b].epoch[e]
			for i := x.drained.n; i < maxLog && x.live(); i++ {
				if !(x == but && i <= at) && (x.log.at[i] == v || x.old.at[i] == v) {
					return true
				}
			}
		}
	}
	return false
}

// closeEpoch is ledger.CloseAmount and the transaction around it: the close entry follows what was
// drained, SQL's own O moves to U, or, as a collect, into a grant of a target that is open.
func (m *model) closeEpoch(s *State, b, e int8, l *Log, target int8) verdict {
	x := &s.bucket[b].epoch[e]
	switch {
	case x.status == closed || x.status == lost || x.fenced:
		return nothing
	case !m.match(x, l):
		return wentBack
	case l.n <= x.drained.n || !isClose(l.at[x.drained.n]):
		return nothing
	case x.status != closing:
		return mismatch
	}
	v := l.at[x.drained.n] - entryClose
	units, missing := int8(v%8), x.granted(min(int8(v/8), x.nextGrant))
	if m.mutant == noMissing {
		missing = 0
	}
	units += missing
	if units != x.O && m.mutant != storeTrusted {
		return mismatch
	}
	period := x.period
	m.end(x, closed)
	if target < 0 || units == 0 || !m.mayGrow(s.newest(target)) ||
		(period != s.newest(target).period || period != s.books.period) && m.mutant != collectAcross {
		m.comeBack(s, period, units, 0)
		return committed
	}
	if m.mutant == collectSplit {
		s.hand += units
		return committed
	}
	s.newest(target).take(units)
	return committed
}

// end moves an epoch to a final status. What is of no consequence then is forgotten: a commit, a
// close or an apply looks at the status first.
func (m *model) end(x *Epoch, to status) {
	if m.mutant == commitLost {
		x.status, x.O = to, 0
		return
	}
	ended := Epoch{status: closed, H: x.H, S: x.S, R: x.R, // closed stands for lost, too
		period: x.period, late: x.late}
	if m.mutant == noEpoch {
		ended.nextGrant, ended.grant = x.nextGrant, x.grant
	}
	*x = ended
}
