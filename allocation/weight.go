package allocation

// wholePeriod is the weight of an uncut period.
const wholePeriod = 1_000_000

// weight returns the weight in millionths of a whole period, at least 1.
func (s Span) weight() int64 {
	if s.Whole == 0 {
		return wholePeriod
	}
	return max(mulDiv(wholePeriod, int64(s.End.Sub(s.Start)), int64(s.Whole)), 1)
}

// weightLeft returns the weight of a period and all later ones, in millionths of a whole one;
// WithoutEnd if there is no end.
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

// weightBefore returns the weight of the periods before the one with a number; left is the weight
// of that one and the later ones. For a budget with a start it is the weight of all periods less
// left; otherwise it counts whole periods.
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
