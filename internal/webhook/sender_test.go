package webhook_test

import (
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/internal/webhook"
)

// secretOf returns a secret in the form of Standard Webhooks.
func secretOf(letter string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// received is a request that a receiver got.
type received struct {
	header http.Header
	body   string
}

// receiver is a server that records requests before its handler answers them.
type receiver struct {
	*http.Server
	url string
	mu  sync.Mutex
	got []received
}

func (r *receiver) taken() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

func listen(t *testing.T, then http.HandlerFunc) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{url: "http://" + l.Addr().String() + "/hooks?of=budgetd"}
	r.Server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.got = append(r.got, received{q.Header.Clone(), string(body)})
		r.mu.Unlock()
		then(w, q)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Serve(l) }()
	t.Cleanup(func() { r.Close(); <-done })
	return r
}

// senderOf returns a sender whose folder of secrets has one file with the given lines.
func senderOf(t *testing.T, allow []netip.Prefix, timeout time.Duration, lines ...string) *webhook.Sender {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "shop"), lines...)
	return webhook.New(webhook.Config{Secrets: webhook.Secrets{Dir: dir}, Allow: allow, Timeout: timeout,
		Agent: "budgetd/test", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
}

func write(t *testing.T, file string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

var message = alert.Message{ID: "msg_1", Type: alert.TypeTest, Body: []byte(`{"type":"test","data":{"ü":"<"}}`)}

func send(t *testing.T, s *webhook.Sender, url string) (int, error) {
	t.Helper()
	e := alert.Endpoint{ID: "ep_1", URL: url, Secret: "shop"}
	return s.Send(t.Context(), e, message, time.Now())
}

// TestStandardVerifies checks signatures with the library of Standard Webhooks: a message verifies
// with each secret in the file, but not with another one, with another body, or with another id.
func TestStandardVerifies(t *testing.T) {
	r := listen(t, func(http.ResponseWriter, *http.Request) {})
	s := senderOf(t, loopback, time.Minute, secretOf("a"), "", secretOf("b"))
	if status, err := send(t, s, r.url); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	got := r.taken()[0]
	if got.header.Get("User-Agent") != "budgetd/test" || got.header.Get("Content-Type") != "application/json" ||
		got.header.Get("webhook-id") != "msg_1" || got.body != string(message.Body) {
		t.Errorf("%v %s", got.header, got.body)
	}
	for letter, want := range map[string]bool{"a": true, "b": true, "c": false} {
		verifier, err := standard.NewWebhook(secretOf(letter))
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify([]byte(got.body), got.header); (err == nil) != want {
			t.Errorf("secret %s: %v", letter, err)
		}
		if verifier.Verify([]byte(got.body+" "), got.header) == nil {
			t.Errorf("secret %s verifies another body", letter)
		}
		other := got.header.Clone()
		other.Set("webhook-id", "msg_2")
		if verifier.Verify([]byte(got.body), other) == nil {
			t.Errorf("secret %s verifies another id", letter)
		}
	}
}

// TestReceiverFails checks the status and the error for each way in which a receiver can fail.
func TestReceiverFails(t *testing.T) {
	release := make(chan struct{})
	hang := func(http.ResponseWriter, *http.Request) { <-release }
	var elsewhere receiver
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, text)
			conn.Close()
		}
	}
	redirect := func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, elsewhere.url, http.StatusMovedPermanently)
	}
	other := listen(t, func(http.ResponseWriter, *http.Request) {})
	elsewhere.url = other.url
	for name, test := range map[string]struct {
		then    http.HandlerFunc
		timeout time.Duration
		status  int
		err     string
	}{
		"500":                    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, time.Minute, 500, "it answered 500"},
		"301":                    {redirect, time.Minute, 301, "it answered 301"},
		"410":                    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }, time.Minute, 410, "it answered 410"},
		"hangs":                  {hang, 200 * time.Millisecond, 0, "timeout"},
		"closes":                 {raw(""), time.Minute, 0, "EOF"},
		"closes within the head": {raw("HTTP/1.1 200 OK\r\nContent-Le"), time.Minute, 0, "broken"},
		"no HTTP":                {raw("SSH-2.0-OpenSSH\r\n\r\n"), time.Minute, 0, "malformed"},
		"endless head": {raw("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("x", 1000)+"\r\n", 40)),
			time.Minute, 0, "exceeded"},
		"closes within the body": {raw("HTTP/1.1 204 No\r\nContent-Length: 100\r\n\r\nabc"), time.Minute, 204, ""},
		"huge body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000000000000")
			_, _ = w.Write(make([]byte, 1<<20))
		}, time.Minute, 200, ""},
		"slow body": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(202)
			w.(http.Flusher).Flush()
			<-release
		}, time.Minute, 202, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := listen(t, test.then)
			status, err := send(t, senderOf(t, loopback, test.timeout, secretOf("a")), r.url)
			if status != test.status || (err == nil) != (test.err == "") ||
				err != nil && !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(test.err)) {
				t.Errorf("status %d, error %v; want %d, %q", status, err, test.status, test.err)
			}
			if err != nil && (strings.Contains(err.Error(), "whsec") || strings.Contains(err.Error(), "hooks")) {
				t.Errorf("the error shows the secret or the path: %v", err)
			}
		})
	}
	close(release)
	if got := other.taken(); len(got) != 0 {
		t.Errorf("a redirect was followed: %v", got)
	}
	r := listen(t, hang)
	r.Close()
	if status, err := send(t, senderOf(t, loopback, time.Minute, secretOf("a")), r.url); status != 0 || err == nil {
		t.Errorf("no server listens: %d, %v", status, err)
	}
}

