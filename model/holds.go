package main

// Holds: ledger/hold.go, docs/adr/0015-holds.md. Each function is one transaction, but the first
// two and notFound.

// pastDeadline is SQL's clock reaching a hold's deadline, which counts from its commit.
func (m *model) pastDeadline(s *State, id int8) bool {
	r := &s.row[id]
	if r.state != held || r.hold.due {
		return false
	}
	r.hold.due = true
	return true
}

// beginBefore is a transaction about a hold that reads SQL's clock before the deadline. It may wait
// for its locks beyond that.
func (m *model) beginBefore(s *State, id int8) bool {
	r := &s.row[id]
	if r.state != held || r.hold.due || r.hold.begun {
		return false
	}
	r.hold.begun = true
	return true
}

// inTime reports whether a transaction finds, under the lock, a hold whose time was not up by its
// clock.
func (r *Row) inTime() bool { return r.state == held && (!r.hold.due || r.hold.begun) }

// confirm is ledger.DecideConfirm and the transaction around it: H -> S, and what is not confirmed
// H -> R. part confirms 1 unit, otherwise it is all that is left. A confirm that was done before
// replays, or is a request_conflict, and changes nothing.
func (m *model) confirm(s *State, id int8, part, begun bool) bool {
	r := &s.row[id]
	h, left := &r.hold, r.amount-r.rolled
	switch m.mutant {
	case confirmOutside: // it was judged when the transaction began
		if left = r.amount - r.rolled + h.returned; !h.begun && !r.inTime() || h.ends > 1 {
			return false
		}
	case confirmAgain:
		if !r.inTime() && (r.state != used || h.confirmed == 0) || h.ends > 1 {
			return false
		}
	case confirmLate:
		if r.state != held {
			return false
		}
	default:
		if !r.inTime() {
			return false
		}
	}
	units := left
	if part {
		units = 1
	}
	if units > left || units == 0 || part && units == left {
		return false
	}
	x := &s.bucket[r.bucket].epoch[r.epoch]
	x.H -= left
	x.S += units
	if m.mutant != restKept {
		m.returning(s, x, left-units, begun)
	}
	r.state = used
	r.rolled += left - units
	h.confirmed, h.returned, h.told = h.confirmed+units, h.returned+left-units, units
	h.ends++
	h.due = h.due && !h.begun
	return true
}

// extend is ledger.DecideExtend and the transaction around it: the deadline counts from its clock.
func (m *model) extend(s *State, id int8) bool {
	r := &s.row[id]
	if !r.inTime() || !r.hold.due {
		return false // a deadline that is moved before it was reached is one that is reached later
	}
	r.hold.due = false
	return true
}

// list is a sweeper that finds a due hold without locks. Who locks it looks at it anew, so only a
// mutant goes by it.
func (m *model) list(s *State, id int8) bool {
	r := &s.row[id]
	if m.mutant != expireUnlooked || r.state != held || !r.hold.due || r.hold.listed {
		return false
	}
	r.hold.listed = true
	return true
}

// expire is ledger.Expire and the transaction around it: all that is left H -> R, and the limit's
// counter goes down.
func (m *model) expire(s *State, id int8, begun bool) bool {
	r := &s.row[id]
	h, left := &r.hold, r.amount-r.rolled
	switch {
	case m.mutant == expireUnlooked:
		if left += h.returned; !h.listed || h.ends > 1 {
			return false
		}
	case r.state != held || !h.due && m.mutant != expireEarly:
		return false
	}
	x := &s.bucket[r.bucket].epoch[r.epoch]
	x.H -= left
	m.returning(s, x, left, begun)
	r.state = expired
	r.rolled += left
	h.returned += left
	h.ends++
	if m.limited(id) && m.mutant != countKept {
		s.count--
	}
	return true
}

// notFound is a store-mode confirm or rollback of an id whose caller was told "accepted", after
// what was accepted before it was brought into the ledger: it must find the id, unless its epoch
// was lost.
func (m *model) notFound(s *State, id int8) bool {
	r := &s.row[id]
	if m.Mode != storeMode || !r.toldAccepted || r.state != absent || r.lostIn > 0 {
		return false
	}
	if c := &s.bucket[m.home(id)]; c.newest().live() && !m.drained(c) && m.mutant != confirmUndrained {
		return false // first the drain, or unavailable
	}
	s.broke = notFound
	return true
}

// drained reports whether a bucket's store can be reached, and the ledger has all that is in it.
func (m *model) drained(c *Bucket) bool {
	x := c.newest()
	end := x.log.n
	if x.log.closed() {
		end--
	}
	return c.verified && x.activation == c.activation && !x.fenced && x.log.n > 0 &&
		m.match(x, &x.log) && x.drained.n >= end
}

// checkHold looks at one hold.
func (r *Row) checkHold() string {
	h := &r.hold
	switch {
	case h.ends > 1:
		return "holds: one has ended twice"
	case h.confirmed < 0 || h.confirmed+h.returned > r.amount:
		return "holds: more was confirmed than was held"
	case h.told != h.confirmed || h.told > 0 && r.state != used && r.state != rolledBack:
		return "holds: told confirmed, and not used"
	case r.state == expired && (!h.due || h.confirmed > 0):
		return "holds: expired before its time was up"
	case r.state == used && h.due:
		return "holds: confirmed after its time was up"
	}
	return ""
}
