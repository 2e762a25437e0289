package contract_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/daemon"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// node is a whole budgetd, in this process.
type node struct {
	URL, token string
	database   string // its file
	stores     []*testservers.RedisServer
}

var listening = regexp.MustCompile(`listening.*addr"?[=:]"?([0-9.]+:[0-9]+)`)

// start starts budgetd on SQLite and two Redis; more are lines of its configuration. Without a line
// on authentication it wants keys.
func start(t *testing.T, more ...string) *node {
	t.Helper()
	dir := t.TempDir()
	first, second := testservers.Redis(t), testservers.Redis(t)
	file := filepath.Join(dir, "budgetd.yaml")
	all := strings.Join(more, "")
	if !strings.Contains(all, "auth:") {
		all += "auth: keys\n"
	}
	text := "listen: 127.0.0.1:0\nnode: {name: node-1}\ndatabase:\n  dsn: " + filepath.Join(dir, "budgetd.db") +
		"\ninstances:\n  - {name: redis-a, driver: redis, addrs: [\"" + first.Addr() + "\"]}\n" +
		"  - {name: redis-b, driver: redis, addrs: [\"" + second.Addr() + "\"]}\n" +
		"recycle:\n  stranded_share: 0\n" + all
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n := run(t, file)
	n.database, n.stores = filepath.Join(dir, "budgetd.db"), []*testservers.RedisServer{first, second}
	return n
}

// run starts budgetd with a configuration, after it has made the first key, and waits until it is
// ready.
func run(t *testing.T, file string) *node {
	t.Helper()
	var token, log testservers.Text
	ctx, cancel := context.WithCancel(context.Background())
	args := []string{"keys", "bootstrap", "--config", file}
	if status := daemon.Run(ctx, args, nil, &token, &log); status != 0 {
		cancel()
		t.Fatalf("bootstrap: %d %s", status, log.String())
	}
	ended := make(chan int, 1)
	go func() { ended <- daemon.Run(ctx, args[2:], nil, io.Discard, &log) }()
	t.Cleanup(func() {
		cancel()
		if status := <-ended; status != 0 || t.Failed() {
			t.Logf("budgetd ended with %d:\n%s", status, log.String())
		}
	})
	n := &node{token: regexp.MustCompile(`bdg_\w+`).FindString(token.String())}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if found := listening.FindStringSubmatch(log.String()); found != nil {
			n.URL = "http://" + found[1]
			if answer, err := http.Get(n.URL + "/readyz"); err == nil {
				answer.Body.Close()
				if answer.StatusCode == http.StatusOK && n.reaches(t, 2) {
					return n
				}
			}
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("budgetd is not ready:\n%s", log.String())
		}
	}
}

// reaches reports whether the server has reached so many instances, and noted it.
func (n *node) reaches(t *testing.T, instances int) bool {
	e := n.ask(t, "GET", "/v1/instances", "")
	return bytes.Count(e.received, []byte(`"incarnation":1,"reachable":true`)) == instances
}

// TestServed checks that the server has a route for every call of the document.
func TestServed(t *testing.T) {
	n := start(t)
	path := strings.NewReplacer("{budget}", "none", "{key}", "none:bucket-1", "{name}", "none",
		"{id}", "none", "{code}", "internal")
	for pattern, calls := range read(t).Paths {
		for method := range calls {
			if strings.HasPrefix(pattern, "/console/") || pattern == "/assets/{file}" {
				continue // these are there only with an identity provider, and with their files
			}
			r, err := http.NewRequest(strings.ToUpper(method), n.URL+path.Replace(pattern), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+n.token)
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			var text []byte
			if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") { // endless
				text, _ = io.ReadAll(answer.Body)
			}
			answer.Body.Close()
			unknown := answer.StatusCode == 404 && bytes.Contains(text, []byte(`"route_not_found"`))
			if unknown || answer.StatusCode == 405 {
				t.Errorf("%s %s: the server has no such route", method, pattern)
			}
		}
	}
}

// exchange is a request with its answer.
type exchange struct {
	request  *http.Request
	sent     string
	answer   *http.Response
	received []byte
}

// ask sends a request with the first key. Headers come as name, value; an empty value removes one.
func (n *node) ask(t *testing.T, method, target, body string, header ...string) *exchange {
	t.Helper()
	r, err := http.NewRequest(method, n.URL+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		r.Body = http.NoBody
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+n.token)
	for i := 0; i < len(header); i += 2 {
		r.Header.Del(header[i])
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	e := &exchange{request: r, sent: body}
	e.answer, err = http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer e.answer.Body.Close()
	if e.received, err = io.ReadAll(e.answer.Body); err != nil {
		t.Fatal(err)
	}
	return e
}
