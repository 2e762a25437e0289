package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/ledger"
)

// silent is a fake that records no deductions, so that only the cost of this layer is measured.
type silent struct{ *fake }

func (silent) Deduct(_ context.Context, r bucket.DeductRequest) (bucket.DeductAnswer, error) {
	return bucket.DeductAnswer{RequestID: r.RequestID, Amount: r.Amount, State: ledger.StateUsed,
		Bucket: "sale:bucket-0", BucketRemaining: 495, BudgetRemaining: 595, Receipt: "1.2.3"}, nil
}

func (s silent) DeductAll(ctx context.Context, requests []bucket.DeductRequest) []bucket.DeductResult {
	results := make([]bucket.DeductResult, len(requests))
	for i := range requests {
		results[i].Answer, results[i].Err = s.Deduct(ctx, requests[i])
	}
	return results
}

// cpu reports the CPU time of the process per operation. Elapsed time says little on a busy
// machine.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

func quietAPI() *httpapi.API {
	return httpapi.New(httpapi.Config{Service: silent{new(fake)}, Limits: limits,
		Observer: metrics.New("test")})
}

const singleBody = `{"request_id":"order-0001","amount":5,"dimensions":{"user":"u1"}}`

func batchBody(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`{"budget":"sale","request_id":"order-%04d","amount":5}`, i)
	}
	return `{"deductions":[` + strings.Join(items, ",") + `]}`
}

// BenchmarkDeduct measures one deduct, without a connection.
func BenchmarkDeduct(b *testing.B) {
	benchmarkCall(b, "/v1/budgets/sale/deduct", singleBody)
}

// BenchmarkBatch measures a batch of 100, without a connection.
func BenchmarkBatch(b *testing.B) {
	benchmarkCall(b, "/v1/deductions:batch", batchBody(100))
}

func benchmarkCall(b *testing.B, path, text string) {
	api := quietAPI()
	body := strings.NewReader(text)
	r, _ := http.NewRequest("POST", path, body)
	r.Header.Set("Content-Type", "application/json")
	w := discard{http.Header{}}
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		body.Reset(text)
		r.ContentLength = int64(len(text))
		api.ServeHTTP(w, r)
	}
}

// BenchmarkServed measures a deduct over a TCP connection, beside a handler that answers a
// constant. The difference is the cost of this layer.
func BenchmarkServed(b *testing.B) {
	empty := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	b.Run("empty", func(b *testing.B) { benchmarkServed(b, &http.Server{Handler: empty}) })
	quiet := slog.New(slog.DiscardHandler)
	b.Run("empty with our settings", func(b *testing.B) {
		server := httpapi.NewWebServer(quietAPI(), limits, quiet)
		server.Handler = empty
		benchmarkServed(b, server)
	})
	b.Run("deduct by net/http", func(b *testing.B) {
		benchmarkServed(b, httpapi.NewWebServer(quietAPI(), limits, quiet))
	})
	b.Run("deduct", func(b *testing.B) { benchmarkServed(b, httpapi.NewServer(quietAPI(), limits, quiet)) })
}

// BenchmarkFloor measures what the caller and the system cost in BenchmarkServed. Each request gets
// the same bytes as its answer, and is not read.
func BenchmarkFloor(b *testing.B) { benchmarkServed(b, floor{}) }

type floor struct{}

func (floor) Close() error { return nil }

func (floor) Serve(listener net.Listener) error {
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n" + strings.Repeat(" ", 300))
	for {
		c, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			request := make([]byte, 4096)
			for err == nil {
				if _, err = c.Read(request); err == nil {
					_, err = c.Write(answer)
				}
			}
		}()
	}
}

func benchmarkServed(b *testing.B, server server) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Close()
	for _, connections := range []int{1, 64} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			var callers sync.WaitGroup
			for i := range connections {
				callers.Go(func() { call(b, listener.Addr().String(), (b.N+i)/connections) })
			}
			callers.Wait()
		})
	}
}

// call makes so many deducts, one after the other.
func call(b *testing.B, addr string, times int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Close()
	request := fmt.Appendf(nil, "POST /v1/budgets/sale/deduct HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nAccept-Encoding: gzip\r\n\r\n%s", len(singleBody), singleBody)
	in := bufio.NewReader(conn)
	for range times {
		if _, err := conn.Write(request); err != nil {
			b.Error(err)
			return
		}
		if err := skipAnswer(in); err != nil {
			b.Error(err)
			return
		}
	}
}

// skipAnswer reads one answer with a Content-Length.
func skipAnswer(in *bufio.Reader) error {
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if rest, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			for _, digit := range bytes.TrimSpace(rest) {
				length = length*10 + int(digit-'0')
			}
		}
	}
	if length == 0 {
		return errors.New("an answer without a length")
	}
	_, err := in.Discard(length)
	return err
}
