package testservers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// echo answers each line with its name and the line, and counts the lines.
func echo(t *testing.T, name string) (addr string, heard *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	heard = &atomic.Int64{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					heard.Add(1)
					fmt.Fprintf(conn, "%s %s\n", name, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String(), heard
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// say sends a line and returns the answer; patience bounds the wait.
func say(conn net.Conn, line string, patience time.Duration) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	answer := make([]byte, 100)
	n, err := conn.Read(answer)
	return string(answer[:n]), err
}

const patient = 30 * time.Second

func wantAnswer(t *testing.T, conn net.Conn, line, want string) {
	t.Helper()
	if got, err := say(conn, line, patient); err != nil || got != want {
		t.Errorf("%q was answered with %q, %v; want %q", line, got, err, want)
	}
}

func setRule(t *testing.T, p *Proxy, rule Rule) {
	t.Helper()
	if err := p.Set(rule); err != nil {
		t.Fatal(err)
	}
}

func TestProxyCuts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rule  Rule
		heard int64 // of the three lines of three connections
		cut   int
	}{
		{"nothing", Rule{}, 3, 0},
		{"replies", Rule{Disturbance: CutReply}, 3, 3},
		{"requests", Rule{Disturbance: CutRequest}, 0, 3},
		{"every third reply", Rule{Disturbance: CutReply, OneIn: 3}, 3, 1},
		{"every third request", Rule{Disturbance: CutRequest, OneIn: 3}, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, heard := echo(t, "a")
			p := NewProxy(t, server)
			setRule(t, p, tt.rule)
			cut := 0
			for range 3 {
				conn := dial(t, p.Addr())
				switch got, err := say(conn, "x", patient); {
				case err == nil && got == "a x\n":
				case got == "" && (errors.Is(err, io.EOF) || !errors.Is(err, os.ErrDeadlineExceeded)):
					cut++
				default:
					t.Errorf("answer %q, %v", got, err)
				}
			}
			// The server has received every request: a reply is cut only after it was sent.
			if heard.Load() != tt.heard || cut != tt.cut || p.Hits() != tt.cut {
				t.Errorf("heard %d, cut %d, hits %d; want %d, %d, %d", heard.Load(), cut, p.Hits(),
					tt.heard, tt.cut, tt.cut)
			}
			setRule(t, p, Rule{})
			wantAnswer(t, dial(t, p.Addr()), "y", "a y\n")
		})
	}
}

func TestProxyDelays(t *testing.T) {
	const delay = 150 * time.Millisecond
	server, _ := echo(t, "a")
	p := NewProxy(t, server)
	conn := dial(t, p.Addr())
	wantAnswer(t, conn, "x", "a x\n")
	setRule(t, p, Rule{Disturbance: Delay, Delay: delay})
	began := time.Now()
	wantAnswer(t, conn, "y", "a y\n")
	if took := time.Since(began); took < delay {
		t.Errorf("it took %s", took)
	}
}

func TestProxyBlackHole(t *testing.T) {
	server, heard := echo(t, "a")
	p := NewProxy(t, server)
	used, idle := dial(t, p.Addr()), dial(t, p.Addr())
	wantAnswer(t, used, "x", "a x\n")
	wantAnswer(t, idle, "x", "a x\n")
	setRule(t, p, Rule{Disturbance: BlackHole})
	fresh := dial(t, p.Addr())
	for name, conn := range map[string]net.Conn{"old": used, "new": fresh} {
		if got, err := say(conn, "y", 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s connection: %q, %v", name, got, err)
		}
	}
	if heard.Load() != 2 || p.Hits() < 3 {
		t.Errorf("the server heard %d lines, hits %d", heard.Load(), p.Hits())
	}
	setRule(t, p, Rule{})
	for name, conn := range map[string]net.Conn{"old": used, "new": fresh} {
		if got, err := say(conn, "z", patient); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s connection continues after a loss: %q, %v", name, got, err)
		}
	}
	wantAnswer(t, idle, "z", "a z\n")
	wantAnswer(t, dial(t, p.Addr()), "z", "a z\n")
}

func TestProxyRefuses(t *testing.T) {
	server, _ := echo(t, "a")
	p := NewProxy(t, server)
	conn := dial(t, p.Addr())
	wantAnswer(t, conn, "x", "a x\n")
	for range 2 { // again while refusing changes nothing
		setRule(t, p, Rule{Disturbance: Refuse})
		if _, err := net.Dial("tcp", p.Addr()); err == nil {
			t.Error("a connection was accepted")
		}
	}
	if got, err := say(conn, "y", patient); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection continues: %q, %v", got, err)
	}
	setRule(t, p, Rule{})
	wantAnswer(t, dial(t, p.Addr()), "z", "a z\n")
}

func TestProxyTarget(t *testing.T) {
	first, _ := echo(t, "a")
	second, _ := echo(t, "b")
	p := NewProxy(t, first)
	conn := dial(t, p.Addr())
	wantAnswer(t, conn, "x", "a x\n")
	p.SetTarget(second)
	if got, err := say(conn, "y", patient); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection to the first target continues: %q, %v", got, err)
	}
	wantAnswer(t, dial(t, p.Addr()), "z", "b z\n")
}
