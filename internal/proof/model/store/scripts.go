package main

// runs is the check at the top of every script. It reports whether the marker and the replication
// id are the caller's.
func (s *State) runs(m *Mem, partition, act int8) bool {
	return m.alive && m.partition == partition && (m.mark == act+1 || mut("nomarker")) &&
		(m.id == s.partition[partition].ident[act] || mut("noreplid"))
}

// record returns the id's record. The record vanishes when its slice is no longer read.
func (s *State) record(m *Mem, k int8) *Rec {
	if r := &m.rec[k]; r.state == 0 || s.now/2-r.at/2 > 1 {
		m.rec[k] = Rec{}
	}
	return &m.rec[k]
}

// open creates the bucket's hash. The marker key also keeps the epoch, so that a late open cannot
// recreate a hash that was lost alone.
func (s *State) open(m *Mem, e int8) bool {
	if m.e >= e+1 || m.top >= e+1 && !mut("notop") || mut("openclosed") && m.e > 0 && !m.closed {
		return false
	}
	m.e, m.top, m.closed, m.moved = e+1, e+1, false, false
	m.bal, m.taken, m.given, m.g = 0, 0, 0, 0
	s.epoch[e].confirmed = true
	return true
}

func (s *State) grant(m *Mem, e, number int8) bool {
	if m.e != e+1 || m.closed && !mut("noclosed") ||
		number != m.g && !(mut("nonumber") && m.bal < 3) {
		return false
	}
	m.bal, m.g = m.bal+s.epoch[e].grant[number], number+1
	return true
}

func (s *State) deduct(m *Mem, k, e, act int8) bool {
	r := s.record(m, k)
	if r.state > 0 && !mut("norecord") {
		return false // answered from the record
	}
	if m.e != e+1 && !(mut("noepoch") && m.e > 0) || m.closed && !mut("noclosed") {
		return false
	}
	if feature["period"] && s.clock > s.epoch[e].period {
		if !mut("noperiod") {
			return false
		}
		s.bad = 2
	}
	if limited(k) && m.count >= 1 {
		return false
	}
	if limited(k) && mut("countfirst") {
		m.count++
	}
	if m.bal < amount(k) {
		return mut("countfirst") && limited(k)
	}
	m.bal -= amount(k)
	m.taken += amount(k)
	if limited(k) && !mut("countfirst") {
		m.count++
	}
	*r = Rec{state: 1, e: m.e - 1, left: amount(k), act: act, at: s.now}
	s.times[k]++
	s.out[k] += amount(k)
	s.outE[k] = m.e - 1
	if s.void[k] && !s.forgot {
		s.bad = 1
	}
	return true
}

// here reports whether the bucket lives in this memory: it is not being copied here, and it has not
// moved away.
func (m *Mem) here() bool { return (m.e > 0 || mut("copytouch")) && !m.moved }

func (s *State) rollback(m *Mem, k, rb, act int8) bool {
	r, n := s.record(m, k), part(k)
	if !m.here() || r.state != 1 || r.rb>>rb&1 == 1 && !mut("norollbackid") || r.left < n {
		return false
	}
	since := s.partition[m.partition].since[act]
	if mut("durablerecords") {
		since = act
	}
	if r.act < since && !mut("rollbackolder") {
		if !s.forgot && !s.gap && (s.partition[0].act == 0 || feature["durable"]) {
			s.bad = 3
		}
		return false
	}
	r.rb |= 1 << rb
	r.left -= n
	s.asked[k] |= 1 << rb
	s.out[k] = max(0, s.out[k]-n)
	if r.left == 0 && limited(k) {
		m.count--
	}
	if (m.e == r.e+1 || mut("otherepoch")) && !m.closed {
		m.bal += n
		m.given += n
	} else {
		m.late[r.e] += n
	}
	return true
}

func (s *State) cancel(m *Mem, k, act int8) bool {
	r := s.record(m, k)
	if !m.here() || r.state > 0 {
		return false
	}
	if !mut("novoid") {
		*r = Rec{state: 2, act: act, at: s.now}
	}
	s.void[k] = true
	return true
}

// close closes an epoch; it can be repeated. If the epoch never was in this memory, close leaves a
// tombstone. If it was and is missing, the answer says lost.
func (s *State) close(m *Mem, e int8) (answer [5]int8) {
	switch {
	case m.e > e+1:
		return
	case m.e < e+1 && m.top >= e+1 && !mut("notop"):
		return [5]int8{2}
	case m.e < e+1:
		answer = [5]int8{1}
		if mut("notombstone") {
			return
		}
		m.e, m.top, m.bal, m.taken, m.given, m.g = e+1, e+1, 0, 0, 0, 0
	}
	m.closed = true
	m.moved = s.epoch[e].moving && !mut("copyloose")
	return [5]int8{1, m.bal, m.taken, m.given, m.g}
}

// writeCopy replaces the other partition's content for the bucket, unless a newer epoch or copy is
// there.
func (s *State) writeCopy() bool {
	c := &s.copy
	m := &s.mem[1-c.partition]
	if !c.alive || (m.e >= c.e || m.from > c.e) && !mut("copylate") {
		return false
	}
	if mut("copymerge") {
		m.count = max(m.count, c.count)
	} else {
		m.count = c.count
	}
	if m.rec = c.rec; !mut("copynolate") {
		m.late = c.late
	}
	for k := range m.rec {
		switch r := &m.rec[k]; {
		case mut("copyact"):
		case r.act == c.mark-1:
			r.act = s.partition[m.partition].act
		default:
			r.act = -1
		}
	}
	m.from = c.e
	if s.copied = max(s.copied, c.e); mut("copyany") {
		s.copied = s.cur + 1
	}
	return true
}
