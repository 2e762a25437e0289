package redisstore_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fakeRedis answers what a test wants to every EVALSHA and behaves until then like a server that
// can be activated. It says what no real server can be made to say at a given moment.
type fakeRedis struct {
	listener net.Listener

	mu sync.Mutex
	// answer is sent for EVALSHA, XRANGE, HMGET and DEL; "" closes the connection instead, and
	// "-silence" answers nothing.
	answer string
	// refuse closes new connections at once.
	refuse bool
	// hello is the answer to everything of a connection's set-up when it is not "".
	hello   string
	runID   string
	role    string
	served  int
	loaded  int    // scripts
	becomes string // run id after a script was loaded
	conns   map[net.Conn]bool
	drained sync.WaitGroup
	// next, when set, may answer any command first; "" leaves it to the fake, and hangUp closes the
	// connection instead.
	next func(command []string) string
}

// hangUp is an answer that is none.
const hangUp = "-hang up"

func newFakeRedis(t *testing.T) *fakeRedis {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeRedis{listener: listener, runID: "run1", role: "master", conns: make(map[net.Conn]bool)}
	f.drained.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns[conn] = true
			refuse := f.refuse
			f.mu.Unlock()
			if refuse {
				_ = conn.Close()
				continue
			}
			f.drained.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.cut()
		f.drained.Wait()
	})
	return f
}

func (f *fakeRedis) addr() string { return f.listener.Addr().String() }

// set changes the fake under its lock.
func (f *fakeRedis) set(change func(*fakeRedis)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// cut closes every connection.
func (f *fakeRedis) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.conns {
		_ = conn.Close()
	}
	f.conns = make(map[net.Conn]bool)
}

// calls returns how many commands reached the server that were neither set-up nor activation.
func (f *fakeRedis) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.served
}

func (f *fakeRedis) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		reply := f.reply(command)
		if reply == "-silence" {
			continue
		}
		if reply == "" {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func (f *fakeRedis) reply(command []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != nil {
		switch answer := f.next(command); answer {
		case "":
		case hangUp:
			return ""
		default:
			return answer
		}
	}
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	switch name := strings.ToUpper(command[0]); name {
	case "HELLO", "CLIENT", "AUTH", "SELECT":
		switch {
		case f.hello != "":
			return f.hello
		case name == "HELLO":
			return "*0\r\n"
		}
		return "+OK\r\n"
	case "INFO":
		return bulk("run_id:" + f.runID + "\r\nrole:" + f.role + "\r\nmaster_replid:r\r\n")
	case "SCRIPT":
		f.loaded++
		if f.becomes != "" {
			f.runID = f.becomes
		}
		sum := sha1.Sum([]byte(command[2]))
		return bulk(hex.EncodeToString(sum[:]))
	default:
		f.served++
		return f.answer
	}
}

// readCommand reads one command as RESP has it.
func readCommand(in *bufio.Reader) ([]string, error) {
	number := func(mark byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || line[0] != mark {
			return 0, io.ErrUnexpectedEOF
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:size])
	}
	return command, nil
}
