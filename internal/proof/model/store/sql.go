package main

func (s *State) row() *Epoch { return &s.epoch[s.cur] }

func (x *Epoch) alive() bool { return x.status >= opening && x.status <= closing }

func (x *Epoch) granted() (n int8) {
	for _, g := range x.grant[:x.grants] {
		n += g
	}
	return
}

func (s *State) apply(n int8) bool {
	x := s.row()
	if x.status != open && x.status != opening || s.U < n || x.grants == G || !s.current(x) {
		return false
	}
	s.U -= n
	x.O += n
	x.grant[x.grants] = n
	x.grants++
	return true
}

func (s *State) online(n, partition, limit int8) bool {
	if s.row().alive() || s.U < n || s.cur+1 >= limit ||
		partition != s.row().partition && s.copied != s.cur+1 {
		return false
	}
	s.cur++
	a := s.partition[partition].act
	*s.row() = Epoch{status: opening, partition: partition, act: a, acts: 1 << a, period: s.clock}
	return s.apply(n)
}

func (s *State) sqlOpen(e int8) bool {
	x := &s.epoch[e]
	if x.status != opening || !x.confirmed && !mut("openunconfirmed") || !s.current(x) {
		return false
	}
	x.status, x.served = open, true
	return true
}

func (s *State) readSync(i int8) Sync {
	m := &s.mem[i]
	return Sync{m.partition, m.mark - 1, m.e, m.taken, m.given, m.late}
}

// tell writes to SQL what a node has read, in one transaction.
func (s *State) tell(t Sync) bool {
	was := s.epoch
	if t.e > 0 {
		x := &s.epoch[t.e-1]
		if x.alive() && x.partition == t.partition && x.act == t.act && s.current(x) || mut("syncany") {
			if mut("syncset") {
				x.taken, x.given = t.taken, t.given
			} else {
				x.taken, x.given = max(x.taken, t.taken), max(x.given, t.given)
			}
			x.S = x.taken - x.given - x.late
			x.O = x.granted() - x.taken + x.given
		}
	}
	for e := range s.epoch {
		if x := &s.epoch[e]; x.status != none && t.late[e] > x.late {
			n := t.late[e] - x.late
			if !mut("lateall") {
				n = min(n, x.S) // of a lost epoch the rest is in quarantine
			}
			if n < t.late[e]-x.late && x.status != lost {
				continue // taken has not come yet
			}
			x.late = t.late[e]
			x.S -= n
			x.R += n
		}
	}
	return s.epoch != was
}

// sqlClosed ends an epoch with the store's answer.
func (s *State) sqlClosed(e int8) bool {
	x := &s.epoch[e]
	a := x.answer
	if a[0] == 0 || x.status != closing && !(mut("closedagain") && x.status >= closed) ||
		!s.current(x) && !mut("closedolder") {
		return false
	}
	if a[0] == 2 {
		s.lose(e)
		return true
	}
	filled := int8(0)
	for _, n := range x.grant[:a[4]] {
		filled += n
	}
	if a[2] < x.taken || a[3] < x.given || filled != a[1]+a[2]-a[3] {
		return false // counters below SQL's, or the audit: lost, by verify
	}
	x.taken, x.given = a[2], a[3]
	x.S = x.taken - x.given - x.late
	if s.U += x.granted() - x.taken + x.given; mut("balanceonly") {
		s.U -= x.granted() - filled
	}
	x.O, x.status = 0, closed
	return true
}

// lose ends a lost epoch. Its O goes where on_loss says.
func (s *State) lose(e int8) {
	x := &s.epoch[e]
	switch {
	case mut("noquarantine"):
		s.U += x.O
	case feature["unused"]:
		s.U += x.O
		s.assumed += x.O
		if mut("boundsync") { // only what was taken since the last sync
			s.assumed -= x.O
			n := -x.S
			for k := range s.out {
				if s.outE[k] == e {
					n += s.out[k]
				}
			}
			s.assumed += max(0, n)
		}
	default:
		s.Q += x.O
	}
	x.O, x.status = 0, lost
}

// broken reports whether a node that inspects the partition's server finds a reason for the next
// incarnation.
func (s *State) broken(l int8) bool {
	m, n := &s.mem[l], &s.partition[l]
	x := s.row()
	return !n.checked || m.mark != n.act+1 && n.sent>>n.act&1 == 0 ||
		x.alive() && x.partition == l && (s.current(x) || mut("belowolder")) && m.e == s.cur+1 &&
			(m.taken < x.taken || m.given < x.given)
}

// verify creates the next incarnation, which makes older epochs lost whatever their rows say.
func (s *State) verify(l int8) bool {
	m, n := &s.mem[l], &s.partition[l]
	if n.act+1 >= M || !m.alive || m.partition != l || !s.broken(l) {
		return false
	}
	keeps := feature["durable"] && s.kept(l) || mut("durableblind")
	n.act++
	n.checked = true
	if n.since[n.act] = n.act; keeps {
		n.since[n.act] = n.since[n.act-1]
	}
	n.ident[n.act] = m.id
	n.sent |= 1 << n.act
	if mut("oldepoch") {
		s.row().acts |= 1 << n.act
	}
	return true
}

// kept reports whether the memory has everything that SQL knows of the last incarnation.
func (s *State) kept(l int8) bool {
	x, m := s.row(), &s.mem[l]
	there := m.e == s.cur+1 && m.taken >= x.taken && m.given >= x.given
	return m.mark == s.partition[l].act+1 && (there || !x.alive() || !x.served && m.top <= s.cur)
}

// current reports whether the epoch's incarnation is the partition's.
func (s *State) current(x *Epoch) bool { return x.act == s.partition[x.partition].act }

// settle ends the row of an epoch that an incarnation has made lost.
func (s *State) settle(l int8) bool {
	x, n := s.row(), &s.partition[l]
	if !x.alive() || x.partition != l || s.current(x) {
		return false
	}
	if x.act < n.since[n.act] {
		s.lose(s.cur)
		return true
	}
	x.act = n.act
	x.acts |= 1 << n.act
	return true
}

// lostAlone ends an open epoch whose hash is missing although the marker is right.
func (s *State) lostAlone() bool {
	x := s.row()
	m := &s.mem[x.partition]
	if x.status != open && x.status != closing || !x.served || !s.current(x) ||
		!s.runs(m, x.partition, x.act) ||
		m.e >= s.cur+1 {
		return false
	}
	s.lose(s.cur)
	return true
}

// giveUp is the operator's decision: the partition continues on an empty server.
func (s *State) giveUp() bool {
	if s.mem[0].alive || mut("nogiveup") {
		return false
	}
	s.mem[0] = Mem{alive: true, id: s.newID()}
	return s.verify(0)
}

func (s *State) newID() int8 { s.ids++; return s.ids }

// marker writes the marker of an incarnation. It is sent once, by the node that created the
// incarnation, and replaces only an older marker of the same server.
func (s *State) marker(l, a int8) bool {
	m, n := &s.mem[l], &s.partition[l]
	if n.sent>>a&1 == 0 || !m.alive || m.partition != l {
		return false
	}
	n.sent &^= 1 << a
	if m.id == n.ident[a] && m.mark <= a || mut("markerblind") {
		m.mark = a + 1
	}
	return true
}
