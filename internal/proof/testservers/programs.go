package testservers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"
)

// programsVariable names a directory with budgetd and budgetctl. scripts/test.sh sets it.
const programsVariable = "BUDGETD_TEST_PROGRAMS"

// Program returns the path of budgetd or budgetctl. The first call builds both, with the race
// detector where the tests have it, unless BUDGETD_TEST_PROGRAMS names a directory that has them.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	dir, err := programs()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, name)
}

var programs = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(programsVariable); dir != "" {
		return dir, nil
	}
	dir, err := Directory("programs")
	if err != nil {
		return "", err
	}
	const module = "github.com/budgetd/budgetd/cmd/"
	args := []string{"build", "-o", dir, fmt.Sprintf("-race=%t", raced()), module + "budgetd",
		module + "budgetctl"}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("testservers: build: %w\n%s", err, out)
	}
	return dir, nil
})

// raced reports whether this process was built with the race detector.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return false
	}
	for _, setting := range info.Settings {
		if setting.Key == "-race" {
			return setting.Value == "true"
		}
	}
	return false
}

// Text is what a process writes. It can be read meanwhile, and is safe for concurrent use.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer. It never fails.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String returns all that was written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
