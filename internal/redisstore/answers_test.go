package redisstore_test

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/redisstore"
)

// liar is a server that answers every script with the same bytes and closes the connection.
type liar struct {
	addr   string
	answer atomic.Pointer[string]
}

func lies(f *testing.F) *liar {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	server := &liar{addr: l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go server.serve(conn)
		}
	}()
	return server
}

// serve reads commands, which are arrays of bulk strings, and answers them.
func (l *liar) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	number := func() int {
		line, _ := in.ReadString('\n')
		n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimLeft(line, "*$")))
		return n
	}
	for {
		var name string
		parts := number()
		for range parts {
			text := make([]byte, number()+2)
			if _, err := io.ReadFull(in, text); err != nil {
				return
			}
			if name == "" {
				name = strings.ToUpper(string(text[:len(text)-2]))
			}
		}
		const info = "redis_version:7.4.0\r\nrun_id:r1\r\nrole:master\r\nmaster_replid:abc\r\n"
		text := "+OK\r\n"
		switch name {
		case "":
			return
		case "INFO":
			text = "$" + strconv.Itoa(len(info)) + "\r\n" + info + "\r\n"
		case "EVALSHA", "EVAL", "FCALL":
			_, _ = io.WriteString(conn, *l.answer.Load())
			return
		}
		_, _ = io.WriteString(conn, text)
	}
}

// FuzzAnswers checks that every answer of a store, in any form of RESP, gives an error or one
// answer to each item of the call.
func FuzzAnswers(f *testing.F) {
	f.Add("*4\r\n:3\r\n:10\r\n:1\r\n:2\r\n")
	f.Add("*4\r\n:5\r\n*1\r\n:7\r\n*0\r\n*1\r\n*0\r\n")
	f.Add("*4\r\n:5\r\n*1\r\n:7\r\n*3\r\n:1\r\n:3\r\n$1\r\n\x01\r\n*1\r\n*0\r\n")
	f.Add("*6\r\n:1\r\n:1\r\n:-5\r\n:9223372036854775807\r\n:0\r\n:0\r\n")
	f.Add("*2\r\n$1\r\n0\r\n*7\r\n$1\r\n1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n")
	f.Add("*2147483647\r\n")
	f.Add("$-2\r\n")
	f.Add("-NOSCRIPT x\r\n")
	f.Add("%1\r\n+a\r\n,nan\r\n")
	server := lies(f)
	store, err := redisstore.New(redisstore.Config{Name: "r1", Addr: server.addr, Partitions: 1, InstallationID: "test",
		DialTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = store.Disconnect() })
	m := bucket.Memory{Partition: partition0, Identity: "r1 abc master", Incarnation: 1}
	ref := bucket.Ref{Bucket: 1, Epoch: 1}
	f.Fuzz(func(t *testing.T, answer string) {
		server.answer.Store(&answer)
		ctx := t.Context()
		out, err := store.Deduct(ctx, m, []bucket.StoreDeduction{{RecordID: bucket.RecordID{Bucket: 1, ID: "a"}, Epoch: 1,
			Amount: 1, NotAfterMS: 1 << 52, Terms: &bucket.Terms{}}})
		if err == nil && len(out.Outcomes) != 1 {
			t.Errorf("%q: %+v", answer, out)
		}
		entries, err := store.Read(ctx, m, []bucket.Ref{ref})
		if err == nil && len(entries) != 1 {
			t.Errorf("%q: %+v", answer, entries)
		}
		_, _, _ = store.Changed(ctx, m, "")
		_, _, _ = store.ReadCopy(ctx, m, ref, "")
	})
}
