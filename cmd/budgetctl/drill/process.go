package drill

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// process is a server of the sandbox: its program, its files and the wire in front of it. The
// wire's address does not change when the server is killed and restarted on another port.
type process struct {
	name, dir string
	wire      *wire
	// ready matches the line of its log that says that it listens. If the server chose the port,
	// the line has the address.
	ready   *regexp.Regexp
	command func(port int) []string

	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

const (
	startLimit = 2 * time.Minute
	portTries  = 10
)

// start runs the server and returns once it listens. If another process took the port first, it
// tries another port.
func (p *process) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for range portTries {
		port, err := freePort()
		if err != nil {
			return err
		}
		if err := p.launch(p.command(port)); err != nil {
			return err
		}
		address, err := p.awaitReady(ctx, fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil || address != "" {
			p.wire.lead(address)
			return err
		}
	}
	return fmt.Errorf("%s: every port that was tried is taken", p.name)
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func (p *process) logPath() string { return filepath.Join(filepath.Dir(p.dir), p.name+".log") }

// launch starts the program with an empty log.
func (p *process) launch(line []string) error {
	log, err := os.Create(p.logPath())
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, log, log
	p.cmd.SysProcAttr = apart()
	// The environment may hold settings of the user's own budgetd.
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BUDGETD_")
	}), "LC_ALL=C", "TMPDIR="+p.dir, "BUDGETD_NODE_NAME="+p.name)
	started, ended := make(chan error, 1), make(chan struct{})
	go func(cmd *exec.Cmd) {
		// The kernel kills the child when the thread that started it ends, so this thread waits for
		// it.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its log says how it ended
		}
		close(ended)
	}(p.cmd)
	p.ended = ended
	if err := <-started; err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// awaitReady returns the address where the server listens, or "" if its port was taken.
func (p *process) awaitReady(ctx context.Context, address string) (string, error) {
	for {
		over := p.over() // checked first: the log of a process that has ended is complete
		log, err := os.ReadFile(p.logPath())
		if err != nil {
			return "", err
		}
		match := p.ready.FindStringSubmatch(string(log))
		switch {
		case over && strings.Contains(string(log), "ddress already in use"):
			return "", nil
		case over:
			return "", fmt.Errorf("%s ended while it started:\n%s", p.name, lastLines(string(log)))
		case len(match) == 2:
			return match[1], nil
		case match != nil:
			return address, nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return "", fmt.Errorf("%s has not started: %w\n%s", p.name, err, lastLines(string(log)))
		}
	}
}

func lastLines(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// kill ends the server with SIGKILL, as a crash does, and waits for its end. It does nothing if the
// server does not run.
func (p *process) kill() {
	if p.cmd != nil && p.cmd.Process != nil && !p.over() {
		_ = p.cmd.Process.Kill() // an error means that it has ended
		<-p.ended
	}
}

// pause waits. If the context ends first, it returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
