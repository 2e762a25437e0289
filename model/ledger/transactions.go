package main

var transactions = [...]struct {
	name string
	run  func(s *State, o Tx) bool
}{
	flight: {
		"flight: id, call, bucket, bucket of leg 2",
		func(s *State, o Tx) bool { return s.deduct(o.a, o.b, [2]int8{o.c, o.d}) },
	},
	collect: {
		"collect: id, call, target, donors (bits)",
		func(s *State, o Tx) bool { return s.collect(o.a, o.b, o.c, o.d) },
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
	rollover: {
		"roll-over: budget, bucket (-1 all)",
		func(s *State, o Tx) bool { return s.rollover(o.a, o.b) },
	},
	sweep:   {"sweep: bucket, epoch", func(s *State, o Tx) bool { return s.sweep(o.a, o.b) }},
	shrink:  {"shrink by 1", func(s *State, o Tx) bool { return s.shrink() }},
	appendT: {"append 1", func(s *State, o Tx) bool { return s.append() }},
	gather: {
		"gather: id, call, target",
		func(s *State, o Tx) bool { return s.gather(o.a, o.b, o.c) },
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
	s.idle, s.call[k][a] = 0, Call{refused: s.call[k][a].refused}
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

// collect moves O of the donors to the target, and deducts in the same transaction.
func (s *State) collect(k, a, target, donors int8) bool {
	if s.row[0][k].state != absent || s.paused || budgetOf(target) != 0 ||
		s.newest(target).status != open ||
		s.lapsed(target) ||
		donors>>target&1 == 1 {
		return false
	}
	sum, piles := s.newest(target).O, min(1, s.newest(target).O)
	for b := int8(0); b < N; b++ {
		if x := s.newest(b); donors>>b&1 == 1 {
			if !exists(b) || budgetOf(b) != 0 || x.status != open ||
				x.O == 0 && !mut("collectblind") ||
				s.lapsed(b) && !mut("collectold") {
				return false
			}
			sum += x.O
			piles++
		}
	}
	if sum < amount(k) && piles < 2 && !mut("collectany") {
		return false // without a deduction it must leave fewer buckets with units
	}
	for b := int8(0); b < N; b++ {
		if donors>>b&1 == 1 {
			if mut("collectblind") { // the redo moves what the first attempt had read
				s.newest(b).O--
				s.newest(target).O += 1
				continue
			}
			s.newest(target).O += s.newest(b).O
			s.newest(b).O = 0
		}
	}
	s.idle = min(9, s.idle+1)
	if !mut("collectbare") && sum >= amount(k) {
		return s.deduct(k, a, [2]int8{target, -1})
	}
	return true
}

// gather brings the units of the period into one bucket, as far as needed, and deducts in the same
// transaction: first what came back, then U, then O of the other buckets. It reads all of it under
// locks and refuses a request that still does not fit.
func (s *State) gather(k, a, target int8) bool {
	if s.row[0][k].state != absent || s.paused || budgetOf(target) != 0 ||
		s.newest(target).status != open ||
		s.lapsed(target) ||
		s.newest(target).O >= amount(k) ||
		limited(k) && s.count[s.clock] >= s.max {
		return false
	}
	before := s.covered(0)
	for b := int8(0); b < N; b++ {
		if !exists(b) || budgetOf(b) != 0 {
			continue
		}
		if s.newest(b).status == open && s.lapsed(b) {
			before -= s.newest(b).O // it is forfeited
		}
		for e := int8(0); e <= s.b[b].cur; e++ {
			if x := &s.b[b].epoch[e]; x.R > 0 && !mut("gathernoreturn") {
				if x.period < s.bud[0].period {
					s.bud[0].late += x.R
				}
				s.bud[0].U += x.R
				x.R = 0
			}
		}
	}
	need := amount(k) - s.newest(target).O
	for n := min(need, s.releasable(0)); n > 0; n-- {
		if s.mayTake(target, n) {
			s.draw(target, n)
			need -= n
			break
		}
	}
	for b := int8(0); b < N && need > 0; b++ {
		x := s.newest(b)
		if b == target || !exists(b) || budgetOf(b) != 0 || x.status != open ||
			s.lapsed(b) && !mut("gatherold") {
			continue
		}
		n := min(need, x.O)
		x.O -= n
		s.newest(target).O += n
		need -= n
	}
	if need <= 0 {
		return s.deduct(k, a, [2]int8{target, -1})
	}
	if adjusting := feature["adjust"] && !s.mayTake(target, 1); before >= amount(k) &&
		!adjusting {
		s.bad = 8
	}
	if before < amount(k) {
		s.call[k][a] = Call{refused: true}
	}
	return true
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
		s.comeBack(r, n)
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

// comeBack returns units of a deduction: directly into O if its epoch is open and its period is not
// over, else into R.
func (s *State) comeBack(r *Row, n int8) {
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
		s.comeBack(r, amount(k)-n)
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
