package workload

import "bytes"

// head is what the head of an answer says about its body.
type head struct {
	status  int
	length  int
	chunked bool
	close   bool
}

// parseHead parses a head, including the empty line that ends it. It returns an error for a head
// that does not say how long the body is.
func parseHead(text []byte) (h head, err error) {
	line, rest, _ := bytes.Cut(text, []byte("\r\n"))
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return h, errAnswer
	}
	status, ok := decimal(line[9:12])
	if !ok {
		return h, errAnswer
	}
	h.status, h.length = status, -1
	for len(rest) > 2 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			return h, errAnswer
		}
		value = bytes.TrimSpace(value)
		// Most headers are of no interest, so names are compared only if the length fits.
		switch len(name) {
		case len("Content-Length"):
			if bytes.EqualFold(name, []byte("Content-Length")) {
				if h.length, ok = decimal(value); !ok {
					return h, errAnswer
				}
			}
		case len("Transfer-Encoding"):
			h.chunked = h.chunked || bytes.EqualFold(name, []byte("Transfer-Encoding")) &&
				bytes.EqualFold(value, []byte("chunked"))
		case len("Connection"):
			h.close = h.close || bytes.EqualFold(name, []byte("Connection")) &&
				bytes.EqualFold(value, []byte("close"))
		}
	}
	if h.status == 204 || h.status == 304 {
		h.length = 0
	}
	if h.length < 0 && !h.chunked {
		return h, errAnswer
	}
	if h.length > maxAnswerBytes {
		return h, errTooLarge
	}
	return h, nil
}

// decimal reads a whole number of at most 12 digits.
func decimal(text []byte) (n int, ok bool) {
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = n*10 + int(b-'0')
	}
	return n, len(text) > 0 && len(text) <= 12
}
