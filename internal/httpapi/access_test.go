package httpapi_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/auth"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/ratelimit"
	"github.com/go-json-experiment/json"
)

// keyring has the keys of a server: one for each role, and some that must be refused.
type keyring struct {
	tokens map[string]string
	api    *httpapi.API
	book   *access.Book
	keys   []access.Key
}

// add gives the server a key.
func (k *keyring) add(t *testing.T, name string, key access.Key) {
	t.Helper()
	token, err := access.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key.ID, key.Hash, key.Principal = token.ID(), token.Hash(), name
	k.tokens[name] = token.Reveal()
	k.keys = append(k.keys, key)
	k.book.Replace(k.keys, time.Now().UnixMilli())
}

// revoke revokes a key.
func (k *keyring) revoke(name string) {
	for i := range k.keys {
		if k.keys[i].Principal == name {
			k.keys[i].RevokedMS = 1
		}
	}
	k.book.Replace(k.keys, time.Now().UnixMilli())
}

// locked starts a server that authenticates.
func locked(t *testing.T, change ...func(*httpapi.Config)) (*fake, *running, *keyring, *shelf) {
	t.Helper()
	book, rows := access.NewBook(0), new(shelf)
	ring := &keyring{tokens: map[string]string{}, book: book}
	add := func(name string, key access.Key) { ring.add(t, name, key) }
	for _, role := range access.Roles() {
		add(role.String(), access.Key{Role: role})
	}
	add("shop", access.Key{Role: access.Admin, Scope: access.Scope{Tenant: "shop"}})
	add("some", access.Key{Role: access.Admin, Scope: access.Scope{Tenant: "acme", Budgets: []string{"sale"}}})
	add("revoked", access.Key{Role: access.Admin, RevokedMS: 1})
	add("expired", access.Key{Role: access.Admin, ExpiresMS: 1})
	guarded := func(c *httpapi.Config) {
		c.Auth = &auth.Service{Book: book, Refusals: new(auditlog.Refusals), Now: time.Now}
		c.AuditLog, c.Keys, c.Names = rows, rows, rows
	}
	service, server, api := start(t, slices.Insert(change, 0, guarded)...)
	ring.api = api
	return service, server, ring, rows
}

// shelf keeps rows and keys for one test.
type shelf struct {
	rows  []auditlog.Row
	asked []auditlog.Query
}

func (s *shelf) Append(_ context.Context, row auditlog.Row) error {
	s.rows = append(s.rows, row)
	return nil
}

func (s *shelf) Read(_ context.Context, q auditlog.Query) (auditlog.Page, error) {
	s.asked = append(s.asked, q)
	return auditlog.Page{Rows: s.rows}, nil
}

func (*shelf) List(context.Context, string, string, int) ([]access.Key, error) { return nil, nil }

func (*shelf) Key(_ context.Context, id string) (access.Key, error) {
	return access.Key{ID: id, Role: access.Read, Principal: "x"}, nil
}

func (*shelf) Issue(_ context.Context, key access.Key) (access.Token, access.Key, error) {
	token, err := access.NewToken(rand.Reader)
	return token, key, err
}

func (s *shelf) Rotate(ctx context.Context, id string, _ access.Key, _ time.Duration) (access.Token, access.Key, error) {
	return s.Issue(ctx, access.Key{ID: id, Role: access.Read})
}

func (*shelf) Revoke(_ context.Context, id string) (access.Key, error) {
	return access.Key{ID: id, Role: access.Read}, nil
}

func (*shelf) Belongs(_ context.Context, tenant string, _ int64) (bool, error) {
	return tenant == "shop", nil
}

// Inside finds all budgets but those named outside.
func (*shelf) Inside(_ context.Context, _ int64, refs []bucket.BudgetRef) ([]int64, error) {
	ids := make([]int64, len(refs))
	for i, ref := range refs {
		if ref.Name != "outside" {
			ids[i] = max(ref.ID, 5)
		}
	}
	return ids, nil
}

func (*shelf) InsideNow(int64, bucket.BudgetRef) int64 { return 0 }

func (*shelf) NameOf(context.Context, bucket.BudgetRef) (string, error) { return "sale", nil }

