package testservers

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Disturbance is what a Proxy does to connections.
type Disturbance int

// The disturbances.
const (
	// Pass forwards everything.
	Pass Disturbance = iota
	// CutReply forwards a request and ends the connection before any byte of its reply.
	CutReply
	// CutRequest reads a request and ends the connection without forwarding it.
	CutRequest
	// Delay forwards a request after Rule.Delay, and those behind it not before it.
	Delay
	// BlackHole accepts everything, including new connections, and forwards nothing in either
	// direction. Connections that lost something end when another rule is set.
	BlackHole
	// Refuse ends all connections and stops listening.
	Refuse
)

// Rule is a disturbance and its frequency.
type Rule struct {
	Disturbance Disturbance
	// OneIn disturbs every OneIn-th request, over all connections; 0 and 1 mean all. It applies
	// only to CutReply, CutRequest and Delay.
	OneIn int
	// Delay is how long the disturbance Delay holds a request back, beside the distance.
	Delay time.Duration
}

// Proxy forwards connections to a server on 127.0.0.1 and disturbs them by a rule that can change
// at any time. To a rule, a request is the result of one read from the client, at most 64 KiB, so a
// longer one may be cut in its middle. What a server sends before the first request is always
// forwarded under CutReply and CutRequest. It can also put a server farther away (SetDistance) and
// count the round trips to a MySQL server (RoundTrips). A Proxy is safe for concurrent use.
type Proxy struct {
	port int
	all  sync.WaitGroup

	distance   atomic.Int64 // nanoseconds that a round trip takes longer
	roundTrips atomic.Int64

	mu       sync.Mutex
	target   string
	rule     Rule
	requests int          // since the rule was set
	hits     int          // disturbed requests since then
	listener net.Listener // nil while refusing
	links    map[*link]bool
}

// link is one client's connection and its connection to the server.
type link struct {
	client net.Conn
	server net.Conn // nil if made under BlackHole

	mu sync.Mutex
	// deaf means that the next data from the server ends the connection.
	deaf bool
	// lost means that data was swallowed, so the connection cannot continue.
	lost bool
}

// NewProxy starts a proxy for a server's address. It passes everything until Set, and ends with tb.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := StartProxy(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// StartProxy starts a proxy for a server's address. It passes everything until Set, and runs until
// Close.
func StartProxy(target string) (*Proxy, error) {
	p := &Proxy{target: target, links: map[*link]bool{}}
	for range portTries {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		p.port = port
		if err := p.listen(); err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("testservers: proxy: %d ports tried: %w", portTries, errPortTaken)
}

// Addr returns the address, such as "127.0.0.1:21034". It stays the same under every rule.
func (p *Proxy) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// Close ends all connections and waits for them.
func (p *Proxy) Close() {
	_ = p.Set(Rule{Disturbance: Refuse})
	p.all.Wait()
}

// Hits returns how many requests were disturbed since the rule was set. Under BlackHole it counts
// reads in either direction and new connections, under Refuse ended connections.
func (p *Proxy) Hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

// Set changes the rule. It returns an error if it cannot get the port back within 60 s after
// Refuse.
func (p *Proxy) Set(rule Rule) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.rule.Disturbance
	p.rule, p.requests, p.hits = rule, 0, 0
	switch {
	case rule.Disturbance == Refuse:
		p.hits = len(p.links)
		p.endAll(func(*link) bool { return true })
		if p.listener != nil {
			_ = p.listener.Close()
			p.listener = nil
		}
		return nil
	case before == BlackHole && rule.Disturbance != BlackHole:
		p.endAll((*link).hasLost)
	}
	if p.listener != nil {
		return nil
	}
	deadline := time.Now().Add(startLimit)
	for {
		err := p.listen()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(portRetry)
	}
}

// SetTarget forwards new connections to another server, and ends all connections to the previous
// one.
func (p *Proxy) SetTarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
	p.endAll(func(*link) bool { return true })
}

// listen starts to accept connections. The caller holds p.mu, or is the only one that knows p.
func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp", p.Addr())
	if err != nil {
		return err
	}
	p.listener = listener
	p.all.Go(func() { p.accept(listener) })
	return nil
}

// endAll ends the connections of the selected links. The caller holds p.mu.
func (p *Proxy) endAll(which func(*link) bool) {
	for l := range p.links {
		if which(l) {
			l.end()
			delete(p.links, l)
		}
	}
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.serve(client) })
	}
}

// serve connects a client to the server and forwards until either ends.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target, hole := p.target, p.rule.Disturbance == BlackHole
	if hole {
		p.hits++
	}
	p.mu.Unlock()
	l := &link{client: client, lost: hole}
	if !hole {
		server, err := net.DialTimeout("tcp", target, startLimit)
		if err != nil {
			_ = client.Close()
			return
		}
		l.server = server
	}
	if !p.add(l, target) {
		l.end()
		return
	}
	if l.server != nil {
		p.all.Go(func() { p.replies(l) })
	}
	p.requestsOf(l)
}

// add adds a new link. It returns false if the present rule or target does not allow the link.
func (p *Proxy) add(l *link, target string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	wrong := p.target != target || p.rule.Disturbance == Refuse ||
		l.server == nil && p.rule.Disturbance != BlackHole
	if !wrong {
		p.links[l] = true
	}
	return !wrong
}

func (p *Proxy) end(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.end()
	delete(p.links, l)
}

// next returns the disturbance of the next request, and how long that holds it back.
func (p *Proxy) next() (Disturbance, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rule.Disturbance == Pass {
		return Pass, 0
	}
	p.requests++
	if p.rule.Disturbance != BlackHole && p.requests%max(p.rule.OneIn, 1) != 0 {
		return Pass, 0
	}
	p.hits++
	if p.rule.Disturbance != Delay {
		return p.rule.Disturbance, 0
	}
	return Delay, p.rule.Delay
}

// swallows reports whether nothing is forwarded now.
func (p *Proxy) swallows() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rule.Disturbance != BlackHole {
		return false
	}
	p.hits++
	return true
}

// requestsOf forwards what the client sends.
func (p *Proxy) requestsOf(l *link) {
	out := p.wire(l, l.server)
	defer close(out)
	var counted commands
	buffer := make([]byte, readSize)
	for {
		n, err := l.client.Read(buffer)
		if err != nil {
			return
		}
		disturbance, delay := p.next()
		switch disturbance {
		case CutRequest, Refuse:
			return
		case CutReply:
			l.deafen()
		case BlackHole:
			l.lose()
			continue
		}
		if l.server == nil || l.hasLost() {
			return
		}
		p.roundTrips.Add(counted.count(buffer[:n]))
		out <- p.packet(buffer[:n], delay)
	}
}

// replies forwards what the server sends.
func (p *Proxy) replies(l *link) {
	out := p.wire(l, l.client)
	defer close(out)
	buffer := make([]byte, readSize)
	for {
		n, err := l.server.Read(buffer)
		if err != nil || l.isDeaf() {
			return
		}
		if p.swallows() {
			l.lose()
			continue
		}
		if l.hasLost() {
			return
		}
		out <- p.packet(buffer[:n], 0)
	}
}

func (l *link) end() {
	err := l.client.Close()
	if l.server != nil {
		err = errors.Join(err, l.server.Close())
	}
	_ = err // the connection is closed in any case
}

func (l *link) deafen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = true
}

func (l *link) isDeaf() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deaf
}

func (l *link) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

func (l *link) hasLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}
