package httpapi_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pieces of requests, from which streams are made: sound ones, odd ones and wrong ones.
var (
	startLines = []string{
		"POST /v1/budgets/sale/deduct HTTP/1.1", "POST /v1/budgets/sale/deduct HTTP/1.1", "POST /v1/budgets/sale/deduct HTTP/1.1",
		"POST /v1/budgets/7/rollback?tenant=acme HTTP/1.1", "POST /v1/deductions:batch HTTP/1.1", "POST /v1/checks?tenant=x&tenant=y HTTP/1.1",
		"POST /v1/budgets/sale/cancel?tenant= HTTP/1.1", "POST /v1/budgets/sale/confirm? HTTP/1.1", "POST /v1/budgets/SALE/extend HTTP/1.1",
		"GET /healthz HTTP/1.1", "GET /v1/budgets/sale HTTP/1.1", "POST /v1/budgets/sale/deduct HTTP/1.0", "POST  /v1/budgets/sale/deduct HTTP/1.1",
		"POST /v1/budgets/sale/deduct  HTTP/1.1", "POST /v1/budgets/sale/deduct HTTP/1.1 ", "POST /v1/budgets/sale/deduct HTTP/2.0",
		"POST /v1/budgets//deduct HTTP/1.1", "POST /v1/budgets/a/b/deduct HTTP/1.1", "POST /v1/budgets/s%61le/deduct HTTP/1.1",
		"POST /v1/budgets/../budgets/sale/deduct HTTP/1.1", "POST //v1/budgets/sale/deduct HTTP/1.1", "POST /v1/budgets/sale/deduct/ HTTP/1.1",
		"POST http://x/v1/budgets/sale/deduct HTTP/1.1", "post /v1/budgets/sale/deduct HTTP/1.1", "GET /v1/budgets/sale/deduct HTTP/1.1",
		"HEAD /v1/budgets/sale HTTP/1.1", "OPTIONS * HTTP/1.1", "OPTIONS /v1/checks HTTP/1.1", "DELETE /v1/budgets/sale HTTP/1.1", "",
		"POST /v1/budgets/sale/deduct?x=1 HTTP/1.1", "POST /v1/budgets/sale/deduct#x HTTP/1.1", "POST /v1/budgets/:/deduct HTTP/1.1",
		"CONNECT /v1/checks HTTP/1.1", "PRI * HTTP/2.0", "POST /v1/budgets/sale/deduct?tenant=a;b HTTP/1.1",
	}
	headerLines = []string{
		"Content-Type: application/json", "Content-Type: application/json; charset=utf-8", "content-type:application/json", "Content-Type: text/plain",
		"Content-Type: APPLICATION/JSON", "Content-Encoding: gzip", "Content-Encoding: identity", "Connection: keep-alive", "Connection: close",
		"Connection: Keep-Alive, x", "Expect: 100-continue", "Expect: x", "Transfer-Encoding: chunked", "Transfer-Encoding: identity", "Transfer-Encoding : chunked",
		"transfer-encoding:\tchunked", "Content-Length: 0", "Content-Length: 5", "Content-Length: +5", "Content-Length: 5, 5", "Content-Length:", "Content-Length: 1e1",
		"Content-Length: 99999999999999999999", "Host: y", "Host: a b", "Host:", "User-Agent: x", "X-Correlation-Id: mine", "x-correlation-id: other", "X-Correlation-Id:",
		"X-Correlation-Id: a b", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0z", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c",
		" folded: x", "\tfolded", "no colon", ": x", "X Y: z", "X-Tab: a\tb", "X-Nul: a\x00b", "X-Bare: a\rb", "X-High: \xff\xfe", "Té: x", "Trailer: X", "TE: trailers",
		"Upgrade: websocket", "If-Match: *", "X_Y: z", "X.Y: z", "Accept: */*", "Cookie: a=b", "Authorization: Bearer x",
		"Origin: https://evil.example", "Origin: http://x", "Sec-Fetch-Site: cross-site", "sec-fetch-site: same-origin",
	}
	requestBodies = []string{`{"request_id":"o1","amount":5}`, `{"request_id":"o1","amount":5}`, `{"request_id":"o1"}`, `{}`, ``, `x`,
		`{"deductions":[{"budget":"sale","request_id":"a","amount":1},{"budget":"X","request_id":"a","amount":0}]}`,
		`{"checks":[{"budget":"sale","amount":1}]}`, `{"group":"g","hold_ttl":"5m"}`, `{"request_id":"o1","amount":5,"dry_run":true}`}
)

