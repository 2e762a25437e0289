package limit

// LedgerSpan returns the span, to exclusive, of the deductions that count in the tally. Load needs
// all of them.
func (t *Tally) LedgerSpan() (fromMS, toMS int64) { return t.Limit.span(t.nowMS) }
