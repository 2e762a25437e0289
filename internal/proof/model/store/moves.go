package main

func (s *State) scripts(i int8, n *State, try func(bool, Op)) {
	if !s.mem[i].alive {
		return
	}
	m, l := &n.mem[i], s.mem[i].partition
	for a := int8(0); a <= s.partition[l].act; a++ {
		if !s.runs(&s.mem[i], l, a) {
			continue
		}
		for k := int8(0); int(k) < *ids; k++ {
			for e := int8(0); e <= s.cur; e++ {
				x := &s.epoch[e]
				if x.partition == l && x.acts>>a&1 == 1 && (x.served || mut("deductopening")) &&
					s.inTime(k) {
					try(n.deduct(m, k, e, a), Op{"DEDUCT: memory, id, epoch, incarnation", i, k, e, a})
				}
			}
			for rb := int8(0); rb < 2 && in(*undo, k); rb++ {
				try(n.rollback(m, k, rb, a) || n.bad > 0,
					Op{"ROLLBACK: memory, id, rollback id, incarnation", i, k, rb, a})
			}
			try(in(*cancels, k) && n.cancel(m, k, a), Op{"CANCEL: memory, id", i, k, 0, 0})
		}
		for e := int8(0); e <= s.cur; e++ {
			x := &s.epoch[e]
			if x.partition != l || x.acts>>a&1 == 0 {
				continue
			}
			try(n.open(m, e), Op{"OPEN: memory, epoch, incarnation", i, e, a, 0})
			for g := int8(0); g < x.grants; g++ {
				try(n.grant(m, e, g), Op{"GRANT: memory, epoch, number, incarnation", i, e, g, a})
			}
			if x.status >= closing {
				ans := n.close(m, e)
				n.epoch[e].answer = ans
				try(ans[0] > 0 && ans != x.answer, Op{"CLOSE: memory, epoch, incarnation", i, e, a, 0})
				n.close(m, e)
				try(n.mem[i] != s.mem[i], Op{"CLOSE, answer lost: memory, epoch, incarnation", i, e, a, 0})
			}
		}
	}
}

// inTime reports whether a deduct may still run. A script refuses it after the instant that it
// carries. Clients repeat it within a tick.
func (s *State) inTime(k int8) bool {
	if !feature["slices"] {
		return true
	}
	for c := int8(0); c <= s.now; c++ {
		if s.calls[k]>>c&1 == 1 && (s.now-c <= 1 || mut("noexpiry")) {
			return true
		}
	}
	return false
}

func (s *State) moves(emit func(*State, Op)) {
	n := *s
	try := func(ok bool, o Op) {
		if ok {
			emit(&n, o)
		}
		n = *s
	}
	for i := range s.mem {
		s.scripts(int8(i), &n, try)
	}
	s.statements(&n, try)
	n.U--
	n.other++
	try(s.U > 0 && !feature["noelse"], Op{name: "sold elsewhere"})
	n.U, n.Q, n.released = s.U+s.Q, 0, s.released+s.Q
	try(feature["release"] && s.Q > 0, Op{"operator releases to the total: units", s.Q, 0, 0, 0})
	if feature["drain"] {
		x := s.row()
		m := &s.mem[x.partition]
		n.copy = *m
		n.copy.bal, n.copy.taken, n.copy.given, n.copy.g = 0, 0, 0, 0
		try(
			x.moving && x.status == closed && m.closed && n.copy != s.copy &&
				s.runs(m, x.partition, s.partition[x.partition].act),
			Op{name: "COPY read"},
		)
		try(n.writeCopy() && n != *s, Op{name: "COPY written"})
	}
	n.clock = 1
	try(feature["period"] && s.clock == 0, Op{name: "tick"})
	if feature["slices"] {
		n.now++
		for k := range n.mem[0].rec {
			n.record(&n.mem[0], int8(k))
		}
		try(s.now < 6, Op{"tick", s.now + 1, 0, 0, 0})
		for k := int8(0); int(k) < *ids; k++ {
			n.calls[k] |= 1 << s.now
			try(!s.void[k] && (s.calls[k] == 0 || s.now > 0 && s.calls[k] == 1<<(s.now-1)),
				Op{"client calls: id, tick", k, s.now, 0, 0})
		}
	}
	s.fault(&n, try)
}

