package testservers

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

func TestProxyDistance(t *testing.T) {
	const distance = 50 * time.Millisecond
	p := NewProxy(t, SharedMariaDB(t).Addr())
	conn, _ := throughProxy(t, p)
	roundTrip := func() (shortest time.Duration) {
		shortest = time.Hour
		for range 5 {
			began := time.Now()
			executeOn(t, conn, "SELECT 1")
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	near := roundTrip()
	p.SetDistance(distance)
	far := roundTrip()
	p.SetDistance(0)
	again := roundTrip()
	t.Logf("SELECT 1: %s, then %s, then %s", near, far, again)
	if near >= distance || far < distance || again >= distance {
		t.Errorf("SELECT 1 takes %s, and %s at a distance of %s, and %s without it again", near, far,
			distance, again)
	}
	// Each direction takes half, so that half an answer is no answer.
	if far >= 2*distance {
		t.Errorf("SELECT 1 takes %s at a distance of %s", far, distance)
	}
}

func TestProxyDistanceKeepsThroughput(t *testing.T) {
	const (
		requests = 100
		distance = 100 * time.Millisecond
	)
	server, _ := echo(t, "a")
	p := NewProxy(t, server)
	p.SetDistance(distance)
	conn := dial(t, p.Addr())
	began := time.Now()
	go func() {
		for i := range requests {
			fmt.Fprintf(conn, "%d\n", i)
			time.Sleep(time.Millisecond) // so that each is a packet of its own
		}
	}()
	answers := bufio.NewScanner(conn)
	for i := range requests {
		if want := fmt.Sprintf("a %d", i); !answers.Scan() || answers.Text() != want {
			t.Fatalf("answer %d is %q, %v", i, answers.Text(), answers.Err())
		}
	}
	// One after the other, they would take requests*distance/2 in each direction.
	took := time.Since(began)
	if took < distance || took > requests*distance/4 {
		t.Errorf("%d requests took %s at a distance of %s", requests, took, distance)
	}
}

// What was on its way when a connection ended still arrives.
func TestProxyDistanceLosesNothing(t *testing.T) {
	server, heard := echo(t, "a")
	p := NewProxy(t, server)
	conn := dial(t, p.Addr())
	wantAnswer(t, conn, "x", "a x\n")
	p.SetDistance(100 * time.Millisecond)
	fmt.Fprintln(conn, "y")
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patient); heard.Load() < 2 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if heard.Load() != 2 {
		t.Errorf("the server heard %d lines", heard.Load())
	}
}

func TestProxyCountsRoundTrips(t *testing.T) {
	server := MariaDB(t, MariaDBArgs("--max-allowed-packet=64M"))
	p := NewProxy(t, server.Addr())
	conn, db := throughProxy(t, p)
	ctx := context.Background()
	for _, tt := range []struct {
		name string
		call func(t *testing.T)
		want int
	}{
		{"a statement", func(t *testing.T) { executeOn(t, conn, "SELECT 1") }, 1},
		{"three statements in one packet",
			func(t *testing.T) { executeOn(t, conn, "SELECT 1; SELECT 2; SELECT 3") }, 1},
		{"a packet of more than 16 MiB", func(t *testing.T) {
			executeOn(t, conn, "SELECT '"+strings.Repeat("x", 17<<20)+"'")
		}, 1},
		{"a ping", func(t *testing.T) {
			if err := conn.PingContext(ctx); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"a prepared statement, executed twice and closed", func(t *testing.T) {
			statement, err := conn.PrepareContext(ctx, "SELECT ?")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				var got int
				if err := statement.QueryRow(i).Scan(&got); err != nil || got != i {
					t.Fatal(got, err)
				}
			}
			if err := statement.Close(); err != nil {
				t.Fatal(err)
			}
		}, 3},
		{"a transaction", func(t *testing.T) {
			executeOn(t, conn, "START TRANSACTION")
			executeOn(t, conn, "SELECT 1")
			executeOn(t, conn, "COMMIT")
		}, 3},
		{"a connection that is opened, used once and closed", func(t *testing.T) {
			other, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			executeOn(t, other, "SELECT 1")
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := p.RoundTrips()
			tt.call(t)
			if got := p.RoundTrips() - before; got != tt.want {
				t.Errorf("%d round trips, want %d", got, tt.want)
			}
		})
	}
}

// TestCommands feeds packets in pieces of every size.
func TestCommands(t *testing.T) {
	stream := bytes.Join([][]byte{
		mysqlPacket(1, "the client's half of a handshake"),
		mysqlPacket(3, "its password"),
		mysqlPacket(0, "\x03SELECT 1"),
		mysqlPacket(0, "\x19\x01\x00\x00\x00"), // COM_STMT_CLOSE
		mysqlPacket(0, "\x0e"),                 // COM_PING
		mysqlPacket(0, "\x18\x01\x00\x00\x00"), // COM_STMT_SEND_LONG_DATA
		mysqlPacket(2, "a file"),
		mysqlPacket(3, ""),
		mysqlPacket(0, "\x17\x01\x00\x00\x00"), // COM_STMT_EXECUTE
		mysqlPacket(0, "\x01"),                 // COM_QUIT
	}, nil)
	for size := 1; size <= len(stream); size++ {
		var c commands
		n := int64(0)
		for at := 0; at < len(stream); at += size {
			n += c.count(stream[at:min(at+size, len(stream))])
		}
		if n != 3 {
			t.Errorf("%d commands in pieces of %d bytes, want 3", n, size)
		}
	}
}

// A continuation may have any number, 0 among them.
func TestCommandsContinued(t *testing.T) {
	full := strings.Repeat("\x03", 1<<24-1)
	for name, end := range map[string]string{"something": "\x03", "nothing": ""} {
		var c commands
		got := c.count(mysqlPacket(0, full)) + c.count(mysqlPacket(0, full)) +
			c.count(mysqlPacket(0, end)) + c.count(mysqlPacket(0, "\x0e"))
		if got != 2 {
			t.Errorf("%d commands where %s follows two full packets, want 2", got, name)
		}
	}
}

func mysqlPacket(number byte, payload string) []byte {
	n := len(payload)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), number}, payload...)
}

// throughProxy returns a connection to a MariaDB through a proxy, and where it comes from.
func throughProxy(t *testing.T, p *Proxy) (*sql.Conn, *sql.DB) {
	t.Helper()
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = "root", "tcp", p.Addr()
	config.MultiStatements = true
	config.MaxAllowedPacket = 64 << 20
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxIdleConns(-1) // a connection that is given back is closed
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, db
}

// executeOn runs statements on one connection, as one packet.
func executeOn(t *testing.T, conn *sql.Conn, statements string) {
	t.Helper()
	if _, err := conn.ExecContext(context.Background(), statements); err != nil {
		t.Fatal(err)
	}
}
