package httpapi_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/httpapi"
)

// TestIssuedPrincipals checks that no key passes for a person, for budgetd, or, if a tenant's
// administrator issues it, for the first administrator.
func TestIssuedPrincipals(t *testing.T) {
	_, server, ring, _ := locked(t)
	for name, want := range map[string][2]int{"oidc:jane@example.com": {422, 422}, "OIDC:x": {422, 422}, "budgetd": {422, 422},
		"budgetd keys bootstrap": {422, 422}, "Anonymous": {422, 422}, "admin": {422, 201}, "Admin ": {422, 201}, "till": {201, 201}, "administrator": {201, 201}} {
		for i, issuer := range []string{"shop", "admin"} {
			answer, body := ask(t, server, "POST", "/v1/keys", fmt.Sprintf(`{"principal":%q,"role":"read"}`, name),
				"Authorization", "Bearer "+ring.tokens[issuer])
			if answer.StatusCode != want[i] || answer.StatusCode == 422 && !strings.Contains(body, `"principal"`) {
				t.Errorf("%q, issued by %s: %d %s; want %d", name, issuer, answer.StatusCode, body, want[i])
			}
		}
	}
}

// TestIssuedKeysEnd checks that a key that expires issues no key that lives longer.
func TestIssuedKeysEnd(t *testing.T) {
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	_, server, ring, _ := locked(t)
	ring.add(t, "passing", access.Key{Role: access.Admin, ExpiresMS: ends.UnixMilli()})
	issue := func(expiry string) (*http.Response, string) {
		return ask(t, server, "POST", "/v1/keys", `{"principal":"till","role":"read"`+expiry+`}`,
			"Authorization", "Bearer "+ring.tokens["passing"])
	}
	for _, expiry := range []string{"", fmt.Sprintf(`,"expires_at":%q`, ends.Format(time.RFC3339))} {
		if answer, body := issue(expiry); answer.StatusCode != 201 || !strings.Contains(body, `"expires_at":"`+ends.Format("2006-01-02T15:04:05")) {
			t.Errorf("%q: %d %s; want the expiry of the key that issues it", expiry, answer.StatusCode, body)
		}
	}
	if answer, body := issue(fmt.Sprintf(`,"expires_at":%q`, ends.Add(time.Second).Format(time.RFC3339))); answer.StatusCode != 422 ||
		!strings.Contains(body, `"expires_at"`) {
		t.Errorf("a later expiry: %d %s", answer.StatusCode, body)
	}
}

// pages is a log-in that counts the sessions that it ended.
type pages struct{ ended atomic.Int32 }

func (*pages) Begin(http.ResponseWriter, *http.Request)    {}
func (*pages) Callback(http.ResponseWriter, *http.Request) {}
func (p *pages) End(w http.ResponseWriter, _ *http.Request) {
	p.ended.Add(1)
	w.WriteHeader(http.StatusNoContent)
}

// TestForeignLogOut checks that a page of another site cannot log a person out.
func TestForeignLogOut(t *testing.T) {
	login := new(pages)
	_, server, _, _ := locked(t, func(c *httpapi.Config) { c.Login = login })
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 204, "none": 204} {
		before := login.ended.Load()
		answer, body := ask(t, server, "POST", "/console/logout", "", "Sec-Fetch-Site", site)
		if answer.StatusCode != want || (login.ended.Load() > before) != (want == 204) {
			t.Errorf("from %s: %d %s; want %d", site, answer.StatusCode, body, want)
		}
	}
}

// dashboard enables streams. Those of a budget ask it only for the calls of the budget.
type dashboard struct{ httpapi.Dashboard }

func (dashboard) Calls(int64, string, string) bucket.Answered { return bucket.Answered{} }

// streaming opens a stream of a budget and returns its status.
func streaming(t *testing.T, server *running, token string) (int, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "GET /v1/budgets/sale/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token)
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, bufio.NewReader(answer.Body)
}

// TestStreamsOfOnePrincipal checks that one principal gets only some of the event streams of a node,
// and others still get theirs.
func TestStreamsOfOnePrincipal(t *testing.T) {
	_, server, ring, _ := locked(t, func(c *httpapi.Config) { c.Dashboard = dashboard{} })
	open := 0
	for ; open < 200; open++ {
		if status, _ := streaming(t, server, ring.tokens["read"]); status != 200 {
			if status != 503 {
				t.Errorf("stream %d: %d", open, status)
			}
			break
		}
	}
	if open != 20 {
		t.Errorf("one principal has %d streams, want 20", open)
	}
	if status, _ := streaming(t, server, ring.tokens["shop"]); status != 200 {
		t.Errorf("another principal: %d", status)
	}
}

// TestStreamOfARevokedKey checks that a stream ends at the next look after its key was revoked.
func TestStreamOfARevokedKey(t *testing.T) {
	_, server, ring, _ := locked(t, func(c *httpapi.Config) { c.Dashboard = dashboard{} })
	status, in := streaming(t, server, ring.tokens["read"])
	if status != 200 {
		t.Fatal(status)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
		}
	}()
	ring.revoke("read")
	select {
	case <-ended:
	case <-time.After(6 * time.Second): // the sign of life would come after 10 s
		t.Error("the stream of a revoked key goes on")
	}
}
