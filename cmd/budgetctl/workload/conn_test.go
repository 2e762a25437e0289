package workload

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serve answers every request of every connection with the next text of the list, and closes the
// connection after one that is empty.
func serve(t *testing.T, answers ...string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			for {
				request, err := http.ReadRequest(in)
				if err != nil || len(answers) == 0 {
					break
				}
				_, _ = io.Copy(io.Discard, request.Body)
				text := answers[0]
				answers = answers[1:]
				if text == "" {
					break
				}
				// In two pieces, so that an answer does not come in one.
				half := len(text) / 2
				fmt.Fprint(c, text[:half])
				time.Sleep(time.Millisecond)
				fmt.Fprint(c, text[half:])
			}
			c.Close()
		}
	}()
	return listener.Addr().String()
}

const request = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"

func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	tests := []struct {
		name, answer string
		status       int
		body         string
		err          bool
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false},
		{"any case", "HTTP/1.1 409 Conflict\r\ncontent-LENGTH:5\r\n\r\nhello", 409, "hello", false},
		{"long", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + long, 200, long, false},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", false},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", false},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nA;x=y\r\nlo, world!\r\n0\r\nT: 1\r\n\r\n",
			200, "hello, world!", false},
		{"chunk of no size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;\r\n\r\n", 0, "", true},
		{"no length", "HTTP/1.1 200 OK\r\n\r\nhello", 0, "", true},
		{"invalid length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello", 0, "", true},
		{"too long", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nhello", 0, "", true},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 0, "", true},
		{"not HTTP", "SSH-2.0-OpenSSH_9.9\r\n\r\n", 0, "", true},
		{"broken off", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", 0, "", true},
		{"no answer", "", 0, "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// The empty answer closes the connection, for the one that is broken off.
			answers := []string{test.answer}
			c := conn{address: serve(t, answers...), timeout: 30 * time.Second}
			if test.name == "broken off" {
				c.timeout = time.Second
			}
			defer c.close()
			status, body, sent, err := c.call([]byte(request))
			if !sent || (err != nil) != test.err {
				t.Fatalf("sent %t, error %v", sent, err)
			}
			if err == nil && (status != test.status || string(body) != test.body) {
				t.Errorf("%d %.50q, want %d %.50q", status, body, test.status, test.body)
			}
		})
	}
}

// TestConnectionIsUsedAgain checks that a connection is reused, and dialled again after it was
// closed, announced or not.
func TestConnectionIsUsedAgain(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
	c := conn{timeout: 30 * time.Second, address: serve(t, ok+"1", ok+"2",
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n3", ok+"4", "", ok+"5")}
	defer c.close()
	got := ""
	for range 6 {
		_, body, _, err := c.call([]byte(request))
		if err != nil {
			body = []byte("!")
		}
		got += string(body)
	}
	if got != "1234!5" {
		t.Errorf("bodies %q", got)
	}
}

// TestNobodyThere checks that a call counts as not sent if no server listens.
func TestNobodyThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	c := conn{address: listener.Addr().String(), timeout: time.Second}
	if _, _, sent, err := c.call([]byte(request)); sent || err == nil {
		t.Errorf("sent %t, error %v", sent, err)
	}
}

func TestHex(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "1f": 31, "1F;a=b": 31, "": -1, ";": -1, "g": -1, "fffffffff": -1} {
		n, ok := hex([]byte(text))
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q is %d, want %d", text, n, want)
		}
	}
}
