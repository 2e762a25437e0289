package ledger

// StoreRead is one atomic read of a bucket in its store: the sums of its log up to position Seq. The
// zero value is the read of an epoch at entry 0.
type StoreRead struct {
	// Seq is the position; GrantSeq is how many grants had arrived there.
	Seq, GrantSeq int64
	// Balance is Granted − Deducted in minor units, as the store keeps them.
	Balance, Granted, Deducted int64
}

// SpanFigures are an epoch's columns beside what its rows add up to: in a span of its log and of its
// grants, and after the span. All as of one moment, in minor units.
type SpanFigures struct {
	Row                   Epoch
	Closed, Swept         int64
	Granted, GrantedAfter int64
	// Deducted counts deductions and duplicates.
	Deducted, DeductedAfter int64
}

// Reaches reports whether the ledger has all that a store had at a position, and the epoch is one
// that a store's figures can be compared with: only then are both sums over the same prefix.
func (s *SpanFigures) Reaches(seq int64) bool {
	return (s.Row.Status == Open || s.Row.Status == Closing) && s.Row.Fenced == "" && s.Row.DrainedSeq >= seq
}

// CheckStore compares a store with the ledger across both (DESIGN 3), where the ledger Reaches the
// position of the read `to`. from is an earlier read of the same epoch, or the zero value; f is the
// epoch with the rows between the two, and those after `to`:
//
//	balance          = granted − deducted                                   within the store
//	Δ granted        = Σ grants between the reads, Δ deducted likewise
//	O + closed       = granted + grants after − deducted − entries after
//	O + H + S + R + closed + swept = granted + grants after
//
// The epoch may go on meanwhile: grants and entries after `to` are in f. name is the bucket's key.
func CheckStore(name string, from, to StoreRead, f *SpanFigures) []Discrepancy {
	r := &f.Row
	var out []Discrepancy
	out = compare(out, "balance in the store", to.Balance, to.Granted-to.Deducted)
	out = compare(out, "granted in the store", to.Granted, from.Granted+f.Granted)
	out = compare(out, "deducted in the store", to.Deducted, from.Deducted+f.Deducted)
	out = compare(out, "outstanding", r.Outstanding+f.Closed,
		to.Granted+f.GrantedAfter-to.Deducted-f.DeductedAfter)
	out = compare(out, "units of all grants", r.Outstanding+r.Held+r.Used+r.Returning+f.Closed+f.Swept,
		to.Granted+f.GrantedAfter)
	e := EpochFigures{Bucket: name, Row: f.Row}
	return e.named(out)
}
