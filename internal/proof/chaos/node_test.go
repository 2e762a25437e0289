package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// startLimit bounds the start of a process on a machine busy with other tests.
const startLimit = 90 * time.Second

// Node is a budgetd process behind a proxy, whose address stays the same across restarts. While the
// process is dead the address refuses connections, as the process's own would. Only one goroutine
// may use it.
type Node struct {
	name string
	// programs are used in turn: the n-th start runs the n-th of them, modulo their number.
	programs []string
	starts   int
	dir      string
	args     []string
	proxy    *testservers.Proxy
	process  *exec.Cmd
	done     chan struct{} // closed when the process has ended and was waited for
	begin    int64         // where the present process's part of the log begins
	ready    bool          // the present process has been ready
}

var listening = regexp.MustCompile(`listening.*addr"?[=:]"?([0-9.]+:[0-9]+)`)

func newNode(name, dir string, programs []string, args ...string) (*Node, error) {
	proxy, err := testservers.StartProxy("127.0.0.1:1")
	if err != nil {
		return nil, err
	}
	return &Node{name: name, programs: programs, dir: dir, args: args, proxy: proxy}, nil
}

// Start starts the process unless it runs, and returns once it is ready. It restarts a process that
// gave up because its database was out of reach.
func (n *Node) Start() error {
	deadline := time.Now().Add(startLimit)
	for {
		if err := n.Launch(); err != nil {
			return err
		}
		err := n.awaitReady()
		if err == nil || n.running() || time.Now().After(deadline) {
			return err
		}
	}
}

// Launch starts the process unless it runs, without waiting until it is ready. Its address refuses
// until Start is called.
func (n *Node) Launch() error {
	if n.running() {
		return nil
	}
	log, err := os.OpenFile(n.LogPath(), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if n.begin, err = log.Seek(0, 2); err != nil {
		return err
	}
	n.process = exec.Command(n.programs[n.starts%len(n.programs)], n.args...)
	n.starts++
	n.process.Dir = n.dir
	n.process.Env = append(slices.DeleteFunc(os.Environ(), func(setting string) bool {
		return strings.HasPrefix(setting, "BUDGETD_")
	}), "BUDGETD_LISTEN=127.0.0.1:0")
	n.process.Stdout, n.process.Stderr = log, log
	n.process.SysProcAttr = attributes()
	n.done = make(chan struct{})
	n.ready = false
	return launch(n.process, n.done)
}

// launch starts a process on a thread that lives as long as the process, because the parent-death
// signal belongs to the thread.
func launch(process *exec.Cmd, done chan struct{}) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := process.Start()
		started <- err
		if err == nil {
			_ = process.Wait() // its log says how it ended
		}
		close(done)
	}()
	return <-started
}

// awaitReady waits until the log names an address and that address reports ready.
func (n *Node) awaitReady() error {
	if n.ready {
		return nil
	}
	deadline := time.Now().Add(startLimit)
	addr := ""
	for {
		var err error
		if addr == "" {
			if m := listening.FindStringSubmatch(n.logFrom(n.begin)); m != nil {
				addr = m[1]
			}
			err = errors.New("it is not listening yet")
		}
		if addr != "" {
			if err = askReady(addr); err == nil {
				n.ready = true
				n.proxy.SetTarget(addr)
				return n.proxy.Set(testservers.Rule{})
			}
		}
		if !n.running() || time.Now().After(deadline) {
			return fmt.Errorf("chaos: %s did not start: %w\n%s", n.name, err, tail(n.logFrom(n.begin)))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func askReady(addr string) error {
	c, err := client.New("http://"+addr, client.WithRetry(client.Retry{Attempts: 1}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return c.Readyz(ctx)
}

func (n *Node) running() bool {
	if n.process == nil {
		return false
	}
	select {
	case <-n.done:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL, paused or not, and waits for it.
func (n *Node) Kill() error {
	if !n.running() {
		return nil
	}
	if err := n.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-n.done
	return n.proxy.Set(testservers.Rule{Disturbance: testservers.Refuse})
}

// Pause freezes the process; Resume continues it.
func (n *Node) Pause() error { return n.signal(syscall.SIGSTOP) }

// Resume continues a paused process and has no effect on a running one.
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

func (n *Node) signal(s syscall.Signal) error {
	if !n.running() {
		return fmt.Errorf("chaos: %s does not run", n.name)
	}
	return n.process.Process.Signal(s)
}

// LogPath returns the file with the output of the process across all its restarts.
func (n *Node) LogPath() string { return filepath.Join(n.dir, n.name+".log") }

func (n *Node) logFrom(begin int64) string {
	text, err := os.ReadFile(n.LogPath())
	if err != nil {
		return err.Error()
	}
	return string(text[min(int(begin), len(text)):])
}

// tail returns the last lines of a log.
func tail(log string) string {
	const most = 40
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
