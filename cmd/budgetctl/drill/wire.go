package drill

import (
	"net"
	"sync"
	"sync/atomic"
)

// wire is a TCP proxy in front of a server. Its address does not change when the server's does, and
// it can drop replies. It is safe for concurrent use.
type wire struct {
	listener net.Listener
	target   atomic.Pointer[string]
	oneIn    atomic.Int64 // one in so many requests loses its reply; 0 means none
	requests atomic.Int64
	cut      atomic.Int64 // replies dropped so far
}

func newWire() (*wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{listener: listener}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go w.serve(near)
		}
	}()
	return w, nil
}

func (w *wire) address() string { return w.listener.Addr().String() }

// lead directs new connections to an address.
func (w *wire) lead(address string) { w.target.Store(&address) }

// serve connects a caller with the server until either closes its connection.
func (w *wire) serve(near net.Conn) {
	defer near.Close()
	target := w.target.Load()
	if target == nil {
		return
	}
	far, err := net.Dial("tcp", *target)
	if err != nil {
		return
	}
	var both sync.WaitGroup
	var deaf atomic.Bool // whether the next reply is dropped with the connection
	both.Go(func() {
		forward(far, near, func() bool {
			if n := w.oneIn.Load(); n > 0 && w.requests.Add(1)%n == 0 {
				deaf.Store(true)
			}
			return true
		})
	})
	both.Go(func() {
		forward(near, far, func() bool {
			if deaf.Load() {
				w.cut.Add(1)
			}
			return !deaf.Load()
		})
	})
	both.Wait()
}

// forward copies data while pass returns true, then closes both connections.
func forward(to, from net.Conn, pass func() bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err == nil && pass() {
			_, err = to.Write(buffer[:n])
		} else {
			err = net.ErrClosed
		}
		if err != nil {
			_, _ = to.Close(), from.Close() // errors: one of them may be broken already
			return
		}
	}
}
