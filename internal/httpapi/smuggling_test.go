package httpapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSmuggling sends requests about whose end a proxy before the server may have another opinion.
// What is hidden inside of one, or behind it, must not become a deduction of its own: the request is
// refused or its body is what RFC 9112 says, and then the connection ends.
func TestSmuggling(t *testing.T) {
	service, server, _ := start(t)
	const (
		line = "POST /v1/budgets/sale/deduct HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
		body = `{"request_id":"seen","amount":5}`
	)
	hidden := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", line, len(body)+2, `{"request_id":"hidden","amount":5}`)
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for _, test := range []struct{ name, headers, rest string }{
		{"CL.TE", fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", len(chunks)+len(hidden)), chunks + hidden},
		{"TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", chunks + hidden},
		{"TE.TE, two", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunks + hidden},
		{"TE.TE, a list", "Transfer-Encoding: chunked, identity\r\n", chunks + hidden},
		{"TE.TE, unknown", "Transfer-Encoding: xchunked\r\n", chunks + hidden},
		{"TE.TE, a space before the colon", "Transfer-Encoding : chunked\r\nContent-Length: 4\r\n", chunks + hidden},
		{"TE.TE, a tab", "Transfer-Encoding:\tchunked\r\nContent-Length: 4\r\n", chunks + hidden},
		{"TE.TE, a control character", "Transfer-Encoding: \x0bchunked\r\nContent-Length: 4\r\n", chunks + hidden},
		{"TE.TE, folded", "Transfer-Encoding:\r\n chunked\r\nContent-Length: 4\r\n", chunks + hidden},
		{"TE.TE, quoted", "Transfer-Encoding: \"chunked\"\r\nContent-Length: 4\r\n", chunks + hidden},
		{"TE.TE, after a bare line feed", "X: y\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n", chunks + hidden},
		{"TE.TE, after a bare carriage return", "X: y\rTransfer-Encoding: chunked\r\nContent-Length: 4\r\n", chunks + hidden},
		{"two lengths", fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d\r\n", len(body), len(body)+len(hidden)), body + hidden},
		{"a list of lengths", fmt.Sprintf("Content-Length: %d, %d\r\n", len(body), len(body)+len(hidden)), body + hidden},
		{"a length with a sign", fmt.Sprintf("Content-Length: +%d\r\n", len(body)), body + hidden},
		{"a hexadecimal length", fmt.Sprintf("Content-Length: 0x%x\r\n", len(body)), body + hidden},
		{"a negative length", "Content-Length: -1\r\n", body + hidden},
		{"a length behind a space", fmt.Sprintf("Content-Length : %d\r\n", len(body)), body + hidden},
		{"a chunk with a sign", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("+%x\r\n%s\r\n0\r\n\r\n", len(body), body) + hidden},
		{"a chunk that is longer than it says", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("2\r\n%s\r\n0\r\n\r\n", body) + hidden},
		{"a request in the extension of a chunk", "Transfer-Encoding: chunked\r\n",
			fmt.Sprintf("%x;a=\n%s\r\n0\r\n\r\n", len(body), body) + hidden},
		{"a request in a trailer", "Transfer-Encoding: chunked\r\n",
			fmt.Sprintf("%x\r\n%s\r\n0\r\n", len(body), body) + strings.TrimPrefix(hidden, "POST ") + "\r\n\r\n"},
	} {
		for _, cut := range [][]int{nil, {len(line)}, {len(line) + len(test.headers) + 2}} {
			answers, _ := exchange(t, strings.TrimPrefix(server.URL, "http://"), line+test.headers+"\r\n"+test.rest, cut)
			asked := service.taken()
			if slices.ContainsFunc(asked, func(call string) bool { return strings.Contains(call, "hidden") }) {
				t.Errorf("%s: the hidden request was served: %q\n%s", test.name, asked, answers)
			}
			if n := strings.Count(answers, "HTTP/1.1 "); n > 1 || len(asked) > 1 {
				t.Errorf("%s: %d answers, asked %q\n%s", test.name, n, asked, answers)
			}
		}
	}
	// Two sound requests one behind the other are served: the test would notice the hidden one.
	service.taken()
	sound := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", line, len(body), body)
	if answers, _ := exchange(t, strings.TrimPrefix(server.URL, "http://"), sound+hidden, nil); strings.Count(answers, "HTTP/1.1 200") != 2 {
		t.Error(answers)
	}
}
