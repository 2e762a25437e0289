package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/profile"
)

// guarded is a server that accepts one key, and has a list of keys and an audit log.
type guarded struct {
	*httptest.Server
	key           string
	seen          []string // method, path and Authorization of every request
	entries       []client.AuditLogEntry
	head, removed auditlog.Anchor
	asked         []string // the queries about the audit log
}

func newGuarded(t *testing.T, key string) *guarded {
	t.Helper()
	g := &guarded{key: key}
	mux := http.NewServeMux()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	known := client.Key{ID: "0a1b2c3d4e", Principal: "till-7", Role: "deduct", Tenant: "shop", Budgets: []string{"spring-*"},
		CreatedAt: at, CreatedBy: "admin"}
	answer := func(pattern string, status int, body func(r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			g.seen = append(g.seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
			w.Header().Set("Content-Type", "application/json")
			if r.Header.Get("Authorization") != "Bearer "+g.key {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, `{"status":401,"code":"unauthenticated","detail":"the key is not known"}`)
				return
			}
			w.WriteHeader(status)
			if err := json.NewEncoder(w).Encode(body(r)); err != nil {
				t.Error(err)
			}
		})
	}
	answer("GET /v1/whoami", 200, func(*http.Request) any {
		return client.Identity{Principal: "jane", Role: "admin", KeyID: "k", ExpiresAt: at}
	})
	answer("GET /v1/keys", 200, func(r *http.Request) any {
		if r.URL.Query().Get("page_token") == "" {
			return client.KeyPage{Keys: []client.Key{known}, NextPageToken: "p"}
		}
		revoked := known
		revoked.ID, revoked.RevokedAt, revoked.Tenant, revoked.Budgets = "zzzzzzzzzz", at, "", nil
		return client.KeyPage{Keys: []client.Key{revoked}}
	})
	answer("POST /v1/keys", 201, func(*http.Request) any { return client.IssuedKey{Key: known, Token: "bdg_new"} })
	answer("POST /v1/keys/{id}/rotate", 201, func(*http.Request) any { return client.IssuedKey{Key: known, Token: "bdg_next"} })
	answer("POST /v1/keys/{id}/revoke", 200, func(*http.Request) any {
		revoked := known
		revoked.RevokedAt = at
		return revoked
	})
	answer("GET /v1/audit-log", 200, func(r *http.Request) any {
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		if g.asked = append(g.asked, r.URL.RawQuery); r.URL.Query().Get("sort") == "-seq" {
			newest := slices.Clone(g.entries)
			slices.Reverse(newest)
			return client.AuditLogPage{Entries: newest, Head: g.head.String()}
		}
		page := client.AuditLogPage{Entries: []client.AuditLogEntry{}, Head: g.head.String(), Removed: g.removed.String()}
		for _, e := range g.entries {
			if e.Seq > int64(after) && len(page.Entries) < 2 {
				page.Entries = append(page.Entries, e)
			}
		}
		return page
	})
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

// log gives the server n entries.
func (g *guarded) log(n int) {
	g.entries, g.head = nil, auditlog.Anchor{}
	for i := range n {
		g.entry(auditlog.Row{AtMS: 1_700_000_000_000 + int64(i), Op: "append", Target: "sale",
			After: fmt.Appendf(nil, `{"total": %d}`, i)})
	}
}

// entry gives the server one more entry.
func (g *guarded) entry(row auditlog.Row) {
	row.Principal, row.KeyID, row.Source, row.Tenant = "jane", "k", "10.0.0.1", "default"
	row.CorrelationID, row.Outcome = "c", auditlog.Done
	row = auditlog.Link(g.head, row)
	g.head = row.Anchor()
	entry := client.AuditLogEntry{Seq: row.Seq, At: time.UnixMilli(row.AtMS).UTC(), Principal: row.Principal,
		KeyID: row.KeyID, Source: row.Source, Op: row.Op, Tenant: row.Tenant, Target: row.Target,
		CorrelationID: row.CorrelationID, Outcome: row.Outcome, Times: row.Times, Hash: row.Hash.String()}
	if after := string(row.After); row.After != nil {
		entry.After = &after
	}
	g.entries = append(g.entries, entry)
}

