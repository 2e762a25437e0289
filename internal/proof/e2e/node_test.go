package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// node is a budgetd process.
type node struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *testservers.Text
	addr string
	// done is closed when the process has ended. err is then the result of Wait.
	done chan struct{}
	err  error
}

var listening = regexp.MustCompile(`listening.*addr"?[=:]"?([0-9.]+:[0-9]+)`)

// launch starts budgetd in dir without waiting for it.
func launch(t *testing.T, dir string, args ...string) *node {
	t.Helper()
	path := testservers.Program(t, "budgetd")
	n := &node{t: t, log: &testservers.Text{}, done: make(chan struct{})}
	n.cmd = exec.Command(path, args...)
	n.cmd.Dir = dir
	// Deadlines are generous, because the machine may be busy. A test's own settings come last and
	// take precedence.
	n.cmd.Env = append([]string{"BUDGETD_LISTEN=127.0.0.1:0", "BUDGETD_DEDUCT_DEADLINE=20s",
		"BUDGETD_HTTP_REQUEST_TIMEOUT=30s"}, os.Environ()...)
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal belongs to the thread that starts the process.
		runtime.LockOSThread()
		err := n.cmd.Start()
		started <- err
		if err == nil {
			n.err = n.cmd.Wait()
			close(n.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("budgetd log:\n%s", tail(n.log.String()))
		}
		if strings.Contains(n.log.String(), "DATA RACE") {
			t.Errorf("budgetd reported a data race:\n%s", n.log.String())
		}
	})
	return n
}

func tail(log string) string {
	const most = 8000
	if len(log) > most {
		return "…" + log[len(log)-most:]
	}
	return log
}

// start starts budgetd and waits until it is ready.
func start(t *testing.T, dir string, args ...string) *node {
	t.Helper()
	n := launch(t, dir, args...)
	eventually(t, 60*time.Second, "budgetd is ready", func() error {
		select {
		case <-n.done:
			t.Fatalf("budgetd ended: %v\n%s", n.err, n.log.String())
		default:
		}
		if n.addr == "" {
			m := listening.FindStringSubmatch(n.log.String())
			if m == nil {
				return fmt.Errorf("not listening yet")
			}
			n.addr = m[1]
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return n.client().Readyz(ctx)
	})
	return n
}

func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.done
}

// stop ends the node with SIGTERM, as an operator does, and returns its exit status.
func (n *node) stop() int {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	select {
	case <-n.done:
	case <-time.After(30 * time.Second):
		n.t.Fatalf("budgetd did not stop within 30 s\n%s", n.log.String())
	}
	return n.cmd.ProcessState.ExitCode()
}

func (n *node) client() *client.Client { return n.clientWith(client.Retry{}) }

func (n *node) clientWith(r client.Retry) *client.Client {
	c, err := client.New("http://"+n.addr, client.WithRetry(r))
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// eventually repeats check until it returns nil.
func eventually(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// cluster is MariaDB, three Redis, and a configuration for nodes that use them.
type cluster struct {
	text, config string
	dsn          string
	redis        []*testservers.RedisServer
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dsn: testservers.SharedMariaDB(t).NewDatabase(t)}
	c.text = fmt.Sprintf("database:\n  driver: mysql\n  dsn: %q\ninstances:\n", c.dsn)
	for i := range 3 {
		r := testservers.Redis(t, testservers.AppendOnly("everysec"))
		c.redis = append(c.redis, r)
		c.text += fmt.Sprintf("  - name: redis-%d\n    driver: redis\n    addrs: [%q]\n", i, r.Addr())
	}
	c.config = writeConfig(t, c.text)
	return c
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "budgetd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (c *cluster) start(t *testing.T) *node {
	t.Helper()
	return start(t, t.TempDir(), "--config", c.config)
}

// kinds runs a test on the embedded server and on MySQL with three Redis.
func kinds(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, start(t, t.TempDir())) })
	t.Run("cluster", func(t *testing.T) { test(t, newCluster(t).start(t)) })
}
