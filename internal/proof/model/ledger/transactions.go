package main

var transactions = [...]struct {
	name string
	run  func(s *State, o Tx) bool
}{
	flight: {
		"flight: id, call, bucket, bucket of leg 2",
		func(s *State, o Tx) bool { return s.deduct(o.a, o.b, [2]int8{o.c, o.d}) },
	},
	rollback: {
		"rollback: id, rollback id (-1 expiry), units",
		func(s *State, o Tx) bool { return s.rollback(o.a, o.b, o.c) },
	},
	confirm: {"confirm: id, units", func(s *State, o Tx) bool { return s.confirm(o.a, o.b) }},
	cancel:  {"cancel: id, budget", func(s *State, o Tx) bool { return s.cancel(o.a, o.b) }},
	apply:   {"apply: bucket, units", func(s *State, o Tx) bool { return s.apply(o.a, o.b) }},
	online: {
		"online: bucket, units",
		func(s *State, o Tx) bool { return s.online(o.a, o.b, int8(*epochs)) },
	},
	offline: {"offline: bucket", func(s *State, o Tx) bool { return s.offline(o.a) }},
	recycle: {
		"recycle: budget, bucket that gets U",
		func(s *State, o Tx) bool { return s.recycle(o.a, o.b) },
	},
	rollover: {"roll-over: budget", func(s *State, o Tx) bool { return s.rollover(o.a) }},
	sweep:    {"sweep: bucket, epoch", func(s *State, o Tx) bool { return s.sweep(o.a, o.b) }},
	shrink:   {"shrink by 1", func(s *State, o Tx) bool { return s.shrink() }},
	appendT:  {"append 1", func(s *State, o Tx) bool { return s.append() }},
	bring: {
		"bring: id, call, target, whether it contracts",
		func(s *State, o Tx) bool { return s.bring(o.a, o.b, o.c, o.d == 1) },
	},
}

// run executes a transaction. It returns false if the transaction changes nothing, or waits for a
// lock.
func (s *State) run(o Tx) bool {
	waits := s.pend.op.kind != 0 && s.locks(o)&s.locks(s.pend.op) != 0
	return !waits && transactions[o.kind].run(s, o)
}

// mayDeduct judges a deduction under the locks. at has a bucket for each leg, or -1.
func (s *State) mayDeduct(k int8, at [2]int8) bool {
	if s.paused && !mut("nopause") {
		return false
	}
	for i, b := range at {
		if b < 0 {
			continue
		}
		x := s.newest(b)
		if s.row[i][k].state != absent && !mut("nokey") || x.status != open ||
			x.O < amount(k) && !mut("nofit") {
			return false
		}
		if feature["period"] && s.clock > x.period && !mut("noperiod") {
			return false
		}
	}
	switch {
	case !limited(k):
		return true
	case mut("cachedmax"):
		return s.count[s.clock] < 2
	case mut("limitoutside"):
		return s.peekCount > 0 && s.peekCount-1 < s.max
	}
	return s.count[s.clock] < s.max
}

func (s *State) deduct(k, a int8, at [2]int8) bool {
	if !s.mayDeduct(k, at) {
		return false
	}
	if s.paused {
		s.bad = 5
	}
	for i, b := range at {
		if b < 0 {
			continue
		}
		x, r := s.newest(b), &s.row[i][k]
		if feature["period"] && s.clock > x.period {
			s.bad = 1
		}
		x.O -= amount(k)
		*r = Row{
			state: used,
			b:     b,
			e:     s.b[b].cur,
			left:  amount(k),
			call:  a + 1,
			times: r.times + 1,
		}
		if feature["hold"] && k == 0 {
			r.state = held
			x.H += amount(k)
		} else {
			x.S += amount(k)
		}
		if feature["feed"] {
			r.entry = s.number(b)
		}
	}
	if limited(k) {
		s.row[0][k].window = s.clock
		if s.count[s.clock]++; s.count[s.clock] > s.max {
			s.bad = 2
		}
	}
	s.call[k][a] = Call{refused: s.call[k][a].refused}
	return true
}

// number draws the next feed number of a bucket, under the lock of its newest row.
func (s *State) number(b int8) int8 {
	if s.pend.entry > 0 { // mutant entrynolock: drawn before the commit
		return s.pend.entry
	}
	s.b[b].entry++
	return s.b[b].entry
}

