package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// bearer starts a server that answers with the Authorization header of the request.
func bearer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"principal":"`+r.Header.Get("Authorization")+`","role":"read"}`)
	}))
	t.Cleanup(server.Close)
	return server
}

func whoami(t *testing.T, server string, options ...client.Option) (string, error) {
	t.Helper()
	c, err := client.New(server, options...)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := c.Whoami(t.Context())
	if err != nil {
		return "", err
	}
	return identity.Principal, nil
}

func TestTokenIsSent(t *testing.T) {
	server := bearer(t)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("bdg_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, option := range map[string]client.Option{"": client.WithToken(""), "Bearer bdg_a": client.WithToken("bdg_a"),
		"Bearer bdg_file": client.WithTokenFile(file)} {
		if got, err := whoami(t, server.URL, option); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

// TestTokenIsNotSent checks that nothing is sent without a valid key, and that the error does not
// show the key.
func TestTokenIsNotSent(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(server.Close)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for name, option := range map[string]client.Option{
		"no file": client.WithTokenFile(empty + "x"), "an empty file": client.WithTokenFile(empty),
		"a line break": client.WithToken("marker\r\nX-Admin: 1"), "a space": client.WithToken("marker marker"),
		"a letter of another script": client.WithToken("märker"),
		"a source that fails":        client.WithTokenSource(func(context.Context) (string, error) { return "", broken }),
	} {
		_, err := whoami(t, server.URL, option)
		if err == nil || asked || client.KindOf(err) != budget.Faulty || strings.Contains(err.Error(), "marker") {
			t.Errorf("%s: sent %v, %v", name, asked, err)
		}
	}
}

// TestTokenFileIsReadAgain checks that a key file is read again, and that the last key is used while
// the file is missing.
func TestTokenFileIsReadAgain(t *testing.T) {
	server := bearer(t)
	file := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	option := client.WithTokenFile(file)
	until := func(want string) {
		t.Helper()
		for {
			got, err := whoami(t, server.URL, option)
			if err != nil {
				t.Fatal(err)
			}
			if got == want {
				return
			}
			select {
			case <-t.Context().Done():
				t.Fatalf("still %q, want %q", got, want)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	until("Bearer one")
	write("two")
	until("Bearer two")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // longer than a key from a file is used
	until("Bearer two")
}

// TestTLSTransport checks that the transport verifies the server by the authority and the name in
// its files, and uses HTTP/2.
func TestTLSTransport(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"principal":"`+r.Proto+`","role":"read"}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(files client.TLSFiles) (string, error) {
		t.Helper()
		transport, err := client.TLSTransport(files)
		if err != nil {
			t.Fatal(err)
		}
		defer transport.CloseIdleConnections()
		return whoami(t, server.URL, client.WithTransport(transport), client.WithRetry(client.Retry{Attempts: 1}))
	}
	if got, err := ask(client.TLSFiles{CA: ca, ServerName: "example.com"}); err != nil || got != "HTTP/2.0" {
		t.Errorf("%q, %v", got, err)
	}
	var unknown *tls.CertificateVerificationError
	if _, err := ask(client.TLSFiles{}); !errors.As(err, &unknown) || !client.Unreachable(err) {
		t.Errorf("an unknown authority: %v", err)
	}
	var name x509.HostnameError
	if _, err := ask(client.TLSFiles{CA: ca, ServerName: "budgetd.example"}); !errors.As(err, &name) {
		t.Errorf("another name: %v", err)
	}
	if _, err := client.TLSTransport(client.TLSFiles{CA: ca + "x"}); err == nil {
		t.Error("a missing file is accepted")
	}
	if _, err := client.TLSTransport(client.TLSFiles{Cert: ca}); err == nil {
		t.Error("a certificate without its key is accepted")
	}
}

// TestAccessCalls checks what the calls on keys and the audit log send, and which are retried.
func TestAccessCalls(t *testing.T) {
	server := newScripted(t, answer(200, `{"keys":[]}`), answer(201, `{"id":"k","token":"bdg_x"}`), lost,
		answer(200, `{"id":"k"}`), answer(201, `{"id":"k2","token":"bdg_y"}`), answer(200, `{"entries":[],"head":"0:"}`),
		answer(200, `{"entries":[],"head":"0:"}`), lost)
	c, err := client.New(server.URL, client.WithTenant("shop"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := c.Keys(ctx, 5, "p"); err != nil {
		t.Error(err)
	}
	issued, err := c.CreateKey(ctx, client.KeyRequest{Principal: "till", Role: "deduct", Budgets: []string{"a*"}})
	if err != nil || issued.Token != "bdg_x" || issued.ID != "k" {
		t.Errorf("%+v, %v", issued, err)
	}
	if _, err := c.RevokeKey(ctx, "k"); err != nil { // repeated after the lost answer
		t.Error(err)
	}
	if _, err := c.RotateKey(ctx, "k", client.RotateRequest{Overlap: "1h"}); err != nil {
		t.Error(err)
	}
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	if _, err := c.AuditLog(ctx, client.AuditLogQuery{After: 7, From: at, Op: "append", Limit: 9}); err != nil {
		t.Error(err)
	}
	newest := client.AuditLogQuery{NewestFirst: true, After: 3, Before: 7}
	if _, err := c.AuditLog(ctx, newest); err != nil {
		t.Error(err)
	}
	if _, err := c.CreateKey(ctx, client.KeyRequest{}); client.KindOf(err) != budget.MayBeDone {
		t.Errorf("a lost answer: %v", err)
	}
	var got []string
	for _, request := range server.log() {
		got = append(got, request.method+" "+request.uri+" "+request.body)
	}
	want := []string{
		"GET /v1/keys?page_size=5&page_token=p&tenant=shop ",
		`POST /v1/keys {"principal":"till","role":"deduct","budgets":["a*"]}`,
		"POST /v1/keys/k/revoke {}", "POST /v1/keys/k/revoke {}",
		`POST /v1/keys/k/rotate {"overlap":"1h"}`,
		"GET /v1/audit-log?after=7&from=2026-05-01T00%3A00%3A00Z&limit=9&op=append ",
		"GET /v1/audit-log?after=3&before=7&sort=-seq ",
		`POST /v1/keys {"principal":"","role":""}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
