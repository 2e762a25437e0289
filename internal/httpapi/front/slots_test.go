package front

import (
	"errors"
	"net"
	"testing"
	"time"
)

// TestLimited checks that a connection beyond the bound waits until another one ends.
func TestLimited(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if limited(inner, 0, nil) != inner {
		t.Error("without a bound there is another listener")
	}
	l := limited(inner, 2, func() {})
	accepted := make(chan net.Conn, 9)
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- conn
		}
	}()
	for range 4 {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first := <-accepted
	<-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection is accepted beside two")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	first.Close() // frees one slot, not two
	<-accepted
	select {
	case <-accepted:
		t.Fatal("a fourth connection is accepted after one was closed twice")
	case <-time.After(50 * time.Millisecond):
	}
	l.Close() // while Accept waits for a slot
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
