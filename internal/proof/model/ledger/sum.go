package main

// covered returns what the current period may still get, from one snapshot of what is committed.
func (s *State) covered(i int8) int8 {
	sum := s.releasable(i)
	if feature["period"] && s.clock > s.bud[i].period && !mut("sumnotdue") {
		sum = s.bud[i].F // the next period is due and not funded
	}
	for b := int8(0); b < N; b++ {
		for e := range s.b[b].epoch {
			if x := &s.b[b].epoch[e]; budgetOf(b) == i {
				sum += x.O
				if !mut("sumnoreturn") {
					sum += x.R
				}
			}
		}
	}
	return sum
}

func (s *State) exhausted(k int8) bool {
	l0, l1 := legs(k)
	return l0 && s.covered(0) < amount(k) || l1 && s.covered(1) < amount(k)
}

func (s *State) accepted(k int8) bool {
	for i := range s.row {
		if st := s.row[i][k].state; st != absent && st != void {
			return true
		}
	}
	return false
}
