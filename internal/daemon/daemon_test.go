package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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

// process is a Run in progress.
type process struct {
	t      *testing.T
	log    *testservers.Text
	out    *testservers.Text
	signal context.CancelFunc
	status chan int
	url    string
}

// launch runs a daemon on a free port and with its own database, unless environ says otherwise.
func launch(t *testing.T, args []string, environ ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{t: t, log: new(testservers.Text), out: new(testservers.Text), signal: cancel, status: make(chan int, 1)}
	environ = append([]string{"BUDGETD_LISTEN=127.0.0.1:0",
		"BUDGETD_DATABASE_DSN=" + filepath.Join(t.TempDir(), "data", "budgetd.db")}, environ...)
	go func() { p.status <- daemon.Run(ctx, args, environ, p.out, p.log) }()
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("log:\n%s", p.log)
		}
	})
	return p
}

var listening = regexp.MustCompile(`msg=listening addr=(\S+)`)

// start launches a daemon and waits until it is ready.
func start(t *testing.T, args []string, environ ...string) *process {
	t.Helper()
	p := launch(t, args, environ...)
	for range 1000 {
		if found := listening.FindStringSubmatch(p.log.String()); found != nil {
			p.url = "http://" + found[1]
			if status, _ := p.ask("GET", "/readyz", ""); status == 200 {
				return p
			}
		}
		select {
		case status := <-p.status:
			t.Fatalf("ended with %d", status)
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatal("not ready after 20 s")
	return nil
}

// ended waits for the end and returns the exit status.
func (p *process) ended() int {
	p.t.Helper()
	select {
	case status := <-p.status:
		return status
	case <-time.After(30 * time.Second):
		p.t.Fatal("has not ended after 30 s")
		return -1
	}
}

// ask sends a request and returns status and body.
func (p *process) ask(method, path, body string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func (p *process) create(name string) {
	p.t.Helper()
	status, body := p.ask("POST", "/v1/budgets", fmt.Sprintf(`{"name":%q,"unit":"count","type":"promo","total_quantity":100}`, name))
	if status != 201 {
		p.t.Fatalf("create: %d %s", status, body)
	}
}

func TestUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("listen: nowhere\nno_such_key: 1\nlog: {level: loud}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(t.TempDir(), "open.yaml")
	if err := os.WriteFile(open, []byte("listen: 0.0.0.0:0\nauth: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(keys, []byte("auth: keys\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	readable := filepath.Join(t.TempDir(), "readable.yaml")
	if err := errors.Join(os.WriteFile(readable, []byte("database: {dsn_file: "+readable+"-dsn}\n"), 0o600),
		os.WriteFile(readable+"-dsn", []byte("budgetd.db"), 0o600), os.Chmod(readable+"-dsn", 0o640)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		out    string // on stdout
		log    []string
	}{
		{[]string{"--help"}, 0, "Exit status: 0", nil},
		{[]string{"--version"}, 0, "budgetd ", nil},
		{[]string{"--check-config"}, 0, "config ok", nil},
		{[]string{"--config", "../../config.yaml", "--check-config"}, 0, "config ok", nil},
		{[]string{"--config", bad, "--check-config"}, 2, "", []string{"listen: ", "no_such_key: ", "log.level: "}},
		{[]string{"--config", open, "--check-config"}, 2, "", []string{"listen: ", "--insecure-listen"}},
		{[]string{"--config", open}, 2, "", []string{"listen: ", "--insecure-listen"}},
		{[]string{"--config", open, "--check-config", "--insecure-listen"}, 0, "warning: listen 0.0.0.0:0 is open", nil},
		{[]string{"--config", keys, "--check-config"}, 0, "config ok", nil},
		{[]string{"--config", bad}, 2, "", []string{"listen: ", "no_such_key: ", "log.level: "}},
		{[]string{"--config", readable, "--check-config"}, 0, "warning: " + readable + "-dsn holds a secret and has mode 0640", nil},
		{[]string{"--config", "/nowhere.yaml"}, 2, "", []string{"/nowhere.yaml"}},
		{[]string{"--no-such-flag"}, 2, "", []string{"no-such-flag", "--help"}},
		{[]string{"serve"}, 2, "", []string{`"serve"`, "--help"}},
	} {
		var out, log testservers.Text
		status := daemon.Run(t.Context(), c.args, nil, &out, &log)
		if status != c.status || !strings.Contains(out.String(), c.out) || c.out == "" && out.String() != "" {
			t.Errorf("%v: status %d, %s", c.args, status, out.String())
		}
		for _, part := range c.log {
			if !strings.Contains(log.String(), part) {
				t.Errorf("%v: no %q in %s", c.args, part, log.String())
			}
		}
		if len(c.log) == 0 && log.String() != "" {
			t.Errorf("%v: %s", c.args, log.String())
		}
	}
}

// TestEmbedded checks that a daemon without settings serves, and keeps its data over a restart.
func TestEmbedded(t *testing.T) {
	dsn := "BUDGETD_DATABASE_DSN=" + filepath.Join(t.TempDir(), "new", "folder", "budgetd.db")
	p := start(t, nil, dsn)
	p.create("sale")
	if status, body := p.ask("POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":7}`); status != 200 {
		t.Fatalf("deduct: %d %s", status, body)
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/instances"} {
		if status, body := p.ask("GET", path, ""); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	_, body := p.ask("GET", "/metrics", "")
	for _, line := range []string{`budgetd_deductions_total{code="",outcome="accepted"} 1`, `budgetd_moved_units_total{step="distribute"} 100`,
		`budgetd_http_request_duration_seconds_count{method="POST",route="/v1/budgets/{budget}/deduct",status="200"} 1`} {
		if !strings.Contains(body, line) {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	p.signal()
	if status := p.ended(); status != 0 {
		t.Fatalf("exit status %d", status)
	}
	p = start(t, nil, dsn)
	status, body := p.ask("POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":7}`)
	if status != 200 || !strings.Contains(body, `"replayed":true`) {
		t.Errorf("after a restart: %d %s", status, body)
	}
	if _, body := p.ask("GET", "/v1/budgets/sale/audit", ""); !strings.Contains(body, `"ok":true`) || !strings.Contains(body, `"used":7`) {
		t.Error(body)
	}
}

// TestCannotStart checks that a failed start soon ends with one line that names the cause.
func TestCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	file := filepath.Join(t.TempDir(), "budgetd.db")
	start(t, nil, "BUDGETD_DATABASE_DSN="+file)
	folder := filepath.Join(t.TempDir(), "a-file")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	notADatabase := filepath.Join(t.TempDir(), "other.db")
	if err := os.WriteFile(notADatabase, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		environ []string
		want    string
	}{
		{"port in use", []string{"BUDGETD_LISTEN=" + taken.Addr().String()},
			"another program, perhaps another budgetd, listens there; stop it (ss -ltnp shows it), or set listen or BUDGETD_LISTEN"},
		{"data in use", []string{"BUDGETD_DATABASE_DSN=" + file}, file},
		{"folder is a file", []string{"BUDGETD_DATABASE_DSN=" + folder + "/budgetd.db"}, folder},
		{"another file", []string{"BUDGETD_DATABASE_DSN=" + notADatabase}, "database"},
		{"server not there", []string{"BUDGETD_DATABASE_DRIVER=mysql", "BUDGETD_DATABASE_CONNECT_TIMEOUT=700ms",
			"BUDGETD_DATABASE_DSN=u:secret@tcp(" + closed.Addr().String() + ")/budgetd"}, "not reachable for 700ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			p := launch(t, nil, c.environ...)
			if status := p.ended(); status != 1 {
				t.Errorf("exit status %d", status)
			}
			lines := strings.Split(strings.TrimSpace(p.log.String()), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "budgetd: ") || !strings.Contains(last, c.want) || strings.Contains(p.log.String(), "secret") {
				t.Errorf("%s", p.log.String())
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// TestStopWhileStarting checks that a signal during the wait for the database is not a failure.
func TestStopWhileStarting(t *testing.T) {
	p := launch(t, nil, "BUDGETD_DATABASE_DRIVER=mysql", "BUDGETD_DATABASE_DSN=u:p@tcp(127.0.0.1:1)/budgetd")
	time.Sleep(300 * time.Millisecond)
	p.signal()
	if status := p.ended(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// begin sends all but the last byte of a deduct.
func (p *process) begin(id string) (net.Conn, string) {
	p.t.Helper()
	connection, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	body := fmt.Sprintf(`{"request_id":%q,"amount":1}`, id)
	fmt.Fprintf(connection, "POST /v1/budgets/sale/deduct HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body[:len(body)-1])
	time.Sleep(200 * time.Millisecond) // until the server reads it
	return connection, body[len(body)-1:]
}

// TestGracefulStop checks that a stop first makes /readyz fail, then refuses connections, and
// answers requests in progress.
func TestGracefulStop(t *testing.T) {
	p := start(t, nil, "BUDGETD_STOP_NOTICE=500ms")
	p.create("sale")
	connection, rest := p.begin("o1")
	defer connection.Close()
	p.signal()
	time.Sleep(100 * time.Millisecond)
	if status, body := p.ask("GET", "/readyz", ""); status != 503 || !strings.Contains(body, "stopping") {
		t.Errorf("readyz: %d %s", status, body)
	}
	if status, _ := p.ask("GET", "/v1/budgets/sale", ""); status != 200 {
		t.Errorf("a view during the notice is answered %d", status)
	}
	time.Sleep(600 * time.Millisecond)
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(p.url, "http://"), time.Second); err == nil {
		t.Error("connections are accepted after the notice")
	}
	fmt.Fprint(connection, rest)
	answer, err := io.ReadAll(connection)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("%v, %s", err, answer)
	}
	if status := p.ended(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// TestBoundedStop checks that a caller that never finishes its request does not delay a stop beyond
// stop.finish_timeout.
func TestBoundedStop(t *testing.T) {
	p := start(t, nil, "BUDGETD_STOP_FINISH_TIMEOUT=300ms")
	p.create("sale")
	connection, _ := p.begin("o1")
	defer connection.Close()
	began := time.Now()
	p.signal()
	if status := p.ended(); status != 0 || time.Since(began) > 5*time.Second {
		t.Errorf("exit status %d after %s", status, time.Since(began))
	}
	if !strings.Contains(p.log.String(), "cut off") {
		t.Error("the log does not say that requests are cut off")
	}
}
