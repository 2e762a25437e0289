package sqlstore

import (
	"context"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/testservers"
)

// withoutQuery are the methods that ask the server nothing, and why.
var withoutQuery = map[string]string{
	"(*DB).Now":       "this machine's clock and an offset that SyncClock has measured",
	"(*Rows).Time":    "DB.Now",
	"(*Rows).Discard": "nothing can be discarded: nobody else writes into these logs",
}

// TestScenarioCallsEveryMethod: each method of bucket.SQL, and of a store in the ledger's own database, asks
// the server something in some topic of the scenario. Only so does TestNthQueryFails let every one of them fail.
func TestScenarioCallsEveryMethod(t *testing.T) {
	w := &watch{asked: map[string]int{}}
	mysql.RegisterDialContext("watch", w.dial)
	dsn, err := mysql.ParseDSN(testservers.SharedMariaDB(t).NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	dsn.Net = "watch"
	newScenario(t, Config{Driver: "mysql", DSN: dsn.FormatDSN()}).run()
	methods := map[string]bool{}
	for receiver, is := range map[string][]reflect.Type{
		"(*DB).":   {reflect.TypeFor[bucket.SQL]()},
		"(*Rows).": {reflect.TypeFor[bucket.Instance](), reflect.TypeFor[bucket.Direct]()},
	} {
		for _, i := range is {
			for m := range i.NumMethod() {
				methods[receiver+i.Method(m).Name] = true
			}
		}
	}
	for name := range methods {
		why, none := withoutQuery[name]
		switch asked := w.asked[name]; {
		case none && asked > 0:
			t.Errorf("%s asks the server %d times, though: %s", name, asked, why)
		case !none && asked == 0:
			t.Errorf("%s asks the server nothing: no topic of the scenario calls it", name)
		}
	}
	for name := range withoutQuery {
		if !methods[name] {
			t.Errorf("%s is no method", name)
		}
	}
	t.Logf("%d methods, %d of them without a query", len(methods), len(withoutQuery))
}

// watch counts what is sent to a server, by the method that sends it: the driver writes in the goroutine of
// its caller.
type watch struct {
	mu    sync.Mutex
	asked map[string]int
}

func (w *watch) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	return watchedConn{conn, w}, err
}

type watchedConn struct {
	net.Conn
	watch *watch
}

func (c watchedConn) Write(b []byte) (int, error) {
	c.watch.count()
	return c.Conn.Write(b)
}

// count adds one for the outermost method of this package on the stack.
func (w *watch) count() {
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	method := ""
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		_, name, found := strings.Cut(frame.Function, "/internal/sqlstore.")
		if found && (strings.HasPrefix(name, "(*DB).") || strings.HasPrefix(name, "(*Rows).")) {
			method = name
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[method]++
}
