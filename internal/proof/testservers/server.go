package testservers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startLimit   = 60 * time.Second       // a start, on a machine busy with other tests
	stopLimit    = 30 * time.Second       // a clean shutdown before it is forced
	pollInterval = 10 * time.Millisecond  // between two checks of a starting server
	portRetry    = 100 * time.Millisecond // before a restart tries its port again
	portTries    = 10                     // ports tried by a first start
	tailLines    = 30                     // of a server's log, in errors and failed tests
)

// errPortTaken means that the port is taken. Another port may be free.
var errPortTaken = errors.New("port taken")

// program describes one kind of server.
type program struct {
	name      string // "redis" or "mariadb", in messages
	binary    string // path of the executable
	readyLine string // what its log says once it accepts connections
	args      func(port int) []string
}

// Server is a program with its directory and its port, running or not. It is safe for concurrent
// use: its methods run one after the other.
type Server struct {
	program program
	dir     string
	port    int
	// borrowed marks a server that another process has started and will end. Only its address is
	// known.
	borrowed bool

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil while stopped
	exited chan struct{} // closed when cmd has ended and was waited for
	extra  []string      // arguments of the next launches, after the program's
}

// startServer runs the program on a free port and returns once it accepts connections. It tries
// another port if its choice was taken; ctx bounds the start only.
func startServer(ctx context.Context, program program, dir string) (*Server, error) {
	s := &Server{program: program, dir: dir}
	for range portTries {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		s.port = port
		err = s.launch(ctx)
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("testservers: %s: %d ports tried: %w", program.name, portTries,
		errPortTaken)
}

// Addr returns the address, such as "127.0.0.1:21034". It stays the same over restarts.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Port returns the TCP port. It stays the same over restarts.
func (s *Server) Port() int { return s.port }

// Dir returns the directory that holds the server's files.
func (s *Server) Dir() string { return s.dir }

// Pid returns the process id, or 0 if the server does not run or belongs to another process.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return 0
	}
	return s.cmd.Process.Pid
}

// Log returns everything that the server has logged so far, across all its restarts; "" if another
// process has started it.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Stop ends the server with SIGTERM, as an operator does, and waits for it. After 30 s it kills the
// server and returns an error. Stopping a stopped server does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

// Kill ends the server with SIGKILL, as a crash does, and waits for it. Killing a stopped server
// does nothing.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

// Restart starts the server again on the same port and directory, after a Stop if it still runs,
// and returns once it accepts connections. After Stop or Kill the server comes back with the data
// that it had persisted.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		err := s.launch(ctx)
		if !errors.Is(err, errPortTaken) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(portRetry):
		}
	}
}

// Pause stops the server with SIGSTOP. It keeps its connections and answers nothing. Stop, Kill and
// Restart work on a paused server too.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return fmt.Errorf("testservers: %s is not running", s.program.name)
	}
	return s.cmd.Process.Signal(sig)
}

// setExtra sets the arguments that later launches append to the program's own.
func (s *Server) setExtra(args ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extra = args
}

// running reports whether the process that s started runs. The caller holds s.mu.
func (s *Server) running() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// stop is Stop with s.mu held. A signal to a process that has already ended is not an error.
func (s *Server) stop() error {
	if s.borrowed {
		return fmt.Errorf("testservers: %s is shared: it must not be stopped", s.program.name)
	}
	if !s.running() {
		return nil
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Process.Signal(syscall.SIGCONT) // a paused one would never see the SIGTERM
	select {
	case <-s.exited:
		return nil
	case <-time.After(stopLimit):
		_ = s.kill()
		return fmt.Errorf("testservers: %s did not stop within %s and was killed\n%s",
			s.program.name, stopLimit, s.tail())
	}
}

// kill is Kill with s.mu held.
func (s *Server) kill() error {
	if s.borrowed {
		return fmt.Errorf("testservers: %s is shared: it must not be killed", s.program.name)
	}
	if !s.running() {
		return nil
	}
	_ = s.cmd.Process.Kill()
	select {
	case <-s.exited:
		return nil
	case <-time.After(stopLimit):
		return fmt.Errorf("testservers: %s survived SIGKILL for %s", s.program.name, stopLimit)
	}
}

// launch starts the process on s.port and waits until its log says that it is ready. Unlike an
// answer on the port, the log cannot come from another server, and reading it needs no password.
// errPortTaken means that the process ended because its port was not free.
func (s *Server) launch(ctx context.Context) error {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	begin, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	cmd := exec.Command(s.program.binary, slices.Concat(s.program.args(s.port), s.extra)...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TMPDIR=" + s.dir}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = serverAttributes()
	if err := startOnLastingThread(cmd); err != nil {
		return fmt.Errorf("testservers: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the log says how it ended
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	return s.awaitReady(ctx, begin)
}

// awaitReady polls the log from position begin on. If it fails, the process has ended.
func (s *Server) awaitReady(ctx context.Context, begin int64) error {
	for {
		over := !s.running() // read before the log, which is then complete
		text := s.Log()
		text = text[min(int(begin), len(text)):]
		switch {
		case over && strings.Contains(text, "Address already in use"):
			return errPortTaken
		case over:
			return fmt.Errorf("testservers: %s ended while starting (%s)\n%s", s.program.name,
				s.cmd.ProcessState, s.tail())
		case strings.Contains(text, s.program.readyLine):
			return nil
		}
		select {
		case <-ctx.Done():
			_ = s.kill()
			return fmt.Errorf("testservers: %s is not ready: %w\n%s", s.program.name, ctx.Err(),
				s.tail())
		case <-time.After(pollInterval):
		}
	}
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "log") }

// tail returns the last lines of the log.
func (s *Server) tail() string {
	lines := strings.Split(strings.TrimSpace(s.Log()), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// starter returns the queue of the goroutine that starts every server. The kernel sends the
// parent-death signal when the thread that started a child ends, and Go may end idle threads. This
// goroutine never releases its thread.
var starter = sync.OnceValue(func() chan<- func() {
	queue := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range queue {
			start()
		}
	}()
	return queue
})

func startOnLastingThread(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	starter() <- func() { result <- cmd.Start() }
	return <-result
}

// findBinary returns the path of a server's executable. It also searches directories that Debian
// has only in root's PATH. The error says how to install the package.
func findBinary(name, debianPackage string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("testservers: %s is not installed; run scripts/test-deps.sh (as root), "+
		"or install it with: apt-get install --no-install-recommends %s", name, debianPackage)
}
