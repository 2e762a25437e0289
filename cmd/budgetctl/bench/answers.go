package bench

import "bytes"

// told is what an answer says about one deduction.
type told struct {
	// code is "accepted" or the code of the refusal; "" if the answer cannot be read. It points
	// into the answer.
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

	acceptanceBegins = []byte(`{"request_id":"`)
	acceptanceGoesOn = []byte(`","outcome":"accepted",`)
	acceptanceEnds   = []byte(`"replayed":`)
)

// read reads the answer to one deduction of this id. Values that a caller chooses (ids, dimensions)
// contain no quotes, so a search for a member finds the member.
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

// acceptance reads the acceptance of this id at the beginning of text, in the form in which budgetd
// writes it, and returns its length; 0 for any other text, which read handles. Nearly every answer
// is one, and this costs one search.
func acceptance(text, id []byte) (t told, length int) {
	at := len(acceptanceBegins)
	if !bytes.HasPrefix(text, acceptanceBegins) || !bytes.HasPrefix(text[at:], id) ||
		!bytes.HasPrefix(text[at+len(id):], acceptanceGoesOn) {
		return told{}, 0
	}
	at += len(id) + len(acceptanceGoesOn)
	last := bytes.Index(text[at:], acceptanceEnds)
	if last < 0 {
		return told{}, 0
	}
	at += last + len(acceptanceEnds)
	switch rest := text[at:]; {
	case bytes.HasPrefix(rest, []byte("false}")):
		return told{code: accepted}, at + len("false}")
	case bytes.HasPrefix(rest, []byte("true}")):
		return told{code: accepted, replayed: true}, at + len("true}")
	}
	return told{}, 0
}

// resultList is the rest of a batch's results.
type resultList []byte

// resultsOf returns the results of a batch's answer, or nil if it has no results.
func resultsOf(answer []byte) resultList {
	_, rest, found := bytes.Cut(answer, results)
	if !found {
		return nil
	}
	return rest
}

// next returns what the answer says about the next deduction, which has this id. ok is false at the
// end of the list and for a result that cannot be read.
func (l *resultList) next(id []byte) (t told, ok bool) {
	rest := *l
	if len(rest) > 0 && rest[0] == ',' {
		rest = rest[1:]
	}
	if t, length := acceptance(rest, id); length > 0 {
		*l = rest[length:]
		return t, true
	}
	length := object(rest)
	if length == 0 {
		return told{}, false
	}
	t = read(rest[:length], id)
	*l = rest[length:]
	return t, true
}

// over reports whether next has returned the last result.
func (l resultList) over() bool { return len(l) > 0 && l[0] == ']' }

// object returns the length of the JSON object at the beginning of text, or 0 if no complete one is
// there.
func object(text []byte) int {
	if len(text) == 0 || text[0] != '{' {
		return 0
	}
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			end := stringEnd(text[at+1:])
			if end < 0 {
				return 0
			}
			at += 1 + end
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return 0
}

// stringEnd returns the index of the quote that ends a JSON string, or -1.
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