// bodies are those that some calls need to be understood.
var bodies = map[string]string{
	"create": `{"name":"sale","unit":"count","type":"promo","total_quantity":5}`,
	"deduct": `{"request_id":"o1","amount":5}`, "rollback": `{"request_id":"o1"}`, "cancel": `{"request_id":"o1"}`,
	"confirm": `{"request_id":"o1"}`, "extend": `{"request_id":"o1","hold_ttl":"5m"}`,
	"renew": `{"request_id":"o1","step":1,"used":0,"hold":5,"hold_ttl":"5m"}`,
	"batch": `{"deductions":[{"budget":"sale","request_id":"a","amount":1}]}`, "check": `{"checks":[{"budget":"sale","amount":1}]}`,
	"append": `{"request_id":"a1","quantity":5}`, "change": `{"status":"paused"}`, "release": `{"request_id":"q","reason":"r"}`,
	"deduct set": `{"request_id":"s1","legs":[{"budget":"sale","amount":1}]}`, "rollback set": `{"request_id":"s1"}`,
	"cancel set": `{"request_id":"s1"}`, "confirm set": `{"request_id":"s1"}`, "extend set": `{"request_id":"s1","hold_ttl":"5m"}`,
	"set overrides":  `{"value":"vip","max":5}`,
	"set thresholds": `{"thresholds":null}`, "create webhook": `{"url":"https://example.com/","secret":"shop"}`,
	"change webhook": `{"enabled":false}`, "create key": `{"principal":"till","role":"read"}`,
}

// served are the calls that this test can make; the others belong to a provider or to the console.
func served(call access.Call) bool {
	return !strings.HasPrefix(call.Pattern, "/console/") && !strings.HasPrefix(call.Op, "page") &&
		!strings.HasSuffix(call.Op, "events") && call.Op != "refusals" && call.Op != "bulk"
}

// TestEveryRouteWithEveryKey checks that every call serves the roles that may make it and no
// others, and refuses callers without a key or with a revoked or expired one.
func TestEveryRouteWithEveryKey(t *testing.T) {
	_, server, ring, _ := locked(t)
	path := strings.NewReplacer("{budget}", "sale", "{key}", "sale:bucket-0", "{name}", "redis-a", "{id}", "0123456789",
		"{code}", "invalid", "{message}", "msg_1")
	for _, call := range access.Calls() {
		if !served(call) {
			continue
		}
		target := path.Replace(call.Pattern)
		switch call.Op {
		case "deduction", "set":
			target += "?request_id=o1"
		case "remove override":
			target += "?value=vip"
		case "usage":
			target += "?user=u1"
		case "remaining":
			target += "?budget=sale"
		}
		status := func(name string) int {
			var header []string
			if name != "" {
				header = []string{"Authorization", "Bearer " + ring.tokens[name]}
			}
			answer, _ := ask(t, server, call.Method, target, bodies[call.Op], header...)
			return answer.StatusCode
		}
		open := call.Over == access.Nobody
		for _, role := range access.Roles() {
			want := 200
			if got := status(role.String()); role.Includes(call.Least) || open {
				if got != want && got != 201 && got != 202 {
					t.Errorf("%s as %s: %d", call.Op, role, got)
				}
			} else if got != 403 {
				t.Errorf("%s as %s: %d, want 403", call.Op, role, got)
			}
		}
		for _, name := range []string{"", "revoked", "expired"} {
			if got := status(name); open != (got == 200) || !open && got != 401 {
				t.Errorf("%s with %q: %d", call.Op, name, got)
			}
		}
	}
}

