package books

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
)

// carving is a child of n units of budget 1.
func carving(id, n int64) Creation {
	return Creation{As: "{}", ID: id, FirstBucket: id * 10, Homes: make([]Home, 2),
		KeyOf: func(ordinal int) string { return fmt.Sprint(ordinal) },
		Definition: budget.Definition{Tenant: "shop", Name: fmt.Sprint("c", id), Unit: budget.Count, Type: budget.Promo,
			Durability: budget.Ledger, TotalQuantity: n, BucketQuantity: 2, Parent: 1}}
}

// saved checks the accounting and returns the books after their commit.
func saved(t interface{ Fatal(...any) }, b *Books) *Books {
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	return committed(b, b.NowMS+1)
}

// inAnHour is an hour after the books that begun returns.
const inAnHour = day + 2 + 3_600_000

func TestCarve(t *testing.T) {
	for name, test := range map[string]struct {
		parent func(u *Budget)
		child  func(d *budget.Definition)
		want   budget.Code
		field  string
		end    int64
	}{
		"all":          {},
		"ttl":          {child: func(d *budget.Definition) { d.TTL = time.Hour }, end: inAnHour},
		"ttl, later":   {child: func(d *budget.Definition) { d.StartAt, d.TTL = at(2*day), time.Hour }, end: 2*day + 3_600_000},
		"end before":   {child: func(d *budget.Definition) { d.EndAt, d.TTL = at(inAnHour-1), time.Hour }, end: inAnHour - 1},
		"ttl, cut":     {parent: func(u *Budget) { u.EndMS = inAnHour - 2 }, child: func(d *budget.Definition) { d.TTL = time.Hour }, end: inAnHour - 2},
		"at least":     {child: func(d *budget.Definition) { d.TotalQuantity, d.AtLeast = 150, 100 }},
		"too much":     {child: func(d *budget.Definition) { d.TotalQuantity = 101 }, want: budget.BudgetExhausted},
		"too little":   {child: func(d *budget.Definition) { d.TotalQuantity, d.AtLeast = 150, 101 }, want: budget.BudgetExhausted},
		"paused":       {parent: func(u *Budget) { u.IsPaused = 1 }, want: budget.BudgetPaused},
		"over":         {parent: func(u *Budget) { u.EndMS = day + 1 }, want: budget.BudgetExpired},
		"unlimited":    {parent: func(u *Budget) { u.Unlimited = 1 }, want: budget.Invalid, field: "parent"},
		"in a store":   {parent: func(u *Budget) { u.Durability = inStore }, want: budget.Invalid, field: "parent"},
		"adjust_cnt":   {parent: func(u *Budget) { u.AdjustCnt = 1 }, want: budget.Invalid, field: "parent"},
		"depth":        {parent: func(u *Budget) { u.Depth = MaxDepth }, want: budget.Invalid, field: "parent"},
		"unit":         {child: func(d *budget.Definition) { d.Unit = budget.Amount }, want: budget.Invalid, field: "unit"},
		"tenant":       {child: func(d *budget.Definition) { d.Tenant = "other" }, want: budget.Invalid, field: "tenant"},
		"ends at once": {parent: func(u *Budget) { u.EndMS = day + 5 }, child: func(d *budget.Definition) { d.StartAt = at(day + 5) }, want: budget.Invalid, field: "end_at"},
	} {
		t.Run(name, func(t *testing.T) {
			b := begun(definitions["promo"], 3)
			u, c := b.Budgets.Get(1), carving(2, 100)
			if test.parent != nil {
				test.parent(u)
			}
			if test.child != nil {
				test.child(&c.Definition)
			}
			child, err := b.Carve(u, c)
			if test.want != "" {
				var e *budget.Error
				if !errors.As(err, &e) || !budget.Is(err, test.want) || test.field != "" && (len(e.Fields) != 1 || e.Fields[0].Field != test.field) {
					t.Fatalf("%v, want %s %s", err, test.want, test.field)
				}
				if test.want == budget.BudgetExhausted && (e.Available == nil || *e.Available != 100) {
					t.Errorf("available %v, want 100", e.Available)
				}
				return
			}
			if err != nil || child.Total != 100 || u.Allocated != 100 || u.Undistributed != 0 || child.Parent != 1 || child.Depth != 1 ||
				child.EndMS != test.end {
				t.Fatalf("%v, %+v, %+v", err, child, u)
			}
			saved(t, b)
		})
	}
}

