package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// example is a program of examples/, with a proxy between it and budgetd.
type example struct {
	t     *testing.T
	addr  string
	proxy *testservers.Proxy
}

// buildExamples returns the folder with the programs of the examples.
func buildExamples(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "./...")
	build.Dir = filepath.Join("..", "..", "..", "examples")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// startExample starts a program of dir with arguments, and waits until it serves.
func startExample(t *testing.T, n *node, dir, name string, args ...string) *example {
	t.Helper()
	e := &example{t: t, proxy: testservers.NewProxy(t, n.addr)}
	log := &testservers.Text{}
	cmd := exec.Command(filepath.Join(dir, name), append([]string{"-listen", "127.0.0.1:0",
		"-budgetd", "http://" + e.proxy.Addr()}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", name, log.String())
		}
	})
	serving := regexp.MustCompile(`listening on (\S+)\n`)
	eventually(t, 60*time.Second, name+" serves", func() error {
		m := serving.FindStringSubmatch(log.String())
		if m == nil {
			return fmt.Errorf("log: %s", log.String())
		}
		e.addr = m[1]
		return nil
	})
	return e
}

// disturb disturbs the example's calls of budgetd from now on.
func (e *example) disturb(d testservers.Disturbance) {
	e.t.Helper()
	must(e.t, e.proxy.Set(testservers.Rule{Disturbance: d}))
}

// ask makes a request, expects a status and a text in the answer, and returns its headers. headers
// are names, each followed by its value.
func (e *example) ask(method, path, body string, status int, text string, headers ...string) http.Header {
	e.t.Helper()
	request, err := http.NewRequest(method, "http://"+e.addr+path, strings.NewReader(body))
	must(e.t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	must(e.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	must(e.t, err)
	if response.StatusCode != status || !strings.Contains(string(answer), text) {
		e.t.Fatalf("%s %s %s: %d %s, want %d with %q", method, path, body, response.StatusCode, answer,
			status, text)
	}
	return response.Header
}

// TestExamples checks that each example distinguishes refused, conflict, not done and unknown, and
// that after an unknown outcome a repeat with the same id shows that units were taken once.
func TestExamples(t *testing.T) {
	n, dir := start(t, t.TempDir()), buildExamples(t)
	t.Run("coupons", func(t *testing.T) { tryCoupons(t, n, dir) })
	t.Run("adcap", func(t *testing.T) { tryAdcap(t, n, dir) })
	t.Run("llmgateway", func(t *testing.T) { tryGateway(t, n, dir) })
	t.Run("quota", func(t *testing.T) { tryQuota(t, n, dir) })
}

// usedAndHeld compares the used and held units of a budget.
func usedAndHeld(t *testing.T, n *node, name string, used, held int64) {
	t.Helper()
	b, err := n.client().Budget(context.Background(), name)
	must(t, err)
	if b.Used != used || b.Held != held {
		t.Errorf("%s: used %d, held %d; want %d and %d", name, b.Used, b.Held, used, held)
	}
}

func tryCoupons(t *testing.T, n *node, dir string) {
	e := startExample(t, n, dir, "coupons", "-total", "2")
	order := func(order, user string, status int, text string) {
		t.Helper()
		e.ask("POST", "/coupons?order="+order+"&user="+user, "", status, text)
	}
	order("o1", "ann", 200, "coupon-shop-o1")
	order("o1", "ann", 200, "coupon-shop-o1") // the button was pressed twice
	order("o2", "ann", 403, "have your coupon")
	order("o1", "bob", 409, "in use")
	e.disturb(testservers.CutReply)
	order("o3", "bob", 504, "same order")
	e.disturb(testservers.Refuse)
	order("o3", "bob", 503, "right now")
	e.disturb(testservers.Pass)
	order("o3", "bob", 200, "coupon-shop-o3")
	order("o4", "cat", 410, "gone")
	_, err := n.client().Rollback(context.Background(), "coupon-shop", client.RollbackRequest{RequestID: "o1"})
	must(t, err)
	order("o1", "ann", 409, "given back")
	usedAndHeld(t, n, "coupon-shop", 1, 0)
}

func tryAdcap(t *testing.T, n *node, dir string) {
	e := startExample(t, n, dir, "adcap", "-ads", "shoes,phones", "-window", "24h")
	show := func(impression, user string, status int, text string) {
		t.Helper()
		e.ask("GET", "/ad?impression="+impression+"&user="+user, "", status, text)
	}
	show("i1", "ann", 200, "shoes")
	show("i1", "ann", 200, "shoes") // the page was loaded again: it counts once
	show("i2", "ann", 200, "shoes")
	show("i3", "ann", 200, "phones")
	show("i4", "ann", 200, "phones")
	show("i5", "ann", 200, "house")
	show("i1", "bob", 409, "in use")
	e.disturb(testservers.CutReply)
	show("i6", "bob", 200, "house")
	e.disturb(testservers.Refuse)
	show("i7", "bob", 200, "house")
	e.disturb(testservers.Pass)
	eventually(t, 60*time.Second, "the impression that was not shown is cancelled", func() error {
		d, err := n.client().Deduction(context.Background(), "shoes", "i6")
		if err == nil && d.State != "rolled_back" {
			err = fmt.Errorf("it is %s", d.State)
		}
		return err
	})
	show("i6", "bob", 200, "house")
	show("i7", "bob", 200, "shoes")
	show("i8", "bob", 200, "shoes")
	show("i9", "bob", 200, "phones")
}

func tryGateway(t *testing.T, n *node, dir string) {
	var e *example
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "fail"):
			http.Error(w, "out of memory", http.StatusInternalServerError)
			return
		case strings.Contains(string(body), "alone"): // budgetd is unreachable once the model has answered
			if err := e.proxy.Set(testservers.Rule{Disturbance: testservers.Refuse}); err != nil {
				t.Error(err)
			}
		}
		_, _ = io.WriteString(w, `{"text":"hello","total_tokens":7}`)
	}))
	t.Cleanup(model.Close)
	e = startExample(t, n, dir, "llmgateway", "-model", model.URL, "-tokens", "100")
	complete := func(id, prompt string, most, status int, text string) {
		t.Helper()
		e.ask("POST", "/complete", fmt.Sprintf(`{"prompt":%q,"max_tokens":%d}`, prompt, most), status, text,
			"Idempotency-Key", id)
	}
	complete("c1", "hello", 20, 200, "hello")
	usedAndHeld(t, n, "team-a", 7, 0)
	complete("c1", "hello", 20, 409, "was answered")
	complete("c1", "hello", 30, 409, "was used")
	complete("c2", "fail", 20, 502, "model failed")
	usedAndHeld(t, n, "team-a", 7, 0)
	complete("c3", "hello", 1000, 429, "do not cover")
	e.disturb(testservers.CutReply)
	complete("c4", "hello", 20, 504, "same")
	e.disturb(testservers.Refuse)
	complete("c4", "hello", 20, 503, "not now")
	e.disturb(testservers.Pass)
	usedAndHeld(t, n, "team-a", 7, 25)
	complete("c4", "hello", 20, 200, "hello")
	usedAndHeld(t, n, "team-a", 14, 0)
	complete("c5", "alone", 20, 200, "hello")
	usedAndHeld(t, n, "team-a", 14, 25)
	e.disturb(testservers.Pass)
	eventually(t, 60*time.Second, "the hold is confirmed once budgetd is back", func() error {
		b, err := n.client().Budget(context.Background(), "team-a")
		if err == nil && (b.Used != 21 || b.Held != 0) {
			err = fmt.Errorf("used %d, held %d", b.Used, b.Held)
		}
		return err
	})
}

