package auditlog

import "fmt"

// Break is a row at which the chain is broken.
type Break struct {
	// Seq is the number of the row.
	Seq int64
	// Reason says what was done to the row or the chain.
	Reason string
}

// Error returns the row and the reason.
func (b *Break) Error() string { return fmt.Sprintf("audit log: row %d: %s", b.Seq, b.Reason) }

// OpPrune is the operation of the row that records a removal of the oldest rows. Its target is the
// last row that was removed.
const OpPrune = "prune audit log"

// Verifier recomputes a chain, row by row.
type Verifier struct {
	last, removed Anchor
	// recorded means that a row records the removal of the rows before the first.
	recorded bool
	anchors  map[int64]Hash
	gone     []Anchor
}

// NewVerifier returns a Verifier of the rows that follow an anchor. The zero Anchor begins a whole
// log; for a log whose old rows were removed, removed is the last of them, and one of the rows must
// record that. The rows must also include those of the anchors in through: see Gone.
func NewVerifier(removed Anchor, through ...Anchor) *Verifier {
	v := &Verifier{last: removed, removed: removed, recorded: removed == Anchor{},
		anchors: map[int64]Hash{}}
	for _, a := range through {
		if a.Seq < removed.Seq {
			v.gone = append(v.gone, a)
		} else {
			v.anchors[a.Seq] = a.Hash
		}
	}
	return v
}

// Gone returns the anchors that cannot be checked, because their rows were removed.
func (v *Verifier) Gone() []Anchor { return v.gone }

// Add takes the next row, in numerical order. It returns a *Break if the row is wrong.
func (v *Verifier) Add(r Row) error {
	want := v.last.Seq + 1
	switch {
	case r.Seq > want:
		return &Break{want, fmt.Sprintf("rows %d to %d are missing", want, r.Seq-1)}
	case r.Seq < want:
		return &Break{r.Seq, "it is out of place or duplicated"}
	case r.hashAfter(v.last.Hash) != r.Hash:
		return &Break{r.Seq, "it or its hash was changed, or rows were exchanged"}
	}
	if hash, known := v.anchors[r.Seq]; known && hash != r.Hash {
		return &Break{r.Seq, "it differs from the row of the anchor: rows were rewritten"}
	}
	if r.Op == OpPrune && r.Target == v.removed.String() {
		v.recorded = true
	}
	v.last = r.Anchor()
	return nil
}

// End checks that the rows end where the head says, that a row records the removal of those before
// the first, and that every anchor was reached. It returns a *Break if not.
func (v *Verifier) End(head Anchor) error {
	switch {
	case v.last.Seq < head.Seq:
		return &Break{v.last.Seq + 1, fmt.Sprintf("rows %d to %d are missing", v.last.Seq+1, head.Seq)}
	case v.last.Seq > head.Seq:
		return &Break{head.Seq + 1, "it was added past the head"}
	case v.last.Hash != head.Hash:
		return &Break{head.Seq, "its hash differs from that of the head"}
	case !v.recorded:
		return &Break{v.removed.Seq, "it and all before it are missing, and no row records their removal"}
	}
	if hash, known := v.anchors[v.removed.Seq]; known && hash != v.removed.Hash {
		return &Break{v.removed.Seq, "it differs from the row of the anchor: rows were rewritten"}
	}
	for seq := range v.anchors {
		if seq > v.last.Seq {
			return &Break{seq, "the anchor's row is missing: rows were removed from the end"}
		}
	}
	return nil
}

// Last returns the anchor of the last row that was added.
func (v *Verifier) Last() Anchor { return v.last }