// TestCarveOfHalted checks that units which nobody may move now are not called sold out.
func TestCarveOfHalted(t *testing.T) {
	b := begun(definitions["promo"], 4)
	b.newest(b.Buckets.All()[0]).Halted = "a mismatch"
	if _, err := b.Carve(b.Budgets.Get(1), carving(2, 76)); !budget.Is(err, budget.Unavailable) {
		t.Errorf("%v, want unavailable", err)
	}
	if _, err := b.Carve(b.Budgets.Get(1), carving(2, 101)); !budget.Is(err, budget.BudgetExhausted) {
		t.Errorf("%v, want exhausted", err)
	}
}

// TestChildEnds checks that a child's end is cut to that of its parent, or of the parent's period.
func TestChildEnds(t *testing.T) {
	for name, test := range map[string]struct {
		kind   string
		endMS  int64
		ask    int64
		wantMS int64
	}{
		"without an end":    {"promo", 0, 0, 0},
		"its own":           {"promo", 0, 3 * day, 3 * day},
		"the parent's":      {"promo", 2 * day, 3 * day, 2 * day},
		"of a parent's":     {"promo", 2 * day, 0, 2 * day},
		"the period's":      {"spread", 0, 0, 2 * day},
		"before the period": {"spread", 0, day + day/2, day + day/2},
		"after a period":    {"next", 0, 5 * day, 2 * day},
	} {
		t.Run(name, func(t *testing.T) {
			b := begun(definitions[test.kind], 1)
			u, c := b.Budgets.Get(1), carving(2, 5)
			if test.endMS != 0 {
				u.EndMS = test.endMS
			}
			c.Definition.EndAt = at(test.ask)
			child, err := b.Carve(u, c)
			if err != nil || child.EndMS != test.wantMS {
				t.Errorf("%v, %+v, want an end at %d", err, child, test.wantMS)
			}
		})
	}
}

// TestShrinkAfterThePeriod shrinks a child whose parent's period was ended by another rule: the units
// leave that period for where late_refund says.
func TestShrinkAfterThePeriod(t *testing.T) {
	for kind, want := range map[string]Period{"spread": {Returned: 3}, "next": {Passed: 3}} {
		t.Run(kind, func(t *testing.T) {
			b := begun(definitions[kind], 1)
			if _, err := b.Carve(b.Budgets.Get(1), carving(2, 5)); err != nil {
				t.Fatal(err)
			}
			b.Budgets.Get(2).EndMS = 0
			b = saved(t, b)
			b.NowMS += day
			if _, err := b.RollOver(b.Budgets.Get(1)); err != nil {
				t.Fatal(err)
			}
			b = saved(t, b)
			before := *b.Periods.Get([2]int64{1, 1})
			u := b.Budgets.Get(1)
			if _, err := b.AdjustChild(u, b.Budgets.Get(2), Order{RequestID: "less", Quantity: -3}); err != nil {
				t.Fatal(err)
			}
			after := *b.Periods.Get([2]int64{1, 1})
			got := Period{Returned: after.Returned - before.Returned, Passed: after.Passed - before.Passed}
			if got != want || u.Allocated != 2 {
				t.Errorf("%+v left the period, want %+v; A is %d", got, want, u.Allocated)
			}
			saved(t, b)
		})
	}
}

