package books

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
)

// begun returns books with a budget of a definition.
func begun(d budget.Definition, buckets int) *Books {
	d.Tenant, d.Name, d.Unit, d.Durability, d.BucketQuantity = "shop", "b", budget.Count, budget.Ledger, buckets
	b := New(day + 1)
	b.Create(Creation{Definition: d, As: "{}", ID: 1, FirstBucket: 1, Homes: make([]Home, buckets),
		KeyOf: func(ordinal int) string { return fmt.Sprint(ordinal) }})
	return committed(b, b.NowMS+1)
}

// layout lists O of the newest epochs of buckets that are online, and "-" for others.
func layout(b *Books) (out string) {
	for _, row := range b.Buckets.All() {
		if row.Status == Online {
			out += fmt.Sprint(" ", b.newest(row).Outstanding)
		} else {
			out += " -"
		}
	}
	return out
}

func wants(t *testing.T, b *Books, want string) {
	t.Helper()
	if got := layout(b); got != want {
		t.Errorf("buckets%s, want%s", got, want)
	}
	if err := b.Check(); err != nil {
		t.Error(err)
	}
}

// TestBring checks the end of a budget: one bucket gets everything, and the others come back when
// more is handed out than was left over then.
func TestBring(t *testing.T) {
	b := begun(definitions["promo"], 4) // 25 each
	u := b.Budgets.Get(1)
	b.Bring(u, b.Serving(u), 30, 6) // 100 are more than 4 * 4 * 6
	wants(t, b, " 30 20 25 25")
	b.Bring(u, b.Serving(u), 31, 7) // and less than 4 * 4 * 7
	wants(t, b, " 100 - - -")
	if u.ContractionBound != 112 || u.ContractedMS != b.NowMS {
		t.Errorf("%+v", u)
	}
	append := func(units int64) {
		t.Helper()
		b = committed(b, b.NowMS+1)
		u = b.Budgets.Get(1)
		if _, err := b.Adjust(u, Order{RequestID: fmt.Sprint(b.NowMS), Quantity: units, Nonce: "n"}); err != nil {
			t.Fatal(err)
		}
	}
	append(112)
	wants(t, b, " 212 - - -")
	append(116)
	wants(t, b, " 241 29 29 29")
	if u.ContractionBound != 0 {
		t.Errorf("the bound is still %d", u.ContractionBound)
	}
}

// TestBringAtRandom brings units at random, while units are used, come back and are appended, buckets
// are halted and taken offline. Check compares every movement with I1. Bring reaches what Reach says
// and no more, whatever adjust_cnt allows, and leaves one bucket online.
func TestBringAtRandom(t *testing.T) {
	for name, d := range definitions {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				d.AdjustCnt = rapid.IntRange(0, 2).Draw(r, "adjust_cnt")
				d.ShardingQuantity = rapid.Int64Range(0, 5).Draw(r, "sharding_quantity")
				bringAtRandom(r, begun(d, 4))
			})
		})
	}
}

func bringAtRandom(t *rapid.T, b *Books) {
	u := b.Budgets.Get(1)
	applied := u.Total - u.Unfunded - u.Undistributed
	for range rapid.IntRange(1, 20).Draw(t, "steps") {
		u := b.Budgets.Get(1)
		b.Applied[1] = applied
		row := rapid.SampledFrom(b.Buckets.All()).Draw(t, "bucket")
		e := b.newest(row)
		units := rapid.Int64Range(1, 40).Draw(t, "units")
		switch rapid.SampledFrom([]string{"bring", "bring", "use", "return", "append", "offline", "halt"}).Draw(t, "what") {
		case "bring":
			bringOnce(t, b, u, units)
		case "use":
			units = min(units, e.Outstanding)
			e.Outstanding -= units
			e.Used += units
		case "return":
			units = min(units, e.Used)
			e.Used -= units
			e.Returning += units
		case "append":
			_, _ = b.Adjust(u, Order{RequestID: fmt.Sprint(b.NowMS), Quantity: units, Nonce: "n"})
		case "offline":
			_ = b.Offline(u, row, rapid.SampledFrom([]Word{byService, byOperator}).Draw(t, "by"))
		case "halt":
			e.Halted = rapid.SampledFrom([]string{"", "a mismatch"}).Draw(t, "why")
		}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		for _, g := range b.Grants.All() {
			if g.Kind == Apply {
				applied += g.Amount
			}
		}
		b = committed(b, b.NowMS+1)
	}
}

func bringOnce(t *rapid.T, b *Books, u *Budget, units int64) {
	target := b.Serving(u)
	if target == nil {
		return
	}
	b.Sweep(u)
	e := b.newest(target)
	reach, recent := b.Reach(u, target), rapid.Int64Range(0, 12).Draw(t, "recent")
	if units > reach {
		return
	}
	online := len(b.takers(u))
	b.Bring(u, target, units, recent)
	contracts := online > 1 && reach <= 4*int64(online)*recent
	switch {
	case e.Outstanding < units || e.Outstanding > reach:
		t.Fatalf("the target has %d for %d of %d", e.Outstanding, units, reach)
	case contracts && (e.Outstanding != reach || len(b.takers(u)) != 1):
		t.Fatalf("%d of %d, %d buckets are online", e.Outstanding, reach, len(b.takers(u)))
	case !contracts && len(b.takers(u)) != online:
		t.Fatalf("%d buckets of %d are online", len(b.takers(u)), online)
	}
}
