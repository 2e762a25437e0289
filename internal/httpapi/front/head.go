package front

import "bytes"

// form is what is known of the request at the beginning of a buffer.
type form uint8

const (
	// partial means that the head has not arrived completely.
	partial form = iota
	// strange means that net/http must find out what the request is and where it ends.
	strange
	// framed means that the request ends length bytes after its head.
	framed
	// plain means framed, and a POST of JSON with a Content-Length to a path without escapes.
	plain
)

// head is the head of a request. Its texts share the buffer from which they were read.
type head struct {
	form form
	// size is the number of bytes of the head, length that of the body.
	size, length int
	path, query  []byte
	// host, correlation, traceparent and authorization are headers; nil means absent.
	host, correlation, traceparent, authorization []byte

	measured, typed, odd bool
}

// maxHead bounds the bytes, maxHeaders the number of headers of a head that is parsed here.
const maxHead, maxHeaders = 8 << 10, 64

// end returns the size of the whole request.
func (h *head) end() int { return h.size + h.length }

// read parses the head at the beginning of text.
func (h *head) read(text []byte) {
	*h = head{form: strange}
	line, at := nextLine(text, 0)
	post, ok := h.readStart(line)
	if at == 0 || !ok {
		if at == 0 {
			h.unread(text, len(text))
		}
		return
	}
	for range maxHeaders + 1 {
		line, next := nextLine(text, at)
		if next == 0 {
			h.unread(text[at:], len(text))
			return
		}
		if at = next; len(line) == 0 {
			if h.size = at; h.host != nil {
				h.form = framed
			}
			if h.host != nil && post && h.measured && h.typed && !h.odd {
				h.form = plain
			}
			return
		}
		if !h.readHeader(line) {
			return
		}
	}
}

// unread gives up on a head whose last line, of size bytes in all, does not end with CR LF, unless
// more bytes may complete it. A bare line feed ends a line for net/http.
func (h *head) unread(line []byte, size int) {
	if size < maxHead && bytes.IndexByte(line, '\n') < 0 {
		h.form = partial
	}
}

// nextLine returns the line that begins at a position, and where the next line begins; 0 means that
// no line ends there with CR LF.
func nextLine(text []byte, at int) (line []byte, next int) {
	n := bytes.IndexByte(text[at:], '\n')
	if n < 1 || text[at+n-1] != '\r' {
		return nil, 0
	}
	return text[at : at+n-1], at + n + 1
}

// readStart parses the first line. post reports a POST to a path without escapes. ok is false if
// the line is incomplete or not understood.
func (h *head) readStart(line []byte) (post, ok bool) {
	line, ok = bytes.CutSuffix(line, []byte(" HTTP/1.1"))
	if !ok {
		return false, false
	}
	method, target, found := bytes.Cut(line, []byte(" "))
	if !found || len(method) == 0 || len(target) == 0 || target[0] != '/' {
		return false, false
	}
	for _, c := range method {
		if c < 'A' || c > 'Z' {
			return false, false
		}
	}
	for _, c := range target {
		if c <= ' ' || c > '~' {
			return false, false
		}
	}
	post = string(method) == "POST"
	h.path, h.query, _ = bytes.Cut(target, []byte("?"))
	for _, c := range h.path {
		post = post && (isWord(c) || c == '/' || c == ':')
	}
	for _, c := range h.query {
		post = post && (isWord(c) || c == '=' || c == '&')
	}
	return post, true
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c == '-' || c == '_'
}

// readHeader parses one header. It returns false if the header, or what it asks for, is not
// understood here.
func (h *head) readHeader(line []byte) bool {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 {
		return false
	}
	for _, c := range line[:colon] {
		if !isWord(c) {
			return false
		}
	}
	for _, c := range line[colon+1:] {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return h.take(line[:colon], bytes.Trim(line[colon+1:], " "))
}

// take stores a header that the handler needs.
func (h *head) take(name, value []byte) bool {
	switch len(name) {
	case len("Te"):
		return !is(name, "te")
	case len("Host"):
		if is(name, "host") {
			return h.takeHost(value)
		}
	case len("Expect"):
		if is(name, "cookie") || is(name, "origin") { // net/http handles sessions and browsers
			h.odd = true
		}
		return !is(name, "expect")
	case len("Upgrade"):
		return !is(name, "upgrade") && !is(name, "trailer")
	case len("Connection"):
		return !is(name, "connection") || is(value, "keep-alive")
	case len("Traceparent"):
		if is(name, "traceparent") {
			h.once(&h.traceparent, value)
		}
	case len("Content-Type"):
		if is(name, "content-type") {
			h.odd = h.odd || h.typed || !isJSON(value)
			h.typed = true
		}
	case len("Authorization"):
		if is(name, "authorization") {
			h.once(&h.authorization, value)
		}
	case len("Content-Length"):
		if is(name, "content-length") {
			return h.takeLength(value)
		}
		if is(name, "sec-fetch-site") {
			h.odd = true
		}
	case len("X-Correlation-Id"):
		if is(name, "x-correlation-id") {
			h.once(&h.correlation, value)
		}
		if is(name, "content-encoding") {
			h.odd = true
		}
	case len("Transfer-Encoding"):
		return !is(name, "transfer-encoding")
	}
	return true
}

// once stores the value of a header that may occur only once.
func (h *head) once(into *[]byte, value []byte) {
	h.odd = h.odd || *into != nil
	if *into = value; value == nil {
		*into = []byte{}
	}
}

func (h *head) takeHost(value []byte) bool {
	if h.host != nil || len(value) == 0 {
		return false
	}
	for _, c := range value {
		if !isWord(c) && c != '.' && c != ':' && c != '[' && c != ']' {
			return false
		}
	}
	h.host = value
	return true
}

// takeLength parses the length of the body, of at most 9 digits.
func (h *head) takeLength(value []byte) bool {
	if h.measured || len(value) == 0 || len(value) > 9 {
		return false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
		h.length = h.length*10 + int(c-'0')
	}
	h.measured = true
	return true
}

// isJSON reports whether a media type is one of the two common forms of JSON.
func isJSON(value []byte) bool {
	return string(value) == "application/json" || is(value, "application/json; charset=utf-8")
}

// is compares a text with a lower-case one, ignoring the case of the text.
func is(text []byte, small string) bool {
	if len(text) != len(small) {
		return false
	}
	for i, c := range text {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != small[i] {
			return false
		}
	}
	return true
}
