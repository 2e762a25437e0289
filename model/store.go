package main

// What the scripts do. Each refuses by returning false, and has then written nothing. A command may
// run as soon as the SQL row that justifies sending it is written, at any later time, any number of
// times.

// memory is what answers a command: the running store, or the old master of a split.
type memory int8

const (
	running memory = iota
	zombie
)

func (x *Epoch) logOf(on memory) *Log {
	if on == zombie {
		return &x.old
	}
	return &x.log
}

func (x *Epoch) voidsOf(on memory) *uint8 {
	if on == zombie {
		return &x.oldVoids
	}
	return &x.voids
}

// reachable reports whether commands of an epoch find their scripts: they carry its activation.
func (m *model) reachable(c *Bucket, e int8, on memory) bool {
	x := &c.epoch[e]
	switch {
	case x.status == none:
		return false
	case on == zombie:
		return x.zombie
	case m.mutant == noActivation:
		return true
	}
	return c.scripts>>x.activation&1 == 1
}

// writable is reachable for commands that append: a log that holds a later epoch refuses them.
func (m *model) writable(c *Bucket, e int8, on memory) bool {
	if !m.reachable(c, e, on) {
		return false
	}
	for later := e + 1; on == running && later < maxEpochs; later++ {
		if c.epoch[later].log.n > 0 {
			return false
		}
	}
	return true
}

// room reports whether the bounds allow another entry; the last place is kept for the close.
func (m *model) room(l *Log) bool { return int(l.n)+1 < m.Length }

// sums gives granted, deducted and the number of grants that arrived in the first n entries.
func (m *model) sums(x *Epoch, l *Log, n int8) (in, out, arrived int8) {
	for _, v := range l.at[:n] {
		switch {
		case isGrant(v):
			in += x.grant[v-entryGrant]
			arrived++
		case isDeduct(v):
			out += m.amounts[idOf(v)]
		}
	}
	return in, out, arrived
}

func (m *model) balance(x *Epoch, l *Log) int8 {
	in, out, _ := m.sums(x, l, l.n)
	if l == &x.log {
		return in - out + x.bent
	}
	return in - out + x.oldBent
}

func (m *model) storeOpen(c *Bucket, e int8, on memory) bool {
	x := &c.epoch[e]
	if !m.writable(c, e, on) || x.logOf(on).n > 0 {
		return false
	}
	x.logOf(on).append(entryOpen)
	return true
}

func (m *model) storeGrant(c *Bucket, e, number int8, on memory) bool {
	to := m.addressed(c, e)
	x := &c.epoch[to]
	l := x.logOf(on)
	if number >= c.epoch[e].nextGrant || !m.writable(c, to, on) || l.n == 0 || l.closed() ||
		!m.room(l) {
		return false
	}
	_, _, arrived := m.sums(x, l, l.n)
	if number != arrived && !(m.mutant == noNumber && number < arrived) {
		return false
	}
	l.append(entryGrant + uint8(number))
	return true
}

// addressed is the epoch that a message for one reaches.
func (m *model) addressed(c *Bucket, e int8) int8 {
	if m.mutant == noEpoch {
		return c.current
	}
	return e
}

func (m *model) storeDeduct(s *State, b, e, id, nonce int8, on memory) bool {
	c := &s.bucket[b]
	to := m.addressed(c, e)
	x := &c.epoch[to]
	l := x.logOf(on)
	if c.epoch[e].status < open || !m.writable(c, to, on) || l.n == 0 || l.closed() || !m.room(l) {
		return false
	}
	// Every command of a refused attempt was answered before: none is left to run.
	if s.row[id].refused>>nonce&1 == 1 && m.mutant != refusedWhileOut {
		return false
	}
	if m.Mode == storeMode && !m.fresh(b, x, id, on) {
		return false
	}
	late := m.over(s, x, storeMode, false)
	if m.balance(x, l) < m.amounts[id] || late && m.mutant != noUntil {
		return false
	}
	if late {
		s.broke = tookLate
	}
	l.append(deductEntry(id, nonce))
	if m.mutant == ackEarly && x.live() {
		s.row[id].toldAccepted = true
	}
	return true
}

// fresh reports whether a store-mode deduct may be there and finds no record: requests never move,
// in a young epoch an id is looked up in the ledger first, and the script looks at its records
// first (a record of "accepted" is the entry itself).
func (m *model) fresh(b int8, x *Epoch, id int8, on memory) bool {
	if m.home(id) != b || x.logOf(on).find(id) >= 0 || *x.voidsOf(on)>>id&1 == 1 {
		return false
	}
	return x.sent>>id&1 == 1 || m.mutant == noLookup
}

func (m *model) storeClose(c *Bucket, e int8, on memory) bool {
	to := m.addressed(c, e)
	x := &c.epoch[to]
	l := x.logOf(on)
	if c.epoch[e].status < closing || !m.writable(c, to, on) || l.n == 0 || l.closed() ||
		int(l.n) >= m.Length {
		return false
	}
	_, _, arrived := m.sums(x, l, l.n)
	l.append(entryClose + uint8(8*arrived+m.balance(x, l)))
	return true
}

// storeVoid writes a cancel's void record unless the id has a record, and notes up to where the log
// must be drained then.
func (m *model) storeVoid(s *State, b, e, id int8, on memory) bool {
	c, r := &s.bucket[b], &s.row[id]
	x := &c.epoch[e]
	if !m.reachable(c, e, on) || !x.live() {
		return false
	}
	at := x.logOf(on).find(id) + 1
	if at == 0 {
		*x.voidsOf(on) |= 1 << id
	}
	if r.voidIn == 1+e && r.voidAt >= at {
		return false
	}
	r.voidIn, r.voidAt = 1+e, at
	return true
}

// acknowledge is a store-mode answer "accepted" reaching a caller through a node: of the script's
// reply, which may have been under way for long, or of the record that a repetition found.
func (m *model) acknowledge(s *State, b, e, id, node int8) bool {
	x, r := &s.bucket[b].epoch[e], &s.row[id]
	at := max(x.log.find(id), x.old.find(id))
	heard := x.heard>>node&1 == 1
	if at < 0 || heard && m.mutant != ackLate || r.toldAccepted || r.state.effective() {
		return false
	}
	r.toldAccepted = true
	if m.mutant != ackUncounted && !heard {
		x.acked[node] = max(x.acked[node], at)
	}
	if x.status == lost {
		r.lostIn = 1 + e
	}
	return true
}
