package main

func (s *State) mine(k, a int8) bool {
	for i := range s.row {
		if s.row[i][k].call == a+1 && s.row[i][k].state != void {
			return true
		}
	}
	return false
}

// moves emits every state reachable in one step.
func (s *State) moves(emit func(*State, Op)) {
	n := *s
	try := func(ok bool, o Op) {
		if ok {
			if n.peekU > 0 || n.look > 0 {
				n.peekMin = min(n.peekMin, n.covered(0))
			}
			if feature["lag"] {
				n.lag(s)
			}
			emit(&n, o)
		}
		n = *s
	}
	lossy := func(o Tx) { s.lossy(o, &n, try) }
	for k := int8(0); int(k) < *ids; k++ {
		for a := int8(0); int(a) < *calls; a++ {
			s.answers(k, a, &n, try)
			if c := s.call[k][a]; !c.refused && !s.pending(k, a) {
				s.deductions(k, a, lossy)
			}
		}
		s.undoing(k, lossy)
	}
	s.movements(lossy)
	s.environment(&n, try)
}

// lossy executes a transaction, or leaves it pending.
func (s *State) lossy(o Tx, n *State, try func(bool, Op)) {
	done := n.run(o)
	writes := done && (o.kind != bring || n.mine(o.a, o.b))
	try(done, o.op(""))
	n.faults++
	n.pend = Pending{op: o, clock: s.clock, max: s.max, paused: s.paused}
	if mut("entrynolock") && feature["feed"] && o.kind == flight {
		n.pend.entry = n.number(o.c)
	}
	try(writes && int(s.faults) < *maxFault && s.pend.op.kind == 0,
		o.op("FAULT: COMMIT without a reply: "))
}

// pending reports whether the call's transaction is pending.
func (s *State) pending(k, a int8) bool {
	o := s.pend.op
	return (o.kind == flight || o.kind == bring) && o.a == k && o.b == a
}

func (s *State) deductions(k, a int8, do func(Tx)) {
	l0, l1 := legs(k)
	for b := int8(0); b < N; b++ {
		switch {
		case !exists(b) || budgetOf(b) == 1 && l0:
		case !l0 && b == 2:
			do(Tx{flight, k, a, -1, b})
		case l0 && l1 && !mut("twotransactions"):
			do(Tx{flight, k, a, b, 2})
		case l0:
			do(Tx{flight, k, a, b, -1})
		}
		if exists(b) && budgetOf(b) == 0 && l0 && !l1 {
			do(Tx{bring, k, a, b, 0})
			do(Tx{bring, k, a, b, 1})
		}
	}
}

func (s *State) undoing(k int8, do func(Tx)) {
	left := max(s.row[0][k].left, s.row[1][k].left)
	if mut("blindrollback") {
		left = amount(k)
	}
	if feature["parts"] {
		left = 1
	}
	for rb := int8(0); rb < 2 && undoable(k) && s.accepted(k); rb++ {
		if left > 0 && (rb == 0 || feature["parts"] || mut("blindrollback")) {
			do(Tx{rollback, k, rb, left, 0})
		}
	}
	if undoable(k) {
		do(Tx{cancel, k, 0, 0, 0})
		do(Tx{cancel, k, 1, 0, 0})
	}
	if feature["hold"] && k == 0 {
		for x := int8(1); x <= amount(k); x++ {
			do(Tx{confirm, k, x, 0, 0})
		}
		if st := s.row[0][k].state; st == held || st == used && mut("expireblind") {
			do(Tx{rollback, k, -1, amount(k), 0})
		}
	}
}

func (s *State) movements(do func(Tx)) {
	for b := int8(0); b < N; b++ {
		if !exists(b) {
			continue
		}
		for u := int8(1); u <= s.bud[budgetOf(b)].U; u++ {
			do(Tx{apply, b, u, 0, 0})
			do(Tx{online, b, u, 0, 0})
		}
		do(Tx{offline, b, 0, 0, 0})
		do(Tx{recycle, budgetOf(b), b, 0, 0})
		for e := int8(0); e <= s.b[b].cur; e++ {
			do(Tx{sweep, b, e, 0, 0})
		}
	}
	do(Tx{rollover, 0, 0, 0, 0})
	if feature["shrink"] {
		do(Tx{kind: shrink})
		do(Tx{kind: appendT})
	}
}

