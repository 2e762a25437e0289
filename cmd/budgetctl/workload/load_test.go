package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// posts is a caller that posts nothing in particular.
type posts struct {
	answered, lost atomic.Int64
}

func (p *posts) Request(buf []byte) ([]byte, int) { return append(buf, request...), 0 }
func (p *posts) Answer(int, []byte)               { p.answered.Add(1) }
func (p *posts) Lost(bool, error)                 { p.lost.Add(1) }

// callers returns n times the same one, which counts for all of them.
func callers(n int) (*posts, []Caller) {
	p := new(posts)
	list := make([]Caller, n)
	for i := range list {
		list[i] = p
	}
	return p, list
}

// server calls handle for every request, and returns the plan for it.
func server(t *testing.T, handle func(n int64)) Plan {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handle(n.Add(1)) }))
	t.Cleanup(s.Close)
	return Plan{Address: strings.TrimPrefix(s.URL, "http://"), Kinds: 1, Timeout: 30 * time.Second}
}

func TestClosedLoopByCalls(t *testing.T) {
	var now, most atomic.Int64
	plan := server(t, func(int64) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(time.Millisecond)
		now.Add(-1)
	})
	plan.Calls = 200
	p, list := callers(5)
	m := Run(t.Context(), plan, list)
	if m.Calls != 200 || p.answered.Load() != 200 || m.Latency[0].Count() != 200 || m.Unsent != 0 {
		t.Errorf("%d calls, %d answered, %d measured", m.Calls, p.answered.Load(), m.Latency[0].Count())
	}
	if m.Latency[0].Quantile(0) < time.Millisecond {
		t.Errorf("a call took %s", m.Latency[0].Quantile(0))
	}
	if most.Load() > 5 {
		t.Errorf("%d calls under way on 5 connections", most.Load())
	}
}

func TestClosedLoopByDuration(t *testing.T) {
	plan := server(t, func(int64) {})
	plan.Duration = 50 * time.Millisecond
	p, list := callers(2)
	m := Run(t.Context(), plan, list)
	if m.Duration < plan.Duration || m.Calls == 0 || m.Calls != p.answered.Load() {
		t.Errorf("%d calls, %d answered in %s", m.Calls, p.answered.Load(), m.Duration)
	}
}

// TestInterruption checks that an interrupted load waits for the calls in progress and makes no
// more.
func TestInterruption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	plan := server(t, func(n int64) {
		if n == 10 {
			cancel()
		}
	})
	plan.Calls = 1_000_000
	p, list := callers(3)
	m := Run(ctx, plan, list)
	if m.Calls < 10 || m.Calls == plan.Calls || m.Calls != p.answered.Load() {
		t.Errorf("%d calls, %d answered", m.Calls, p.answered.Load())
	}
}

// TestNoCoordinatedOmission checks that one slow answer counts in the latency of every call that it
// delayed. With one connection, 100 calls a second and a first answer after 300 ms, call k waits at
// least 300 - 10·k ms. A slow machine only makes this longer.
func TestNoCoordinatedOmission(t *testing.T) {
	plan := server(t, func(n int64) {
		if n == 1 {
			time.Sleep(300 * time.Millisecond)
		}
	})
	plan.Rate, plan.Calls = 100, 20
	_, list := callers(1)
	m := Run(t.Context(), plan, list)
	if m.Calls != 20 || m.Latency[0].Count() != 20 {
		t.Fatalf("%d calls, %d measured", m.Calls, m.Latency[0].Count())
	}
	// The shortest is that of call 19, 110 ms; the median that of call 10, 200 ms, or more.
	if shortest, median := m.Latency[0].Quantile(0), m.Latency[0].Quantile(0.5); shortest < 110*time.Millisecond ||
		median < 200*time.Millisecond {
		t.Errorf("shortest %s, median %s", shortest, median)
	}
	// All but the first were sent late, call k by 300 - 10·k ms; the median is that of call 11.
	if late := m.Delay.Quantile(0.5); late < 190*time.Millisecond {
		t.Errorf("median delay %s", late)
	}
}

// TestOpenLoopKeepsTheRate checks that an open loop makes every call of its rate and duration, and
// does not end before the last one is due.
func TestOpenLoopKeepsTheRate(t *testing.T) {
	plan := server(t, func(int64) {})
	plan.Rate, plan.Duration = 200, 250*time.Millisecond
	p, list := callers(4)
	m := Run(t.Context(), plan, list)
	if m.Calls != 50 || p.answered.Load() != 50 {
		t.Errorf("%d calls, %d answered, want 50", m.Calls, p.answered.Load())
	}
	if last := 245 * time.Millisecond; m.Duration < last {
		t.Errorf("it ended after %s, but the last call was due at %s", m.Duration, last)
	}
}

// TestGivenUp checks that calls that are too late are not sent, and that they count in the latency.
func TestGivenUp(t *testing.T) {
	release := make(chan struct{})
	plan := server(t, func(int64) { <-release })
	defer close(release)
	plan.Rate, plan.Duration, plan.Timeout = 1000, 50*time.Millisecond, 100*time.Millisecond
	p, list := callers(1)
	m := Run(t.Context(), plan, list)
	if m.Unsent == 0 || m.Calls+m.Unsent != 50 || p.lost.Load() != m.Calls {
		t.Errorf("%d calls, %d of them lost, %d unsent", m.Calls, p.lost.Load(), m.Unsent)
	}
	if m.Latency[0].Count() != 50 || m.Latency[0].Quantile(0) < plan.Timeout {
		t.Errorf("%d measured, the shortest took %s", m.Latency[0].Count(), m.Latency[0].Quantile(0))
	}
}

func TestIntended(t *testing.T) {
	tests := []struct {
		k    int64
		rate float64
		want time.Duration
	}{{0, 5, 0}, {1, 5, 200 * time.Millisecond}, {10, 5, 2 * time.Second}, {3, 0.5, 6 * time.Second},
		{100_000_000, 1_000_000, 100 * time.Second}}
	for _, test := range tests {
		if got := intended(test.k, test.rate); got != test.want {
			t.Errorf("call %d at %g a second: %s, want %s", test.k, test.rate, got, test.want)
		}
	}
}

// TestTLS checks that calls use TLS if the plan configures it, and that no call succeeds if the
// certificate has another name.
func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(s.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	for _, test := range []struct {
		name           string
		answered, lost int64
	}{{"example.com", 5, 0}, {"example.org", 0, 5}} {
		posts, list := callers(1)
		Run(t.Context(), Plan{Address: s.Listener.Addr().String(), Kinds: 1, Calls: 5, Timeout: time.Second,
			TLS: &tls.Config{RootCAs: trusted, ServerName: test.name}}, list)
		if posts.answered.Load() != test.answered || posts.lost.Load() != test.lost {
			t.Errorf("%s: %d answered, %d lost", test.name, posts.answered.Load(), posts.lost.Load())
		}
	}
}
