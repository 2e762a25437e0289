package console_test

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/access"
)

// locked is a server that requires keys, with the key of its administrator.
func locked(t *testing.T) *server {
	t.Helper()
	token, err := access.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "admin.key")
	if err := os.WriteFile(file, []byte(token.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "auth: keys\nkeys: {first_admin_file: \""+file+"\"}\n")
	s.token = token.Reveal()
	s.must("POST", "/v1/budgets", `{"name":"spring-sale","unit":"count","type":"promo",
		"total_quantity":1000}`)
	s.must("POST", "/v1/budgets", `{"name":"secret","tenant":"acme","unit":"count","type":"promo",
		"total_quantity":1000}`)
	return s
}

// key makes a key and returns its token.
func (s *server) key(body string) string {
	s.t.Helper()
	token := s.must("POST", "/v1/keys", body)["token"].(string)
	mine := s.token
	defer func() { s.token = mine }()
	s.token = token
	for range 1200 { // the node knows it within a second
		if status, _ := s.ask("GET", "/v1/whoami", ""); status == http.StatusOK {
			return token
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatal("the key is not known after a minute")
	return ""
}

// TestSignIn checks that the page asks for a key, explains why a wrong one is refused, and shows
// each role only what it may do.
func TestSignIn(t *testing.T) {
	s := locked(t)
	reader := s.key(`{"principal":"till","role":"read","tenant":"default"}`)
	page := open(t, s.url+"/#/budgets")
	page.sees("Sign in")
	page.picture("sign-in")
	page.types("API key", "bdg_nobody")
	page.clicks("button", "Sign in")
	page.sees("The caller is not authenticated")
	page.types("API key", reader)
	page.clicks("button", "Sign in")
	page.sees("till · read", "spring-sale", "1 found")
	text := page.text()
	for _, not := range []string{"secret", "Keys", "Audit log", "Instances", "New budget", "Overview"} {
		if strings.Contains(text, not) {
			t.Errorf("a reader of one tenant sees %q", not)
		}
	}
	page.clicks("link", "spring-sale")
	page.sees("every unit is accounted for")
	if strings.Contains(page.text(), "Append") {
		t.Error("a reader is offered a change")
	}
	if value[int](page, `localStorage.length`) != 0 || value[string](page, `document.cookie`) != "" {
		t.Error("the key is kept beyond the tab")
	}
	page.clicks("button", "Sign out")
	page.sees("Sign in")
	page.types("API key", s.token)
	page.clicks("button", "Sign in")
	page.sees("admin · admin", "Append")
	page.clicks("link", "Keys")
	page.sees("till", "Revoke", "in the hour from ")
	page.picture("keys")
	got := map[string]string{}
	for _, row := range page.rows("Keys") {
		got[row[0]] = row[2] + " of " + row[3]
	}
	want := map[string]string{"admin": "admin of all tenants", "till": "read of default"}
	if !maps.Equal(got, want) {
		t.Errorf("keys: %q, want %q", got, want)
	}
}

// TestCallsOfTheConsole checks that the calls of the page answer only callers with a key, and only
// about the tenants that the key may see.
func TestCallsOfTheConsole(t *testing.T) {
	s := locked(t)
	shop := s.key(`{"principal":"till","role":"read","tenant":"default"}`)
	all := s.key(`{"principal":"watch","role":"read"}`)
	s.ask("POST", "/v1/budgets/spring-sale/deduct", `{"request_id":"a","amount":5000}`)
	s.ask("POST", "/v1/budgets/secret/deduct?tenant=acme", `{"request_id":"b","amount":5000}`)
	for path, want := range map[string][3]int{ // without a key, of one tenant, of all
		"/v1/events":                            {401, 403, 200},
		"/v1/refusals":                          {401, 200, 200},
		"/v1/refusals?tenant=acme":              {401, 403, 200},
		"/v1/budgets/spring-sale/events":        {401, 200, 200},
		"/v1/budgets/secret/events?tenant=acme": {401, 404, 200},
		"/v1/budgets/spring-sale/holds":         {401, 200, 200},
		"/v1/budgets/secret/holds?tenant=acme":  {401, 404, 200},
		"/v1/budgets?sort=nothing":              {401, 422, 422},
	} {
		for i, token := range []string{"", shop, all} {
			r, err := http.NewRequest("GET", s.url+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != want[i] {
				t.Errorf("%s, caller %d: %d, want %d", path, i, answer.StatusCode, want[i])
			}
		}
	}
	admin := s.token
	for range 1200 { // until the first look at all budgets is done
		if s.must("GET", "/v1/budgets?tenant=*&sort=name", "")["total"] == 2.0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for token, want := range map[string]int{shop: 1, all: 2, admin: 2} {
		s.token = token
		if got := s.must("GET", "/v1/refusals", "")["refusals"].([]any); len(got) != want {
			t.Errorf("%d refusals, want %d: %v", len(got), want, got)
		}
		query := "/v1/budgets?tenant=*&sort=name"
		if got := s.must("GET", query, "")["total"]; got != float64(want) {
			t.Errorf("%v budgets are found, want %d", got, want)
		}
	}
}

// TestPrefix checks that the page works behind a proxy that serves it under a path, with and
// without the trailing slash.
func TestPrefix(t *testing.T) {
	s := serve(t, "")
	s.must("POST", "/v1/budgets", `{"name":"spring-sale","unit":"count","type":"promo",
		"total_quantity":1000}`)
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/ops/budgets", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("X-Forwarded-Prefix", "/ops/budgets")
			if r.Out.URL.Path == "" {
				r.Out.URL.Path = "/"
			}
		}}))
	t.Cleanup(proxy.Close)
	t.Cleanup(proxy.CloseClientConnections) // streams would never end
	for _, path := range []string{"/ops/budgets/", "/ops/budgets"} {
		page := open(t, proxy.URL+path)
		page.sees("all is well", "live")
		page.clicks("link", "Budgets")
		page.clicks("link", "spring-sale")
		page.sees("every unit is accounted for")
		if said := page.complaints(); said != "" {
			t.Errorf("%s: the browser complains:\n%s", path, said)
		}
	}
}

// TestNotConnected checks that a page that is not connected says so, reconnects, and shows no entry
// twice.
func TestNotConnected(t *testing.T) {
	data := "BUDGETD_DATABASE_DSN=" + filepath.Join(t.TempDir(), "budgetd.db")
	s := serve(t, "", data)
	s.must("POST", "/v1/budgets", `{"name":"spring-sale","unit":"count","type":"promo",
		"total_quantity":1000}`)
	s.must("POST", "/v1/budgets/spring-sale/deduct", `{"request_id":"before","amount":1}`)
	page := open(t, s.url+views["budget"])
	page.sees("live", "before", "999")
	s.stop()
	page.sees("Not connected", "what you see is from before", "999")
	page.picture("not-connected")
	again := serve(t, "", data, "BUDGETD_LISTEN="+strings.TrimPrefix(s.url, "http://"))
	again.must("POST", "/v1/budgets/spring-sale/deduct", `{"request_id":"after","amount":1}`)
	page.sees("live", "after", "998")
	page.until("the notice goes", `!document.querySelector('.notice')`)
	if got := page.rows("What happened last"); len(got) != 2 || got[0][3] != "after" || got[1][3] != "before" {
		t.Errorf("entries: %q", got)
	}
}
