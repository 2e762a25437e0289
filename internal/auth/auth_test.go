package auth

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client/tlsfiles"
	"github.com/budgetd/budgetd/internal/ratelimit"
)

var at = time.UnixMilli(1_700_000_000_000)

// gate is a service with keys of every role, and with a revoked and an expired one.
type gate struct {
	*Service
	tokens map[string]string
	ids    map[string]string
}

func newGate(t testing.TB) *gate {
	t.Helper()
	g := &gate{&Service{Book: access.NewBook(1000), Refusals: new(auditlog.Refusals), Now: func() time.Time { return at }},
		map[string]string{}, map[string]string{}}
	var keys []access.Key
	add := func(name string, key access.Key) {
		token, err := access.NewToken(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key.ID, key.Hash, key.Principal = token.ID(), token.Hash(), name
		g.tokens[name], g.ids[name] = token.Reveal(), token.ID()
		keys = append(keys, key)
	}
	for _, role := range access.Roles() {
		add(role.String(), access.Key{Role: role})
	}
	add("shop", access.Key{Role: access.Admin, Scope: access.Scope{Tenant: "shop"}})
	add("revoked", access.Key{Role: access.Admin, RevokedMS: 1})
	add("expired", access.Key{Role: access.Admin, ExpiresMS: at.UnixMilli()})
	g.Book.Replace(keys, at.UnixMilli())
	return g
}

// admit authenticates a request and checks the role.
func (g *Service) admit(w http.ResponseWriter, r *http.Request, call access.Call) (
	*access.Principal, error) {
	p, err := g.Identify(g.CallerOf(w, r), &call)
	if err != nil || p == nil {
		return nil, err
	}
	if err := Permit(p, &call); err != nil {
		return nil, err
	}
	return p, nil
}

func request(authorization ...string) *http.Request {
	r := httptest.NewRequest("POST", "http://127.0.0.1:8080/v1/x", http.NoBody)
	r.RemoteAddr = "10.0.0.7:1234"
	for _, value := range authorization {
		r.Header.Add("Authorization", value)
	}
	return r
}

// TestEveryCallWithEveryKey makes every call with keys of every role, without a key, and with a
// revoked, an expired and another tenant's key.
func TestEveryCallWithEveryKey(t *testing.T) {
	g := newGate(t)
	for _, call := range access.Calls() {
		open := call.Over == access.Nobody
		check := func(name string, r *http.Request, want budget.Code) {
			t.Helper()
			p, err := g.admit(httptest.NewRecorder(), r, call)
			if open {
				want = ""
			}
			if budget.CodeOf(err) != want || (p != nil) != (err == nil && !open) {
				t.Errorf("%s with %s: %+v, %v; want %q", call.Op, name, p, err, want)
			}
		}
		for _, role := range access.Roles() {
			want := budget.Code("")
			if role < call.Least {
				want = budget.Forbidden
			}
			check(role.String(), request("Bearer "+g.tokens[role.String()]), want)
		}
		check("no key", request(), budget.Unauthenticated)
		for _, name := range []string{"revoked", "expired"} {
			check(name, request("Bearer "+g.tokens[name]), budget.Unauthenticated)
		}
		p, err := g.admit(httptest.NewRecorder(), request("Bearer "+g.tokens["shop"]), call)
		if err != nil {
			t.Errorf("%s as the tenant's admin: %v", call.Op, err)
		}
		gone := errors.New("gone")
		err = Judge(p, call, access.Target{Tenant: "other", Budget: "sale"}, func() error { return gone })
		switch call.Over {
		case access.Nobody, access.Self:
			if err != nil {
				t.Errorf("%s: %v", call.Op, err)
			}
		case access.Budget:
			if err != gone { //nolint:errorlint // the same value, so that the answers are equal
				t.Errorf("%s on another tenant's budget: %v, want the error of a missing one", call.Op, err)
			}
		default:
			if budget.CodeOf(err) != budget.Forbidden {
				t.Errorf("%s in another tenant: %v", call.Op, err)
			}
		}
	}
}

func TestAuthorizationHeaders(t *testing.T) {
	g := newGate(t)
	call, _ := access.CallOf("GET /v1/whoami")
	key := g.tokens["read"]
	for name, test := range map[string]struct {
		headers []string
		want    budget.Code
	}{
		"small letters": {[]string{"bearer " + key}, ""}, "twice": {[]string{"Bearer " + key, "Bearer " + key}, budget.Unauthenticated},
		"another scheme": {[]string{"Basic " + key}, budget.Unauthenticated}, "the key alone": {[]string{key}, budget.Unauthenticated},
		"empty": {[]string{""}, budget.Unauthenticated}, "no key": {[]string{"Bearer "}, budget.Unauthenticated},
		"two spaces": {[]string{"Bearer  " + key}, budget.Unauthenticated}, "two keys": {[]string{"Bearer " + key + "," + key}, budget.Unauthenticated},
	} {
		if _, err := g.admit(httptest.NewRecorder(), request(test.headers...), call); budget.CodeOf(err) != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestRefusalsAreCounted(t *testing.T) {
	g := newGate(t)
	call, _ := access.CallOf("POST /v1/budgets")
	unknown, err := access.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"Bearer " + g.tokens["revoked"], "Bearer " + g.tokens["revoked"], "x", "Bearer " + unknown.Reveal()} {
		g.admit(httptest.NewRecorder(), request(header), call)
	}
	g.admit(httptest.NewRecorder(), request("Bearer "+g.tokens["read"]), call) // authenticated, so not counted
	want := []auditlog.Row{
		{AtMS: at.UnixMilli(), Source: "10.0.0.7", Op: "create", Outcome: "malformed", Times: 1},
		{AtMS: at.UnixMilli(), KeyID: g.ids["revoked"], Source: "10.0.0.7", Op: "create", Outcome: "revoked", Times: 2},
		// Its id is an invention of the caller's, of which there are any number.
		{AtMS: at.UnixMilli(), Source: "10.0.0.7", Op: "create", Outcome: "unknown", Times: 1},
	}
	var got []auditlog.Row
	for row, found := g.Refusals.Take(); found; row, found = g.Refusals.Take() {
		got = append(got, row)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusals (-want +got)\n%s", diff)
	}
}

// TestStaleKeys checks that a call is unavailable while keys cannot be checked, and that it is not
// counted as a refusal.
func TestStaleKeys(t *testing.T) {
	g := newGate(t)
	g.Now = func() time.Time { return at.Add(2 * time.Second) }
	call, _ := access.CallOf("GET /v1/whoami")
	_, err := g.admit(httptest.NewRecorder(), request("Bearer "+g.tokens["read"]), call)
	if _, counted := g.Refusals.Take(); !budget.Is(err, budget.Unavailable) || counted {
		t.Errorf("%v, want unavailable and no refusal counted", err)
	}
}

func certified(name string, verified bool) *http.Request {
	r := request()
	certificate := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}
	if verified {
		r.TLS.VerifiedChains = [][]*x509.Certificate{{certificate}}
	}
	return r
}

func TestCertificates(t *testing.T) {
	g := newGate(t)
	g.Certificates = []Certificate{{tlsfiles.Match{Field: tlsfiles.DNS, Value: "till"}, access.Principal{Name: "till", Role: access.Deduct}},
		{tlsfiles.Match{Field: tlsfiles.Subject, Value: "CN=till"}, access.Principal{Name: "other", Role: access.Admin}}}
	call, _ := access.CallOf("POST /v1/budgets/{budget}/deduct")
	p, err := g.admit(httptest.NewRecorder(), certified("till", true), call)
	if err != nil || p.Name != "till" {
		t.Errorf("%+v, %v; want the principal of the first match", p, err)
	}
	for name, r := range map[string]*http.Request{"without a principal": certified("stranger", true), "not verified": certified("till", false)} {
		if _, err := g.admit(httptest.NewRecorder(), r, call); !budget.Is(err, budget.Unauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A wrong key beside a valid certificate is refused, not ignored.
	both := certified("till", true)
	both.Header.Set("Authorization", "Bearer "+g.tokens["revoked"])
	if _, err := g.admit(httptest.NewRecorder(), both, call); !budget.Is(err, budget.Unauthenticated) {
		t.Errorf("a revoked key beside a certificate: %v", err)
	}
}

// person is a Sessions in which every request is of one person.
type person struct{}

func (person) Authenticate(http.ResponseWriter, *http.Request) *access.Principal {
	return &access.Principal{Name: "oidc:jane", Role: access.Admin}
}

// TestPagesOfOtherSites checks that a page of another site cannot use a person's session, a
// browser's certificate, or a server without authentication on the same machine. It can use a key
// that it knows.
func TestPagesOfOtherSites(t *testing.T) {
	call, _ := access.CallOf("POST /v1/budgets")
	match := tlsfiles.Match{Field: tlsfiles.DNS, Value: "jane"}
	for name, test := range map[string]struct {
		service *Service
		r       *http.Request
		code    budget.Code
	}{
		"session":     {&Service{Sessions: person{}}, request(), budget.Unauthenticated},
		"certificate": {&Service{Certificates: []Certificate{{match, access.Principal{Role: access.Admin}}}}, certified("jane", true), budget.Unauthenticated},
		"nobody":      {&Service{Open: true, Loopback: true}, request(), budget.Forbidden},
		"everybody":   {&Service{Open: true}, request(), budget.Forbidden},
		"key":         {newGate(t).Service, nil, ""},
	} {
		g := test.service
		if g.Now = func() time.Time { return at }; g.Refusals == nil {
			g.Refusals = new(auditlog.Refusals)
		}
		if test.r == nil {
			gate := newGate(t)
			g, test.r = gate.Service, request("Bearer "+gate.tokens["admin"])
		}
		for _, one := range []struct {
			header, value string
			want          budget.Code
		}{
			{"Sec-Fetch-Site", "same-origin", ""}, {"Sec-Fetch-Site", "none", ""}, {"Sec-Fetch-Site", "cross-site", test.code},
			{"Sec-Fetch-Site", "same-site", test.code}, {"Origin", "http://127.0.0.1:8080", ""}, {"Origin", "http://127.0.0.1:9090", test.code},
			{"Origin", "null", test.code}, {"Origin", "https://evil.example", test.code},
		} {
			r := test.r.Clone(t.Context())
			r.Header.Set(one.header, one.value)
			if _, err := g.admit(httptest.NewRecorder(), r, call); budget.CodeOf(err) != one.want {
				t.Errorf("%s, %s %s: %v, want %q", name, one.header, one.value, err, one.want)
			}
		}
	}
}

func TestRateLimit(t *testing.T) {
	g := newGate(t)
	g.Limiter = ratelimit.NewLimiter(1, 2)
	call, _ := access.CallOf("GET /v1/whoami")
	ask := func(name string) error {
		_, err := g.admit(httptest.NewRecorder(), request("Bearer "+g.tokens[name]), call)
		return err
	}
	for range 2 {
		if err := ask("read"); err != nil {
			t.Error(err)
		}
	}
	var limited *budget.Error
	if err := ask("read"); !errors.As(err, &limited) || limited.Code != budget.RateLimited || limited.RetryAfter != time.Second {
		t.Errorf("%v, want rate_limited for a second", err)
	}
	if err := ask("admin"); err != nil {
		t.Errorf("another key: %v", err)
	}
}

func TestOpen(t *testing.T) {
	g := &Service{Open: true, Loopback: true}
	call, _ := access.CallOf("POST /v1/budgets")
	if p, err := g.admit(httptest.NewRecorder(), request(), call); err != nil || p != access.Anonymous {
		t.Errorf("%+v, %v; want access.Anonymous", p, err)
	}
	r := request()
	r.Host = "evil.example:8080"
	if _, err := g.admit(httptest.NewRecorder(), r, call); !budget.Is(err, budget.Forbidden) {
		t.Errorf("DNS rebinding: %v", err)
	}
	g.Loopback = false
	if _, err := g.admit(httptest.NewRecorder(), r, call); err != nil {
		t.Errorf("another host without Loopback: %v", err)
	}
}

// BenchmarkAdmit measures the cost of authentication per deduction in the server.
func BenchmarkAdmit(b *testing.B) {
	g := newGate(b)
	call, _ := access.CallOf("POST /v1/budgets/{budget}/deduct")
	r, w := request("Bearer "+g.tokens["deduct"]), httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		p, err := g.admit(w, r, call)
		if err != nil || p.May(call, access.Target{Tenant: "default", Budget: "sale"}) != access.Allowed {
			b.Fatal(err)
		}
	}
}
