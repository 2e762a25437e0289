package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/ledger"
)

// silent is a fake that notes no deductions: what is left is the cost of this layer.
type silent struct{ *fake }

func (silent) Deduct(_ context.Context, r bucket.DeductRequest) (bucket.DeductAnswer, error) {
	return bucket.DeductAnswer{RequestID: r.RequestID, Amount: r.Amount, State: ledger.StateUsed,
		Bucket: "sale:bucket-0", Remaining: 495, BudgetRemaining: 595, Receipt: "1.2.3"}, nil
}

func (s silent) DeductAll(ctx context.Context, requests []bucket.DeductRequest) []bucket.DeductResult {
	results := make([]bucket.DeductResult, len(requests))
	for i := range requests {
		results[i].Answer, results[i].Err = s.Deduct(ctx, requests[i])
	}
	return results
}

// cpu reports the CPU time of the process for each operation: on a busy machine the time that passes says
// little.
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

// BenchmarkDeduct is one deduct, without a connection.
func BenchmarkDeduct(b *testing.B) {
	benchmarkCall(b, "/v1/budgets/sale/deduct", singleBody)
}

// BenchmarkBatch is a batch of 100, without a connection.
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

// BenchmarkServed is a deduct through net/http and a TCP connection, beside a handler that answers a
// constant: the difference is what this layer costs.
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

func benchmarkServed(b *testing.B, server server) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	request := fmt.Appendf(nil, "POST /v1/budgets/sale/deduct HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nAccept-Encoding: gzip\r\n\r\n%s", len(singleBody), singleBody)
	in := bufio.NewReader(conn)
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		skipAnswer(b, in)
	}
}

// skipAnswer reads one answer with a Content-Length.
func skipAnswer(b *testing.B, in *bufio.Reader) {
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if len(line) == 2 {
			break
		}
		if rest, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			fmt.Sscanf(rest, "%d", &length)
		}
	}
	if length == 0 {
		b.Fatal("an answer without a length")
	}
	if _, err := in.Discard(length); err != nil {
		b.Fatal(err)
	}
}
