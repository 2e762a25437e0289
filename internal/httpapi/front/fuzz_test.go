package front

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// FuzzHead checks that a request that the front reads to its end also ends there for net/http,
// which serves the rest of the connection. Two opinions on where a request ends would allow request
// smuggling.
func FuzzHead(f *testing.F) {
	const start = "POST /v1/budgets/sale/deduct HTTP/1.1\r\nHost: x\r\n"
	for _, rest := range []string{
		"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
		"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: x\r\n chunked\r\n\r\n0\r\n\r\n",
		"Content-Length: 02\r\nTe: trailers\r\n\r\n{}",
		"content-length:\t2\r\n\r\n{}", "Content_Length: 2\r\n\r\n{}", "Content-Length: 2\n\n{}",
		"Connection: close\r\nUpgrade: x\r\n\r\n", "\r\n",
	} {
		f.Add([]byte(start + rest))
	}
	f.Add([]byte("GET /v1/budgets?a=b HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var h head
		if h.read(text); h.form != framed && h.form != plain || h.end() > len(text) {
			return
		}
		rest := bytes.NewReader(text)
		in := bufio.NewReader(rest)
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("%q has %d bytes here, but net/http cannot read it: %v", text, h.end(), err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if end := len(text) - rest.Len() - in.Buffered(); end != h.end() {
			t.Errorf("%q ends at %d, for net/http at %d", text, h.end(), end)
		}
		if h.form == plain && (string(body) != string(text[h.size:h.end()]) || r.Host != string(h.host) ||
			r.URL.Path != string(h.path) || r.URL.RawQuery != string(h.query) || r.Method != "POST" ||
			strings.Join(r.Header["Authorization"], "") != string(h.authorization)) {
			t.Errorf("%q is read as %+v, by net/http as %+v", text, h, r)
		}
	})
}
