package main

// note records what any node may read now, and may send in a set at any later time.
func (s *State) note() {
	if x := s.newest(0); feature["filter"] && x.status == open && x.O >= 0 && s.b[0].fill <= FM {
		s.read[s.b[0].fill] |= 1 << x.O
	}
	if mut("knownmax") {
		s.known = max(s.known, s.filter.f)
	}
}

func (s *State) set(f, b int8) bool {
	if s.filter.f < 0 || s.filter.f > f || s.filter.f == f && !mut("setequal") ||
		s.filter == (Filter{f, b}) {
		return false
	}
	if s.filter.f != f {
		s.given = 0
	}
	s.filter = Filter{f, b}
	return true
}

// setAdded adds the growth of O under fill f to the content of the previous fill.
func (s *State) setAdded(f int8) bool {
	if s.added[f] == 0 || s.filter.f != f-1 || s.filter.f <= 0 || s.filter.b < 0 {
		return mut("addequal") && s.added[f] > 0 && s.filter.f == f && s.add(f)
	}
	s.given = 0
	return s.add(f)
}

func (s *State) add(f int8) bool {
	s.filter = Filter{f, s.filter.b + s.added[f]}
	return s.filter.b < 8
}

// noNumber reports whether the content is not a number, or far beyond SQL's fill. It is deleted
// first.
func (s *State) noNumber() bool {
	f := s.filter
	return (f.f < 0 || f.f > 0 && f.b < 0) && !mut("nodelete") ||
		f.f >= s.b[0].fill+far && !mut("nofar")
}

// raiseFill is the compare-and-set after a node found a content wrong. It returns false if another
// node has replaced that content.
func (s *State) raiseFill(wrong int8) bool {
	fill := &s.b[0].fill
	if *fill > wrong && !mut("bumpread") {
		return false // another node has replaced that content
	}
	if *fill > wrong {
		s.bad = 7
	}
	*fill++
	if !mut("bumpown") {
		*fill = max(*fill, wrong+1)
	}
	if *fill > FM {
		s.bad = 8
	}
	return true
}

func (s *State) filterMoves(n *State, try func(bool, Op)) {
	for f := int8(1); f <= FM; f++ {
		for o := int8(0); o < 8; o++ {
			replaces := s.added[f] == 0 || s.filter.f != f-1 || s.filter.f <= 0
			try(replaces && s.read[f]>>o&1 == 1 && n.set(f, o), Op{"filter set: fill, O", f, o, 0, 0})
		}
		try(n.setAdded(f), Op{"filter set adds: fill, units", f, s.added[f], 0, 0})
	}
	for k := int8(0); int(k) < *ids; k++ {
		for a := int8(0); int(a) < *calls; a++ {
			s.takes(k, a, n, try)
		}
	}
	s.tampers(n, try)
}

// takes emits the effects of one call on the filter.
func (s *State) takes(k, a int8, n *State, try func(bool, Op)) {
	h, c := s.call[k][a], &n.call[k][a]
	if h.refused || s.mine(k, a) || s.newest(0).status != open {
		return
	}
	idle := h == Call{}
	switch {
	case idle && s.filter.f != 0 && s.noNumber():
		n.filter = Filter{}
		try(true, Op{"filter content is no number, deleted: id, call", k, a, 0, 0})
	case idle && s.filter.f > 0 && s.filter.b >= amount(k):
		n.filter.b -= amount(k)
		n.given += amount(k)
		*c = Call{took: s.filter.f}
		try(true, Op{"filter take fits: id, call", k, a, 0, 0})
		n.filter.b -= amount(k)
		n.given += amount(k)
		n.faults++
		try(int(s.faults) < *maxFault, Op{"FAULT: filter take, reply lost: id, call", k, a, 0, 0})
	case idle && s.filter.f > 0:
		*c = Call{saw: s.filter.f}
		try(true, Op{"filter take refused: id, call", k, a, 0, 0})
		if mut("filtersaysno") && s.newest(0).O >= amount(k) {
			n.bad = 9
			try(true, Op{"answer budget_exhausted: id, call", k, a, 0, 0})
		}
	case h.took > 0 && s.newest(0).O < amount(k): // the commit found less than the filter gave
		*c = Call{wrong: h.took}
		try(true, Op{"node compares the refusal with O: id, call", k, a, 0, 0})
	case h.saw > 0:
		*c = Call{}
		if s.newest(0).O >= amount(k) {
			c.wrong = h.saw
		}
		try(true, Op{"node compares the refusal with O: id, call", k, a, 0, 0})
	case h.wrong > 0:
		*c = Call{}
		n.raiseFill(h.wrong)
		try(!mut("nobump"), Op{"fill raised: id, call", k, a, 0, 0})
	}
	try(!idle && int(s.faults) < *maxFault && n.crash(k, a),
		Op{"FAULT: a node forgets what its take showed: id, call", k, a, 0, 0})
}

// tampers emits every other content that the filter may get.
func (s *State) tampers(n *State, try func(bool, Op)) {
	if int(s.faults) < *maxFault {
		for f := s.b[0].fill - 1; f <= FM; f++ {
			for b := int8(-1); b <= 3; b++ {
				n.filter, n.tampered, n.given = Filter{f, b}, true, 0
				n.faults++
				try(f >= 0 && (f <= s.b[0].fill+2 || f == FM),
					Op{"FAULT: filter becomes: fill, balance", f, b, 0, 0})
			}
		}
		for f := int8(-1); f <= 0; f++ {
			n.filter, n.tampered, n.given = Filter{f, 0}, true, 0
			n.faults++
			try(s.filter.f > 0, Op{"FAULT: filter becomes: fill, balance", f, 0, 0, 0})
		}
	}
}

func (s *State) crash(k, a int8) bool {
	s.call[k][a] = Call{}
	s.faults++
	return true
}

// heals reports whether the filter lets n units through without further faults and with at most one
// rise of fill. O covers them.
func (s State) heals(n int8) bool {
	for bumps := 0; bumps < 2; {
		f, fill, o := s.filter, s.b[0].fill, s.newest(0).O
		known := fill // a read of SQL replaces what the node knew
		if mut("knownmax") {
			known = max(fill, s.known)
		}
		switch {
		case f.f != 0 && s.noNumber():
			s.filter = Filter{}
		case f.f == 0 || f.f > 0 && f.f < known && !mut("nostale"): // stale
			if !s.set(fill, o) {
				return false
			}
		case f.f > 0 && f.b >= n:
			return true
		default:
			if mut("nobump") || f.f < 0 {
				return false
			}
			bumps++
			s.raiseFill(f.f)
			s.set(s.b[0].fill, o)
		}
	}
	return false
}
