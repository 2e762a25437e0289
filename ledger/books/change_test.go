package books

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// TestChange changes definitions at random, the number of buckets among them, while units are used
// and come back. Check compares every change with I1 and with the rows that explain it. Afterwards
// the rows have the definition that was asked for, every live epoch judges by it, and an effective
// budget has a bucket online.
func TestChange(t *testing.T) {
	for name, d := range definitions {
		t.Run(name, func(t *testing.T) {
			d.Tenant, d.Name, d.Unit, d.Durability = "shop", name, budget.Count, budget.Ledger
			d.OnLoss = budget.Quarantine
			rapid.Check(t, func(r *rapid.T) { changeAtRandom(r, d) })
		})
	}
}

func keysOf(name string) func(int) string {
	return func(ordinal int) string { return fmt.Sprint(name, ordinal) }
}

func changeAtRandom(t *rapid.T, d budget.Definition) {
	b := New(day + 1)
	b.Create(Creation{Definition: d, As: "{}", ID: 1, FirstBucket: 1, Homes: make([]Home, d.BucketQuantity),
		KeyOf: keysOf(d.Name)})
	for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
		b = committed(b, b.NowMS+rapid.SampledFrom([]int64{1, day / 3}).Draw(t, "later"))
		u := b.Budgets.Get(1)
		e := rapid.SampledFrom(b.Epochs.All()).Draw(t, "epoch")
		units := rapid.Int64Range(1, 40).Draw(t, "units")
		switch rapid.SampledFrom([]string{"change", "change", "use", "return", "offline"}).Draw(t, "what") {
		case "use":
			units = min(units, e.Outstanding)
			e.Outstanding -= units
			e.Used += units
		case "return":
			units = min(units, e.Used)
			e.Used -= units
			e.Returning += units
			if e.Status != Open || u.IsOver == 1 {
				e.Late += units
			}
		case "offline":
			row := rapid.SampledFrom(b.Buckets.All()).Draw(t, "bucket")
			if row.OfflineBy != byResize {
				_ = b.Offline(u, row, rapid.SampledFrom([]Word{byService, byOperator}).Draw(t, "by"))
			}
		default:
			changeOnce(t, b, u, int64(100*(i+1)))
		}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

func changeOnce(t *rapid.T, b *Books, u *Budget, firstBucket int64) {
	before, err := b.DefinitionOf(u)
	if err != nil {
		t.Fatal(err)
	}
	after, now := before, at(b.NowMS)
	switch rapid.SampledFrom([]string{"pause", "end", "quantity", "buckets", "name", "limits"}).Draw(t, "field") {
	case "pause":
		after.Paused = !after.Paused
	case "end":
		after.EndAt = now.Add(time.Duration(rapid.IntRange(1, 72).Draw(t, "hours")) * time.Hour)
	case "quantity":
		if before.Rule != nil {
			rule := *before.Rule
			rule.Quantity = rapid.Int64Range(1, 50).Draw(t, "quantity")
			after.Rule = &rule
		}
	case "buckets":
		after.BucketQuantity = rapid.IntRange(1, 6).Draw(t, "buckets")
	case "name":
		after.Name = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
	case "limits":
		var list []budget.Limit
		for i := range rapid.IntRange(0, 3).Draw(t, "limits") {
			list = append(list, budget.Limit{Name: fmt.Sprint("l", i), Dimension: "user", Max: 5, Enforce: true,
				Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}})
		}
		if after.Limits = limit.Change(before.Limits, list, now); len(list) == 0 {
			after.Limits.List = nil
		}
	}
	after.Version, after.UpdatedAt = before.Version+1, now
	err = b.Change(u, Redefinition{Before: before, After: after, FirstBucket: firstBucket,
		Limits: !reflect.DeepEqual(before.Limits, after.Limits), KeyOf: keysOf(after.Name)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.DefinitionOf(u)
	if err != nil || !reflect.DeepEqual(got, after) {
		t.Fatalf("%+v, %v, want %+v", got, err, after)
	}
	online, ring := 0, 0
	for i, row := range b.Buckets.All() {
		if row.Key != keysOf(after.Name)(i) {
			t.Fatalf("bucket %d is %q", i, row.Key)
		}
		if row.OfflineBy != byResize {
			ring++
		}
		if row.Status == Online {
			online++
		}
		if e := b.newest(row); e.live() && (e.Version != after.Version || e.PeriodEndMS != u.PeriodEndMS) {
			t.Fatalf("%+v judges by another definition than %+v", *e, *u)
		}
	}
	if ring != after.BucketQuantity || online == 0 && after.StatusAt(now) == budget.Effective && u.IsOver == 0 &&
		before.BucketQuantity != after.BucketQuantity {
		t.Fatalf("%d buckets, %d online: %+v", ring, online, after)
	}
}
