package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// nobody returns an address at which nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// TestSeveralServers checks that the next server is called if the first one does not answer,
// whether the flag, the environment or a profile lists them. Each address must be valid, and a
// warning names each unencrypted one.
func TestSeveralServers(t *testing.T) {
	server, gone := newFake(t), nobody(t)
	both := gone + "," + server.URL
	must1(t, both, "create sale --total 100 --type promo")
	if r := withEnv(t, nil, "--server", both, "get", "sale"); r.status != exitDone {
		t.Errorf("--server: %d %s", r.status, r.stderr)
	}
	g := newGuarded(t, "bdg_live")
	env := map[string]string{"BUDGETCTL_TOKEN": "bdg_live", "XDG_CONFIG_HOME": t.TempDir()}
	if r := withEnv(t, env, "login", "--server", gone+","+g.URL); r.status != exitDone {
		t.Fatalf("login: %d %s", r.status, r.stderr)
	}
	delete(env, "BUDGETCTL_TOKEN")
	if r := withEnv(t, env, "whoami"); r.status != exitDone {
		t.Errorf("profile: %d %s", r.status, r.stderr)
	}
	for line, want := range map[string]string{
		"--server https://a,http://b --ca-file x get sale": "http://b is not encrypted",
		"--server " + both + ", get sale":                  "server address",
		"--server http://u:secret@a get sale":              "must not have a user or password",
		"--server a,u:secret@b,c --ca-file x get sale":     "must not have a user or password",
		"bench sale --server http://u:secret@a":            "must not have a user or password",
	} {
		if r := withEnv(t, nil, strings.Fields(line)...); r.status != exitUsage ||
			!strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "secret") {
			t.Errorf("%s: %d %s", line, r.status, r.stderr)
		}
	}
	env["BUDGETCTL_TOKEN"] = "bdg_live"
	if r := withEnv(t, env, "--server", g.URL+",http://shop.invalid", "whoami"); !strings.Contains(
		r.stderr, "http://shop.invalid unencrypted") {
		t.Errorf("no warning about the second address: %s", r.stderr)
	}
}

// TestReady checks that ready asks without a key, and fails with the reasons of a server that cannot
// serve.
func TestReady(t *testing.T) {
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || r.Header.Get("Authorization") != "" {
			t.Errorf("%s with %q", r.URL, r.Header.Get("Authorization"))
		}
		if !down.Load() {
			_, _ = io.WriteString(w, `{"ready":true,"reasons":[]}`)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"type":"about:blank","code":"unavailable","title":"x","status":503,"detail":"x","reasons":["the database is away"]}`)
	}))
	defer server.Close()
	env := map[string]string{"XDG_CONFIG_HOME": t.TempDir(), "BUDGETCTL_SERVER": server.URL}
	if r := withEnv(t, env, "ready"); r.status != exitDone || r.stdout != "ready\n" {
		t.Errorf("%d %q %q", r.status, r.stdout, r.stderr)
	}
	down.Store(true)
	if r := withEnv(t, env, "ready"); r.status == exitDone || !strings.Contains(r.stderr, "the database is away") {
		t.Errorf("%d %q %q", r.status, r.stdout, r.stderr)
	}
}
