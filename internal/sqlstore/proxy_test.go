package sqlstore

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// cut is what a proxy does to a query.
type cut int

const (
	pass    cut = iota
	drop        // the connection ends before the server hears of it
	deafen      // the server does it, and the connection ends before the client hears of it
	silence     // the server does it, and the client hears nothing for as long as it waits
)

// proxy stands between the driver and a server and cuts connections at chosen queries.
type proxy struct {
	listener net.Listener
	target   string

	mu sync.Mutex
	// decide is asked about each query, by its first words.
	decide func(query string) cut
	refuse bool // new connections
	conns  map[net.Conn]bool
	all    sync.WaitGroup
}

// newProxy returns a proxy for the server of a DSN, and the DSN that leads through it.
func newProxy(tb testing.TB, dsn string) (*proxy, string) {
	tb.Helper()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{listener: listener, target: config.Addr, conns: map[net.Conn]bool{}}
	config.Addr = listener.Addr().String()
	p.all.Go(p.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.all.Wait()
	})
	return p, config.FormatDSN()
}

func (p *proxy) set(decide func(query string) cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = decide
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		if err != nil || p.refuse {
			_ = client.Close()
			p.mu.Unlock()
			continue
		}
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		deaf := &gate{}
		p.all.Go(func() { p.forward(client, server, deaf) })
		p.all.Go(func() {
			_, _ = io.Copy(deaf.writer(client), server)
			p.end(client, server)
		})
	}
}

func (p *proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// gate decides what of the server's answers still reaches the client.
type gate struct {
	mu  sync.Mutex
	cut cut
}

func (g *gate) set(c cut) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = c
}

func (g *gate) writer(client net.Conn) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch g.cut {
		case deafen:
			return 0, io.ErrClosedPipe
		case silence:
			return len(b), nil
		}
		return client.Write(b)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// forward reads the client's packets and passes them on, or not.
func (p *proxy) forward(client, server net.Conn, deaf *gate) {
	defer p.end(client, server)
	header := make([]byte, 4)
	for {
		if _, err := io.ReadFull(client, header); err != nil {
			return
		}
		body := make([]byte, binary.LittleEndian.Uint32(header)&0xffffff)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		const comQuery = 3
		if len(body) > 0 && body[0] == comQuery && header[3] == 0 {
			switch c := p.ask(string(body[1:])); {
			case c >= firstError:
				if _, err := client.Write(errorPacket(c)); err != nil {
					return
				}
				continue
			case c == drop:
				return
			case c == deafen, c == silence:
				deaf.set(c)
			}
		}
		if _, err := server.Write(append(bytes.Clone(header), body...)); err != nil {
			return
		}
	}
}

func (p *proxy) ask(query string) cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decide == nil {
		return pass
	}
	return p.decide(query)
}

// everyOther cuts every other query that begins so.
func (c cut) everyOther(prefix string) func(string) cut {
	hit := false
	return func(query string) cut {
		if !strings.HasPrefix(query, prefix) {
			return pass
		}
		if hit = !hit; hit {
			return c
		}
		return pass
	}
}

// sometimes cuts one query in fifty.
func (c cut) sometimes(seed uint64) func(string) cut {
	chance := rand.New(rand.NewPCG(seed, 0))
	return func(string) cut {
		if chance.IntN(50) == 0 {
			return c
		}
		return pass
	}
}
