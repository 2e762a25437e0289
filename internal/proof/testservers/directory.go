package testservers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

const (
	memory = "/dev/shm" // on Linux, a file system in memory
	room   = 4 << 30    // bytes that must be free there, enough for several test binaries
)

// sweep removes the directory $1 at the end of its input, which comes when the process that started
// it is gone. A dying server may still add a file, so sweep retries for up to 10 s.
const sweep = `trap '' HUP INT QUIT TERM
while read -r _; do :; done
tries=0
while [ -e "$1" ] && [ "$tries" -lt 200 ]; do
	rm -rf -- "$1" 2>/dev/null
	tries=$((tries + 1))
	sleep 0.05
done`

// workspace is the parent of all directories of this process's tests.
type workspace struct {
	dir string
	// lifeline is the writing end of the sweeper's input. It only has to stay open, and reachable so
	// that no finalizer closes it.
	lifeline *os.File
}

// root creates the workspace once, with a sweeper that removes it when the process is gone.
var root = sync.OnceValues(func() (workspace, error) {
	parent := os.Getenv("BUDGETD_TEST_TMP")
	if parent == "" && hasRoom(memory) {
		parent = memory
	}
	dir, err := os.MkdirTemp(parent, "budgetd-test-")
	if err != nil {
		return workspace{}, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return workspace{}, err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return workspace{}, err
	}
	defer reader.Close()
	sweeper := exec.Command("/bin/sh", "-c", sweep, "budgetd-test-sweeper", dir)
	sweeper.Dir = "/"
	sweeper.Stdin = reader
	sweeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
	if err := sweeper.Start(); err != nil {
		_ = os.Remove(dir)
		return workspace{}, fmt.Errorf("testservers: sweeper: %w", err)
	}
	return workspace{dir: dir, lifeline: writer}, sweeper.Process.Release()
})

var directories atomic.Int64

// Directory creates an empty directory for a server, or for something that several tests of a
// process share, such as a binary that they build once. It lasts until its owner removes it or the
// process ends, however that ends.
func Directory(kind string) (string, error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root.dir, fmt.Sprintf("%s-%d", kind, directories.Add(1)))
	return dir, os.Mkdir(dir, 0o700)
}

// cleanUp kills the server and removes its directory when tb is over. If the test failed, it logs
// the end of the server's log.
func (s *Server) cleanUp(tb testing.TB) {
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("last lines of %s (%s):\n%s", s.program.name, s.Addr(), s.tail())
		}
		if err := s.Kill(); err != nil {
			tb.Error(err)
		}
		if err := os.RemoveAll(s.dir); err != nil {
			tb.Error(err)
		}
	})
}