// TestFamilies carves, appends and shrinks at random on two levels, while units are used and come
// back and the parent's period ends. Check compares every movement with I1 and I10, and a refusal
// for want of units is compared with what the parent has.
func TestFamilies(t *testing.T) {
	for name, d := range definitions {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) { familyAtRandom(r, begun(d, 3)) })
		})
	}
}

func familyAtRandom(t *rapid.T, b *Books) {
	ids := []int64{1}
	for n := range rapid.IntRange(1, 30).Draw(t, "steps") {
		id := rapid.SampledFrom(ids).Draw(t, "budget")
		u := b.Budgets.Get(id)
		units := rapid.Int64Range(1, 60).Draw(t, "units")
		switch rapid.SampledFrom([]string{"carve", "adjust", "adjust", "use", "return", "settle", "later"}).Draw(t, "what") {
		case "carve":
			c := carving(ids[len(ids)-1]+1, units)
			c.Definition.Parent, c.Definition.AtLeast = id, rapid.Int64Range(0, units).Draw(t, "at_least")
			if rapid.Bool().Draw(t, "ends") {
				c.Definition.EndAt = at(b.NowMS + rapid.Int64Range(1, 2*day).Draw(t, "end"))
			}
			a := b.Availability(u).Sum()
			_, err := b.Carve(u, c)
			switch {
			case err == nil:
				ids = append(ids, c.ID)
			case budget.Is(err, budget.BudgetExhausted):
				if least := c.Definition.AtLeast; a >= units || least > 0 && a >= least {
					t.Fatalf("%v, but the parent has %d", err, a)
				}
				b = discarded(b)
			}
		case "adjust":
			o := Order{RequestID: fmt.Sprint("r", n), Nonce: "n", Quantity: rapid.Int64Range(-40, 40).Draw(t, "quantity")}
			if u.Parent == 0 {
				if _, err := b.Adjust(u, o); err != nil {
					b = discarded(b)
				}
			} else if _, err := b.AdjustChild(b.Budgets.Get(u.Parent), u, o); err != nil {
				b = discarded(b)
			}
		case "use":
			e := b.newest(rapid.SampledFrom(b.bucketsOf(u)).Draw(t, "bucket"))
			units = min(units, e.Outstanding)
			e.Outstanding -= units
			e.Used += units
		case "return":
			e := rapid.SampledFrom(b.epochsOf(u)).Draw(t, "epoch")
			units = min(units, e.Used)
			e.Used -= units
			e.Returning += units
		case "settle":
			if u.Parent != 0 && !b.hasOpen(u) {
				settleOnce(t, b, u)
			}
		case "later":
			b.NowMS += rapid.Int64Range(1, day).Draw(t, "ms")
			for _, u := range b.Budgets.All() {
				rollOnce(t, b, u)
			}
		}
		b = saved(t, b)
	}
}

// hasOpen reports whether a child of a budget has not ended.
func (b *Books) hasOpen(u *Budget) bool {
	for _, c := range b.Budgets.All() {
		if c.Parent == u.ID && !c.HasEnded(b.NowMS) {
			return true
		}
	}
	return false
}

// settleOnce ends a child, and checks that all but what it uses and what its children have has left
// it, for its parent or by the child's own rule.
func settleOnce(t *rapid.T, b *Books, u *Budget) {
	parent := b.Budgets.Get(u.Parent)
	total, allocated, has := u.Total, parent.Allocated, parent.Undistributed+parent.Unfunded+parent.Forfeited
	units, err := b.Settle(parent, u, true)
	if err != nil {
		t.Fatal(err)
	}
	used := int64(0)
	for _, e := range b.epochsOf(u) {
		used += e.Used
	}
	if !u.HasEnded(b.NowMS) || u.Total != used+u.Allocated+u.Forfeited || total-u.Total != units || allocated-parent.Allocated != units {
		t.Fatalf("%d came back of %d, %d are used: %+v", units, total, used, *u)
	}
	if now := parent.Undistributed + parent.Unfunded + parent.Forfeited; now-has != units {
		t.Fatalf("the parent got %d of %d", now-has, units)
	}
	if again, err := b.Settle(parent, u, true); again != 0 || err != nil {
		t.Fatalf("again: %d, %v", again, err)
	}
}