func (s *State) environment(n *State, try func(bool, Op)) {
	if o := s.pend.op; o.kind != 0 {
		n.settle(true)
		try(true, o.op("COMMITS late: "))
		n.settle(false)
		try(true, o.op("aborts: "))
	}
	for b := int8(0); b < N && feature["feed"]; b++ {
		n.feed(b)
		try(exists(b), Op{"feed read: bucket", b, 0, 0, 0})
	}
	n.clock = 1
	try(s.clock == 0 && (feature["period"] || feature["limit"]), Op{name: "clock"})
	n.max = 1
	try(s.max == 2 && feature["limit"], Op{name: "PATCH the limit's maximum to 1"})
	n.paused = !s.paused
	try(feature["pause"], Op{name: "PATCH paused"})
	n.peekCount = 1 + s.count[s.clock]
	try((mut("limitoutside") || mut("limitmemory")) && n.peekCount != s.peekCount,
		Op{"a node reads the limit row: count", s.count[s.clock], 0, 0, 0})
	n.peekU, n.peekMin = 1+s.bud[0].U, s.covered(0)
	try(mut("twostatements") && s.peekU == 0, Op{"a node reads U alone: U", s.bud[0].U, 0, 0, 0})
}

// settle ends the pending transaction. It judged clock, pause and maximum when it took its locks.
func (s *State) settle(commit bool) {
	p, clock, most, paused := s.pend, s.clock, s.max, s.paused
	s.pend = Pending{entry: p.entry}
	s.clock, s.max, s.paused = p.clock, p.max, p.paused
	if commit && !s.run(p.op) {
		s.bad = 7
	}
	s.clock, s.max, s.paused, s.pend = clock, most, paused, Pending{}
}

func (s *State) answers(k, a int8, n *State, try func(bool, Op)) {
	n.told[k] |= 2
	try(mut("earlyack") && s.pending(k, a) && s.told[k]&2 == 0,
		Op{"answer accepted: id, call", k, a, 0, 0})
	if s.call[k][a].refused || s.mine(k, a) || s.pending(k, a) && !mut("plainread") {
		return
	}
	n.call[k][a] = Call{refused: true}
	try(true, Op{"answer unavailable: id, call", k, a, 0, 0})
	if feature["lag"] {
		s.lookTwice(k, a, n, try)
	} else if s.exhausted(k) { // the id is read in the same statement, or after it
		n.call[k][a] = Call{refused: true}
		if s.accepted(k) {
			n.bad = 3
		}
		try(!s.accepted(k) || mut("nolookup") || mut("lookupfirst") && s.looked[k],
			Op{"answer budget_exhausted: id, call", k, a, 0, 0})
	}
	n.looked[k] = true
	try(mut("lookupfirst") && !s.accepted(k) && !s.looked[k],
		Op{"a node looks the id up: id", k, 0, 0, 0})
	n.bad = 4
	try(
		s.peekU > 0 && s.peekU-1+s.covered(0)-s.releasable(0) < amount(k) &&
			s.peekMin >= amount(k),
		Op{"answer budget_exhausted: id, call", k, a, 0, 0},
	)
	n.bad = 6
	try(mut("limitmemory") && limited(k) && s.peekCount-1 >= s.max && s.count[s.clock] < s.max,
		Op{"answer limit: id, call", k, a, 0, 0})
}

// lag lets a reader of MariaDB see the last commit but not the one before, if they touched
// different rows.
func (s *State) lag(before *State) {
	rows := int8(0)
	for b := range s.b {
		if s.b[b] != before.b[b] {
			rows |= 1 << b
		}
	}
	if s.bud[0].U != before.bud[0].U {
		rows |= 1 << N
	}
	if rows == 0 {
		return
	}
	now := s.covered(0)
	if s.view = now; rows&s.rows == 0 {
		s.view -= s.delta
	}
	s.delta, s.rows = now-before.covered(0), rows
}

// lookTwice answers budget_exhausted after two looks, the second begun after the first. The second
// one reads with locks, so it sees every commit.
func (s *State) lookTwice(k, a int8, n *State, try func(bool, Op)) {
	seen := min(s.view, s.covered(0))
	n.look, n.peekMin = k+1, s.covered(0)
	n.view, n.delta, n.rows = s.covered(
		0,
	), 0, 0 // what was committed before this look, the next one sees
	try(seen < amount(k) && s.look == 0, Op{"first look: id, call", k, a, 0, 0})
	if !mut("looktwice") && !mut("lookonce") {
		seen = s.covered(0)
	}
	n.call[k][a] = Call{refused: true}
	if n.look = 0; min(s.peekMin, s.covered(0)) >= amount(k) {
		n.bad = 4
	}
	try(seen < amount(k) && !s.accepted(k) && (s.look == k+1 || mut("lookonce")),
		Op{"answer budget_exhausted: id, call", k, a, 0, 0})
}

// feed reads every committed event of a bucket past the reader's cursor.
func (s *State) feed(b int8) {
	top := s.cursor[b]
	for k := range s.row[0][:*ids] {
		r := &s.row[0][k]
		for j, entry := range [...]int8{r.entry, r.back[0], r.back[1]} {
			if r.b == b && entry > s.cursor[b] {
				s.seen[k] |= 1 << j
				top = max(top, entry)
			}
		}
	}
	s.cursor[b] = top
}