// TestAddresses checks which addresses may be connected to.
func TestAddresses(t *testing.T) {
	for _, address := range []string{"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "0.0.0.0:1", "0.1.2.3:1", "[::]:1", "10.0.0.1:1",
		"192.168.1.1:1", "172.16.0.1:1", "172.31.255.255:1", "169.254.169.254:1", "[fe80::1]:1", "[fe80::1%eth0]:1", "[fd00::1]:1",
		"100.64.0.1:1", "192.0.0.8:1", "198.18.0.1:1", "224.0.0.1:1", "240.0.0.1:1", "255.255.255.255:1", "[ff02::1]:1",
		"[fec0::1]:1", "[::ffff:127.0.0.1]:1", "[::ffff:10.0.0.1]:1", "[64:ff9b::7f00:1]:1", "[2002:7f00:1::]:1",
		"[2001:db8::1]:1", "[::7f00:1]:1", "[::ffff:0:127.0.0.1]:1", "[3fff::1]:1", "[3fff:fff::1]:1", "[5f00::1]:1", "[100::1]:1",
		"[64:ff9b:1::1]:1", "[4000::1]:1", "example.com:1", "", "10.0.0.1"} {
		if webhook.Permit(address, true) == nil {
			t.Errorf("%q is permitted", address)
		}
	}
	for _, address := range []string{"8.8.8.8:443", "172.32.0.1:1", "[2a00:1450::1]:443", "[::ffff:8.8.8.8]:443"} {
		if err := webhook.Permit(address, true); err != nil {
			t.Errorf("%q: %v", address, err)
		}
		if err := webhook.Permit(address, false); err == nil || !strings.Contains(err.Error(), "unencrypted") {
			t.Errorf("%q without TLS: %v", address, err)
		}
	}
	ten, mine := netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")
	for address, want := range map[string]bool{"10.1.2.3:1": true, "[::ffff:10.1.2.3]:1": true, "10.2.0.1:1": false,
		"[fd00:1::5]:1": true, "[fd00:2::5]:1": false} {
		for _, tls := range []bool{true, false} {
			if err := webhook.Permit(address, tls, ten, mine); (err == nil) != want {
				t.Errorf("%s, TLS %t: %v", address, tls, err)
			}
		}
	}
}

// TestDialIsChecked checks that Send checks the address to which a name resolves when it is
// dialled.
func TestDialIsChecked(t *testing.T) {
	r := listen(t, func(http.ResponseWriter, *http.Request) {})
	byName := strings.Replace(r.url, "127.0.0.1", "localhost", 1)
	for _, url := range []string{r.url, byName, strings.Replace(byName, "http:", "https:", 1)} {
		_, err := send(t, senderOf(t, nil, time.Minute, secretOf("a")), url)
		if err == nil || !strings.Contains(err.Error(), "is not a public address") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if got := r.taken(); len(got) != 0 {
		t.Errorf("%d requests were received", len(got))
	}
	if status, err := send(t, senderOf(t, loopback, time.Minute, secretOf("a")), r.url); status != 200 {
		t.Errorf("an allowed address: %d, %v", status, err)
	}
}

// proxied counts the requests to the environment's proxy.
var proxied atomic.Int32

// TestMain sets a proxy in the environment, which no test may use, before the first request,
// because net/http reads the environment only once.
func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		os.Setenv(name, proxy.URL)
	}
	status := m.Run()
	proxy.Close()
	os.Exit(status)
}

