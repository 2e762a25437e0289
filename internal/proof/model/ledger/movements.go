package main

// lapsed reports whether the period of a bucket's budget is over by SQL's clock.
func (s *State) lapsed(b int8) bool {
	return feature["period"] && s.clock > s.bud[budgetOf(b)].period
}

// mayTake checks adjust_cnt, which is 1 here. It counts applications for units that were never
// handed out.
func (s *State) mayTake(b, n int8) bool {
	bud := &s.bud[budgetOf(b)]
	return !feature["adjust"] || s.b[b].applied < 1 || n <= bud.U-bud.fresh && !mut("adjustall")
}

// releasable returns the part of U that some bucket may still apply for.
func (s *State) releasable(i int8) int8 {
	if bud := &s.bud[i]; feature["adjust"] && s.b[0].applied > 0 && s.b[1].applied > 0 &&
		!mut("adjustall") {
		return bud.U - bud.fresh
	}
	return s.bud[i].U
}

func (s *State) draw(b, n int8) { s.drawBy(b, b, n) }

// applicant returns the bucket on which an application for units of another one counts: that one,
// or one that may still apply.
func (s *State) applicant(b int8) int8 {
	for other := int8(0); other < N && s.b[b].applied > 0; other++ {
		if exists(other) && budgetOf(other) == budgetOf(b) && s.b[other].applied == 0 {
			return other
		}
	}
	return b
}

// drawBy moves units of U to a bucket. The application counts on another one.
func (s *State) drawBy(b, by, n int8) {
	bud := &s.bud[budgetOf(b)]
	if feature["adjust"] && n > 0 && (n > bud.U-bud.fresh || mut("adjustall")) {
		s.b[by].applied++
	}
	bud.U -= n
	bud.fresh = min(bud.fresh, bud.U)
	s.newest(b).O += n
}

func (s *State) apply(b, n int8) bool {
	if s.newest(b).status != open && !mut("applyclosed") || s.releasable(budgetOf(b)) < n ||
		s.lapsed(b) ||
		!s.mayTake(b, n) {
		return false
	}
	s.draw(b, n)
	return true
}

func (s *State) online(b, n, limit int8) bool {
	if s.newest(b).status == open || s.releasable(budgetOf(b)) < n ||
		s.lapsed(b) ||
		!s.mayTake(b, n) ||
		s.b[b].cur+1 >= limit {
		return false
	}
	s.b[b].cur++
	*s.newest(b) = Epoch{status: open, period: s.bud[budgetOf(b)].period}
	s.draw(b, n)
	return true
}

func (s *State) offline(b int8) bool {
	x := s.newest(b)
	if x.status != open || s.lapsed(b) {
		return false
	}
	s.bud[budgetOf(b)].U += x.O
	x.status, x.O = closed, 0
	return true
}

// recycle returns the O of every open bucket and hands all of U to one of them.
func (s *State) recycle(i, to int8) bool {
	if s.newest(to).status != open {
		return false
	}
	for b := int8(0); b < N; b++ {
		if exists(b) && budgetOf(b) == i && s.newest(b).status == open {
			if s.lapsed(b) {
				return false
			}
			s.bud[i].U += s.newest(b).O
			s.newest(b).O, s.b[b].applied = 0, 0
		}
	}
	n := s.bud[i].U
	s.bud[i].U, s.bud[i].fresh = 0, 0
	if mut("recyclesplit") {
		return true // the second half is another transaction, which never comes
	}
	s.newest(to).O += n
	return true
}

// rollover funds the next period and ends the epochs of the previous one.
func (s *State) rollover(i int8) bool {
	bud := &s.bud[i]
	if !feature["period"] || s.clock <= bud.period {
		return false
	}
	bud.X += bud.U // `unused: forfeit`
	bud.U, bud.F, bud.fresh = bud.F, 0, 0
	bud.period = s.clock
	for b := int8(0); b < N; b++ {
		if x := s.newest(b); exists(b) && budgetOf(b) == i && x.status == open {
			bud.X += x.O
			x.status, x.O = closed, 0
		}
	}
	return true
}

func (s *State) sweep(b, e int8) bool {
	x, bud := &s.b[b].epoch[e], &s.bud[budgetOf(b)]
	if x.R == 0 {
		return false
	}
	bud.U += x.R
	if x.period < bud.period {
		bud.late += x.R
	}
	x.R = 0
	return true
}

// shrink takes one unit from U, or else from an R, or else from an O.
func (s *State) shrink() bool {
	from := []*int8{&s.bud[0].U}
	for b := range s.b {
		for e := range s.b[b].epoch {
			from = append(from, &s.b[b].epoch[e].R)
		}
	}
	for b := int8(0); b < N; b++ {
		from = append(from, &s.newest(b).O)
	}
	if mut("shrinkU") {
		from = from[:1]
	}
	for _, c := range from {
		if s.bud[0].shrunk == 0 && (*c > 0 || mut("shrinkearly")) {
			*c--
			s.bud[0].T--
			s.bud[0].shrunk = 1
			return true
		}
	}
	return false
}

func (s *State) append() bool {
	bud := &s.bud[0]
	if bud.appended > 0 && !mut("appendtwice") || bud.T > 5 {
		return false
	}
	bud.T, bud.U, bud.appended = bud.T+1, bud.U+1, 1
	return true
}
