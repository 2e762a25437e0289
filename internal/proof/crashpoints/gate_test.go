package crashpoints

import (
	"net"
	"sync"
	"testing"
	"time"
)

// fault is the fault at a step.
type fault string

const (
	diesBefore fault = "dies before"
	diesAfter  fault = "dies after"
	replyLost  fault = "reply lost"
)

var faults = []fault{diesBefore, diesAfter, replyLost}

// gate is a proxy between a node and its servers that counts the requests to all of them. A request
// is the result of one read from the node, because drivers send each request in one write.
type gate struct {
	mu    sync.Mutex
	armed bool
	step  int // since it was armed
	at    int
	fault fault
	hit   bool
	dead  bool
	onHit func()
	conns map[net.Conn]bool
}

// front listens on a port and forwards it to a server.
func (g *gate) front(t *testing.T, server string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = listener.Close()
		g.kill()
	})
	go func() {
		for {
			node, err := listener.Accept()
			if err != nil {
				return
			}
			if to, err := net.Dial("tcp", server); err == nil && g.add(node, to) {
				go g.requests(node, to)
			} else {
				_ = node.Close()
			}
		}
	}()
	return listener.Addr().String()
}

// add stores connections that kill will close. It returns false if the node is already dead.
func (g *gate) add(list ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range list {
		if g.dead {
			_ = c.Close()
			continue
		}
		if g.conns == nil {
			g.conns = map[net.Conn]bool{}
		}
		g.conns[c] = true
	}
	return !g.dead
}

// kill closes all connections and accepts no more.
func (g *gate) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead = true
	for c := range g.conns {
		_ = c.Close()
	}
}

// requests forwards the node's requests to a server, and the replies to the node.
func (g *gate) requests(node, server net.Conn) {
	defer node.Close()
	defer server.Close()
	lost, taken := make(chan struct{}), make(chan struct{})
	go replies(node, server, lost, taken)
	buffer := make([]byte, 1<<20)
	for {
		n, err := node.Read(buffer)
		if err != nil {
			return
		}
		switch g.next() {
		case diesBefore:
			g.died()
			return
		case diesAfter, replyLost:
			close(lost)
			if _, err := server.Write(buffer[:n]); err == nil {
				<-taken
			}
			g.died()
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// replies forwards replies until lost is closed. Then it reads one whole reply, which shows that
// the request was executed, drops it and closes taken.
func replies(node, server net.Conn, lost, taken chan struct{}) {
	const silence = 20 * time.Millisecond // ends a reply
	defer close(taken)
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		select {
		case <-lost:
			for err == nil {
				_ = server.SetReadDeadline(time.Now().Add(silence))
				_, err = server.Read(buffer)
			}
			return
		default:
		}
		if err == nil {
			_, err = node.Write(buffer[:n])
		}
		if err != nil {
			_ = node.Close()
			return
		}
	}
}

// next counts a request and returns its fault, or "" for none.
func (g *gate) next() fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.armed {
		return ""
	}
	if g.step++; g.step != g.at {
		return ""
	}
	g.hit = true
	return g.fault
}

// died ends the node if the fault is its death.
func (g *gate) died() {
	g.mu.Lock()
	dies, then := g.fault != replyLost, g.onHit
	g.mu.Unlock()
	if dies {
		g.kill()
		then()
	}
}

// arm injects a fault at a step, counted from now on. onDeath is called if the node dies.
func (g *gate) arm(at int, f fault, onDeath func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed, g.step, g.at, g.fault, g.hit, g.onHit = true, 0, at, f, false, onDeath
}

// disarm ends the injection and reports whether the step was reached.
func (g *gate) disarm() (hit bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = false
	return g.hit
}
