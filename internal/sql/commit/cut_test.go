package commit_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// cutter stands between a client and a server, and ends a connection once so many bytes of a packet, or
// of its answer, have passed.
type cutter struct {
	net.Listener
	server atomic.Pointer[string]
	then   atomic.Pointer[func()] // called after a cut
	// requests and answers are how many bytes may pass; -1: any number. The first of them that is
	// used up ends its connection, and is -1 from then on.
	requests, answers atomic.Int64
	armed             atomic.Bool // a packet has begun
	cuts              atomic.Int64
	wg                sync.WaitGroup
	mu                sync.Mutex
	open              []net.Conn
}

// drop ends all connections.
func (c *cutter) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
}

func newCutter(t *testing.T, dsn string) (*cutter, string) {
	t.Helper()
	parsed, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: listener}
	addr := parsed.Addr
	c.server.Store(&addr)
	c.requests.Store(-1)
	c.answers.Store(-1)
	c.wg.Go(func() {
		for {
			client, err := c.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.serve(client) })
		}
	})
	t.Cleanup(func() { _ = c.Close(); c.drop(); c.wg.Wait() })
	parsed.Addr = listener.Addr().String()
	return c, parsed.FormatDSN()
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", *c.server.Load())
	if err != nil {
		return
	}
	defer server.Close()
	c.mu.Lock()
	c.open = append(c.open, client)
	c.mu.Unlock()
	var packet atomic.Bool // of this connection
	c.wg.Go(func() {
		defer client.Close()
		defer server.Close()
		c.pass(server, client, func(b []byte) bool {
			if !c.armed.Load() && strings.Contains(string(b), "ROLLBACK;INSERT") {
				packet.Store(true)
				c.armed.Store(true)
			}
			return packet.Load()
		}, &c.requests)
	})
	c.pass(client, server, func([]byte) bool { return packet.Load() }, &c.answers)
}

// pass forwards what is read until the bytes that count are used up.
func (c *cutter) pass(to io.Writer, from io.Reader, counts func([]byte) bool, left *atomic.Int64) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		may := left.Load()
		if counts(buffer[:n]) && may >= 0 && int64(n) >= may {
			_, _ = to.Write(buffer[:may])
			left.Store(-1)
			c.cuts.Add(1)
			if then := c.then.Load(); then != nil {
				(*then)()
			}
			return
		} else if may >= 0 && counts(nil) {
			left.Add(int64(-n))
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestCutAtAnyByte checks that a flight is written exactly once, and that its caller learns the
// outcome, wherever the connection ends within a packet or its answer.
func TestCutAtAnyByte(t *testing.T) {
	c, dsn := newCutter(t, testservers.SharedMariaDB(t).NewDatabase(t))
	fixture.On(t, engine.Config{Driver: "mysql", DSN: dsn}, func(f *fixture.World) {
		w := &world{World: f, decider: commit.New(f.DB)}
		w.b = w.budget("b", 1_000_000, 2, []budget.Limit{perUser("amount", 1000_000, budget.MeasureAmount)})
		sum, own, accepted := int64(0), 0, 0
		try := func(bytes *atomic.Int64, n int64) (cut bool) {
			before := c.cuts.Load()
			c.armed.Store(false)
			bytes.Store(n)
			name := "r" + time.Now().Format("150405.000000000")
			ops := []bucket.Operation{w.asks(0, name+"a", 3, user("u")), w.asks(1, name+"b", 4, user("v"))}
			for i, o := range w.commit(ops...) {
				switch {
				case o.Verdict == bucket.Accepted:
					accepted++
				case o.Verdict == bucket.Known && o.Deduction.Nonce == ops[i].Request.Nonce:
					own++
				default:
					t.Fatalf("cut after %d bytes: %+v", n, o)
				}
			}
			bytes.Store(-1)
			sum += 7
			if used := w.figure(`SELECT SUM(used_quantity) FROM bucket_epoch`); used != sum {
				t.Fatalf("cut after %d bytes: used %d, want %d", n, used, sum)
			}
			return c.cuts.Load() > before
		}
		for _, bytes := range []*atomic.Int64{&c.requests, &c.answers} {
			cuts := 0
			for n := int64(0); try(bytes, n); n += 1 + n/16 {
				cuts++
			}
			if cuts < 20 {
				t.Errorf("the connection was cut at only %d places", cuts)
			}
		}
		if own == 0 || accepted == 0 {
			t.Errorf("%d deductions were found in the database, %d were written; want some of each", own,
				accepted)
		}
		w.consistent()
	})
}

// TestUnknownOutcome checks that Commit returns outcome_unknown for a packet that was sent and
// whose outcome cannot be read, and unavailable for one that was never sent.
func TestUnknownOutcome(t *testing.T) {
	c, dsn := newCutter(t, testservers.SharedMariaDB(t).NewDatabase(t))
	fixture.On(t, engine.Config{Driver: "mysql", DSN: dsn}, func(f *fixture.World) {
		w := &world{World: f, decider: commit.New(f.DB)}
		w.b = w.budget("b", 100, 1, nil)
		server, nowhere := c.server.Load(), "127.0.0.1:1"
		fail := func(want budget.Code, ops ...bucket.Operation) {
			t.Helper()
			ctx, cancel := context.WithTimeout(w.Ctx, 300*time.Millisecond)
			defer cancel()
			if out, err := w.decider.Commit(ctx, ops); !budget.Is(err, want) {
				t.Errorf("%v, %v, want %s", out, err, want)
			}
		}
		c.answers.Store(0)
		c.armed.Store(false)
		cut := func() { c.server.Store(&nowhere); c.drop() }
		c.then.Store(&cut)
		fail(budget.OutcomeUnknown, w.asks(0, "a", 1))
		fail(budget.Unavailable, w.asks(0, "b", 1))
		c.server.Store(server)
		w.want([]bucket.Verdict{bucket.Known, bucket.Accepted}, w.asks(0, "a", 1), w.asks(0, "b", 1))
		w.consistent()
	})
}
