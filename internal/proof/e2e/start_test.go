package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
)

func problem(err error) *client.Problem {
	var p *client.Problem
	if errors.As(err, &p) {
		return p
	}
	return &client.Problem{}
}

// TestSecondServerOnOneDirectory checks that a second process cannot use the embedded database.
func TestSecondServerOnOneDirectory(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	second := launch(t, dir)
	select {
	case <-second.done:
	case <-time.After(20 * time.Second):
		t.Fatal("a second budgetd runs on the same directory")
	}
	if code := second.cmd.ProcessState.ExitCode(); code == 0 {
		t.Error("a second budgetd on the same directory ended with status 0")
	}
	if log := second.log.String(); !strings.Contains(log, "budgetd.db") {
		t.Errorf("the message does not name the file: %s", log)
	}
	create(t, first.client(), "still-serving", 10, 1)
	if code := first.stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	again := start(t, dir)
	if _, err := again.client().Budget(context.Background(), "still-serving"); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// TestCheckConfig checks that --check-config reports all faults at once and exits with an error.
func TestCheckConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.yaml")
	text := "listen: nowhere\ndatabase:\n  driver: oracle\nno_such_key: 1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n := launch(t, t.TempDir(), "--config", file, "--check-config")
	select {
	case <-n.done:
	case <-time.After(20 * time.Second):
		t.Fatal("--check-config does not end")
	}
	if n.cmd.ProcessState.ExitCode() == 0 {
		t.Error("status 0 for a broken configuration")
	}
	for _, word := range []string{"oracle", "no_such_key"} {
		if !strings.Contains(n.log.String(), word) {
			t.Errorf("%q is not reported: %s", word, n.log.String())
		}
	}
}
