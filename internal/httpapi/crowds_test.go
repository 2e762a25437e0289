package httpapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/httpapi"
)

// blanks is a large body, the same for all callers.
var blanks = bytes.Repeat([]byte(" "), int(limits.BatchBytes))

// sending is a caller that sends a batch of 4 MiB, except for the end of the body.
func sending(t *testing.T, server *running, token string, size int) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "POST /v1/deductions:batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", token, limits.BatchBytes)
	go func() { _, _ = conn.Write(blanks[:size]) }()
	return conn, bufio.NewReader(conn)
}

// statusOf reads the status and the body of an answer; 0 means that the connection has ended.
func statusOf(t *testing.T, in *bufio.Reader) (int, string) {
	t.Helper()
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body)
}

// TestBodiesWithoutAKey checks that callers who may not make a call are refused by its head, while
// the body is still being sent, and that their number does not matter for the memory of bodies.
func TestBodiesWithoutAKey(t *testing.T) {
	_, server, ring, _ := locked(t, func(c *httpapi.Config) { c.Limits.ReadTimeout = time.Minute })
	for name, test := range map[string]struct {
		token  string
		status int
	}{"no key": {"bdg_x", 401}, "revoked": {ring.tokens["revoked"], 401}, "read": {ring.tokens["read"], 403}} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{0, 100, 100_000, int(limits.BatchBytes) - 100} {
				_, in := sending(t, server, test.token, size)
				if status, body := statusOf(t, in); status != test.status {
					t.Errorf("after %d bytes of the body: %d %s", size, status, body)
				}
			}
		})
	}
	for _, connections := range []int{60, 240} {
		stop := watch()
		var all []net.Conn
		for range connections {
			conn, _ := sending(t, server, "bdg_x", int(limits.BatchBytes)-100)
			all = append(all, conn)
		}
		time.Sleep(time.Second)
		if _, heap := stop(); heap > 32<<20 {
			t.Errorf("%d connections without a key: the heap grew by %d MiB", connections, heap>>20)
		}
		for _, conn := range all {
			conn.Close()
		}
	}
}

// TestBodiesTogether checks that the bytes of all bodies together are bounded, that one tenant gets
// half of them, and that small bodies are always taken in.
func TestBodiesTogether(t *testing.T) {
	_, server, ring, _ := locked(t, func(c *httpapi.Config) {
		c.Limits.ReadTimeout, c.Limits.BodiesBytes = time.Minute, 8<<20
	})
	type caller struct {
		conn net.Conn
		in   *bufio.Reader
	}
	begin := func(name string) caller {
		conn, in := sending(t, server, ring.tokens[name], 3<<20)
		return caller{conn, in}
	}
	crowded := func(who string) {
		t.Helper()
		if status, body := statusOf(t, begin(who).in); status != 503 || !strings.Contains(body, `"overloaded"`) {
			t.Errorf("%s: %d %s; want 503 overloaded", who, status, body)
		}
	}
	taken := func(bodies int64) { // all but the first 16 KiB of each
		t.Helper()
		want := bodies * (3<<20 - 16<<10)
		for until := time.Now().Add(30 * time.Second); ring.api.BodiesTaken() != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%d bytes are counted, want %d", ring.api.BodiesTaken(), want)
			}
		}
	}
	first := begin("shop")
	taken(1)
	crowded("shop") // 3 of its 4 MiB are taken
	taken(1)
	begin("some")
	taken(2)
	crowded("admin") // 6 of 8 MiB are taken
	for _, name := range []string{"shop", "some", "admin"} {
		tenant := map[string]string{"some": "?tenant=acme"}[name]
		answer, body := ask(t, server, "POST", "/v1/budgets/sale/deduct"+tenant, bodies["deduct"], "Authorization", "Bearer "+ring.tokens[name])
		if answer.StatusCode != 200 {
			t.Errorf("a small body of %s: %d %s", name, answer.StatusCode, body)
		}
	}
	first.conn.Close()
	taken(1)
	again := begin("shop")
	_, _ = io.WriteString(again.conn, strings.Repeat(" ", 1<<20-2)+"{}")
	if status, body := statusOf(t, again.in); status != 422 {
		t.Errorf("after another body has ended: %d %s; want 422 for a batch of nothing", status, body)
	}
}
