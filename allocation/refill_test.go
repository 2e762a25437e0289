package allocation_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

func TestRefillTable(t *testing.T) {
	const most = budget.MaxAmount
	for _, tc := range []struct {
		name      string
		got, want int64
	}{
		{"low water: two seconds of use", allocation.LowWater(10, 5), 20},
		{"low water: rounded up", allocation.LowWater(0.6, 1), 2},
		{"low water: one more request", allocation.LowWater(10, 50), 50},
		{"low water: at least one unit", allocation.LowWater(0, 0), 1},
		{"low water: no more than there can be", allocation.LowWater(math.Inf(1), 1), most},
		{"refill: the need and three seconds of use", allocation.Refill(5, 100, 10_000, 10, 0), 305},
		{"refill: a bucket that is hardly used gets what it needs", allocation.Refill(5, 0, 10_000, 10, 0), 5},
		{"refill: beside the need no more than its even share", allocation.Refill(5, 100, 1000, 10, 0), 105},
		{"refill: the need, though its share is less", allocation.Refill(300, 100, 1000, 10, 0), 400},
		{"refill: never above sharding_quantity", allocation.Refill(300, 100, 1000, 10, 50), 50},
		{"refill: at least one unit", allocation.Refill(0, 0, 0, 10, 0), 1},
		{"refill: no buckets", allocation.Refill(1, 2, 10, 0, 0), 7},
		{"refill: no overflow", allocation.Refill(most, math.Inf(1), most, 1, 0), most},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, tc.got, tc.want)
		}
	}
	for _, tc := range []struct {
		balance int64
		rate    float64
		want    time.Duration
	}{
		{0, 0, 0}, {0, 100, 0}, {5, 0, 100 * time.Millisecond}, {200, 100, 100 * time.Millisecond},
		{50, 100, 50 * time.Millisecond}, {1, 1000, 100 * time.Microsecond},
	} {
		if got := allocation.Patience(tc.balance, tc.rate); got != tc.want {
			t.Errorf("Patience(%d, %v) = %v, want %v", tc.balance, tc.rate, got, tc.want)
		}
	}
}

func TestFirstStep(t *testing.T) {
	for _, tc := range []struct {
		units int64
		n     int
		bound int64
		want  []int64
	}{
		{1000, 4, 0, []int64{25, 25, 25, 25}},
		{1000, 4, 10, []int64{10, 10, 10, 10}},
		{3, 4, 0, []int64{1, 1, 1, 0}},
		{0, 2, 0, []int64{0, 0}},
		{50, 0, 0, nil},
	} {
		if got := allocation.FirstStep(tc.units, tc.n, tc.bound); !slices.Equal(got, tc.want) {
			t.Errorf("FirstStep(%d, %d, %d) = %v, want %v", tc.units, tc.n, tc.bound, got, tc.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		units, n := rapid.Int64Range(0, budget.MaxAmount).Draw(t, "units"), rapid.IntRange(1, 1024).Draw(t, "n")
		bound := rapid.Int64Range(0, 1000).Draw(t, "bound")
		sum := int64(0)
		for i, share := range allocation.FirstStep(units, n, bound) {
			even := allocation.Spread(units, n)[i]
			if share < min(even, 1) || share > max(even/10, min(even, 1)) || bound > 0 && share > bound {
				t.Fatalf("bucket %d of %d gets %d of %d (bound %d)", i, n, share, units, bound)
			}
			sum += share
		}
		if sum > units {
			t.Fatalf("%d of %d units", sum, units)
		}
	})
}

func TestRefillBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(0, budget.MaxAmount)
		need, undistributed, bound := amount.Draw(t, "need"), amount.Draw(t, "undistributed"), amount.Draw(t, "bound")
		rate, buckets := rapid.Float64Range(0, 1e18).Draw(t, "rate"), rapid.IntRange(1, 1024).Draw(t, "buckets")
		got := allocation.Refill(need, rate, undistributed, buckets, bound)
		switch {
		case !budget.ValidAmount(got):
			t.Fatalf("%d is no amount", got)
		case bound > 0 && got > bound:
			t.Fatalf("%d is above the bound %d", got, bound)
		case bound == 0 && got < need:
			t.Fatalf("%d is below the need %d", got, need)
		case got > max(need, 1)+undistributed/int64(buckets):
			t.Fatalf("%d is more than the need %d and the even share of %d", got, need, undistributed)
		case float64(got) > float64(max(need, 1))+3*rate+1:
			t.Fatalf("%d is more than the need %d and three seconds at %v", got, need, rate)
		}
		low := allocation.LowWater(rate, need)
		if low < need || low < 1 || float64(low) < min(2*rate, float64(budget.MaxAmount)) ||
			low > allocation.LowWater(2*rate, need) {
			t.Fatalf("low water %d at %v units a second, request %d", low, rate, need)
		}
	})
}