func (g *guarded) env(home string, more ...string) map[string]string {
	env := map[string]string{"HOME": home}
	for n := 0; n < len(more); n += 2 {
		env[more[n]] = more[n+1]
	}
	return env
}

// TestLogin checks that a login stores the server and the key in a file that only its owner can
// read, and that later commands need neither of them. A wrong key is not stored.
func TestLogin(t *testing.T) {
	g := newGuarded(t, "bdg_right")
	home := t.TempDir()
	env := g.env(home, "BUDGETCTL_TOKEN", "bdg_right")
	if r := withEnv(t, env, "login", "--server", g.URL); r.status != exitDone || !strings.Contains(r.stdout, "jane") {
		t.Fatalf("%+v", r)
	}
	path := filepath.Join(home, ".config", "budgetctl", "profiles.yaml")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	plain := g.env(home)
	if r := withEnv(t, plain, "whoami"); r.status != exitDone || !strings.Contains(r.stdout, "admin") {
		t.Errorf("%+v", r)
	}
	// A wrong key is not kept.
	wrong := g.env(home, "BUDGETCTL_TOKEN", "bdg_wrong")
	checkFailure(t, withEnv(t, wrong, "login", "--profile", "other", "--server", g.URL), exitError, "unauthenticated", "budgetctl login")
	checkFailure(t, withEnv(t, plain, "whoami", "--profile", "other"), exitUsage, `no profile "other"`)
	// A second profile becomes the current one; each can be selected by name.
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("bdg_right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(file)) // the stored path must be absolute
	if r := withEnv(t, plain, "login", "--profile", "by-file", "--server", g.URL, "--token-file", "key", "--tenant", "shop"); r.status != exitDone {
		t.Fatalf("%+v", r)
	}
	kept, err := profile.Load(path)
	if want := (profile.Profile{Server: g.URL, TokenFile: file, Tenant: "shop"}); err != nil || kept.Current != "by-file" ||
		kept.Profiles["by-file"] != want || kept.Profiles["default"].Token != "bdg_right" {
		t.Errorf("%+v, %v", kept, err)
	}
	if r := withEnv(t, plain, "whoami", "--profile", "default"); r.status != exitDone {
		t.Errorf("%+v", r)
	}
	if r := withEnv(t, plain, "logout"); r.status != exitDone {
		t.Errorf("%+v", r)
	}
	checkFailure(t, withEnv(t, plain, "logout"), exitUsage, "no profile")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	checkFailure(t, withEnv(t, plain, "whoami"), exitUsage, "chmod 600")
}

// TestKeyStaysWithItsServer checks that the key of a profile is sent only to the server of the
// profile.
func TestKeyStaysWithItsServer(t *testing.T) {
	ours, other := newGuarded(t, "bdg_right"), newGuarded(t, "bdg_right")
	home := t.TempDir()
	if r := withEnv(t, ours.env(home, "BUDGETCTL_TOKEN", "bdg_right"), "login", "--server", ours.URL); r.status != exitDone {
		t.Fatalf("%+v", r)
	}
	config := filepath.Join(t.TempDir(), "budgetd.yaml")
	if err := os.WriteFile(config, []byte("listen: "+strings.TrimPrefix(other.URL, "http://")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []result{
		withEnv(t, ours.env(home), "whoami", "--server", other.URL),
		withEnv(t, ours.env(home, "BUDGETCTL_SERVER", other.URL), "whoami"),
		withEnv(t, ours.env(home), "whoami", "--config", config),
	} {
		checkFailure(t, r, exitError, "unauthenticated")
	}
	for _, r := range []result{ // the same server by another way: no second login
		withEnv(t, ours.env(home), "whoami", "--server", ours.URL+"/"),
		withEnv(t, ours.env(home, "BUDGETCTL_SERVER", ours.URL), "whoami"),
	} {
		if r.status != exitDone {
			t.Errorf("the profile's own server: %+v", r)
		}
	}
	for _, request := range other.seen {
		if strings.Contains(request, "bdg_right") {
			t.Errorf("the other server got the key: %s", request)
		}
	}
	checkFailure(t, withEnv(t, ours.env(home), "whoami", "--profile", "default", "--server", other.URL), exitUsage, "do not go together")
}

// TestWhichKey checks that --token-file takes precedence over BUDGETCTL_TOKEN, and BUDGETCTL_TOKEN
// over BUDGETCTL_TOKEN_FILE.
func TestWhichKey(t *testing.T) {
	g := newGuarded(t, "bdg_right")
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	right, wrong := write("bdg_right\n"), write("bdg_wrong")
	for name, test := range map[string]struct {
		env  map[string]string
		args []string
		want int
	}{
		"none":                       {g.env(""), nil, exitError},
		"a flag before all":          {g.env("", "BUDGETCTL_TOKEN", "bdg_wrong", "BUDGETCTL_TOKEN_FILE", wrong), []string{"--token-file", right}, exitDone},
		"the variable before a file": {g.env("", "BUDGETCTL_TOKEN", "bdg_right", "BUDGETCTL_TOKEN_FILE", wrong), nil, exitDone},
		"a file":                     {g.env("", "BUDGETCTL_TOKEN_FILE", right), nil, exitDone},
		"no such file":               {g.env("", "BUDGETCTL_TOKEN_FILE", right+"x"), nil, exitError},
	} {
		if r := withEnv(t, test.env, append([]string{"whoami", "--server", g.URL}, test.args...)...); r.status != test.want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestReadableKeyFile checks that a key that others may read is used, with one warning that names the file,
// its mode and the remedy, and that a key for its owner alone has none.
func TestReadableKeyFile(t *testing.T) {
	g := newGuarded(t, "bdg_right")
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("bdg_right"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o600, 0o400} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		r := withEnv(t, g.env(""), "whoami", "--server", g.URL, "--token-file", file)
		want := ""
		if mode&0o044 != 0 {
			want = fmt.Sprintf("warning: %s holds a secret and has mode %04o, so others than its owner can read it: "+
				"run `chmod 600 %s`\n", file, mode, file)
		}
		if r.status != exitDone || r.stderr != want {
			t.Errorf("%04o: %+v, want %q", mode, r, want)
		}
	}
}

// TestKeyFromStandardInput checks that login reads the key from standard input and does not print
// it, and that no flag takes a key.
func TestKeyFromStandardInput(t *testing.T) {
	g := newGuarded(t, "bdg_right")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = read
	t.Cleanup(func() { os.Stdin = before; read.Close() })
	fmt.Fprintln(write, "bdg_right")
	write.Close()
	home := t.TempDir()
	r := withEnv(t, g.env(home), "login", "--server", g.URL)
	if r.status != exitDone || strings.Contains(r.stdout+r.stderr, "bdg_right") {
		t.Errorf("%+v", r)
	}
	checkFailure(t, withEnv(t, g.env(t.TempDir()), "login", "--server", g.URL), exitUsage, "no key on standard input")
	for _, flag := range []string{"--token", "--key", "--password"} {
		checkFailure(t, withEnv(t, g.env(home), "whoami", flag, "bdg_right"), exitUsage, "unknown flag")
	}
}

func TestKeysCommands(t *testing.T) {
	g := newGuarded(t, "bdg_right")
	env := g.env("", "BUDGETCTL_SERVER", g.URL, "BUDGETCTL_TOKEN", "bdg_right")
	for _, test := range []struct {
		line   string
		stdout []string
		stderr string
	}{
		{"keys", []string{"0a1b2c3d4e", "zzzzzzzzzz", "spring-*", "(all)"}, ""},
		{"keys list -o json", []string{`"id": "zzzzzzzzzz"`}, ""},
		{"keys create till-7 --role deduct --budget spring-* --tenant shop", []string{"bdg_new"}, "shown only once"},
		{"keys rotate 0a1b2c3d4e --overlap 1h", []string{"bdg_next"}, "shown only once"},
		{"keys revoke 0a1b2c3d4e", []string{"2026-05-01T12:00:00Z"}, ""},
		{"whoami -o yaml", []string{"principal: jane"}, ""},
	} {
		r := withEnv(t, env, strings.Fields(test.line)...)
		if r.status != exitDone || !strings.Contains(r.stderr, test.stderr) {
			t.Errorf("%s: %+v", test.line, r)
		}
		for _, want := range test.stdout {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%s: no %q in %s", test.line, want, r.stdout)
			}
		}
	}
	for line, want := range map[string]string{"keys create": "PRINCIPAL is missing", "keys create a --role root": "--role",
		"keys create a --expires soon": "--expires", "keys rotate a --overlap -1h": "--overlap", "keys rotate": "KEY is missing",
		"audit-log --limit 0": "--limit", "audit-log --from then": "--from", "audit-log --tail 1001": "--tail",
		"audit-log --tail 1 --newest-first": "--tail", "audit-log verify --anchor x": "NUMBER:HASH"} {
		checkFailure(t, withEnv(t, env, strings.Fields(line)...), exitUsage, want)
	}
}

// TestKeysGenerate checks that keys generate prints a valid key without a server.
func TestKeysGenerate(t *testing.T) {
	r := withEnv(t, nil, "keys", "generate")
	if _, reason := access.ParseToken(strings.TrimSuffix(r.stdout, "\n")); reason != access.Accepted {
		t.Errorf("%+v: %s", r, reason)
	}
}

func TestAuditLog(t *testing.T) {
	g := newGuarded(t, "bdg_right")
	g.log(5)
	env := g.env("", "BUDGETCTL_SERVER", g.URL, "BUDGETCTL_TOKEN", "bdg_right")
	if r := withEnv(t, env, "audit-log"); r.status != exitDone || !strings.Contains(r.stdout, "append") {
		t.Errorf("%+v", r)
	}
	numbers := regexp.MustCompile(`(?m)^ *(\d+)`)
	for line, want := range map[string]struct {
		query  string
		number []string
	}{
		"--newest-first --before 9 --limit 5": {"before=9&limit=5&sort=-seq", []string{"5", "4", "3", "2", "1"}},
		"--tail 5 --op append":                {"limit=5&op=append&sort=-seq", []string{"1", "2", "3", "4", "5"}},
		"--after 3":                           {"after=3&limit=100", []string{"4", "5"}},
	} {
		r := withEnv(t, env, append([]string{"audit-log"}, strings.Fields(line)...)...)
		var got []string
		for _, line := range numbers.FindAllStringSubmatch(r.stdout, -1) {
			got = append(got, line[1])
		}
		if !slices.Equal(got, want.number) {
			t.Errorf("%s shows %q, want %q: %+v", line, got, want.number, r)
		}
		if got := g.asked[len(g.asked)-1]; got != want.query {
			t.Errorf("%s asks for %s, want %s", line, got, want.query)
		}
	}
	r := withEnv(t, env, "audit-log", "export")
	if r.status != exitDone || strings.Count(r.stdout, "\n") != 5 {
		t.Errorf("%+v", r)
	}
	r = withEnv(t, env, "audit-log", "verify", "-o", "json", "--anchor", "2:"+g.entries[1].Hash)
	if r.status != exitDone || !strings.Contains(r.stdout, g.head.String()) || !strings.Contains(r.stdout, `"entries": 5`) {
		t.Errorf("%+v", r)
	}
	second := "2:" + g.entries[1].Hash
	g.removed = auditlog.Anchor{Seq: 3}
	_ = g.removed.Hash.UnmarshalText([]byte(g.entries[2].Hash))
	g.entries = g.entries[3:]
	g.entry(auditlog.Row{Op: auditlog.OpPrune, Target: g.removed.String()})
	r = withEnv(t, env, "audit-log", "verify", "--anchor", second, "--anchor", g.removed.String())
	if r.status != exitDone || !strings.Contains(r.stdout, "unchecked") || strings.Count(r.stdout, second) != 1 ||
		strings.Count(r.stdout, g.removed.String()) != 1 {
		t.Errorf("after a removal: %+v", r)
	}
}

// TestAuditLogVerifyFindsChanges checks that audit-log verify exits with status 4 after any change
// of the entries or the head.
func TestAuditLogVerifyFindsChanges(t *testing.T) {
	g := newGuarded(t, "bdg_right")
	env := g.env("", "BUDGETCTL_SERVER", g.URL, "BUDGETCTL_TOKEN", "bdg_right")
	other := "other"
	for name, do := range map[string]func(){
		"an edit":         func() { g.entries[2].Principal = other },
		"another after":   func() { g.entries[2].After = &other },
		"no after":        func() { g.entries[2].After = nil },
		"a removal":       func() { g.entries = append(g.entries[:2], g.entries[3:]...) },
		"a last removal":  func() { g.entries = g.entries[:4] },
		"an exchange":     func() { g.entries[1], g.entries[2] = g.entries[2], g.entries[1] },
		"a time":          func() { g.entries[2].At = g.entries[2].At.Add(time.Microsecond) },
		"a hash of none":  func() { g.entries[2].Hash = "x" },
		"another head":    func() { g.head.Hash[0] ^= 1 },
		"a shorter chain": func() { g.head = auditlog.Anchor{}; g.log(3) },
		"a row behind the head": func() {
			g.log(6)
			g.head = auditlog.Anchor{Seq: 5}
			_ = g.head.Hash.UnmarshalText([]byte(g.entries[4].Hash))
		},
		"an erased beginning": func() {
			g.removed = auditlog.Anchor{Seq: 2}
			_ = g.removed.Hash.UnmarshalText([]byte(g.entries[1].Hash))
			g.entries = g.entries[2:]
		},
	} {
		g.removed = auditlog.Anchor{}
		g.log(5)
		anchor := g.head.String()
		do()
		args := []string{"audit-log", "verify"}
		if name == "a shorter chain" { // recomputed, so only the anchor tells
			args = append(args, "--anchor", anchor)
		}
		r := withEnv(t, env, args...)
		if r.status != exitDiscrepancy || !strings.Contains(r.stderr, "the chain is broken") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestTLSFlags checks that --ca-file needs https and an existing file, and which addresses would
// send a key over a network unencrypted.
func TestTLSFlags(t *testing.T) {
	g := newGuarded(t, "bdg_right")
	checkFailure(t, withEnv(t, g.env(""), "whoami", "--server", g.URL, "--ca-file", "/nowhere"), exitUsage, "for https")
	checkFailure(t, withEnv(t, g.env(""), "whoami", "--server", "https://127.0.0.1:1", "--ca-file", "/nowhere"), exitUsage, "/nowhere")
	checkFailure(t, withEnv(t, g.env("", "BUDGETCTL_CA_FILE", "/nowhere"), "whoami", "--server", "https://127.0.0.1:1"), exitUsage, "/nowhere")
	for server, want := range map[string]bool{"http://budgets.example": true, "budgets.example:80": true, "http://10.0.0.1": true,
		"https://budgets.example": false, "http://127.0.0.1:1": false, "http://[::1]:1": false, "http://localhost:1": false} {
		if readable(server) != want {
			t.Errorf("%s: %v", server, !want)
		}
	}
}
