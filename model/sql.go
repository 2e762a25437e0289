package main

// Every function here is one transaction. It returns false when its numbers or statuses do not
// allow it, and has then changed nothing.

func (m *model) mayGrow(x *Epoch) bool {
	ok := x.status == open && !x.fenced || m.mutant == applyClosed
	return ok && int(x.nextGrant) < m.Grants
}

func (x *Epoch) take(units int8) {
	x.O += units
	x.grant[x.nextGrant] = units
	x.nextGrant++
}

func (m *model) apply(s *State, b, units int8) bool {
	x := s.newest(b)
	if s.releasable() < units || !m.mayGrow(x) || x.period != s.books.period {
		return false
	}
	s.U -= units
	x.take(units)
	return true
}

// online gives a bucket whose newest epoch has ended the next one, and with units its first grant:
// Reopen and HandOut.
func (m *model) online(s *State, b, units int8, epochs int) bool {
	c := &s.bucket[b]
	if c.newest().live() || int(c.current)+1 >= epochs || s.releasable() < units {
		return false
	}
	c.current++
	c.epoch[c.current] = m.newEpoch(s, c.activation)
	if units > 0 {
		s.U -= units
		c.newest().take(units)
	}
	return true
}

func (m *model) newEpoch(s *State, activation int8) Epoch {
	x := Epoch{status: opening, activation: activation, period: s.books.period}
	if m.mutant == oldNumber {
		x.period = 0
	}
	x.drained.append(entryOpen) // SQL knows its chain value before the store has written it
	for id := range s.row[:m.IDs] {
		if s.row[id].state == absent && m.Mode == storeMode {
			x.sent |= 1 << id
		}
	}
	return x
}

func (m *model) markOpen(s *State, b int8) bool {
	x := s.newest(b)
	if x.status != opening || x.log.n == 0 && x.old.n == 0 {
		return false
	}
	x.status = open
	if m.Mode == storeMode && x.period != s.books.period && m.mutant != lateOpen {
		x.status = closing // a roll-over has ended its period
	}
	return true
}

// ending begins an offline.
func (m *model) ending(s *State, b int8) bool {
	x := s.newest(b)
	if x.status != open {
		return false
	}
	x.status = closing
	return true
}

// sweep moves R to U, or of an older period to where the rule says. Late units wait for the roll-over, whatever
// the sweeper's clock says.
func (m *model) sweep(s *State, b, e int8, begun bool) bool {
	x := &s.bucket[b].epoch[e]
	waits := x.late > 0 && x.period == s.books.period
	switch m.mutant {
	case sweepBefore:
		waits = false
	case sweepByClock:
		waits = waits && s.due() && !begun
	}
	if x.R == 0 || waits {
		return false
	}
	m.comeBack(s, x.period, x.R-x.late, x.late)
	x.R, x.late = 0, 0
	return true
}

// The rollback ids of a deduction: one for a part of 1 unit, one for the whole, and a cancel's.
const (
	rollbackPart int8 = iota
	rollbackWhole
	rollbackCancel
)

// rollback is ledger.DecideRollback and the transaction around it: S -> R, or H -> R while it is
// held, on the deduction's own epoch row, whatever became of it.
func (m *model) rollback(s *State, id, rollbackID int8, begun bool) bool {
	r := &s.row[id]
	if !r.state.effective() || r.rollbacks>>rollbackID&1 == 1 &&
		m.mutant != noRollbackID {
		return false
	}
	left, units := r.amount-r.rolled, int8(1)
	if m.mutant == noLeft {
		left = r.amount
	}
	if rollbackID != rollbackPart {
		units = left
	}
	if units > left || units == 0 {
		return false
	}
	x := &s.bucket[r.bucket].epoch[r.epoch]
	from := &x.S
	if r.state == held {
		from = &x.H
	}
	if *from < units {
		return false
	}
	*from -= units
	m.returning(s, x, units, begun)
	r.rolled += units
	r.rollbacks |= 1 << rollbackID
	if r.rolled >= r.amount {
		r.state = rolledBack
		if m.limited(id) {
			s.count--
		}
	}
	return true
}

// cancel makes certain that an id has no effect. Store mode: once its void record is in the
// bucket's newest epoch, the log is drained as far as that found it necessary, and no epoch was
// opened since.
func (m *model) cancel(s *State, id int8, begun bool) bool {
	r := &s.row[id]
	if r.toldVoid || m.Mode == storeMode && !m.voided(s, id) {
		return false
	}
	switch r.state {
	case absent:
		if m.mutant != noTombstone {
			r.state = void
		}
	case used, held:
		m.rollback(s, id, rollbackCancel, begun)
	}
	r.toldVoid, r.voidIn, r.voidAt = true, 0, 0
	return true
}

