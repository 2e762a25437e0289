package oidc

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/internal/oidc/testprovider"
	"github.com/budgetd/budgetd/internal/secret"
)

const sessionKey = "0123456789abcdef0123456789abcdef"

// console is a server with log-in, and a browser that visits it.
type console struct {
	*httptest.Server
	*Login
	provider *testprovider.Provider
	browser  *http.Client
	ahead    atomic.Int64 // how far its clock is ahead, in ns
	refused  string       // reason and error of the last refusal
}

func newConsole(t *testing.T, key string) *console {
	t.Helper()
	c := &console{provider: testprovider.New(t)}
	mux := http.NewServeMux()
	c.Server = httptest.NewTLSServer(mux)
	t.Cleanup(c.Close)
	login, err := New(Config{
		Issuer: c.provider.URL, ClientID: c.provider.ClientID, ClientSecret: secret.Value(secret.New(c.provider.ClientSecret)),
		RedirectURL: c.URL + "/console/callback", GroupsClaim: "groups", Key: secret.Value(secret.New(key)),
		Grants: []Grant{{"readers", access.Read, access.Scope{}}, {"shop", access.Operator, access.Scope{Tenant: "shop"}},
			{"shop-too", access.Operator, access.Scope{}}},
		HTTP: c.provider.Client(), Now: func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) },
		Refused: func(w http.ResponseWriter, _ *http.Request, reason string, err error) {
			c.refused = reason + ": " + err.Error()
			http.Error(w, reason, http.StatusUnauthorized)
		}})
	if err != nil {
		t.Fatal(err)
	}
	c.Login = login
	mux.HandleFunc("GET /console/login", login.Begin)
	mux.HandleFunc("GET /console/callback", login.Callback)
	mux.HandleFunc("POST /console/logout", login.End)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		p := login.Authenticate(w, r)
		if p == nil {
			fmt.Fprint(w, "nobody")
			return
		}
		fmt.Fprintf(w, "%s %s %s at %s", p.Name, p.Role, p.Scope.Tenant, r.URL.Path)
	})
	c.browser = newBrowser(t)
	return c
}

func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // two test servers
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport}
}

// visit returns the status and the text of a page, after all redirects.
func (c *console) visit(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := c.browser.Get(c.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(text))
}

func (c *console) mustVisit(t *testing.T, path, want string) {
	t.Helper()
	if status, got := c.visit(t, path); status != 200 || got != want {
		t.Errorf("%s: %d %q, want %q; %s", path, status, got, want, c.refused)
	}
}

var jane = map[string]any{"sub": "4711", "email": "jane@example.com", "email_verified": true, "groups": []string{"readers", "shop", "cooks"}}

func TestLogInAndOut(t *testing.T) {
	c := newConsole(t, sessionKey)
	c.mustVisit(t, "/", "nobody")
	c.provider.Person(jane)
	c.mustVisit(t, "/console/login?return=/budgets/sale", "oidc:jane@example.com operator shop at /budgets/sale")
	c.mustVisit(t, "/", "oidc:jane@example.com operator shop at /")
	response, err := c.browser.Post(c.URL+"/console/logout", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	c.mustVisit(t, "/", "nobody")
}

func TestCookies(t *testing.T) {
	c := newConsole(t, sessionKey)
	c.provider.Person(jane)
	var seen []string
	c.browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		seen = append(seen, r.Response.Header.Values("Set-Cookie")...)
		return nil
	}
	c.mustVisit(t, "/console/login", "oidc:jane@example.com operator shop at /")
	for _, name := range []string{sessionCookie + "=", loginCookie + "="} {
		found := false
		for _, cookie := range seen {
			if !strings.HasPrefix(cookie, name) {
				continue
			}
			found = true
			for _, attribute := range []string{"Path=/", "Secure", "HttpOnly", "SameSite=Lax"} {
				if !strings.Contains(cookie, attribute) {
					t.Errorf("%s lacks %s", cookie, attribute)
				}
			}
			if strings.Contains(cookie, "Domain") || strings.Contains(cookie, "jane") {
				t.Error(cookie)
			}
		}
		if !found {
			t.Errorf("%s is not set: %q", name, seen)
		}
	}
}

// TestSessionEnds checks that a session ends 30 minutes after the last request and 8 hours after the
// log-in.
func TestSessionEnds(t *testing.T) {
	c := newConsole(t, sessionKey)
	c.provider.Person(jane)
	const person = "oidc:jane@example.com operator shop at /"
	c.mustVisit(t, "/console/login", person)
	c.ahead.Add(int64(29 * time.Minute))
	c.mustVisit(t, "/", person)
	c.ahead.Add(int64(29 * time.Minute)) // the last request prolonged it
	c.mustVisit(t, "/", person)
	c.ahead.Add(int64(31 * time.Minute))
	c.mustVisit(t, "/", "nobody")
	c.ahead.Store(0)
	c.mustVisit(t, "/console/login", person)
	for range 16 {
		c.ahead.Add(int64(29 * time.Minute))
		c.mustVisit(t, "/", person)
	}
	c.ahead.Add(int64(17 * time.Minute)) // 8 h 1 min
	c.mustVisit(t, "/", "nobody")
}

