package trail

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

// Verifier recomputes a chain, row by row.
type Verifier struct {
	last    Anchor
	anchors map[int64]Hash
}

// NewVerifier returns a Verifier of the rows that follow an anchor. The zero Anchor begins a whole
// log; for a log whose old rows were removed, from is the head's First. The rows must also include
// those of the anchors in through.
func NewVerifier(from Anchor, through ...Anchor) *Verifier {
	v := &Verifier{last: from, anchors: map[int64]Hash{}}
	for _, a := range through {
		v.anchors[a.Seq] = a.Hash
	}
	return v
}

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
	v.last = r.Anchor()
	return nil
}

// End checks that the rows end where the head says, and that every anchor was reached. It returns a
// *Break if not.
func (v *Verifier) End(head Anchor) error {
	switch {
	case v.last.Seq < head.Seq:
		return &Break{v.last.Seq + 1, fmt.Sprintf("rows %d to %d are missing", v.last.Seq+1, head.Seq)}
	case v.last.Seq > head.Seq:
		return &Break{head.Seq + 1, "it was added past the head"}
	case v.last.Hash != head.Hash:
		return &Break{head.Seq, "its hash differs from that of the head"}
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