// TestSettle checks where the units of a child go that ends: to U of its parent while the period
// that they came from is open, and where late_refund says after it; and that used and held ones,
// and what it forfeited, stay.
func TestSettle(t *testing.T) {
	for name, test := range map[string]struct {
		kind          string
		refund        budget.Where
		next, pending bool
		want          Budget // of the parent
	}{
		"promo":           {kind: "promo", want: Budget{Undistributed: 94, Allocated: 6}},
		"has not begun":   {kind: "promo", pending: true, want: Budget{Undistributed: 94, Allocated: 6}},
		"a day":           {kind: "spread", want: Budget{Undistributed: 94, Allocated: 6}},
		"the day is over": {kind: "spread", next: true, want: Budget{Unfunded: 94, Allocated: 6}},
		"forfeits":        {kind: "spread", refund: budget.Forfeit, next: true, want: Budget{Forfeited: 94, Allocated: 6}},
	} {
		t.Run(name, func(t *testing.T) {
			b := begun(definitions[test.kind], 1)
			parent := b.Budgets.Get(1)
			parent.LateRefund = Word(test.refund)
			u := parent
			c := carving(2, u.Undistributed+b.newest(b.Buckets.All()[0]).Outstanding)
			if test.pending {
				c.Definition.StartAt = at(b.NowMS + 5)
			}
			u, err := b.Carve(parent, c)
			if err != nil {
				t.Fatal(err)
			}
			e := b.newest(b.bucketsOf(u)[0])
			e.Outstanding, e.Used, e.Held = e.Outstanding-6, 4, 2
			all := u.Total
			b = saved(t, b)
			if parent, u = b.Budgets.Get(1), b.Budgets.Get(2); test.next {
				b.NowMS += day
				if _, err := b.RollOver(parent); err != nil {
					t.Fatal(err)
				}
				b = saved(t, b)
				parent, u = b.Budgets.Get(1), b.Budgets.Get(2)
			}
			before := *parent
			if units, err := b.Settle(parent, u, true); err != nil || units != all-6 {
				t.Fatalf("%d of %d, %v", units, all, err)
			}
			got := Budget{Undistributed: parent.Undistributed - before.Undistributed, Unfunded: parent.Unfunded - before.Unfunded,
				Forfeited: parent.Forfeited - before.Forfeited, Allocated: parent.Allocated}
			for _, part := range []*int64{&test.want.Undistributed, &test.want.Unfunded, &test.want.Forfeited} {
				if *part > 0 {
					*part = all - 6
				}
			}
			if got != test.want || u.Total != 6 || b.Adjustments.Get(ID{2, Returned}).Quantity != 6-all {
				t.Errorf("%+v, want %+v; %+v", got, test.want, u)
			}
			b = saved(t, b)
			e = b.newest(b.bucketsOf(b.Budgets.Get(2))[0])
			e.Used, e.Held, e.Returning, e.Late = 1, 0, 5, 3 // a rollback, and an expiry
			b.NowMS++
			if units, err := b.Settle(b.Budgets.Get(1), b.Budgets.Get(2), false); err != nil || units != 5 {
				t.Errorf("%d came back later, %v", units, err)
			}
			saved(t, b)
		})
	}
}

// discarded returns books as they were before a movement that was refused.
func discarded(b *Books) *Books {
	out := New(b.NowMS)
	back(&out.Budgets, &b.Budgets)
	back(&out.Periods, &b.Periods)
	back(&out.Buckets, &b.Buckets)
	back(&out.Epochs, &b.Epochs)
	back(&out.Adjustments, &b.Adjustments)
	return out
}

func back[R any, K comparable](into, from *Set[R, K]) {
	for _, row := range from.was {
		if row != nil {
			into.Load([]R{*row}, false)
		}
	}
}
