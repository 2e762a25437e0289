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
	reload(&out.Extras, &b.Extras)
	reload(&out.Values, &b.Values)
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
		switch rapid.SampledFrom([]string{"adjust", "adjust", "use", "return", "recycle", "sweep",
			"offline", "online", "later"}).Draw(t, "what") {
		case "recycle":
			recycleOnce(t, b, u)
		case "sweep":
			b.Sweep(u)
		case "offline":
			row := rapid.SampledFrom(b.Buckets.All()).Draw(t, "bucket")
			if err := b.Offline(u, row, byService); err != nil && !budget.Is(err, budget.LastBucket) {
				t.Fatal(err)
			}
		case "online":
			row := rapid.SampledFrom(b.Buckets.All()).Draw(t, "bucket")
			if _, err := b.Online(u, row); err != nil && !budget.Is(err, budget.BudgetExpired) {
				t.Fatal(err)
			}
		case "later":
			b.NowMS += rapid.Int64Range(1, 3*day).Draw(t, "ms")
			rollOnce(t, b, u)
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

// rollOnce rolls over what is due. Afterwards the open period contains the present instant, its
// units are in U and in the buckets, and a second rollover changes nothing.
func rollOnce(t *rapid.T, b *Books, u *Budget) {
	due := b.Due(u)
	out, err := b.RollOver(u)
	if err != nil || out.Done != due || out.More {
		t.Fatalf("due %v: %+v, %v", due, out, err)
	}
	if b.Due(u) || u.IsOver == 0 && !b.Periods.Get([2]int64{u.ID, u.Period}).contains(b.NowMS) {
		t.Fatalf("at %d the open period is %+v", b.NowMS, out.Period)
	}
	for _, row := range b.bucketsOf(u) {
		if e := b.newest(row); row.Status == Online && (!e.live() || e.Period != u.Period) {
			t.Fatalf("bucket %d is online with %+v, the period is %d", row.ID, *e, u.Period)
		}
	}
	version := u.ListVersion
	if again, err := b.RollOver(u); err != nil || again.Done || u.ListVersion != version {
		t.Fatalf("again: %+v, %v", again, err)
	}
}

// contains reports whether a period contains an instant in ms.
func (p *Period) contains(ms int64) bool { return p.StartMS <= ms && (p.EndMS == 0 || ms < p.EndMS) }

// recycleOnce recycles a budget. That neither adds nor removes units, and a second one moves none.
func recycleOnce(t *rapid.T, b *Books, u *Budget) {
	before := u.Undistributed
	for _, e := range b.Epochs.All() {
		before += e.Outstanding + e.Returning
	}
	run, err := b.Recycle(u, "operator", nil)
	if budget.Is(err, budget.BudgetExpired) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	after := u.Undistributed + u.Unfunded + u.Forfeited
	for _, e := range b.Epochs.All() {
		after += e.Outstanding + e.Returning
	}
	if run.UnitsAfter > before || after < before || run.Number != u.NextRun-1 {
		t.Fatalf("%d units before, %d after: %+v", before, after, *run)
	}
	again, err := b.Recycle(u, "operator", nil)
	if err != nil || again.Moved != 0 {
		t.Fatalf("again: %+v, %v", again, err)
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

// TestReleasable checks that nothing of a period that is over is released, and that a pending
// shrink takes from U what F does not cover.
func TestReleasable(t *testing.T) {
	for name, test := range map[string]struct {
		u    Budget
		want int64
	}{
		"all":            {Budget{Undistributed: 10, PeriodEndMS: 101}, 10},
		"without an end": {Budget{Undistributed: 10}, 10},
		"at the end":     {Budget{Undistributed: 10, PeriodEndMS: 100}, 0},
		"after the last": {Budget{Undistributed: 10, PeriodEndMS: 500, IsOver: 1}, 0},
		"a shrink":       {Budget{Undistributed: 10, Unfunded: 3, PendingShrink: 7}, 6},
		"a larger one":   {Budget{Undistributed: 10, Unfunded: 3, PendingShrink: 70}, 0},
	} {
		if got := test.u.releasable(100); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// TestRollOverInStores checks that a period of a budget in store mode ends only after its epochs
// were set to closing, that units of an epoch that still closes go where the rule says when they
// arrive, and that its bucket gets no epoch before.
func TestRollOverInStores(t *testing.T) {
	d := definitions["next"]
	d.Tenant, d.Name, d.Unit, d.Durability = "shop", "next", budget.Count, budget.Store
	b := New(day + 1)
	b.Create(Creation{Definition: d, As: "{}", ID: 1, FirstBucket: 1, Homes: []Home{{"redis", 0, 1}, {"redis", 0, 1}},
		KeyOf: func(ordinal int) string { return fmt.Sprint(ordinal) }})
	b = committed(b, b.NowMS)
	b.Partitions.Load([]Partition{{Instance: "redis", Incarnation: 1}}, true)
	u, first, second := b.Budgets.Get(1), b.Epochs.Get(Position{1, 1}), b.Epochs.Get(Position{2, 1})
	first.Status, second.Status = Open, Open
	held := first.Outstanding
	b.NowMS += day
	out, err := b.RollOver(u)
	if err != nil || out.Done || fmt.Sprint(out.Closing) != "[1 2]" || first.Status != Closing || first.Outstanding != held {
		t.Fatalf("while epochs are open: %+v, %v; %+v", out, err, *first)
	}
	// The store of the second one answers, that of the first is down.
	second.Status, second.Closed, second.Outstanding = Closed, second.Outstanding, 0
	u.Undistributed += second.Closed
	out, err = b.RollOver(u)
	if err != nil || !out.Done || fmt.Sprint(out.Granted) != "[2]" || u.Period != first.Period+1 {
		t.Fatalf("once none is open: %+v, %v", out, err)
	}
	if e := b.Epochs.Get(Position{2, 2}); e == nil || e.Status != Opening || e.Outstanding != out.Units || e.Incarnation != 1 {
		t.Fatalf("the next epoch: %+v", e)
	}
	if b.Epochs.Get(Position{1, 2}) != nil || first.Outstanding != held {
		t.Fatalf("the one that still closes: %+v", *first)
	}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	if b.mayTake(u, b.Buckets.Get(1)) {
		t.Error("units go into an epoch that closes")
	}
	b.Partitions.All()[0].IsDraining = 1
	if b.mayTake(u, b.Buckets.Get(2)) {
		t.Error("units go to a partition that is drained")
	}
}

// TestRecycleAfterAContraction checks that a recycle brings the buckets that a contraction took
// offline back only for more than that left over.
func TestRecycleAfterAContraction(t *testing.T) {
	d := definitions["promo"]
	d.Tenant, d.Name, d.Unit, d.Durability = "shop", "promo", budget.Count, budget.Ledger
	for bound, want := range map[int64]int{99: 3, 100: 1} {
		b := New(day)
		b.Create(Creation{Definition: d, As: "{}", ID: 1, FirstBucket: 1, Homes: make([]Home, 3),
			KeyOf: func(ordinal int) string { return fmt.Sprint(ordinal) }})
		b = committed(b, b.NowMS)
		u := b.Budgets.Get(1)
		for _, row := range b.Buckets.All()[1:] {
			b.takeOffline(u, row, byService)
		}
		u.ContractionBound = bound
		run, err := b.Recycle(u, "operator", nil)
		online := 0
		for _, row := range b.Buckets.All() {
			online += int(one(row.Status == Online))
		}
		if err != nil || online != want || int(run.Buckets) != want || b.Check() != nil {
			t.Errorf("with a bound of %d: %d buckets are online, %+v, %v, %v", bound, online, run, err, b.Check())
		}
	}
}
