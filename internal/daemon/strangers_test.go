package daemon_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// disguise runs a proxy before a Redis that replaces one line of INFO, so that the server appears to
// be another product. It returns the proxy's address.
func disguise(t *testing.T, redis string, as *atomic.Pointer[string]) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	const line = "multiplexing_api:epoll\r\n"
	serve := func(near net.Conn) {
		defer near.Close()
		far, err := net.Dial("tcp", redis)
		if err != nil {
			return
		}
		defer far.Close()
		go func() {
			_, _ = io.Copy(far, near)
			far.Close()
		}()
		var held []byte
		for part := make([]byte, 64<<10); ; {
			n, err := far.Read(part)
			if err != nil {
				return
			}
			held = bytes.ReplaceAll(append(held, part[:n]...), []byte(line), []byte(*as.Load()+"\r\n"))
			keep := 0 // what was received may end within the line
			for size := len(line) - 1; size > 0 && keep == 0; size-- {
				if bytes.HasSuffix(held, []byte(line[:size])) {
					keep = size
				}
			}
			if _, err := near.Write(held[:len(held)-keep]); err != nil {
				return
			}
			held = append([]byte{}, held[len(held)-keep:]...)
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

// TestStoresThatAreUnsuitable checks that store mode refuses servers that lack what it needs, with
// their name and the reason, that ledger mode does not need them, and that Valkey is accepted as a
// Redis.
func TestStoresThatAreUnsuitable(t *testing.T) {
	var as atomic.Pointer[string]
	call := func(name string) { as.Store(&name) } // as long as the line that it replaces
	call("dragonfly_version:1.27")
	file := filepath.Join(t.TempDir(), "budgetd.yaml")
	text := fmt.Sprintf("instances: [{name: other, driver: redis, addrs: [%q]}]\n", disguise(t, testservers.Redis(t).Addr(), &as))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"--config", file})
	create := func(name, mode string) (int, string) {
		return p.ask("POST", "/v1/budgets", fmt.Sprintf(`{"name":%q,"unit":"count","type":"promo","total_quantity":100,"durability":%q}`, name, mode))
	}
	for _, test := range []struct{ as, name, lacks string }{{"dragonfly_version:1.27", "Dragonfly 1.27", "no append-only file"},
		{"kvrocks_version:2.11.1", "Kvrocks 2.11.1", "no appendfsync"}, {"garnet_version:1.0.600", "Garnet 1.0.600", "no appendfsync"}} {
		call(test.as)
		if status, body := create("stored", "store"); status != 422 || !strings.Contains(body, test.name) || !strings.Contains(body, test.lacks) {
			t.Errorf("%s: %d %s", test.name, status, body)
		}
	}
	if status, body := create("sale", "ledger"); status != 201 {
		t.Errorf("in ledger mode: %d %s", status, body)
	}
	if status, body := p.ask("POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":7}`); status != 200 {
		t.Errorf("in ledger mode: %d %s", status, body)
	}
	call("valkey_version:8.1.100")
	status, body := 503, ""
	for ; status == 503; time.Sleep(50 * time.Millisecond) { // until the partition is verified
		status, body = create("stored", "store")
	}
	if status != 201 {
		t.Errorf("Valkey: %d %s", status, body)
	}
}
