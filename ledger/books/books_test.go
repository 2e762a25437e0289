package books

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
)

const day = 24 * 60 * 60 * 1000

// committed returns books with the rows of others, as loaded after their commit.
func committed(b *Books, nowMS int64) *Books {
	out := New(nowMS)
	reload(&out.Budgets, &b.Budgets)
	reload(&out.Limits, &b.Limits)
	reload(&out.Periods, &b.Periods)
	reload(&out.Buckets, &b.Buckets)
	reload(&out.Epochs, &b.Epochs)
	reload(&out.Adjustments, &b.Adjustments)
	reload(&out.Deductions, &b.Deductions)
	reload(&out.Holds, &b.Holds)
	reload(&out.GiveBacks, &b.GiveBacks)
	reload(&out.Groups, &b.Groups)
	reload(&out.Counters, &b.Counters)
	reload(&out.Feeds, &b.Feeds)
	out.Back = maps.Clone(b.Back)
	return out
}

func reload[R any, K comparable](into, from *Set[R, K]) {
	for _, row := range from.All() {
		into.Load([]R{*row}, false)
	}
}

// definitions are the kinds of budgets whose movements differ.
var definitions = map[string]budget.Definition{
	"promo": {Type: budget.Promo, TotalQuantity: 100, BucketQuantity: 3},
	"spread": {Type: budget.Daily, TotalQuantity: 100, BucketQuantity: 2, Timezone: "UTC", EndAt: at(10 * day),
		Rule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day}},
	"forfeit": {Type: budget.Daily, TotalQuantity: 100, BucketQuantity: 2, Timezone: "UTC", EndAt: at(10 * day),
		Rule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 20, Unused: budget.Forfeit}},
	"next": {Type: budget.Daily, TotalQuantity: 100, BucketQuantity: 2, Timezone: "UTC", EndAt: at(10 * day), LateRefund: budget.Next,
		Rule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 20, Unused: budget.Next, MaxRollover: 15}},
}

// TestAdjust appends and shrinks at random, while units are used and come back, also in an epoch of
// a period that is over. Check compares every movement with I1 and with the rows that explain it. A
// shrink is refused only if F, U, O and R do not cover it, and an id takes effect once.
func TestAdjust(t *testing.T) {
	for name, d := range definitions {
		t.Run(name, func(t *testing.T) {
			d.Tenant, d.Name, d.Unit, d.Durability = "shop", name, budget.Count, budget.Ledger
			rapid.Check(t, func(r *rapid.T) { adjustAtRandom(r, d) })
		})
	}
}

func adjustAtRandom(t *rapid.T, d budget.Definition) {
	b := New(day + 1)
	b.Create(Creation{Definition: d, As: "{}", ID: 1, FirstBucket: 1, Homes: make([]Home, d.BucketQuantity),
		KeyOf: func(ordinal int) string { return fmt.Sprint(ordinal) }})
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	// An epoch of the period before, as if it had rolled over.
	if d.Type == budget.Daily {
		b.Periods.Add(Period{Budget: 1, Number: b.Budgets.Get(1).Period - 1})
		b.Epochs.Add(Epoch{Bucket: 1, Number: 0, Budget: 1, Status: "closed", Period: b.Budgets.Get(1).Period - 1})
	}
	for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
		b = committed(b, b.NowMS+1)
		u := b.Budgets.Get(1)
		e := rapid.SampledFrom(b.Epochs.All()).Draw(t, "epoch")
		units := rapid.Int64Range(1, 40).Draw(t, "units")
		switch rapid.SampledFrom([]string{"adjust", "adjust", "use", "return"}).Draw(t, "what") {
		case "use":
			units = min(units, e.Outstanding)
			e.Outstanding -= units
			e.Used += units
		case "return":
			units = min(units, e.Used)
			e.Used -= units
			e.Returning += units
			if e.Status != Open {
				e.Late += units
			}
		default:
			o := Order{RequestID: fmt.Sprint(i), Quantity: units, Nonce: "n"}
			if rapid.Bool().Draw(t, "shrink") {
				o.Quantity = -units
			}
			adjustOnce(t, b, u, o)
		}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

func adjustOnce(t *rapid.T, b *Books, u *Budget, o Order) {
	free, total := u.Unfunded+u.Undistributed, u.Total
	for _, e := range b.Epochs.All() {
		free += e.Outstanding + e.Returning
	}
	out, err := b.Adjust(u, o)
	switch {
	case err == nil && (out.State != Done || out.Replayed || u.Total != total+o.Quantity):
		t.Fatalf("%+v: %+v, the total is %d after %d", o, out, u.Total, total)
	case budget.Is(err, budget.AmountExceedsRemaining) && free < -o.Quantity+u.Forfeited:
	case budget.Is(err, budget.Invalid) && total+o.Quantity < 1:
	case err != nil:
		t.Fatalf("%+v: %v, though %d are free", o, err, free)
	}
	if err != nil {
		return
	}
	again, err := b.Adjust(u, o)
	if err != nil || again.State != Done || again.Replayed || u.Total != total+o.Quantity {
		t.Fatalf("again by the same call: %+v, %v", again, err)
	}
	o.Nonce = "another call"
	if again, err = b.Adjust(u, o); err != nil || !again.Replayed {
		t.Fatalf("again: %+v, %v", again, err)
	}
	o.Quantity++
	if _, err = b.Adjust(u, o); !budget.Is(err, budget.RequestConflict) {
		t.Fatalf("with another quantity: %v", err)
	}
}
