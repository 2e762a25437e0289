package edge

import (
	"net"
	"sync"
)

// Listen limits the open connections of a listener to most; 0 means no limit. Further ones wait to
// be accepted.
func Listen(inner net.Listener, most int) net.Listener {
	if most <= 0 {
		return inner
	}
	return &bounded{Listener: inner, places: make(chan struct{}, most), closed: make(chan struct{})}
}

type bounded struct {
	net.Listener
	places chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept waits for a place, then for a connection.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-b.places })}, nil
}

// Close ends Accept, even while that waits for a place.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// placed frees its place when it is closed.
type placed struct {
	net.Conn
	leave func()
}

// CloseWrite shuts down the writing side if the connection supports it.
func (p *placed) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (p *placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}
