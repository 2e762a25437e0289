package ledger

import "encoding/binary"

// Note is the column deduction.note: the texts of a deduction that no statement searches for.
type Note struct {
	// Reference is the caller's; Dimensions and Counts are canonical JSON. Each may be "".
	Reference, Dimensions, Counts string
	// By is the principal that deducted, "" on a server without authentication.
	By string
	// VoidFor is Deduction.VoidFor.
	VoidFor string
	// Legs is Deduction.Legs.
	Legs Legs
}

// The first byte of a packed note says how many texts follow.
const (
	noteFormat   = 1 // Reference, Dimensions, Counts
	noteWithBy   = 2 // and By
	noteWithVoid = 3 // and VoidFor
	noteWithLegs = 4 // and Legs
)

// format returns the first byte of the packed note.
func (n *Note) format() byte {
	switch {
	case n.Legs != "":
		return noteWithLegs
	case n.VoidFor != "":
		return noteWithVoid
	case n.By != "":
		return noteWithBy
	}
	return noteFormat
}

// Pack returns the note as bytes, "" for a note without texts: a format number, then each text
// after its length.
func (n Note) Pack() string {
	if n == (Note{}) {
		return ""
	}
	size := len(n.Reference) + len(n.Dimensions) + len(n.Counts) + len(n.By) + len(n.VoidFor) +
		len(n.Legs) + 1 + 6*binary.MaxVarintLen16
	out := append(make([]byte, 0, size), n.format())
	texts := [...]string{n.Reference, n.Dimensions, n.Counts, n.By, n.VoidFor, string(n.Legs)}
	for _, text := range texts[:n.format()+2] {
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	return string(out)
}

// ReadNote parses the result of Pack. ok is false for anything else.
func ReadNote(packed string) (n Note, ok bool) {
	if packed == "" {
		return n, true
	}
	if packed[0] < noteFormat || packed[0] > noteWithLegs {
		return Note{}, false
	}
	var legs string
	texts := [...]*string{&n.Reference, &n.Dimensions, &n.Counts, &n.By, &n.VoidFor, &legs}
	rest := packed[1:]
	for _, to := range texts[:packed[0]+2] {
		if *to, rest, ok = cutText(rest); !ok {
			return Note{}, false
		}
	}
	n.Legs = Legs(legs)
	if _, ok = n.Legs.List(); !ok && legs != "" || rest != "" || packed[0] != n.format() {
		return Note{}, false
	}
	return n, true
}

// cutText cuts off a text preceded by its length.
func cutText(packed string) (text, rest string, ok bool) {
	length, rest, ok := cutUvarint(packed)
	if !ok || length > uint64(len(rest)) {
		return "", "", false
	}
	return rest[:length], rest[length:], true
}

// cutUvarint cuts off a number of at most 63 bits in the encoding of binary.AppendUvarint.
func cutUvarint(packed string) (n uint64, rest string, ok bool) {
	for i := 0; i < len(packed) && i < binary.MaxVarintLen64-1; i++ {
		c := packed[i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return n, packed[i+1:], true
		}
	}
	return 0, "", false
}
