package testservers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// ask sends one inline command to a Redis and returns the reply: one line, or the text of a bulk
// string.
func ask(addr, command string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return "", err
	}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(line, "$") && !strings.HasPrefix(line, "$-1") {
		line, err = reader.ReadString('\n')
	}
	return strings.TrimSpace(line), err
}

// expect sends a command and compares the reply.
func expect(t *testing.T, addr, command, want string) {
	t.Helper()
	got, err := ask(addr, command)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	if got != want {
		t.Fatalf("%s: got %q, want %q", command, got, want)
	}
}

func TestRedisRestart(t *testing.T) {
	const kept, lost = "kept", "$-1"
	tests := []struct {
		name    string
		options []RedisOption
		end     func(*RedisServer) error
		want    string
	}{
		{"stopped, persistent", []RedisOption{AppendOnly("always")}, (*RedisServer).Stop, kept},
		{"killed, persistent", []RedisOption{AppendOnly("always")}, (*RedisServer).Kill, kept},
		{"still running, persistent", []RedisOption{AppendOnly("always")},
			func(*RedisServer) error { return nil }, kept},
		{"killed while paused", []RedisOption{AppendOnly("always")},
			func(s *RedisServer) error { return errors.Join(s.Pause(), s.Kill()) }, kept},
		{"stopped while paused", []RedisOption{AppendOnly("always")},
			func(s *RedisServer) error { return errors.Join(s.Pause(), s.Stop()) }, kept},
		{"stopped, not persistent", nil, (*RedisServer).Stop, lost},
		{"killed, not persistent", nil, (*RedisServer).Kill, lost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := Redis(t, tt.options...)
			addr, pid := server.Addr(), server.Pid()
			expect(t, addr, "SET key kept", "+OK")
			if err := tt.end(server); err != nil {
				t.Fatal(err)
			}
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
			if server.Addr() != addr {
				t.Errorf("came back at %s, was at %s", server.Addr(), addr)
			}
			if server.Pid() == pid || server.Pid() == 0 {
				t.Errorf("process %d after %d, want a new one", server.Pid(), pid)
			}
			expect(t, addr, "GET key", tt.want)
		})
	}
}

func TestRedisStopAndKill(t *testing.T) {
	ends := map[string]func(*RedisServer) error{
		"stop": (*RedisServer).Stop,
		"kill": (*RedisServer).Kill,
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			server := Redis(t)
			pid := server.Pid()
			for range 2 { // the second time does nothing
				if err := end(server); err != nil {
					t.Fatal(err)
				}
			}
			if alive(pid) || server.Pid() != 0 {
				t.Errorf("process %d still runs", pid)
			}
			if _, err := ask(server.Addr(), "PING"); err == nil {
				t.Error("it still answers")
			}
			if server.Pause() == nil || server.Resume() == nil {
				t.Error("a server that does not run was paused or resumed")
			}
		})
	}
}

func TestRedisPauseAndResume(t *testing.T) {
	server := Redis(t)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := ask(server.Addr(), "PING")
		answer <- err
	}()
	select {
	case err := <-answer:
		t.Fatalf("a paused server answered (error: %v)", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("after Resume: %v", err)
	}
}

func TestRedisArgs(t *testing.T) {
	server := Redis(t, RedisArgs("--requirepass", "secret"), RedisArgs("--port", "1"))
	expect(t, server.Addr(), "PING", "-NOAUTH Authentication required.")
	expect(t, server.Addr(), "AUTH secret", "+OK")
}

func TestRedisRefusesToStart(t *testing.T) {
	_, err := StartRedis(context.Background(), t.TempDir(), RedisArgs("--no-such-setting", "1"))
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("got %v, want the server's message", err)
	}
}

func TestStartIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	if _, err := StartRedis(ctx, dir); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	} else if err == nil {
		t.Error("a cancelled start succeeded")
	}
}

// TestPortRace starts two servers on one port. The second start must detect that the port is taken,
// and a restart must wait until it is free.
func TestPortRace(t *testing.T) {
	first := Redis(t)
	second := Redis(t)
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	second.port = first.port
	if err := second.launch(t.Context()); !errors.Is(err, errPortTaken) {
		t.Fatalf("on a taken port: got %v, want %v", err, errPortTaken)
	}
	freed := make(chan error, 1)
	go func() {
		time.Sleep(3 * portRetry)
		freed <- first.Stop()
	}()
	if err := errors.Join(second.Restart(), <-freed); err != nil {
		t.Fatal(err)
	}
	expect(t, second.Addr(), "PING", "+PONG")
}

func TestStartRedisKeepsItsDirectory(t *testing.T) {
	dir := t.TempDir()
	for i, want := range []string{"$-1", "kept"} {
		server, err := StartRedis(t.Context(), dir, AppendOnly("always"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Kill() })
		expect(t, server.Addr(), "GET key", want)
		if i == 0 {
			expect(t, server.Addr(), "SET key kept", "+OK")
		}
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "appendonlydir")); err != nil {
		t.Error(err)
	}
}

func TestPortsAreBelowSourcePorts(t *testing.T) {
	for range 1000 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if port < firstPort || port >= sourcePortsBegin() {
			t.Fatalf("port %d is outside %d … %d", port, firstPort, sourcePortsBegin()-1)
		}
	}
}

// fakeTB records how a test ended.
type fakeTB struct {
	testing.TB
	fatal string
}

func (tb *fakeTB) Helper() {}

func (tb *fakeTB) Fatal(args ...any) {
	tb.fatal = fmt.Sprint(args...)
	runtime.Goexit()
}

// TestMissingServerFails checks that without redis-server a test fails and says what to install.
// Any other end, including a skip, would call a nil method of fakeTB and panic.
func TestMissingServerFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	tb := &fakeTB{}
	over := make(chan struct{})
	go func() {
		defer close(over)
		Redis(tb)
	}()
	<-over
	for _, word := range []string{"redis-server is not installed", "scripts/test-deps.sh", "apt-get"} {
		if !strings.Contains(tb.fatal, word) {
			t.Errorf("the failure %q does not say %q", tb.fatal, word)
		}
	}
}