// aStream draws what a caller sends on one connection.
func aStream(t *rapid.T) string {
	var out strings.Builder
	for range rapid.IntRange(1, 4).Draw(t, "requests") {
		odd := func(label string) bool { return rapid.IntRange(0, 5).Draw(t, label) == 0 }
		ends := "\r\n"
		if odd("bare line feeds") && odd("really") {
			ends = "\n"
		}
		start, body := startLines[0], requestBodies[0]
		if odd("start line") {
			start = rapid.SampledFrom(startLines).Draw(t, "start")
		}
		if odd("body") {
			body = rapid.SampledFrom(requestBodies).Draw(t, "text")
		}
		lines := []string{start}
		if !odd("no host") {
			lines = append(lines, "Host: x")
		}
		if !odd("no type") {
			lines = append(lines, "Content-Type: application/json")
		}
		length := len(body)
		if odd("wrong length") {
			length += rapid.IntRange(-2, 2).Draw(t, "by")
		}
		if !odd("no length") {
			lines = append(lines, fmt.Sprintf("Content-Length: %d", length))
		}
		if odd("headers") {
			lines = append(lines, rapid.SliceOfN(rapid.SampledFrom(headerLines), 1, 3).Draw(t, "headers")...)
		}
		out.WriteString(strings.Join(lines, ends) + ends + ends + body)
		if odd("an empty line after the body") {
			out.WriteString(rapid.SampledFrom([]string{"\r\n", "\n", "\r\n\r\n"}).Draw(t, "which"))
		}
	}
	text := []byte(out.String())
	if rapid.IntRange(0, 9).Draw(t, "spoil") == 0 {
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		text[at] = rapid.SampledFrom([]byte("\r\n :,\x00\xff/.%0a\t")).Draw(t, "byte")
	}
	return string(text)
}

// head is an answer's status line and headers. The body of an answer to HEAD is absent whatever its length says, so
// the answers are compared as text.
var head = regexp.MustCompile(`(?s)HTTP/1\.[01] \d{3}.*?\r\n\r\n`)

// exchange sends a stream in pieces and returns every answer, with its headers sorted and without
// its date. It reports a reset if the server closed the connection before it had read everything,
// because the system may then have dropped answers.
func exchange(t interface{ Fatal(...any) }, addr, stream string, cuts []int) (answers string, reset bool) {
	connection, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(20 * time.Second))
	go func() {
		from := 0
		for _, cut := range append(cuts, len(stream)) {
			if cut = min(max(cut, from), len(stream)); cut > from {
				_, _ = io.WriteString(connection, stream[from:cut])
				time.Sleep(300 * time.Microsecond)
			}
			from = cut
		}
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	text, err := io.ReadAll(connection)
	sorted := head.ReplaceAllStringFunc(string(text), func(answer string) string {
		lines := strings.Split(strings.TrimSuffix(answer, "\r\n\r\n"), "\r\n")
		headers := slices.DeleteFunc(lines[1:], func(line string) bool { return strings.HasPrefix(line, "Date: ") })
		slices.Sort(headers)
		return lines[0] + "\n" + strings.Join(headers, "\n") + "\n\n"
	})
	return fmt.Sprintln(sorted, "end:", err == nil), errors.Is(err, syscall.ECONNRESET)
}

// TestServersAgree checks that both servers give the same answers and make the same calls to the
// service, whatever a caller sends and however it is cut into segments.
func TestServersAgree(t *testing.T) {
	var services [2]*fake
	var addrs [2]string
	before := alone
	for i := range services {
		alone = i == 1
		service, s, _ := start(t)
		services[i], addrs[i] = service, strings.TrimPrefix(s.URL, "http://")
	}
	alone = before
	rapid.Check(t, func(t *rapid.T) {
		stream := aStream(t)
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(stream)), 0, 2).Draw(t, "cuts")
		sort.Ints(cuts)
		var got [2]string
		for i := range got {
			for reset, tries := true, 0; reset && tries < 50; tries++ {
				got[i], reset = exchange(t, addrs[i], stream, cuts)
				got[i] += strings.Join(services[i].taken(), "\n")
			}
		}
		if diff := cmp.Diff(got[1], got[0]); diff != "" {
			t.Fatalf("%q cut at %v: (-net/http alone +both)\n%s", stream, cuts, diff)
		}
	})
}

// TestTenantsOnBothServers checks that the tenant is read from every valid form of a query, and
// that an invalid query does not reach the service.
func TestTenantsOnBothServers(t *testing.T) {
	service, server, _ := start(t)
	for query, want := range map[string]string{
		"": "Tenant:default ", "?tenant=acme": "Tenant:acme ", "?tenant=a%63me": "Tenant:acme ", "?tenant=acme&": "Tenant:acme ",
		"?tenant=ACME": "", "?tenant=": "", "?tenant": "", "?tenant=a&tenant=a": "", "?x=acme": "", "?request_id=a": "",
	} {
		answer, body := ask(t, server, "POST", "/v1/budgets/sale/deduct"+query, `{"request_id":"o1","amount":5}`)
		calls := strings.Join(service.taken(), "\n")
		if (answer.StatusCode == 200) != (want != "") || !strings.Contains(calls, want) || want == "" && calls != "" {
			t.Errorf("%q: %d %s, asked %s", query, answer.StatusCode, body, calls)
		}
	}
}
