package client_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
)

// canned is a transport that answers at once, so that benchmarks measure only the client.
type canned func(body []byte) string

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	text := c(body)
	return &http.Response{Status: "200 OK", StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}, "X-Correlation-Id": {"corr-1"}},
		Body:   io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: r}, nil
}

// deductionAnswer is as long as budgetd's for a budget with two limits.
const deductionAnswer = `{"request_id":"order-1","outcome":"accepted","amount":1,"state":"used","bucket":"spring-sale:bucket-3",` +
	`"bucket_remaining":124999998765,"budget_remaining":999999987654,"limits":[{"name":"per-day","dimension":"user",` +
	`"value":"u12345","used":17,"max":1000000000,"reset_at":"2026-11-23T00:00:00Z"},{"name":"per-user",` +
	`"dimension":"user","value":"u12345","used":17,"max":1000000000}],"receipt":"r1:4711:12:123456","replayed":false}`

var deductionOrder = client.DeductRequest{RequestID: "order-1", Amount: 1,
	Dimensions: map[string]string{"user": "u12345"}}

// BenchmarkDeduct measures the client's own work per call, without a network.
func BenchmarkDeduct(b *testing.B) {
	c, err := client.New("http://127.0.0.1:8080", client.WithTransport(canned(func([]byte) string {
		return deductionAnswer
	})))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Deduct(b.Context(), "spring-sale", deductionOrder); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDeductBatch measures the client's own work per deduction in batches of 100.
func BenchmarkDeductBatch(b *testing.B) {
	const n = 100
	text := `{"results":[` + strings.Repeat(deductionAnswer+",", n-1) + deductionAnswer + "]}"
	c, err := client.New("http://127.0.0.1:8080", client.WithTransport(canned(func(body []byte) string {
		if got := bytes.Count(body, []byte("request_id")); got != n {
			panic(fmt.Sprint(got, " deductions"))
		}
		return text
	})))
	if err != nil {
		b.Fatal(err)
	}
	items := make([]client.BatchItem, n)
	for i := range items {
		items[i] = client.BatchItem{Budget: "spring-sale", DeductRequest: deductionOrder}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.DeductBatch(b.Context(), items); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/deduction")
}

// BenchmarkDeductCoalesced measures the client's own work per deduction of 64 concurrent callers
// who share calls.
func BenchmarkDeductCoalesced(b *testing.B) {
	const callers = 64
	for _, calls := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("%d calls", calls), func(b *testing.B) {
			var sent atomic.Int64
			c, err := client.New("http://127.0.0.1:8080", client.WithTransport(canned(func(body []byte) string {
				time.Sleep(time.Millisecond) // other deductions arrive meanwhile
				sent.Add(1)
				n := bytes.Count(body, []byte("request_id"))
				if !bytes.HasPrefix(body, []byte(`{"deductions"`)) {
					return deductionAnswer
				}
				return `{"results":[` + strings.Repeat(deductionAnswer+",", n-1) + deductionAnswer + "]}"
			})), client.WithCoalescing(client.Coalescing{Calls: calls}))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetParallelism(callers / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.Deduct(b.Context(), "spring-sale", deductionOrder); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/float64(sent.Load()), "deductions/call")
		})
	}
}