// voided reports whether a store-mode cancel has come as far as its tombstone.
func (m *model) voided(s *State, id int8) bool {
	r, c := &s.row[id], &s.bucket[m.home(id)]
	x := c.newest()
	switch {
	case m.mutant == noVoidRecord:
		return true
	case r.voidIn == 0:
		return !x.live() // there is no epoch that could take one
	case r.voidIn != 1+c.current && m.mutant != noReopened:
		return false // another epoch was opened since: again
	}
	at := &c.epoch[r.voidIn-1]
	return !at.live() || at.drained.n > r.voidAt || r.voidAt == 0 || m.mutant == noVoidDrain
}

// The one append and the one shrink, in units.
const appendUnits, shrinkUnits = 1, 1

func (m *model) append(s *State) bool {
	if !m.Append || s.appended > 0 && m.mutant != noAdjustmentID || s.appended > 1 {
		return false
	}
	s.T += appendUnits
	s.U += appendUnits
	s.appended++
	return true
}

// adjustShrink begins or continues the shrink: done once U covers it, refused when the budget does
// not, pending until then.
func (m *model) adjustShrink(s *State) bool {
	switch {
	case !m.Shrink || s.shrink == done || s.shrink == refused:
		return false
	case s.U >= shrinkUnits || m.mutant == shrinkUncovered:
		s.T -= shrinkUnits
		s.U -= shrinkUnits
		s.shrink = done
	case m.cover(s) < shrinkUnits:
		s.shrink = refused
	case s.shrink == pending:
		return false
	default:
		s.shrink = pending
	}
	return true
}

// fence stops an epoch that is broken by itself.
func (m *model) fence(s *State, b int8) bool {
	x := s.newest(b)
	if x.fenced || !x.live() || m.signs(s, b)&sign(mismatch) == 0 {
		return false
	}
	x.fenced = true
	return true
}

// signs is the set of what committers find, in the running store and in what they read before.
func (m *model) signs(s *State, b int8) (found uint8) {
	x := s.newest(b)
	if x.log.n > 0 {
		found = sign(m.judge(s, b, &x.log))
	}
	if x.old.n > 0 && !x.drained.begins(&x.old) {
		found |= sign(m.judge(s, b, &x.old))
	}
	return found
}

func sign(v verdict) uint8 { return 1 << v }

// recover gives a lane its next activation: its store is not who it was, does not have an epoch
// that is open, or its log is not a continuation of what was drained.
func (m *model) recover(s *State, b int8) bool {
	c := &s.bucket[b]
	x := c.newest()
	gone := (x.status == open || x.status == closing) && x.activation == c.activation &&
		!x.fenced && (x.log.n == 0 || m.signs(s, b)&sign(wentBack) != 0)
	if c.verified && !gone || c.activation >= 7 {
		return false
	}
	c.activation++
	c.verified = true
	return true
}

// activate loads the scripts of the lane's activation.
func (c *Bucket) activate() bool {
	if !c.verified || c.scripts>>c.activation&1 == 1 {
		return false
	}
	c.scripts |= 1 << c.activation
	return true
}

// lose ends an epoch of an older activation, or a fenced one: nothing of it can be committed any
// more. Ledger mode: U += O. Store mode: only where it is proven that all that was acknowledged is
// in the ledger, else Q += O.
func (m *model) lose(s *State, b int8) bool {
	x := s.newest(b)
	if !x.live() || x.activation == s.bucket[b].activation && !x.fenced {
		return false
	}
	if m.Mode == ledgerMode || m.proven(x) || m.mutant == noQuarantine {
		m.comeBack(s, x.period, x.O, 0)
		m.end(x, lost)
		return true
	}
	for id := range s.row[:m.IDs] {
		r := &s.row[id]
		if m.home(int8(id)) == b && r.toldAccepted && r.state == absent && r.lostIn == 0 {
			r.lostIn = 1 + s.bucket[b].current
		}
	}
	x.Q, x.O, x.status, x.fenced = x.O, 0, lost, false
	if x.Q == 0 {
		m.end(x, lost)
	}
	return true
}

// proven reports whether every node has been heard and the ledger holds all that they acknowledged.
func (m *model) proven(x *Epoch) bool {
	for node := range int8(m.Nodes) {
		heard := x.heard>>node&1 == 1
		if !heard && m.mutant != noHearing || heard && x.acked[node] >= x.drained.n {
			return false
		}
	}
	return true
}

// hear is a node that leaves an activation: it says what it acknowledged, and then acknowledges
// nothing more of it.
func (m *model) hear(c *Bucket, e, node int8) bool {
	x := &c.epoch[e]
	leaving := x.live() && (x.activation < c.activation || x.fenced) || x.status == lost
	if !leaving || x.heard>>node&1 == 1 {
		return false
	}
	x.heard |= 1 << node
	return true
}

// release moves what was quarantined to U once it is proven.
func (m *model) release(s *State, b, e int8) bool {
	x := &s.bucket[b].epoch[e]
	if x.status != lost || x.Q == 0 || !m.proven(x) {
		return false
	}
	m.comeBack(s, x.period, x.Q, 0)
	x.Q = 0
	m.end(x, lost)
	for id := range s.row[:m.IDs] {
		if r := &s.row[id]; m.home(int8(id)) == b && r.lostIn == 1+e {
			r.lostIn = 0
		}
	}
	return true
}
