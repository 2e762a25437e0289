package allocation

// wholePeriod is the weight of a period that nothing cuts.
const wholePeriod = 1_000_000

// weight returns how much of a whole period it is, in millionths, at least 1.
func (s Span) weight() int64 {
	if s.Whole == 0 {
		return wholePeriod
	}
	return max(mulDiv(wholePeriod, int64(s.End.Sub(s.Start)), int64(s.Whole)), 1)
}

// weightLeft returns the weight of a period and of all that follow it, in millionths of a whole
// one; WithoutEnd if there is no end.
func (s Schedule) weightLeft(period Span) int64 {
	n := s.PeriodsLeft(period.Start)
	if n == WithoutEnd || n < 1 {
		return n
	}
	left := (n-1)*wholePeriod + period.weight()
	if n > 1 {
		if last, ok := s.PeriodAt(s.End.Add(-1)); ok {
			left -= wholePeriod - last.weight()
		}
	}
	return left
}

// weightBefore returns the weight of the periods before the one of a number, of which, with those
// that follow, so much is left: of a budget that has a start, what the rule makes of the time since
// then; else that of whole periods.
func (s Schedule) weightBefore(number, left int64) int64 {
	if s.Start.IsZero() {
		return max(number-1, 0) * wholePeriod
	}
	first, ok := s.NextPeriod(s.Start)
	if !ok {
		return 0
	}
	return max(s.weightLeft(first)-left, 0)
}