func tryQuota(t *testing.T, n *node, dir string) {
	e := startExample(t, n, dir, "quota", "-max", "12", "-every", "year")
	call := func(path, key, id string, status int, text string) http.Header {
		t.Helper()
		return e.ask("GET", path, "", status, text, "X-API-Key", key, "Idempotency-Key", id)
	}
	left := func(h http.Header, want string) {
		t.Helper()
		if got := h.Get("X-Quota-Remaining"); got != want {
			t.Errorf("X-Quota-Remaining: %q, want %q", got, want)
		}
	}
	left(call("/reports", "ann", "r1", 200, "done"), "2")
	call("/reports", "ann", "r1", 200, "done") // a repeat is free
	left(call("/", "ann", "r2", 200, "done"), "1")
	if h := call("/reports", "ann", "r3", 429, "used up"); h.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	call("/", "ann", "r1", 409, "was used")
	e.disturb(testservers.CutReply)
	call("/", "bob", "b1", 504, "same")
	e.disturb(testservers.Refuse)
	call("/", "bob", "b1", 503, "right now")
	e.disturb(testservers.Pass)
	call("/", "bob", "b1", 200, "done")
	left(call("/reports", "bob", "b2", 200, "done"), "1") // b1 was counted once

	open := startExample(t, n, dir, "quota", "-max", "12", "-every", "year", "-fail-open")
	open.disturb(testservers.Refuse)
	open.ask("GET", "/", "", 200, "done", "X-API-Key", "ann")
}
