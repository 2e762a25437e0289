package limit

// LedgerSpan is when a deduction must have been counted to count in the tally: what Load has to be
// given. to is exclusive.
func (t *Tally) LedgerSpan() (fromMS, toMS int64) { return t.Limit.span(t.nowMS) }
