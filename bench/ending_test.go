package main

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRefuse checks that a refusal counts as false exactly if the calls that were not refused left
// enough for it.
func TestRefuse(t *testing.T) {
	for _, test := range []struct {
		name          string
		asked, amount int64 // asked includes the amount
		doubt, false  bool
		after         int64 // asked, then
	}{
		{"all others fit exactly beside it", 100, 10, false, true, 90},
		{"a unit is missing", 101, 10, false, false, 91},
		{"an earlier attempt may have had an effect", 101, 10, true, false, 101},
		{"false in spite of a doubt", 100, 10, true, true, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := books{total: 100}
			b.asked.Store(test.asked)
			if err := b.refuse(test.amount, test.doubt); (err != nil) != test.false {
				t.Errorf("%v, false %t", err, test.false)
			}
			if got := b.asked.Load(); got != test.after {
				t.Errorf("%d units asked for, want %d", got, test.after)
			}
		})
	}
}

// TestSeller checks that a call without an outcome is repeated with its id and amount, that calls
// walk through the budgets, and that the books follow the answers.
func TestSeller(t *testing.T) {
	s := &sale{name: "sale", budgets: make([]books, 2)}
	s.budgets[0].total, s.budgets[1].total = endingUnits, endingUnits
	one := &seller{sale: s}
	call := func() (path, body string) {
		path, text := one.next(nil)
		return path, string(text)
	}
	answer := func(status int, body string) {
		t.Helper()
		if err := one.answer(status, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	path, first := call()
	if path != "/v1/budgets/sale-0/deduct" || !strings.HasPrefix(first, `{"request_id":"sale-0","amount":`) {
		t.Errorf("%s %s", path, first)
	}
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout, 0} {
		answer(status, "")
		if _, again := call(); again != first {
			t.Errorf("after %d: %s, want %s", status, again, first)
		}
	}
	answer(http.StatusOK, "")
	if got := s.budgets[0].taken.Load(); got != one.amount || s.budgets[0].asked.Load() != got {
		t.Errorf("taken %d, asked %d, want %d", got, s.budgets[0].asked.Load(), one.amount)
	}
	s.drawn.Store(endingCalls)
	if path, _ := call(); path != "/v1/budgets/sale-1/deduct" {
		t.Errorf("call %d goes to %s", endingCalls, path)
	}
	if err := one.answer(http.StatusConflict, []byte(`{"code":"budget_exhausted"}`)); err == nil ||
		!strings.Contains(err.Error(), "false refusal") {
		t.Errorf("the first refusal of a full budget: %v", err)
	}
	if err := one.answer(http.StatusNotFound, nil); err == nil {
		t.Error("an unexpected answer is accepted")
	}
}

// TestConclude checks the shares: of 100 attempts 60 were accepted and 20 refused.
func TestConclude(t *testing.T) {
	var s sale
	s.accepted.Store(60)
	s.refused.Store(20)
	s.unclear.Store(20)
	m := measurement{perS: 500, cpu: []cost{{"server", 40}}}
	s.conclude(&m, measurement{perS: 4_000, p99: 12}, 90*time.Millisecond)
	want := []figure{{"longest, ms", 90}, {"refused, % of the calls with an outcome", 25},
		{"attempts without an outcome, %", 20}, {"middle, per second", 4_000}, {"middle, p99 ms", 12},
		{"end ÷ middle", 0.1}}
	for i, f := range want {
		if i >= len(m.named) || m.named[i].name != f.name || math.Abs(m.named[i].value-f.value) > 1e-9 {
			t.Errorf("%v, want %v", m.named, want)
			break
		}
	}
	if m.perS != 400 || m.us("server") != 50 {
		t.Errorf("%g calls a second of %g µs, want 400 of 50", m.perS, m.us("server"))
	}
}
