package daemon_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestLimitsOfRequests checks that the limits of the configuration apply, and that a connection
// beyond http.max_connections takes the place of an idle one.
func TestLimitsOfRequests(t *testing.T) {
	p := start(t, nil, "BUDGETD_HTTP_MAX_CONNECTIONS=1", "BUDGETD_HTTP_MAX_BODY_BYTES=1024", "BUDGETD_HTTP_MAX_HEADER_BYTES=4096",
		"BUDGETD_HTTP_MAX_HEADERS=10")
	large := `{"request_id":"o1","amount":1,"reference":"` + strings.Repeat("x", 1024) + `"}`
	for path, body := range map[string]string{"/v1/budgets/sale/deduct": large, "/v1/budgets": large} {
		if status, text := p.ask("POST", path, body); status != 413 {
			t.Errorf("POST %s: %d %s", path, status, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	dial := func(headers string) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "GET /v1/budgets HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", headers)
		return conn, bufio.NewReader(conn)
	}
	answered := func(in *bufio.Reader) int {
		t.Helper()
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode
	}
	for _, headers := range []string{strings.Repeat("A: b\r\n", 11), "A: " + strings.Repeat("b", 10_000) + "\r\n"} {
		conn, in := dial(headers)
		if status := answered(in); status != 431 {
			t.Errorf("%.20q…: %d", headers, status)
		}
		conn.Close()
	}
	first, in := dial("")
	if status := answered(in); status != 200 {
		t.Errorf("the first: %d", status)
	}
	idle := in
	_, in = dial("")
	if status := answered(in); status != 200 {
		t.Errorf("the second: %d", status)
	}
	if _, err := io.Copy(io.Discard, idle); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the first connection is open beside the second")
	}
	first.Close()
}