// TestNoProxy checks that a request goes to its address and not to the environment's proxy.
func TestNoProxy(t *testing.T) {
	_, err := send(t, senderOf(t, loopback, time.Minute, secretOf("a")), "http://192.0.9.1:1/")
	if err == nil || !strings.Contains(err.Error(), "192.0.9.1 would be unencrypted") || proxied.Load() > 0 {
		t.Errorf("%v, the proxy got %d requests", err, proxied.Load())
	}
}

// TestSecretsOfTenants checks that an endpoint signs only with secrets of its own tenant, and one of
// all tenants only with those of no tenant.
func TestSecretsOfTenants(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pager"), secretOf("a"))
	for _, tenant := range []string{"acme", "default"} {
		if err := os.MkdirAll(filepath.Join(dir, "tenants", tenant), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "tenants", "acme", "shop"), secretOf("b"))
	write(t, filepath.Join(dir, "tenants", "default", "till"), secretOf("c"))
	r := listen(t, func(http.ResponseWriter, *http.Request) {})
	s := webhook.New(webhook.Config{Secrets: webhook.Secrets{Dir: dir}, Allow: loopback, Timeout: time.Minute,
		Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	own := map[string]string{"": "pager", "acme": "shop", "default": "till"}
	for _, tenant := range []string{"", "acme", "default", "other"} {
		for _, name := range []string{"pager", "shop", "till", "none"} {
			_, err := s.Send(t.Context(), alert.Endpoint{URL: r.url, Tenant: tenant, Secret: name}, message, time.Now())
			if (err == nil) != (own[tenant] == name) || err != nil && webhook.Told(err) != "its secret is not usable" {
				t.Errorf("an endpoint of %q signs with %s: %v", tenant, name, err)
			}
		}
	}
	if n := len(r.taken()); n != 3 {
		t.Errorf("%d messages were received", n)
	}
}

// TestTold checks what a tenant is told: nothing about the operator's files, resolver and network.
func TestTold(t *testing.T) {
	release := make(chan struct{})
	hang := listen(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	gone := listen(t, func(http.ResponseWriter, *http.Request) {})
	gone.Close()
	untrusted := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer untrusted.Close()
	for name, test := range map[string]struct {
		url   string
		allow []netip.Prefix
		want  string
	}{
		"a name leads inside": {"https://localhost:1/", nil, "its address is not public: webhooks.allow can allow it"},
		"no such name":        {"https://no-such-name.invalid/", loopback, "the name of its host cannot be resolved"},
		"nobody listens":      {gone.url, loopback, "it refused the connection"},
		"no answer":           {hang.url, loopback, "it did not answer in time"},
		"no certificate":      {untrusted.URL, loopback, "its certificate is not valid"},
		"no TLS":              {strings.Replace(hang.url, "http:", "https:", 1), loopback, "it gave no valid answer"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := time.Minute
			if name == "no answer" {
				timeout = 200 * time.Millisecond
			}
			_, err := send(t, senderOf(t, test.allow, timeout, secretOf("a")), test.url)
			if err == nil || webhook.Told(err) != test.want {
				t.Errorf("told %q, want %q; %v", webhook.Told(err), test.want, err)
			}
		})
	}
}

// TestSecrets checks what a file of secrets must be, and that no secret is shown.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	s := webhook.Secrets{Dir: dir}
	for text, want := range map[string]string{
		secretOf("a"): "",
		secretOf("a") + "\n" + "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=": "",
		"whsec_dG9vIHNob3J0":                  "secret 1 is not",
		secretOf("a") + "\nnot base64!":       "secret 2 is not",
		strings.Repeat(secretOf("a")+"\n", 5): "has 5 secrets",
		" ":                                   "it is empty",
	} {
		write(t, filepath.Join(dir, "shop"), text)
		err := s.Check("", "shop")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "YWFh") {
			t.Errorf("a secret is shown: %v", err)
		}
	}
	if err := s.Check("", "none"); err == nil {
		t.Error("a missing file is accepted")
	}
	if err := (webhook.Secrets{}).Check("", "shop"); err == nil || !strings.Contains(err.Error(), "secrets_dir") {
		t.Error(err)
	}
}
