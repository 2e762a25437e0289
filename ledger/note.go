package ledger

import "encoding/binary"

// Note is what the column deduction.note holds: the texts of a deduction that no statement looks for.
type Note struct {
	// Reference is the caller's; Dimensions and Counts are canonical JSON. Each may be "".
	Reference, Dimensions, Counts string
}

// noteFormat is the first byte of every packed note.
const noteFormat = 1

// Pack returns the note as bytes, "" for a note without any text: a format number, then each text
// after its length.
func (n Note) Pack() string {
	if n == (Note{}) {
		return ""
	}
	size := len(n.Reference) + len(n.Dimensions) + len(n.Counts) + 1 + 3*binary.MaxVarintLen16
	out := append(make([]byte, 0, size), noteFormat)
	for _, text := range [...]string{n.Reference, n.Dimensions, n.Counts} {
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	return string(out)
}

// ReadNote reads what Pack wrote. ok is false for anything else.
func ReadNote(packed string) (n Note, ok bool) {
	if packed == "" {
		return n, true
	}
	rest := packed[1:]
	for _, to := range [...]*string{&n.Reference, &n.Dimensions, &n.Counts} {
		if *to, rest, ok = cutText(rest); !ok {
			return Note{}, false
		}
	}
	if packed[0] != noteFormat || rest != "" {
		return Note{}, false
	}
	return n, true
}

// cutText cuts a text that stands after its length.
func cutText(packed string) (text, rest string, ok bool) {
	length, rest, ok := cutUvarint(packed)
	if !ok || length > uint64(len(rest)) {
		return "", "", false
	}
	return rest[:length], rest[length:], true
}

// cutUvarint cuts a number of at most 63 bits as binary.AppendUvarint writes it.
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