func TestWhoMayLogIn(t *testing.T) {
	for name, test := range map[string]struct {
		claims map[string]any
		want   string // "" is refused
	}{
		"a reader":           {map[string]any{"sub": "1", "groups": []string{"readers"}}, "oidc:1 read  at /"},
		"one group":          {map[string]any{"sub": "1", "groups": "readers"}, "oidc:1 read  at /"},
		"address unverified": {map[string]any{"sub": "1", "email": "a@b", "groups": "readers"}, "oidc:1 read  at /"},
		"address not true":   {map[string]any{"sub": "1", "email": "a@b", "email_verified": "true", "groups": "readers"}, "oidc:1 read  at /"},
		"the first of equal": {map[string]any{"sub": "1", "groups": []string{"shop-too", "shop"}}, "oidc:1 operator shop at /"},
		"no group":           {map[string]any{"sub": "1"}, ""},
		"another group":      {map[string]any{"sub": "1", "groups": []string{"cooks", "Readers"}}, ""},
		"groups as a number": {map[string]any{"sub": "1", "groups": 7}, ""},
		"no name":            {map[string]any{"sub": strings.Repeat("x", 200), "groups": "readers"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t, sessionKey)
			c.provider.Person(test.claims)
			if test.want != "" {
				c.mustVisit(t, "/console/login", test.want)
				return
			}
			if status, _ := c.visit(t, "/console/login"); status != 401 || !strings.HasPrefix(c.refused, "login_refused") {
				t.Errorf("%d, %s", status, c.refused)
			}
			c.mustVisit(t, "/", "nobody")
		})
	}
}

// TestTokensThatAreRefused checks that forged and invalid tokens of a provider are refused.
func TestTokensThatAreRefused(t *testing.T) {
	for name, do := range map[string]func(c *console){
		"another audience": func(c *console) { c.provider.Tamper(func(m map[string]any) { m["aud"] = "other" }) },
		"another issuer":   func(c *console) { c.provider.Tamper(func(m map[string]any) { m["iss"] = "https://other" }) },
		"expired": func(c *console) {
			c.provider.Tamper(func(m map[string]any) { m["exp"] = time.Now().Add(-time.Hour).Unix() })
		},
		"another nonce":  func(c *console) { c.provider.Tamper(func(m map[string]any) { m["nonce"] = "other" }) },
		"no nonce":       func(c *console) { c.provider.Tamper(func(m map[string]any) { delete(m, "nonce") }) },
		"forged":         func(c *console) { c.provider.Forge(t) },
		"refused":        func(c *console) { c.provider.Refuse("access_denied") },
		"another secret": func(c *console) { c.provider.ClientSecret = "other" },
	} {
		c := newConsole(t, sessionKey)
		c.provider.Person(jane)
		do(c)
		if status, _ := c.visit(t, "/console/login"); status != 401 || !strings.HasPrefix(c.refused, "login_refused") {
			t.Errorf("%s: %d, %s", name, status, c.refused)
		}
		for _, hidden := range []string{"client-secret", "code_verifier", "eyJ"} {
			if strings.Contains(c.refused, hidden) {
				t.Errorf("%s: the error shows %s: %s", name, hidden, c.refused)
			}
		}
		c.mustVisit(t, "/", "nobody")
	}
}

// TestForeignCallback checks that a callback is refused if the browser did not begin the log-in,
// began it too long ago, or has used the callback before.
func TestForeignCallback(t *testing.T) {
	c := newConsole(t, sessionKey)
	c.provider.Person(jane)
	stop := func(r *http.Request, via []*http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/callback") {
			return http.ErrUseLastResponse
		}
		return nil
	}
	begin := func(browser *http.Client) (callback string) {
		t.Helper()
		browser.CheckRedirect = stop
		response, err := browser.Get(c.URL + "/console/login")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		browser.CheckRedirect = nil
		location, err := url.Parse(response.Header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		return location.RequestURI()
	}
	expired := func(name, path string) {
		t.Helper()
		if status, _ := c.visit(t, path); status != 401 || !strings.HasPrefix(c.refused, "login_expired") {
			t.Errorf("%s: %d, %s", name, status, c.refused)
		}
	}
	expired("without a cookie", "/console/callback?code=a&state=b")
	others := begin(newBrowser(t)) // an attacker logs in and sends the link to a victim
	begin(c.browser)
	expired("another browser's", others)
	own := begin(c.browser)
	expired("without a state", strings.Split(own, "&state")[0])
	own = begin(c.browser)
	c.mustVisit(t, own, "oidc:jane@example.com operator shop at /")
	expired("used", own)
	own = begin(c.browser)
	c.ahead.Store(int64(loginTime))
	expired("late", own)
}

