package testservers

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const childVariable = "BUDGETD_TESTSERVERS_CHILD"

// TestLeftoversChild runs in the process that TestNothingIsLeftBehind starts. Elsewhere it does
// nothing.
func TestLeftoversChild(t *testing.T) {
	end := os.Getenv(childVariable)
	if end == "" {
		return
	}
	redis, mariadb := Redis(t, AppendOnly("always")), SharedMariaDB(t)
	fmt.Printf("\nservers %d %d\n", redis.Pid(), mariadb.Pid())
	switch end {
	case "return":
	case "panic":
		panic("on request")
	case "exit":
		os.Exit(0)
	default:
		time.Sleep(time.Minute) // the parent sends a signal
	}
}

// TestNothingIsLeftBehind ends a test binary with servers in every possible way, and checks that
// its servers and its files are gone.
func TestNothingIsLeftBehind(t *testing.T) {
	signals := map[string]syscall.Signal{
		"return":  0,
		"panic":   0,
		"exit":    0,
		"SIGINT":  syscall.SIGINT,
		"SIGTERM": syscall.SIGTERM,
		"SIGKILL": syscall.SIGKILL,
	}
	for end, sig := range signals {
		t.Run(end, func(t *testing.T) {
			dir := t.TempDir()
			child, pids := startChild(t, end, dir)
			if sig != 0 {
				if !alive(pids[0]) || !alive(pids[1]) {
					t.Fatalf("the servers %v do not run", pids)
				}
				if err := child.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
			_ = child.Wait() // any end is expected
			eventually(t, "its servers are gone", func() bool {
				return !alive(pids[0]) && !alive(pids[1])
			})
			eventually(t, "its directories are gone", func() bool {
				entries, err := os.ReadDir(dir)
				return err == nil && len(entries) == 0
			})
		})
	}
}

// startChild runs TestLeftoversChild in another process, with its files in dir, and returns the
// process ids of its servers.
func startChild(t *testing.T, end, dir string) (*exec.Cmd, []int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestLeftoversChild$", "-test.timeout=5m")
	// The child must start its own MariaDB: a shared one does not end with the child.
	fresh, err := pristine()
	if err != nil {
		t.Fatal(err)
	}
	child.Env = append(os.Environ(), childVariable+"="+end, "BUDGETD_TEST_TMP="+dir,
		mariaDBVariable+"=", redisVariable+"=", pristineVariable+"="+fresh)
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := startOnLastingThread(child); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	lines := bufio.NewScanner(output)
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		pids := make([]int, 2)
		_, err := fmt.Sscanf(lines.Text(), "servers %d %d", &pids[0], &pids[1])
		if err == nil {
			t.Cleanup(func() {
				for _, pid := range pids {
					if alive(pid) { // only if the test has failed
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			})
			return child, pids
		}
	}
	t.Fatalf("the child started no servers:\n%s", strings.Join(seen, "\n"))
	return nil, nil
}

// alive reports whether a process runs. A zombie counts as ended.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// eventually waits at most 20 s for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if condition() {
			return
		}
		time.Sleep(pollInterval)
	}
	t.Errorf("not within 20 s: %s", what)
}
