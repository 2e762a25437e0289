package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/access"
)

// TestListeners checks that data calls, administrative calls with the console, and metrics each
// have an address of their own, over TLS. The administrative address has data calls as well, and
// every address has the health checks.
func TestListeners(t *testing.T) {
	w := &secureWorld{authority: newAuthority(t), t: t}
	w.sign("node", false)
	n := launch(t, t.TempDir(), "--config", writeConfig(t, fmt.Sprintf(
		"listen: 127.0.0.1:0\nlisteners: {admin: 127.0.0.1:0, metrics: 127.0.0.1:0}\nauth: keys\ntls: {cert_file: %s, key_file: %s}\n"+
			"keys: {first_admin_file: %s}\n", w.file("node.pem"), w.file("node.key"), w.firstAdmin())))
	addrs := map[string]string{}
	eventually(t, time.Minute, "it listens on three addresses", func() error {
		for _, line := range regexp.MustCompile(`listening addr=(\S+) .*listener=(\w+)`).FindAllStringSubmatch(n.log.String(), -1) {
			addrs[line[2]] = line[1]
		}
		if len(addrs) != 3 {
			return fmt.Errorf("%q", addrs)
		}
		return nil
	})
	key, err := os.ReadFile(w.file("first-admin"))
	must(t, err)
	caller := http.Client{Transport: w.transport()}
	defer caller.CloseIdleConnections()
	// answers reports whether an address has a call. The call may refuse.
	answers := func(addr, method, path string) bool {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+addr+path, http.NoBody)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
		answer, err := caller.Do(r)
		must(t, err)
		defer answer.Body.Close()
		if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
			return true
		}
		text, err := io.ReadAll(answer.Body)
		must(t, err)
		if answer.TLS == nil {
			t.Errorf("%s is not encrypted", addr)
		}
		missing := answer.StatusCode == http.StatusNotFound && strings.Contains(string(text), `"route_not_found"`)
		return !missing && answer.StatusCode != http.StatusMethodNotAllowed
	}
	eventually(t, time.Minute, "it is ready", func() error {
		if !answers(addrs["listen"], "GET", "/readyz") {
			return errors.New("not yet")
		}
		return nil
	})
	fill := strings.NewReplacer("{budget}", "none", "{key}", "none:bucket-0", "{name}", "none", "{id}", "none", "{message}", "none",
		"{code}", "invalid", "{file}", "none", "{$}", "")
	for _, call := range access.Calls() {
		want := map[string]bool{"admin": true}
		switch {
		case strings.HasPrefix(call.Pattern, "/console/"), call.Pattern == "/assets/{file}":
			continue // they need an identity provider, and files
		case strings.HasSuffix(call.Op, "events"): // the console's
		case call.Op == "metrics":
			want = map[string]bool{"metrics": true}
		case call.Op == "health", call.Op == "readiness", strings.HasPrefix(call.Op, "docs"), call.Op == "openapi":
			want["listen"], want["metrics"] = true, true
		case call.Over != access.Nobody && call.Over != access.Installation && call.Least <= access.Rollback:
			want["listen"] = true
		}
		for name, addr := range addrs {
			if got := answers(addr, call.Method, fill.Replace(call.Pattern)); got != want[name] {
				t.Errorf("%s %s at the address of %s: %v", call.Method, call.Pattern, name, got)
			}
		}
	}
}