// TestProviderIsAway checks that a log-in works once the provider is back.
func TestProviderIsAway(t *testing.T) {
	c := newConsole(t, sessionKey)
	issuer := c.Login.config.Issuer
	c.Login.config.Issuer = "https://127.0.0.1:1"
	if status, _ := c.visit(t, "/console/login"); status != 401 || !strings.HasPrefix(c.refused, "login_unavailable") {
		t.Errorf("%d, %s", status, c.refused)
	}
	c.Login.config.Issuer = issuer
	c.provider.Person(jane)
	c.mustVisit(t, "/console/login", "oidc:jane@example.com operator shop at /")
}

func TestSeal(t *testing.T) {
	key, next := secret.New(sessionKey), secret.New(strings.Repeat("n", 32)+"\n"+sessionKey)
	sealed, err := seal(key, "a", session{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var got session
	for _, with := range []secret.Text{key, next} {
		if err := unseal(with, "a", sealed, &got); err != nil || got.Name != "x" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	again, err := seal(key, "a", session{Name: "x"})
	if err != nil || again == sealed {
		t.Errorf("the same text is sealed alike twice: %v", err)
	}
	if err := unseal(key, "b", sealed, &got); err == nil {
		t.Error("opened for another purpose")
	}
	if err := unseal(secret.New(strings.Repeat("o", 32)), "a", sealed, &got); err == nil {
		t.Error("opened with another key")
	}
	for n := range len(sealed) {
		changed := sealed[:n] + string("AB"[btoi(sealed[n] == 'A')]) + sealed[n+1:]
		if err := unseal(key, "a", changed, &got); err == nil {
			t.Errorf("changed at %d and opened", n)
		}
		if err := unseal(key, "a", sealed[:n], &got); err == nil {
			t.Errorf("cut at %d and opened", n)
		}
	}
	for _, short := range []string{"", "short", sessionKey + "\nshort", sessionKey + "\n\n" + sessionKey} {
		if _, err := seal(secret.New(short), "a", 1); err == nil {
			t.Errorf("sealed with %q", short)
		}
		if _, err := New(Config{Key: secret.Value(secret.New(short))}); err == nil {
			t.Errorf("New accepts the key %q", short)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestSessionOfTheFuture(t *testing.T) {
	now := int64(1_700_000_000_000)
	for _, s := range []session{{}, {Name: "a", CreatedMS: now + 1, SeenMS: now + 1}, {Name: "a", CreatedMS: now, SeenMS: now - 1}} {
		if s.live(now) {
			t.Errorf("%+v is live", s)
		}
	}
	if !(session{Name: "a", CreatedMS: now, SeenMS: now}).live(now) {
		t.Error("a new session is not live")
	}
}

func TestLocalPage(t *testing.T) {
	for path, want := range map[string]string{"/a?b=c": "/a?b=c", "": "/", "//evil.example": "/", "https://evil.example": "/",
		`/\evil.example`: "/", "/\t/evil.example": "/", "javascript:alert(1)": "/"} {
		if got := localPage(path); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}

// FuzzUnseal checks that a text which was not sealed is refused without a panic.
func FuzzUnseal(f *testing.F) {
	f.Add("")
	f.Add("AAAA")
	f.Add(strings.Repeat("A", 100))
	f.Fuzz(func(t *testing.T, text string) {
		var s session
		if err := unseal(secret.New(sessionKey), sessionCookie, text, &s); err == nil || cmp.Diff(session{}, s) != "" {
			t.Errorf("%q is opened: %+v", text, s)
		}
	})
}

// TestProviderThatHangs checks that log-ins do not queue for a provider that does not answer: all of
// them share one attempt.
func TestProviderThatHangs(t *testing.T) {
	c := newConsole(t, sessionKey)
	var asked atomic.Int32
	open := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-open
	}))
	t.Cleanup(hangs.Close)
	c.Login.config.Issuer = hangs.URL
	const logins = 5
	ended := make(chan error, logins)
	for range logins {
		go func() {
			_, _, err := c.Login.clients(t.Context())
			ended <- err
		}()
	}
	for asked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // all of them wait
	close(open)
	for range logins {
		if err := <-ended; err == nil {
			t.Error("a provider that answers nothing is accepted")
		}
	}
	if n := asked.Load(); n > 1 {
		t.Errorf("the provider was asked %d times by %d log-ins at once, want once", n, logins)
	}
	if _, _, err := c.Login.clients(t.Context()); err == nil || asked.Load() != 2 {
		t.Errorf("%v after %d attempts: the next log-in must ask again", err, asked.Load())
	}
}