// TestUse: a node that sees a part of a bucket's traffic measures all of it, through grants of others,
// whatever the pauses between its replies.
func TestUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(1, 1000).Draw(t, "amount")
		gap := time.Duration(rapid.Int64Range(500, 200_000).Draw(t, "gap of all (us)")) * time.Microsecond
		nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
		seconds := rapid.IntRange(2, 9).Draw(t, "grants last (s)")
		grantEach := int(time.Duration(seconds)*time.Second/gap) + 1 // deductions
		want := float64(amount) / gap.Seconds()
		var u allocation.Use
		at, balance, seq := time.Duration(0), int64(0), int64(0)
		for i := 0; at < 10*time.Second || i < 100; i++ {
			if i%grantEach == 0 {
				balance, seq = balance+amount*int64(grantEach), seq+1
			}
			at, balance, seq = at+gap, balance-amount, seq+1
			if i%nodes == 0 {
				u = u.Saw(allocation.Reading{At: at, Balance: balance, Seq: seq, Amount: amount})
			}
		}
		if got := u.Rate(at); got < 0.7*want || got > 1.3*want {
			t.Fatalf("%v units a second, want %v", got, want)
		}
		if later := u.Rate(at + 20*time.Second); later > want/10 {
			t.Fatalf("%v units a second after 20 s without any, it was %v", later, want)
		}
	})
}

func TestUseEdges(t *testing.T) {
	second := time.Second
	read := func(at time.Duration, balance, seq, amount int64) allocation.Reading {
		return allocation.Reading{At: at, Balance: balance, Seq: seq, Amount: amount}
	}
	var none allocation.Use
	for _, tc := range []struct {
		name     string
		readings []allocation.Reading
		want     float64
	}{
		{"nothing", nil, 0},
		{"one reply begins a window", []allocation.Reading{read(0, 100, 5, 10)}, 0},
		{"two at once say nothing", []allocation.Reading{read(0, 100, 5, 10), read(1000, 90, 6, 10)}, 0},
		{"a second", []allocation.Reading{read(0, 100, 5, 10), read(second, 90, 6, 10)}, 10},
		{"others' deductions are seen in the balance", []allocation.Reading{read(0, 100, 5, 10), read(second, 40, 9, 10)}, 60},
		{"and in the positions, where a grant hides them",
			[]allocation.Reading{read(0, 100, 5, 10), read(second, 200, 9, 10)}, 30},
		{"a grant is no deduction", []allocation.Reading{read(0, 100, 5, 10), read(second, 200, 7, 10)}, 10},
		{"out of order", []allocation.Reading{read(0, 100, 5, 10), read(second, 110, 4, 10), read(second, 90, 6, 10)}, 10},
		{"a clock that stepped back begins anew", []allocation.Reading{read(second, 100, 5, 10), read(0, 90, 6, 10)}, 0},
	} {
		u, at := none, time.Duration(0)
		for _, r := range tc.readings {
			u, at = u.Saw(r), r.At
		}
		if got := u.Rate(at); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestRefillLoop runs the rules against steady use by several nodes, with applies that take 50 ms: once
// the rate is known the bucket never runs dry, asks about every three seconds, and holds no more than a
// few seconds of its use and one request.
func TestRefillLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(1, 100).Draw(t, "amount")
		gap := time.Duration(rapid.Int64Range(1, 3000).Draw(t, "gap (ms)")) * time.Millisecond
		nodes := rapid.IntRange(1, 4).Draw(t, "nodes")
		const warm, length, latency = 10 * time.Second, 70 * time.Second, 50 * time.Millisecond
		rate := float64(amount) / gap.Seconds()
		use := make([]allocation.Use, nodes)
		next := make([]time.Duration, nodes) // a node's turn
		balance, seq := int64(0), int64(0)
		pending, arrives := int64(0), time.Duration(0)
		applies, dry, most := 0, 0, int64(0)
		for i, at := 0, gap; at < length; i, at = i+1, at+gap {
			if pending > 0 && at >= arrives {
				balance, seq, pending = balance+pending, seq+1, 0
			}
			node := i % nodes
			if balance < amount { // asks at once
				balance, seq = balance+allocation.Refill(amount-balance, use[node].Rate(at), 1<<50, 8, 0), seq+1
				if at > warm {
					dry, applies = dry+1, applies+1
				}
			}
			balance, seq = balance-amount, seq+1
			use[node] = use[node].Saw(allocation.Reading{At: at, Balance: balance, Seq: seq, Amount: amount})
			low := allocation.LowWater(use[node].Rate(at), amount)
			if balance < low && pending == 0 && at >= next[node] {
				pending = allocation.Refill(low-balance, use[node].Rate(at), 1<<50, 8, 0)
				arrives, next[node] = at+latency, at+time.Second
				if at > warm {
					applies++
				}
			}
			if at > warm {
				most = max(most, balance)
			}
		}
		seconds := (length - warm).Seconds()
		requests := int(seconds / gap.Seconds())
		if dry > 0 && gap > latency || float64(applies) > min(seconds/2, float64(requests))+2 {
			t.Fatalf("%d applies, of which %d found it dry, in %v s with %d requests", applies, dry, seconds, requests)
		}
		if limit := 1.3*5*rate + 2*float64(amount); float64(most) > limit {
			t.Fatalf("held up to %d at %v units a second, requests of %d", most, rate, amount)
		}
	})
}
