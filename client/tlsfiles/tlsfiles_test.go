package tlsfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// site is an HTTPS server whose files can be replaced.
type site struct {
	*Server
	addr        string
	connections atomic.Int64
}

func newSite(t *testing.T, files ServerFiles) *site {
	t.Helper()
	server, err := NewServer(files)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Server: server, addr: listener.Addr().String()}
	web := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who := "nobody"
			if cert := Verified(r.TLS); cert != nil {
				who = cert.Subject.CommonName
			}
			io.WriteString(w, r.Proto+" "+who)
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.connections.Add(1)
			}
		}}
	go web.Serve(tls.NewListener(listener, server.Config()))
	t.Cleanup(func() { web.Close() })
	return s
}

func clientOf(t *testing.T, files ClientFiles, protocols ...string) *http.Client {
	t.Helper()
	files.ServerName = "localhost"
	c, err := NewClient(files)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialTLSContext: c.DialTLS(new(net.Dialer), protocols...),
		ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *site) ask(t *testing.T, c *http.Client) (answer string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.addr, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func (s *site) mustAsk(t *testing.T, c *http.Client, want string) {
	t.Helper()
	if got, err := s.ask(t, c); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func serverFiles(f *folder) ServerFiles { return ServerFiles{Cert: f.file("cert"), Key: f.file("key")} }

// TestCertificateIsExchanged checks that a new certificate applies to the next connection, and that
// an open one continues.
func TestCertificateIsExchanged(t *testing.T) {
	ours, next := newAuthority(t, "ours"), newAuthority(t, "next")
	f := newFolder(t)
	f.swap(ours.issued("budgetd"))
	s := newSite(t, serverFiles(f))
	trust := newFolder(t)
	trust.swap(map[string][]byte{"ca": ours.pem})
	early := clientOf(t, ClientFiles{CA: trust.file("ca")}, "h2", "http/1.1")
	s.mustAsk(t, early, "HTTP/2.0 nobody")

	f.swap(next.issued("budgetd"))
	if changed, err := s.Reload(); !changed || err != nil {
		t.Fatalf("reload: %v, %v", changed, err)
	}
	if changed, err := s.Reload(); changed || err != nil {
		t.Errorf("second reload: %v, %v", changed, err)
	}
	s.mustAsk(t, early, "HTTP/2.0 nobody")
	if n := s.connections.Load(); n != 1 {
		t.Errorf("the open connection was dropped: %d connections", n)
	}
	late := clientOf(t, ClientFiles{CA: trust.file("ca")}, "h2")
	var unknown x509.UnknownAuthorityError
	if _, err := s.ask(t, late); !errors.As(err, &unknown) {
		t.Errorf("a new connection still gets the old certificate: %v", err)
	}
	// A client uses new authorities for its next connection too.
	trust.swap(map[string][]byte{"ca": append(bytes.Clone(ours.pem), next.pem...)})
	s.mustAsk(t, late, "HTTP/2.0 nobody")
}

// TestHalfWrittenCertificate checks that a certificate that does not match its key is not used, and
// that this is logged once.
func TestHalfWrittenCertificate(t *testing.T) {
	ca := newAuthority(t, "ca")
	f := newFolder(t)
	f.swap(ca.issued("budgetd"))
	s := newSite(t, serverFiles(f))
	half := ca.issued("budgetd")
	half["key"] = ca.issued("other")["key"]
	f.swap(half)
	if changed, err := s.Reload(); changed || err == nil {
		t.Errorf("%v, %v", changed, err)
	}
	trust := newFolder(t)
	trust.swap(map[string][]byte{"ca": ca.pem})
	s.mustAsk(t, clientOf(t, ClientFiles{CA: trust.file("ca")}), "HTTP/1.1 nobody")

	var out lines
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		s.Watch(ctx, time.Millisecond, slog.New(slog.NewTextHandler(&out, nil)))
		close(watched)
	}()
	out.wait(t, "is not used")
	f.swap(ca.issued("budgetd"))
	out.wait(t, "certificate reloaded")
	cancel()
	<-watched
	if n := strings.Count(out.String(), "is not used"); n != 1 {
		t.Errorf("logged %d times: %s", n, out.String())
	}
}

// TestClientCertificates checks connections with a certificate of the right authority, with one of
// another authority, and without one.
func TestClientCertificates(t *testing.T) {
	servers, clients, strangers := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "strangers")
	f := newFolder(t)
	mine := servers.issued("budgetd")
	mine["clients"] = clients.pem
	f.swap(mine)
	till, stranger := newFolder(t), newFolder(t)
	files := clients.issued("till")
	files["ca"] = servers.pem
	till.swap(files)
	files = strangers.issued("till")
	files["ca"] = servers.pem
	stranger.swap(files)
	for _, required := range []bool{false, true} {
		s := newSite(t, ServerFiles{Cert: f.file("cert"), Key: f.file("key"), ClientCA: f.file("clients"), RequireClient: required})
		with := func(from *folder) *http.Client {
			return clientOf(t, ClientFiles{CA: from.file("ca"), Cert: from.file("cert"), Key: from.file("key")}, "h2")
		}
		s.mustAsk(t, with(till), "HTTP/2.0 till")
		if answer, err := s.ask(t, insisting(t, stranger)); err == nil {
			t.Errorf("required %v: a certificate of another authority is accepted: %s", required, answer)
		}
		answer, err := s.ask(t, clientOf(t, ClientFiles{CA: till.file("ca")}, "h2"))
		if (err != nil) != required || err == nil && answer != "HTTP/2.0 nobody" {
			t.Errorf("required %v: without a certificate: %q, %v", required, answer, err)
		}
	}
}

