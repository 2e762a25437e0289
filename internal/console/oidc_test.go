package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"

	"github.com/budgetd/budgetd/internal/oidc/testprovider"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// trusting is an action after which a tab takes any certificate.
func trusting() action {
	return command(security.SetIgnoreCertificateErrors,
		security.SetIgnoreCertificateErrorsParams{Ignore: true})
}

// organised runs a budgetd that persons log in to with an identity provider, and a proxy with TLS
// before it. It returns the proxy's address.
func organised(t *testing.T) (s *server, provider *testprovider.Provider, address string) {
	t.Helper()
	provider = testprovider.New(t)
	old := http.DefaultTransport
	http.DefaultTransport = provider.Client().Transport // budgetd knows the provider's certificate
	t.Cleanup(func() { http.DefaultTransport = old })
	var target atomic.Pointer[url.URL]
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Transport: old,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target.Load())
			r.Out.Host = r.In.Host
		}})
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections) // streams would never end
	file := filepath.Join(t.TempDir(), "session.key")
	if err := os.WriteFile(file, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	s = serve(t, fmt.Sprintf(`auth: keys
oidc:
  issuer: %q
  client_id: %q
  client_secret: %q
  redirect_url: %q
  session_key_file: %q
  roles:
  - {group: on-call, role: operator}
instances:
- {name: redis-a, driver: redis, addrs: [%q]}
`, provider.URL, provider.ClientID, provider.ClientSecret, front.URL+"/console/callback", file,
		testservers.SharedRedis(t).Addr()))
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	target.Store(at)
	return s, provider, front.URL
}

// jane is on call.
var jane = map[string]any{"sub": "4711", "email": "jane@example.com", "email_verified": true,
	"groups": []string{"on-call"}}

// TestLogInWithTheOrganisation follows a person who logs in with the provider of the organisation.
// The person returns to the requested view, acts with the role of a group, and logs out.
func TestLogInWithTheOrganisation(t *testing.T) {
	_, provider, address := organised(t)
	provider.Person(jane)
	page := open(t, address+"/#/instances", trusting())
	page.sees("Sign in")
	page.clicks("link", "Log in with your organisation")
	page.sees("oidc:jane@example.com · operator", "configured")
	if got := value[string](page, `document.querySelector('h1').innerText`); got != "Instances" {
		t.Errorf("the view after the log-in: %q", got)
	}
	text := page.text()
	for _, not := range []string{"Keys", "Audit log"} {
		if strings.Contains(text, not) {
			t.Errorf("an operator sees %q", not)
		}
	}
	if cookie := value[string](page, `document.cookie`); cookie != "" {
		t.Errorf("scripts can read the session: %q", cookie)
	}
	page.clicks("button", "Recover "+value[string](page, `document.querySelector('.card h2').innerText`))
	page.clicks("button", "Recover it")
	page.sees(" is up.")
	page.clicks("button", "Close")
	page.do(chromedp.Reload())
	page.sees("oidc:jane@example.com · operator")
	page.clicks("button", "Sign out")
	page.sees("Sign in")
	page.do(chromedp.Reload())
	page.sees("Sign in")
	if strings.Contains(page.text(), "jane") {
		t.Errorf("after the log-out:\n%s", page.text())
	}
}

// TestLogInRefused checks that the page says why a person may not log in, and lets the person try
// again.
func TestLogInRefused(t *testing.T) {
	_, provider, address := organised(t)
	provider.Person(map[string]any{"sub": "4712", "email": "joe@example.com", "email_verified": true,
		"groups": []string{"cooks"}})
	page := open(t, address+"/", trusting())
	page.clicks("link", "Log in with your organisation")
	page.sees("none of your groups has a role here", "Sign in")
	if at := value[string](page, `location.href`); at != address+"/" {
		t.Errorf("the page is at %s", at)
	}
	provider.Person(jane)
	page.clicks("link", "Log in with your organisation")
	page.sees("oidc:jane@example.com · operator")
}
