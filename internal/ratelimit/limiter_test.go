package ratelimit

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	l, now := NewLimiter(10, 3), time.Unix(1_700_000_000, 0)
	allowed := func(caller string, at time.Time) (n int) {
		for range 10 {
			if _, ok := l.Allow(caller, at); ok {
				n++
			}
		}
		return n
	}
	if n := allowed("a", now); n != 3 {
		t.Errorf("%d requests were allowed at once, want the burst of 3", n)
	}
	if n := allowed("b", now); n != 3 {
		t.Errorf("another caller: %d requests were allowed, want 3", n)
	}
	wait, ok := l.Allow("a", now)
	if ok || wait != 100*time.Millisecond {
		t.Errorf("wait %v, allowed %v; want 100ms and false", wait, ok)
	}
	if _, ok := l.Allow("a", now.Add(wait)); !ok {
		t.Error("refused after the wait that Allow returned: refusals must not use up the rate")
	}
	if n := allowed("a", now.Add(time.Second)); n != 3 {
		t.Errorf("%d requests were allowed after a second, want the burst of 3", n)
	}
}

func TestNoLimit(t *testing.T) {
	l := NewLimiter(0, 5)
	for range 1000 {
		if _, ok := l.Allow("a", time.Time{}); !ok {
			t.Fatal("a request was refused")
		}
	}
}

// TestManyCallers checks that any number of callers takes bounded memory, and that one caller is
// still limited.
func TestManyCallers(t *testing.T) {
	l, now := NewLimiter(1, 1), time.Unix(1_700_000_000, 0)
	l.most = 100
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for n := range 1000 {
				l.Allow(fmt.Sprint(g, "-", n), now)
			}
		})
	}
	group.Wait()
	left := 0
	l.callers.Load().Range(func(_, _ any) bool { left++; return true })
	if left > 104 {
		t.Errorf("%d token buckets are kept, want at most 104", left)
	}
	var passed, refused int
	for range 10 {
		if _, ok := l.Allow("one", now); ok {
			passed++
		} else {
			refused++
		}
	}
	if passed != 1 || refused != 9 {
		t.Errorf("%d requests passed and %d were refused, want 1 and 9", passed, refused)
	}
}

func BenchmarkAllow(b *testing.B) {
	l, now := NewLimiter(1_000_000, 1_000_000), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		l.Allow("0a1b2c3d4e", now)
	}
}

// TestShare checks that a holder gets no more than its bound, nor all of them together more than
// theirs, and that a refusal takes nothing.
func TestShare(t *testing.T) {
	var s Share
	all := Bound{Most: 10}
	a, b, c := Bound{"a", 6}, Bound{"b", 6}, Bound{"c", 6}
	for i, step := range []struct {
		holder Bound
		n      int64
		want   bool
	}{{a, 6, true}, {a, 1, false}, {b, 5, false}, {b, 4, true}, {c, 1, false}} {
		if got := s.Take(step.n, all, step.holder); got != step.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
	s.Return(6, all, a)
	if !s.Take(6, all, c) || s.Take(1, all, a) {
		t.Error("what was returned does not go to another holder")
	}
	s.Return(6, all, c)
	s.Return(4, all, b)
	if len(s.taken) != 0 {
		t.Errorf("left: %v", s.taken)
	}
}

func TestHeaders(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		answer, page := http.Header{}, http.Header{}
		SecureAnswer(answer, encrypted)
		SecurePage(page, encrypted)
		for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"} {
			if got := answer.Get(header); got != want {
				t.Errorf("%s: %q, want %q", header, got, want)
			}
		}
		if (answer.Get("Strict-Transport-Security") != "") != encrypted {
			t.Errorf("encrypted %v: Strict-Transport-Security is wrong in %v", encrypted, answer)
		}
		if page.Get("X-Frame-Options") != "DENY" || page.Get("Referrer-Policy") != "no-referrer" ||
			page.Get("Content-Security-Policy") == answer.Get("Content-Security-Policy") {
			t.Errorf("headers of a page: %v", page)
		}
	}
	h := http.Header{}
	if n := testing.AllocsPerRun(100, func() { SecureAnswer(h, true) }); n != 0 {
		t.Errorf("SecureAnswer allocates %v times", n)
	}
}

func TestToLoopback(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1:8080": true, "127.0.0.1": true, "localhost:1": true, "LOCALHOST": true,
		"[::1]:8080": true, "[::1]": true, "evil.example:8080": false, "localhost.evil.example": false, "10.0.0.1:1": false,
		"": false, "127.0.0.1.evil.example": false, "0.0.0.0:1": false} {
		if ToLoopback(host) != want {
			t.Errorf("%s: %v, want %v", host, !want, want)
		}
	}
}