func (s *State) fault(n *State, try func(bool, Op)) {
	has := func(k string) bool { return word(*kinds, k) }
	if !s.snap.alive && (has("older") || has("split") || has("resync")) &&
		int(s.faults) < *maxFault {
		n.snap = s.mem[0]
		try(true, Op{name: "a replica or a file is written"})
	}
	if int(s.faults) >= *maxFault {
		return
	}
	happens := func(on bool, what string, m Mem, newID, forgot bool) {
		m.alive = true
		if newID {
			m.id = n.newID()
			n.partition[0].checked = false
		}
		n.mem[0] = m
		n.faults++
		n.forgot = s.forgot || forgot
		try(on, Op{name: "FAULT " + what})
	}
	live := s.mem[0]
	gone := live
	gone.e, gone.closed, gone.bal, gone.taken, gone.given, gone.g = 0, false, 0, 0, 0, 0
	happens(has("same"), "restart, same data", live, true, false)
	happens(has("older") && s.snap.alive, "restart, older data", s.snap, true, true)
	happens(has("empty"), "restart, empty", Mem{}, true, true)
	happens(has("resync") && s.snap.alive, "resync, older data", s.snap, true, true)
	happens(has("flush"), "flush", Mem{id: live.id}, false, true)
	n.gap = true
	happens(has("evict") && live.e > 0, "the bucket's hash is evicted", gone, false, false)
	n.mem[1] = live
	happens(has("split") && s.snap.alive && !s.mem[1].alive,
		"two masters, this one has the older data", s.snap, true, true)
	n.mem[1], n.mem[0] = live, Mem{}
	n.faults++
	n.forgot, n.partition[0].checked = true, false
	try(has("dead") && live.alive && !s.mem[1].alive,
		Op{name: "FAULT the partition is cut off, some nodes still reach it"})
	n.mem[1] = live
	other := s.mem[1]
	n.mem[0] = other
	n.faults++
	n.partition[0].checked = false
	try(has("split") && other.alive && s.partition[0].checked,
		Op{name: "FAULT back to the other master"})
}

// statements emits the steps of nodes in SQL, and their reads of the store.
func (s *State) statements(n *State, try func(bool, Op)) {
	for u := int8(1); u <= s.U; u++ {
		try(n.apply(u), Op{"sql apply: units", u, 0, 0, 0})
		try(n.online(u, 0, int8(*epochs)), Op{"sql online, opening: units, partition", u, 0, 0, 0})
		try(feature["drain"] && n.online(u, 1, int8(*epochs)),
			Op{"sql online, opening: units, partition", u, 1, 0, 0})
	}
	if x := s.row(); x.status == open || x.status == opening {
		n.row().status = closing
		try(true, Op{name: "sql closing: 1 for a drain"})
		n.row().status, n.row().moving = closing, true
		try(feature["drain"], Op{name: "sql closing: 1 for a drain", a: 1})
	}
	for e := int8(0); e <= s.cur; e++ {
		try(n.sqlOpen(e), Op{"sql open: epoch", e, 0, 0, 0})
		try(n.sqlClosed(e), Op{"sql closed: epoch", e, 0, 0, 0})
		n.U += n.epoch[e].R
		n.epoch[e].R = 0
		try(s.epoch[e].R > 0, Op{"sql sweep R -> U: epoch", e, 0, 0, 0})
	}
	for i := range s.mem {
		if m := &s.mem[i]; m.alive && s.runs(m, m.partition, max(0, m.mark-1)) {
			n.sync = s.readSync(int8(i))
			try(n.sync != s.sync && !feature["prompt"],
				Op{"a node reads the counters: memory", int8(i), 0, 0, 0})
			try(feature["prompt"] && n.tell(s.readSync(int8(i))),
				Op{"sql sync: epoch + 1, taken, given", m.e, m.taken, m.given, 0})
		}
	}
	try(n.tell(s.sync),
		Op{"sql sync: epoch + 1, taken, given", s.sync.e, s.sync.taken, s.sync.given, 0})
	for l := int8(0); l < 2; l++ {
		try(n.verify(l), Op{"sql next incarnation: partition", l, 0, 0, 0})
		for a := int8(0); a <= s.partition[l].act; a++ {
			try(n.marker(l, a), Op{"MARKER: partition, incarnation", l, a, 0, 0})
		}
	}
	for l := int8(0); l < 2; l++ {
		try(n.settle(l), Op{name: "sql an older epoch is settled"})
	}
	try(n.lostAlone(), Op{name: "sql epoch lost, its hash is missing"})
	try(n.giveUp(), Op{name: "operator gives the partition up"})
}
