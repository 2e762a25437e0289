package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
)

// balancer spreads TCP connections over the nodes that were ready at its last check. It checks once
// a second. A connection that a node refuses is closed; the balancer does not try another node.
type balancer struct {
	listener net.Listener
	mu       sync.Mutex
	nodes    []string // addresses of all nodes
	ready    []string
	next     int
	refused  atomic.Int64
}

func newBalancer(t *testing.T, nodes ...string) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	b := &balancer{listener: l, nodes: nodes, ready: nodes}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); _ = l.Close() })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				b.check()
			}
		}
	}()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go b.forward(conn)
		}
	}()
	return b
}

// check asks every node whether it is ready.
func (b *balancer) check() {
	b.mu.Lock()
	nodes := append([]string{}, b.nodes...)
	b.mu.Unlock()
	asking := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var ready []string
	for _, addr := range nodes {
		answer, err := asking.Get("http://" + addr + "/readyz")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == 200 {
				ready = append(ready, addr)
			}
		}
	}
	b.mu.Lock()
	b.ready = ready
	b.mu.Unlock()
}

// forward connects a caller to the next ready node.
func (b *balancer) forward(conn net.Conn) {
	defer conn.Close()
	b.mu.Lock()
	if len(b.ready) == 0 {
		b.mu.Unlock()
		b.refused.Add(1)
		return
	}
	b.next++
	addr := b.ready[b.next%len(b.ready)]
	b.mu.Unlock()
	to, err := net.Dial("tcp", addr)
	if err != nil {
		b.refused.Add(1)
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, conn); _ = to.(*net.TCPConn).CloseWrite() }()
	_, _ = io.Copy(conn, to)
}

// TestRestartsBehindABalancer restarts two nodes, configured as in a pod, one after the other under
// load. The balancer uses a node for up to a second after the node was told to stop. No call may
// fail, although callers do not retry.
func TestRestartsBehindABalancer(t *testing.T) {
	world := newCluster(t)
	addrs := []string{fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))}
	begin := func(i int) *node {
		t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1") // the default notice of a pod
		t.Setenv("BUDGETD_LISTEN", addrs[i])
		return start(t, t.TempDir(), "--config", world.config)
	}
	nodes := []*node{begin(0), begin(1)}
	create(t, nodes[0].client(), "sale", 1_000_000, 6)
	b := newBalancer(t, addrs...)
	var accepted, failed atomic.Int64
	stop, all := make(chan struct{}), sync.WaitGroup{}
	for caller := range 4 {
		// Each call has a connection of its own, so that the balancer chooses a node for it.
		c, err := client.New("http://"+b.listener.Addr().String(), client.WithRetry(client.Retry{Attempts: 1}),
			client.WithTransport(&http.Transport{DisableKeepAlives: true}))
		must(t, err)
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				_, err := c.Deduct(context.Background(), "sale", client.DeductRequest{
					RequestID: fmt.Sprint(caller, "-", i), Amount: 1})
				if err != nil {
					t.Errorf("caller %d, request %d: %v", caller, i, err)
					failed.Add(1)
					continue
				}
				accepted.Add(1)
			}
		})
	}
	for i := range nodes {
		before := accepted.Load()
		must(t, nodes[i].cmd.Process.Signal(syscall.SIGTERM))
		<-nodes[i].done
		nodes[i] = begin(i)
		eventually(t, time.Minute, "calls are accepted", func() error {
			if accepted.Load() < before+50 {
				return fmt.Errorf("%d accepted", accepted.Load())
			}
			return nil
		})
		time.Sleep(2 * time.Second) // until the balancer lists it again
	}
	close(stop)
	all.Wait()
	if failed.Load() > 0 || b.refused.Load() > 0 || accepted.Load() == 0 {
		t.Errorf("%d accepted, %d failed, %d connections refused", accepted.Load(), failed.Load(), b.refused.Load())
	}
	checkBooks(t, nodes[0].client(), "sale", 1_000_000, accepted.Load())
}