// bring moves units of the period into one bucket and deducts in the same transaction: first what
// came back, then U, then O of the other buckets, as far as needed. If it contracts, it moves all
// of them and takes the other buckets offline. It reads everything under locks, and refuses a
// request that does not fit; then nothing moves.
func (s *State) bring(k, a, target int8, contract bool) bool {
	if s.row[0][k].state != absent || s.paused || budgetOf(target) != 0 ||
		s.newest(target).status != open ||
		s.lapsed(target) ||
		s.newest(target).O >= amount(k) ||
		limited(k) && s.count[s.clock] >= s.max {
		return false
	}
	before, was := s.covered(0), *s
	for b := int8(0); b < N && !mut("bringnoreturn"); b++ {
		for e := int8(0); e <= s.b[b].cur && exists(b) && budgetOf(b) == 0; e++ {
			s.sweep(b, e)
		}
	}
	need := amount(k) - s.newest(target).O
	n := s.releasable(0)
	if !contract {
		n = min(n, need)
	}
	s.drawBy(target, s.applicant(target), n)
	need -= n
	for b := int8(0); b < N; b++ {
		x := s.newest(b)
		if b == target || !exists(b) || budgetOf(b) != 0 || x.status != open {
			continue
		}
		n := x.O
		if !contract {
			n = min(n, max(need, 0))
		}
		if mut("bringblind") && !contract { // what was read before the locks
			n = max(need, 0)
		}
		x.O -= n
		s.newest(target).O += n
		need -= n
		if contract {
			x.status = closed
		}
	}
	if need <= 0 {
		return s.deduct(k, a, [2]int8{target, -1})
	}
	*s = was
	s.call[k][a] = Call{refused: true}
	if before >= amount(k) {
		s.bad = 8
	}
	return !contract
}

// rollback moves n units of every leg from S or H to R. rb < 0 means that the hold expires.
func (s *State) rollback(k, rb, n int8) bool {
	gone := false
	for i := range s.row {
		r := &s.row[i][k]
		if r.state == absent || r.state == void ||
			mut("onelegback") && i == 1 && s.row[0][k].state != absent {
			continue
		}
		if r.left < n && !mut("blindrollback") ||
			rb >= 0 && r.back[rb] != 0 && !mut("norollbackid") {
			return false
		}
		if rb < 0 && r.state != held && !mut("expireblind") {
			return false
		}
		x := &s.b[r.b].epoch[r.e]
		if r.state == held {
			x.H -= n
		} else {
			x.S -= n
		}
		s.returnUnits(r, n)
		if r.left -= n; r.left <= 0 {
			gone = r.state != returned
			r.state = returned
		}
		if rb >= 0 {
			r.back[rb] = 1
			if feature["feed"] {
				r.back[rb] = s.number(r.b)
			}
		}
	}
	if gone && limited(k) {
		w := s.row[0][k].window
		if mut("rollbackwindow") {
			w = s.clock
		}
		s.count[w]--
	}
	return true
}

// returnUnits returns units of a deduction: directly into O if its epoch is open and its period is
// not over, else into R.
func (s *State) returnUnits(r *Row, n int8) {
	x := &s.b[r.b].epoch[r.e]
	open := x.status == open || mut("backclosed")
	lapsed := feature["period"] && s.clock > x.period && !mut("backold")
	if !open || lapsed {
		x.R += n
	} else {
		x.O += n
	}
}

func (s *State) confirm(k, n int8) bool {
	r := &s.row[0][k]
	if r.state != held && !(mut("confirmblind") && r.state == returned) {
		return false
	}
	x := &s.b[r.b].epoch[r.e]
	x.H, x.S = x.H-amount(k), x.S+n
	if amount(k) > n {
		s.returnUnits(r, amount(k)-n)
	}
	r.state, r.left, r.confirmed = used, n, true
	return true
}

// cancel cancels through the budget of one leg. A tombstone there stops the whole request.
func (s *State) cancel(k, i int8) bool {
	l0, l1 := legs(k)
	r := &s.row[i][k]
	if i == 0 && !l0 || i == 1 && !l1 || r.state != absent || s.told[k]&1 == 1 {
		return false
	}
	if !mut("notombstone") {
		r.state = void
	}
	s.told[k] |= 1
	return true
}
