package httpapi_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/httpapi"
)

// watch samples memory and goroutines until the function that it returns is called. That function
// returns how much they grew at most.
func watch() (stop func() (goroutines int, heap uint64)) {
	runtime.GC()
	var most runtime.MemStats
	runtime.ReadMemStats(&most)
	base, goroutines := most.HeapAlloc, runtime.NumGoroutine()
	ended, done := make(chan struct{}), make(chan struct{})
	mostGoroutines, mostHeap := goroutines, base
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			mostGoroutines, mostHeap = max(mostGoroutines, runtime.NumGoroutine()), max(mostHeap, now.HeapAlloc)
		}
	}()
	return func() (int, uint64) {
		close(ended)
		<-done
		return mostGoroutines - goroutines, mostHeap - base
	}
}

// bounded fails when a flood of so many connections made the process grow by more than a few
// goroutines and so many bytes each, or when the server no longer answers others.
func bounded(t *testing.T, connections, goroutines int, each, heap uint64, url string) {
	t.Helper()
	if goroutines > 6*connections+100 || heap > uint64(connections)*each+32<<20 {
		t.Errorf("%d connections: %d goroutines and %d KiB more", connections, goroutines, heap>>10)
	}
	answer, err := http.Get(url + "/healthz")
	if err != nil {
		t.Fatalf("another client is not served: %v", err)
	}
	_ = answer.Body.Close()
}

// flood opens connections side by side and has each send something; it returns how many were ended by
// the server.
func flood(t *testing.T, url string, connections int, send func(net.Conn)) int64 {
	t.Helper()
	var ended atomic.Int64
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			send(conn)
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			_, err = io.Copy(io.Discard, conn)
			var late net.Error
			if !errors.As(err, &late) || !late.Timeout() {
				ended.Add(1)
			}
		})
	}
	all.Wait()
	return ended.Load()
}

// TestFloods checks that a caller without a key costs a bounded amount of memory and goroutines,
// whatever it sends. The server closes its connection and serves others.
func TestFloods(t *testing.T) {
	const connections = 200
	post := "POST /v1/budgets/sale/deduct HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
	nested := strings.Repeat("[", 200_000)
	for _, attack := range []struct {
		name string
		send func(net.Conn)
	}{
		{"headers without end", func(c net.Conn) {
			_, _ = io.WriteString(c, "POST /v1/budgets/sale/deduct HTTP/1.1\r\nHost: x\r\n")
			for n := range 20_000 {
				if _, err := fmt.Fprintf(c, "X-Header-%d: %s\r\n", n, strings.Repeat("a", 100)); err != nil {
					return
				}
			}
		}},
		{"one header without end", func(c net.Conn) {
			_, _ = io.WriteString(c, "GET /v1/budgets HTTP/1.1\r\nHost: x\r\nX-Header: ")
			for range 2000 {
				if _, err := io.WriteString(c, strings.Repeat("a", 1024)); err != nil {
					return
				}
			}
		}},
		{"slow loris", func(c net.Conn) {
			for _, letter := range post {
				if _, err := fmt.Fprintf(c, "%c", letter); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}},
		{"a body that trickles", func(c net.Conn) {
			_, _ = io.WriteString(c, post+"Content-Length: 100000\r\n\r\n{") // more than will come
			for range 1000 {
				if _, err := io.WriteString(c, " "); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}},
		{"deeply nested JSON", func(c net.Conn) {
			_, _ = fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", post, len(nested), nested)
		}},
		{"a body that says it is huge", func(c net.Conn) {
			_, _ = io.WriteString(c, post+"Content-Length: 9007199254740991\r\n\r\n")
		}},
		{"chunks without end", func(c net.Conn) {
			_, _ = io.WriteString(c, post+"Transfer-Encoding: chunked\r\n\r\n")
			for range 4000 {
				if _, err := io.WriteString(c, "400\r\n"+strings.Repeat(" ", 1024)+"\r\n"); err != nil {
					return
				}
			}
		}},
	} {
		t.Run(attack.name, func(t *testing.T) {
			service, server, _ := start(t, func(c *httpapi.Config) {
				c.Limits.HeaderTimeout, c.Limits.ReadTimeout = time.Second, 2*time.Second
			})
			stop := watch()
			if ended := flood(t, server.URL, connections, attack.send); ended != connections {
				t.Errorf("%d of %d connections were ended", ended, connections)
			}
			goroutines, heap := stop()
			each := uint64(128 << 10)
			// What one body has may be held, and as much again is garbage before the collector runs.
			switch attack.name {
			case "chunks without end":
				each += 2 * uint64(limits.BodyBytes)
			case "deeply nested JSON":
				each += 2 * uint64(len(nested))
			}
			bounded(t, connections, goroutines, each, heap, server.URL)
			if calls := service.taken(); len(calls) > 0 {
				t.Errorf("the service was called: %v", calls[0])
			}
		})
	}
}

// frame returns an HTTP/2 frame.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	out := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(out, stream), payload...)
}

// TestRapidReset checks that a caller that opens streams and resets them at once (CVE-2023-44487)
// causes a bounded amount of work at a time. Others are served.
func TestRapidReset(t *testing.T) {
	var c httpapi.Config
	_, plain, api := start(t, func(made *httpapi.Config) { c = *made })
	addr := serveTLS(t, api, c)
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Fatalf("negotiated %q, want h2", got)
	}
	answered := make(chan bool, 1)
	go func() { // the first frame is the server's settings
		_, err := bufio.NewReader(conn).ReadByte()
		answered <- err == nil
		_, _ = io.Copy(io.Discard, conn)
	}()
	// :method GET, :scheme https, :path /v1/budgets and :authority x, without indexing.
	block := append([]byte{0x82, 0x87, 0x04, 11}, "/v1/budgets"...)
	block = append(block, 0x01, 1, 'x')
	stop := watch()
	_, _ = conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, nil)...))
	sent := 0
	for stream := uint32(1); stream < 40_000; stream += 2 {
		if _, err := conn.Write(append(frame(1, 5, stream, block), frame(3, 0, stream, []byte{0, 0, 0, 8})...)); err != nil {
			break // the server closed the connection
		}
		sent++
	}
	goroutines, heap := stop()
	if !<-answered || sent < 100 {
		t.Errorf("the server did not speak HTTP/2, or ended after %d streams", sent)
	}
	if goroutines > 600 || heap > 64<<20 {
		t.Errorf("%d streams: %d goroutines and %d KiB more", sent, goroutines, heap>>10)
	}
	bounded(t, 1, 0, 0, 0, plain.URL)
	other := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := other.Get("https://" + addr + "/healthz")
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("another client is not served: %v", err)
	}
	_ = answer.Body.Close()
}

// serveTLS serves an API over TLS until the test ends, and returns its address.
func serveTLS(t *testing.T, api *httpapi.API, c httpapi.Config) string {
	t.Helper()
	config := selfSigned(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	var s server
	if alone {
		web := httpapi.NewWebServer(api, c.Limits, c.Log)
		web.TLSConfig = config
		go func() { ended <- web.ServeTLS(listener, "", "") }()
		s = web
	} else {
		both := httpapi.NewServer(api, c.Limits, c.Log)
		go func() { ended <- both.ServeTLS(listener, config) }()
		s = both
	}
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{NextProtos: []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}