// TestAuditLogQuery checks that the audit log is asked for the entries and the order that the query
// names, and that an invalid query is refused.
func TestAuditLogQuery(t *testing.T) {
	_, server, ring, rows := locked(t)
	header := []string{"Authorization", "Bearer " + ring.tokens["admin"]}
	for query, want := range map[string]auditlog.Query{
		"":                              {Limit: 100},
		"?sort=seq&after=7&limit=9":     {After: 7, Limit: 9},
		"?sort=-seq&before=12&after=3":  {After: 3, Before: 12, NewestFirst: true, Limit: 100},
		"?sort=-seq&op=append&limit=10": {Op: "append", NewestFirst: true, Limit: 10},
	} {
		rows.asked = nil
		answer, text := ask(t, server, "GET", "/v1/audit-log"+query, "", header...)
		if answer.StatusCode != 200 || len(rows.asked) != 1 || rows.asked[0] != want {
			t.Errorf("%q: %d, asked for %+v, want %+v: %s", query, answer.StatusCode, rows.asked, want, text)
		}
	}
	for query, field := range map[string]string{"?sort=": "sort", "?sort=at": "sort", "?sort=--seq": "sort",
		"?before=0": "before", "?before=": "before", "?after=x": "after"} {
		answer, text := ask(t, server, "GET", "/v1/audit-log"+query, "", header...)
		if answer.StatusCode != 422 || !strings.Contains(text, `"`+field+`"`) {
			t.Errorf("%q: %d %s", query, answer.StatusCode, text)
		}
	}
}

// TestForeignTenant checks that a key of one tenant gets the answer for a missing budget if it
// names another tenant's budget or its id.
func TestForeignTenant(t *testing.T) {
	service, server, ring, _ := locked(t)
	header := []string{"Authorization", "Bearer " + ring.tokens["shop"]}
	for _, target := range []string{"/v1/budgets/sale?tenant=default", "/v1/budgets/7?tenant=default"} {
		for method, rest := range map[string]string{"GET": "", "PATCH": "", "POST": "/deduct"} {
			url := strings.Replace(target, "?", rest+"?", 1)
			body := ""
			switch method {
			case "PATCH":
				body = `{"status":"paused"}`
			case "POST":
				body = bodies["deduct"]
			}
			answer, text := ask(t, server, method, url, body, header...)
			if answer.StatusCode != http.StatusNotFound || !strings.Contains(text, `tenant \"default\" has no budget`) {
				t.Errorf("%s %s: %d %s", method, url, answer.StatusCode, text)
			}
		}
	}
	for target, want := range map[string]int{"/v1/budgets?tenant=default": 403, "/v1/keys?tenant=default": 403,
		"/v1/instances": 403, "/metrics": 403, "/v1/audit-log": 403} {
		if answer, text := ask(t, server, "GET", target, "", header...); answer.StatusCode != want {
			t.Errorf("%s: %d %s", target, answer.StatusCode, text)
		}
	}
	if asked := service.taken(); len(asked) > 0 {
		t.Errorf("the service was asked: %q", asked)
	}
	if answer, text := ask(t, server, "GET", "/v1/budgets/sale", "", header...); answer.StatusCode != 200 {
		t.Errorf("the tenant's own budget: %d %s", answer.StatusCode, text)
	}
	if asked := service.taken(); len(asked) != 1 || !strings.Contains(asked[0], "Tenant:shop") {
		t.Errorf("without a tenant: %q", asked)
	}
}

// TestOwnRollbacks checks that the service gets the name of a caller whose role is below rollback,
// so that it acts only on that caller's deductions and holds.
func TestOwnRollbacks(t *testing.T) {
	service, server, ring, _ := locked(t)
	for role, want := range map[string]bool{"deduct": true, "rollback": false} {
		for _, verb := range []string{"rollback", "confirm", "extend"} {
			ask(t, server, "POST", "/v1/budgets/sale/"+verb, bodies[verb], "Authorization", "Bearer "+ring.tokens[role])
			if asked := service.taken(); len(asked) != 1 || !strings.Contains(asked[0], "OnlyBy:") || strings.Contains(asked[0], "OnlyBy:deduct") != want {
				t.Errorf("%s as %s: %q", verb, role, asked)
			}
		}
	}
	ask(t, server, "POST", "/v1/budgets/sale/deduct", bodies["deduct"], "Authorization", "Bearer "+ring.tokens["deduct"])
	if asked := service.taken(); len(asked) != 1 || !strings.Contains(asked[0], "By:deduct") {
		t.Errorf("deduct: %q", asked)
	}
}

