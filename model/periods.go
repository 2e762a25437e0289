package main

// A daily budget around one end of a period: DESIGN 7, docs/adr/0013-periods.md.

// quantity is what a period gets of F, in units, if there is as much.
const quantity = 2

// Where units go: a rule's `unused` and a budget's `late_refund`.
const (
	toTotal, toNext, toForfeit = "total", "next", "forfeit" // unused: total is spread
)

var wheres = []string{toTotal, toNext, toForfeit}

// clockPasses is SQL's clock reaching the end of period 0.
func (m *model) clockPasses(s *State) bool {
	if !m.Turn || s.books.over {
		return false
	}
	s.books.over = true
	return true
}

// rollOver is the transaction that ends period 0 and opens the next one. Ledger mode: it ends the
// epochs, whatever their stores are. Store mode: their stores have been asked to close before, as
// far as they could be reached; what is still open becomes closing, and whoever reaches its store
// goes on. Buckets get their next epochs and units by steps of their own, as Settle does it.
func (m *model) rollOver(s *State) bool {
	if !s.due() {
		return false
	}
	rest := s.U
	s.U = 0
	for b := range int8(m.Buckets) {
		x := s.newest(b)
		switch {
		case m.Mode == storeMode && m.mutant != turnUnclosed:
			if x.status == open {
				x.status = closing
			}
		case x.live() && !x.fenced:
			rest += x.O
			m.end(x, lost)
		}
	}
	k := &s.books
	k.period = 1
	m.leave(s, m.Unused, rest)
	k.funded = min(quantity, k.F)
	k.F -= k.funded
	s.U += k.funded
	return true
}

// comeBack moves units that have left an epoch to where its period says. late ones were used when
// that was over, never were not.
func (m *model) comeBack(s *State, period, never, late int8) {
	if period == s.books.period || m.mutant == returnsToOpen {
		s.U += never + late
		return
	}
	m.leave(s, m.Unused, never)
	m.leave(s, m.Late, late)
}

// leave moves units that a period which is over did not use.
func (m *model) leave(s *State, where string, units int8) {
	k := &s.books
	switch where {
	case toForfeit:
		k.X += units
		k.forfeited += units
	case toNext:
		s.U += units
		k.passed += units
	default:
		k.F += units
		k.returned += units
	}
}

// returning notes units that come back to a deduction's own epoch: in R, and as late ones if its
// period was over by the clock of the transaction.
func (m *model) returning(s *State, x *Epoch, units int8, begun bool) {
	x.R += units
	if !s.books.over || x.period > 0 || begun {
		return
	}
	if m.mutant != lateUnmarked {
		x.late += units
	}
	if m.Unused != m.Late {
		s.books.lateBack += units
	}
}

// over reports whether an entry's period is over where it is judged: in ledger mode in the commit,
// by the clock of its transaction, in store mode in the script, by the end that the operation
// carries.
func (m *model) over(s *State, x *Epoch, mode string, begun bool) bool {
	return m.Mode == mode && s.books.over && x.period == 0 && !begun
}

// lags are the clocks that a transaction may go by: SQL's, and with -lag one from before the end:
// the transaction has waited for its locks since, or its node's clock is slow.
func (m *model) lags(s *State) []bool {
	if m.Lag && s.books.over {
		return []bool{false, true}
	}
	return []bool{false}
}

// cover is I3's sum, from one snapshot: what the open period may get.
func (m *model) cover(s *State) int8 { return s.U + m.outside(s) }

// outside is what of I3's sum is in epochs.
func (m *model) outside(s *State) (sum int8) {
	for b := range s.bucket {
		for e := range s.bucket[b].epoch {
			x := &s.bucket[b].epoch[e]
			if x.period == s.books.period {
				sum += x.O + x.R
				continue
			}
			if m.Unused == toNext {
				sum += x.O + x.R - x.late
			}
			if m.Late == toNext {
				sum += x.late
			}
		}
	}
	return sum
}

// inEpochs is what has not left its epoch: O and R.
func (s *State) inEpochs() (sum int8) {
	for b := range s.bucket {
		for e := range s.bucket[b].epoch {
			sum += s.bucket[b].epoch[e].O + s.bucket[b].epoch[e].R
		}
	}
	return sum
}

// exhausted is Budget.exhausted: budget_exhausted, or period_exhausted where the next period may
// cover an amount that the open one does not. It is judged by what was used: what the open period
// got less that, and T less that and what was forfeited.
func (m *model) exhausted(s *State, amount int8) {
	k := &s.books
	sum := m.cover(s)
	later := k.F + s.inEpochs() - m.outside(s)
	byPeriod := k.period == 0 && sum+later >= amount && m.mutant != periodAlone
	total, got := s.T-k.X, [...]int8{quantity, k.funded + k.passed}[k.period]
	for b := range s.bucket {
		for e := range s.bucket[b].epoch {
			x := &s.bucket[b].epoch[e]
			total -= x.S + x.H + x.Q
			if x.period == k.period {
				got -= x.S + x.H + x.Q
			}
		}
	}
	if got >= amount || !byPeriod && k.period == 0 && total >= amount {
		s.broke = falseNo
	}
}

// checkPeriods is ledger.CheckPeriods, and where late refunds went.
func (m *model) checkPeriods(s *State) string {
	k := &s.books
	var in [2]int8
	in[k.period] = s.U
	late := k.lateBack
	for b := range s.bucket {
		for e := range s.bucket[b].epoch {
			x := &s.bucket[b].epoch[e]
			if x.late < 0 || x.late > x.R {
				return "periods: late units that are not in R"
			}
			if x.status == open && !x.fenced && x.period != k.period {
				return "periods: an epoch of a period that is over is open"
			}
			in[x.period] += x.O + x.H + x.S + x.R + x.Q
			if m.Unused != m.Late {
				late -= x.late
			}
		}
	}
	left := map[string]int8{toForfeit: k.forfeited, toNext: k.passed, toTotal: k.returned}
	switch {
	case in[0]+k.returned+k.passed+k.forfeited != quantity, in[1] != k.funded+k.passed:
		return "periods: a period's units are not what it got"
	case k.F != s.T-quantity-k.funded+k.returned || k.X != k.forfeited || k.F < 0:
		return "periods: F or X is not what the periods give"
	case m.Unused != m.Late && left[m.Late] != late:
		return "periods: what came back late did not go where late_refund says"
	}
	return ""
}
