package console_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/daemon"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// server is a budgetd under way.
type server struct {
	t     testing.TB
	url   string
	token string // sent with every call unless it is empty
	stop  func()
}

var listening = regexp.MustCompile(`msg=listening addr=(\S+)`)

// serve runs a budgetd on a free port, or on the one that environ names. config is the text of its
// configuration file. If it is empty, there is no file.
func serve(t testing.TB, config string, environ ...string) *server {
	t.Helper()
	var args []string
	if config != "" {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		args = []string{"--config", file}
	}
	ctx, cancel := context.WithCancel(context.Background())
	log, status := new(testservers.Text), make(chan int, 1)
	environ = append([]string{"BUDGETD_LISTEN=127.0.0.1:0",
		"BUDGETD_DATABASE_DSN=" + filepath.Join(t.TempDir(), "budgetd.db")}, environ...)
	go func() { status <- daemon.Run(ctx, args, environ, io.Discard, log) }()
	s := &server{t: t, stop: sync.OnceFunc(func() { cancel(); <-status })}
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("log of the server:\n%s", log)
		}
	})
	for range 1200 {
		if found := listening.FindStringSubmatch(log.String()); found != nil {
			s.url = "http://" + found[1]
			return s
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("it does not start:\n%s", log)
	return nil
}

// ask makes a call, and returns the status and what was answered.
func (s *server) ask(method, path, body string) (int, map[string]any) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&out); err != nil {
		s.t.Fatalf("%s %s: %d, %v", method, path, answer.StatusCode, err)
	}
	return answer.StatusCode, out
}

// must makes a call that has to succeed.
func (s *server) must(method, path, body string) map[string]any {
	s.t.Helper()
	status, out := s.ask(method, path, body)
	for range 500 { // what is "not now" on a busy machine was not done
		if status != http.StatusServiceUnavailable {
			break
		}
		time.Sleep(20 * time.Millisecond)
		status, out = s.ask(method, path, body)
	}
	if status >= 300 {
		s.t.Fatalf("%s %s: %d %v", method, path, status, out)
	}
	return out
}