// TestAdministrativeCallsHaveRows checks that a refused administrative call has a row in the audit
// log with its caller.
func TestAdministrativeCallsHaveRows(t *testing.T) {
	service, server, ring, rows := locked(t)
	header := []string{"Authorization", "Bearer " + ring.tokens["operator"]}
	if answer, text := ask(t, server, "PATCH", "/v1/budgets/sale", `{"adjust_cnt":3}`, header...); answer.StatusCode != 403 {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
	service.err = budget.Refuse(budget.RequestConflict, "append", "x")
	ask(t, server, "POST", "/v1/budgets/sale/append", bodies["append"], header...)
	if len(rows.rows) != 2 || rows.rows[0].Outcome != "forbidden" || rows.rows[1].Outcome != "request_conflict" ||
		rows.rows[1].Principal != "operator" || rows.rows[1].RequestID != "a1" || rows.rows[1].Target != "sale" {
		t.Errorf("%+v", rows.rows)
	}
}

// TestNothingIsKeptOfARequest checks that the next request on a connection does not overwrite what
// is kept of the one before. Otherwise a foreign Host would pass as the one before, and the audit
// log would have a piece of the next key as the id of a refused one.
func TestNothingIsKeptOfARequest(t *testing.T) {
	on := func(server *running) func(host, token string) int {
		conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		in := bufio.NewReader(conn)
		return func(host, token string) int {
			fmt.Fprintf(conn, "POST /v1/budgets/sale/deduct HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
				"Host: %s\r\nAuthorization: Bearer %s\r\n\r\n%s", len(bodies["deduct"]), host, token, bodies["deduct"])
			answer, err := http.ReadResponse(in, nil)
			if err == nil {
				_, err = io.Copy(io.Discard, answer.Body)
			}
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode
		}
	}
	_, open, _ := start(t, func(c *httpapi.Config) { c.Auth = &auth.Service{Open: true, Loopback: true} })
	deduct := on(open)
	for _, one := range []struct {
		host string
		want int
	}{{"127.0.0.1:8080", 200}, {"evil.example:1", 403}, {"127.0.0.1:8080", 200}} { // of one length
		if got := deduct(one.host, "x"); got != one.want {
			t.Errorf("to %s: %d, want %d", one.host, got, one.want)
		}
	}
	refusals := new(auditlog.Refusals)
	_, server, ring, _ := locked(t, func(c *httpapi.Config) { c.Auth.Refusals = refusals })
	deduct = on(server)
	if got, next := deduct("x", ring.tokens["revoked"]), deduct("x", ring.tokens["deduct"]); got != 401 || next != 200 {
		t.Errorf("%d and %d", got, next)
	}
	row, _ := refusals.Take()
	if _, more := refusals.Take(); more || "bdg_"+row.KeyID != ring.tokens["revoked"][:14] {
		t.Errorf("%+v of %s", row, ring.tokens["revoked"][:14])
	}
}

// TestTooManyRequests checks that a caller that exceeds the rate of its key is told when to retry,
// and that this is no refusal by a budget. Other keys are served.
func TestTooManyRequests(t *testing.T) {
	now := time.Now() // the clock stands still
	service, server, ring, _ := locked(t, func(c *httpapi.Config) {
		c.Auth.Limiter, c.Auth.Now = ratelimit.NewLimiter(1, 2), func() time.Time { return now }
	})
	deduct := func(name string) (*http.Response, string) {
		return ask(t, server, "POST", "/v1/budgets/sale/deduct", bodies["deduct"], "Authorization", "Bearer "+ring.tokens[name])
	}
	for range 2 {
		if answer, text := deduct("deduct"); answer.StatusCode != http.StatusOK {
			t.Errorf("within its rate: %d %s", answer.StatusCode, text)
		}
	}
	service.taken()
	answer, text := deduct("deduct")
	var p struct {
		Code budget.Code `json:"code"`
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	after := answer.Header.Get("Retry-After")
	if answer.StatusCode != http.StatusTooManyRequests || p.Code != budget.RateLimited || after != "1" {
		t.Errorf("%d, Retry-After %q, %s", answer.StatusCode, after, text)
	}
	if asked := service.taken(); len(asked) > 0 {
		t.Errorf("the service was asked: %q", asked)
	}
	if p.Code.Kind() == budget.Refused {
		t.Errorf("%s counts as a refusal of a budget", p.Code)
	}
	if answer, text := deduct("admin"); answer.StatusCode != http.StatusOK {
		t.Errorf("another key: %d %s", answer.StatusCode, text)
	}
}
