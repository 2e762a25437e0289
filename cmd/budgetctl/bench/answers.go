package bench

import "bytes"

// told is what an answer says about one deduction.
type told struct {
	// code is "accepted", or why not; "" when it cannot be read. It is valid as long as the answer.
	code     []byte
	replayed bool
}

var (
	accepted    = []byte("accepted")
	isAccepted  = []byte(`"outcome":"accepted"`)
	isReplayed  = []byte(`"replayed":true`)
	codeBegins  = []byte(`"code":"`)
	results     = []byte(`"results":[`)
	ofRequestID = []byte(`"request_id":"`)
)

// read reads the answer to one deduction of this id. Values that a caller chooses (ids, dimensions)
// hold no quotes, so what is looked for stands for itself.
func read(answer, id []byte) told {
	if bytes.Contains(answer, isAccepted) {
		if !names(answer, id) {
			return told{}
		}
		return told{code: accepted, replayed: bytes.Contains(answer, isReplayed)}
	}
	_, after, found := bytes.Cut(answer, codeBegins)
	if !found {
		return told{}
	}
	code, _, found := bytes.Cut(after, []byte(`"`))
	if !found {
		return told{}
	}
	return told{code: code}
}

// names reports whether an answer is about this request id.
func names(answer, id []byte) bool {
	_, after, found := bytes.Cut(answer, ofRequestID)
	return found && len(after) > len(id) && after[len(id)] == '"' && bytes.Equal(after[:len(id)], id)
}

// eachResult calls do with every result of a batch's answer, in order, and returns how many there were;
// -1 when the answer cannot be read to its end.
func eachResult(answer []byte, do func(n int, result []byte)) int {
	_, rest, found := bytes.Cut(answer, results)
	if !found {
		return -1
	}
	count, depth, begin := 0, 0, 0
	for at := 0; at < len(rest); at++ {
		switch rest[at] {
		case '"':
			end := stringEnd(rest[at+1:])
			if end < 0 {
				return -1
			}
			at += 1 + end
		case '{', '[':
			if depth == 0 {
				begin = at
			}
			depth++
		case '}', ']':
			if depth == 0 {
				return count
			}
			if depth--; depth == 0 {
				do(count, rest[begin:at+1])
				count++
			}
		}
	}
	return -1
}

// stringEnd returns where the quote is that ends a JSON string; -1: nowhere.
func stringEnd(text []byte) int {
	for at := 0; ; at++ {
		i := bytes.IndexByte(text[at:], '"')
		if i < 0 {
			return -1
		}
		at += i
		backslashes := 0
		for at-backslashes > 0 && text[at-backslashes-1] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return at
		}
	}
}
