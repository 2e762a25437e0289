package edge

import (
	"net"
	"sync"
)

// Listen limits the open connections of a listener to most; 0 means no limit. Further
// connections wait until one is closed.
func Listen(inner net.Listener, most int) net.Listener {
	if most <= 0 {
		return inner
	}
	return &limitedListener{Listener: inner, slots: make(chan struct{}, most),
		closed: make(chan struct{})}
}

type limitedListener struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept waits for a free slot, then for a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close ends Accept, even while that waits for a slot.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn releases its slot when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

// CloseWrite shuts down the writing side if the connection supports it.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