// insisting returns a client that sends its certificate even if the server asks for another
// authority's.
func insisting(t *testing.T, from *folder) *http.Client {
	t.Helper()
	c, err := NewClient(ClientFiles{CA: from.file("ca"), Cert: from.file("cert"), Key: from.file("key"), ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	config := c.Config()
	pair := config.Certificates[0]
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

// TestNoResumptionAfterExchange checks that a session that the old authority allowed is not resumed
// after the authority is replaced.
func TestNoResumptionAfterExchange(t *testing.T) {
	servers, old, next := newAuthority(t, "servers"), newAuthority(t, "old"), newAuthority(t, "next")
	f := newFolder(t)
	mine := servers.issued("budgetd")
	mine["clients"] = old.pem
	f.swap(mine)
	s := newSite(t, ServerFiles{Cert: f.file("cert"), Key: f.file("key"), ClientCA: f.file("clients"), RequireClient: true})
	till := newFolder(t)
	files := old.issued("till")
	files["ca"] = servers.pem
	till.swap(files)
	c, err := NewClient(ClientFiles{CA: till.file("ca"), Cert: till.file("cert"), Key: till.file("key"), ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	config := c.Config()
	config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	resumed := func() (bool, error) {
		conn, err := tls.Dial("tcp", s.addr, config)
		if err != nil {
			return false, err
		}
		defer conn.Close()
		io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		_, err = io.ReadAll(conn) // tickets come with the answer
		return conn.ConnectionState().DidResume, err
	}
	if _, err := resumed(); err != nil {
		t.Fatal(err)
	}
	if again, err := resumed(); err != nil || !again {
		t.Fatalf("resumption does not work at all: %v, %v", again, err)
	}
	mine["clients"] = next.pem
	f.swap(mine)
	if _, err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if again, err := resumed(); err == nil {
		t.Errorf("a certificate of the old authority is accepted, resumed: %v", again)
	}
}

// TestVersions checks that TLS 1.3 is used if both sides support it, 1.2 if one does not, and no
// older version.
func TestVersions(t *testing.T) {
	ca := newAuthority(t, "ca")
	f := newFolder(t)
	f.swap(ca.issued("budgetd"))
	strict := serverFiles(f)
	strict.MinVersion = tls.VersionTLS13
	for _, test := range []struct {
		files ServerFiles
		most  uint16
		want  uint16
	}{
		{serverFiles(f), 0, tls.VersionTLS13}, {serverFiles(f), tls.VersionTLS12, tls.VersionTLS12},
		{serverFiles(f), tls.VersionTLS11, 0}, {strict, 0, tls.VersionTLS13}, {strict, tls.VersionTLS12, 0},
	} {
		s := newSite(t, test.files)
		c, err := NewClient(ClientFiles{CA: f.file("ca"), ServerName: "localhost"})
		if err != nil {
			t.Fatal(err)
		}
		config := c.Config()
		config.MaxVersion = test.most
		config.MinVersion = tls.VersionTLS10
		conn, err := tls.Dial("tcp", s.addr, config)
		if (err != nil) != (test.want == 0) {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		if err == nil {
			if got := conn.ConnectionState().Version; got != test.want {
				t.Errorf("%+v: version %x", test, got)
			}
			conn.Close()
		}
	}
}

func TestInvalidFiles(t *testing.T) {
	ca := newAuthority(t, "ca")
	f := newFolder(t)
	files := ca.issued("budgetd")
	files["empty"], files["large"] = nil, make([]byte, maxFileBytes+1)
	f.swap(files)
	for _, test := range []struct {
		server ServerFiles
		want   string
	}{
		{ServerFiles{Cert: f.file("none"), Key: f.file("key")}, "none"},
		{ServerFiles{Cert: f.file("cert"), Key: f.file("ca")}, "key"},
		{ServerFiles{Cert: f.file("cert"), Key: f.file("key"), ClientCA: f.file("empty")}, "no certificate"},
		{ServerFiles{Cert: f.file("large"), Key: f.file("key")}, "longer"},
	} {
		if _, err := NewServer(test.server); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test.server, err)
		}
	}
	for _, test := range []struct {
		client ClientFiles
		want   string
	}{
		{ClientFiles{Cert: f.file("cert")}, "go together"},
		{ClientFiles{CA: f.file("empty")}, "no certificate"},
		{ClientFiles{CA: f.path}, "directory"},
		{ClientFiles{Cert: f.file("cert"), Key: f.file("cert")}, "certificate"},
	} {
		if _, err := NewClient(test.client); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test.client, err)
		}
	}
}

// TestClientFilesVanish checks that a client continues to use files that were removed.
func TestClientFilesVanish(t *testing.T) {
	ca := newAuthority(t, "ca")
	f := newFolder(t)
	f.swap(ca.issued("budgetd"))
	s := newSite(t, serverFiles(f))
	trust := newFolder(t)
	trust.swap(map[string][]byte{"ca": ca.pem})
	c := clientOf(t, ClientFiles{CA: trust.file("ca")}, "h2")
	if err := os.Remove(trust.file("ca")); err != nil {
		t.Fatal(err)
	}
	s.mustAsk(t, c, "HTTP/2.0 nobody")
}

func TestMatch(t *testing.T) {
	text, _ := newAuthority(t, "ca").issue("till")
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		match Match
		want  bool
	}{
		{Match{Subject, "CN=till,O=Shop"}, true}, {Match{Subject, "till"}, false},
		{Match{DNS, "till"}, true}, {Match{DNS, "Till"}, false}, {Match{DNS, "till@shop.example"}, false},
		{Match{URI, "spiffe://shop/till"}, true}, {Match{URI, "spiffe://shop/"}, false},
		{Match{Email, "till@shop.example"}, true}, {Match{Email, "till"}, false},
		{Match{}, false}, {Match{Subject, ""}, false}, {Match{"issuer", "CN=ca"}, false},
	} {
		if test.match.Fits(cert) != test.want {
			t.Errorf("%+v: %v", test.match, !test.want)
		}
	}
	for _, state := range []*tls.ConnectionState{nil, {}, {PeerCertificates: []*x509.Certificate{cert}}} {
		if Verified(state) != nil {
			t.Errorf("%+v counts as verified", state)
		}
	}
}
