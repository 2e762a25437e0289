package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
)

// TestAgentOverHTTP checks that only callers with the token are served, that a page in a browser is
// not, and that the address is one of this machine.
func TestAgentOverHTTP(t *testing.T) {
	url := servedOverHTTP(t, "http://"+nobody(t))
	for name, c := range map[string]struct {
		token, origin string
		want          int
	}{
		"no token":      {"", "", http.StatusUnauthorized},
		"another token": {"Bearer " + httpToken + "0", "", http.StatusUnauthorized},
		"a page":        {"Bearer " + httpToken, "https://evil.example", http.StatusForbidden},
		"a caller":      {"Bearer " + httpToken, "", http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
			if err != nil {
				t.Fatal(err)
			}
			for header, value := range map[string]string{"Content-Type": "application/json",
				"Accept": "application/json, text/event-stream", "Authorization": c.token, "Origin": c.origin} {
				if value != "" {
					request.Header.Set(header, value)
				}
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if text, _ := io.ReadAll(answer.Body); answer.StatusCode != c.want {
				t.Errorf("%s: %s", answer.Status, text)
			}
		})
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(long, []byte(httpToken), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"mcp --http 127.0.0.1:0":                                        "go together",
		"mcp --http-token-file " + long:                                 "go together",
		"mcp --http 0.0.0.0:0 --http-token-file " + long:                "must be a loopback address",
		"mcp --http localhost --http-token-file " + long:                "must be a loopback address",
		"mcp --http 127.0.0.1:0 --http-token-file " + short:             "at least 16 characters",
		"mcp --http 127.0.0.1:0 --http-token-file " + long + "/nowhere": "not a directory",
	} {
		checkFailure(t, command(t, "http://127.0.0.1:1", line), exitUsage, want)
	}
}

// TestAgentWithoutAnAnswer checks that what is certainly not done and what may have happened read
// differently, and that both say to repeat the same.
func TestAgentWithoutAnAnswer(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // the parent of a carve
			_, _ = io.WriteString(w, `{"name":"sale","unit":"count"}`)
		} else if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
	}))
	defer silent.Close()
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":503,"code":"unavailable","title":"x","detail":"busy","retry_after":40}`)
	}))
	defer busy.Close()
	for name, c := range map[string]struct {
		url  string
		says []string
	}{
		"nobody": {"http://" + nobody(t), []string{"Not done. Nothing was changed.", "with the same request_id."}},
		"busy":   {busy.URL, []string{"Not done. Nothing was changed.", "with the same request_id in 40s."}},
		"silent": {silent.URL, []string{"Outcome unknown. It may have happened.", "with the same request_id: it takes",
			"release that request_id"}},
	} {
		t.Run(name, func(t *testing.T) {
			own := mustClient(t, c.url, client.WithRetry(client.Retry{Attempts: 2, Base: time.Millisecond}))
			_, _, err := newTools(&app{timeout: time.Minute}, own).hold(t.Context(),
				holdArgs{RequestID: "r1", Budget: "sale", Amount: 5, HoldTTL: "15m"})
			checkContains(t, failureText("hold", err), c.says...)
			again := strings.NewReplacer("with the same request_id", "exactly as it was")
			_, _, err = newTools(&app{timeout: time.Minute}, own).carve(t.Context(),
				carveArgs{Parent: "sale", Child: "part", Units: 5})
			checkContains(t, failureText("carve", err), c.says[0], again.Replace(c.says[1]))
			_, _, err = newTools(&app{timeout: time.Minute}, own).close(t.Context(), closeArgs{"part"})
			checkContains(t, failureText("close", err), c.says[0], again.Replace(c.says[1]))
		})
	}
}

func mustClient(t *testing.T, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
