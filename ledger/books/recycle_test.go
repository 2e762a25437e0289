package books

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
)

// TestRecycleInStores checks one recycle in stores, step by step: the bucket that is used keeps its
// epoch, the others give, and the last step hands out by demand.
func TestRecycleInStores(t *testing.T) {
	d := definitions["promo"]
	d.TotalQuantity = 1000
	b, s := inStores(d, 4)
	s.use(b, 2, 50)
	used := map[int64]Used{2: {Units: 50, Largest: 5, SinceMS: day}}
	b.Used = used
	l, closing, err := b.CloseAbove(b.Budgets.Get(1), nil)
	if err != nil || fmt.Sprint(closing) != "map[1:250 3:250 4:250]" || l.Units != 950 || l.Stranded() == 0 {
		t.Fatalf("%v, %+v, %v", closing, l, err)
	}
	away := map[int64]bool{4: true}
	b = s.deliver(b, away)
	b.Used, b.Away = used, away
	u := b.Budgets.Get(1)
	if _, closing, err = b.CloseAbove(u, map[int64]bool{1: true, 3: true}); err != nil || len(closing) > 0 {
		t.Fatalf("again: %v, %v", closing, err)
	}
	b.Buckets.Get(2).OutCnt = 3
	run, err := b.Recycle(u, "operator", &Collected{Units: 950, Stranded: 7, Moved: 500, BeganMS: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	want := Run{Budget: 1, Number: 1, Cause: "operator", Buckets: 3, Skipped: 1, Moved: 500,
		UnitsBefore: 950, StrandedBefore: 7, UnitsAfter: 950, BeganAt: 5, EndedAt: b.NowMS}
	if *run != want {
		t.Errorf("%+v, want %+v", *run, want)
	}
	if u.Undistributed != 0 || b.Buckets.Get(2).OutCnt != 0 || b.Buckets.Get(4).Epoch != 1 {
		t.Errorf("U is %d: %+v", u.Undistributed, b.Buckets.Get(2))
	}
	s.deliver(b, away)
	if s[1] < 25 || s[3] != s[1] || s[2] < 10*s[1] || s[1]+s[2]+s[3] != 700 {
		t.Errorf("%v", s)
	}
}

// TestRecycleInStoresNearTheEnd checks that units that Supply keeps in U stay there.
func TestRecycleInStoresNearTheEnd(t *testing.T) {
	b, _ := inStores(definitions["promo"], 4)
	u := b.Budgets.Get(1)
	e := b.newest(b.Buckets.Get(1))
	u.Undistributed, e.Closed, e.Outstanding = u.Undistributed+5, e.Closed+5, e.Outstanding-5
	u.ContractionBound = 100
	_, closing, err := b.CloseAbove(u, nil)
	if err != nil || len(closing) > 0 {
		t.Fatalf("%v, %v", closing, err)
	}
	run, err := b.Recycle(u, "operator", &Collected{Units: 100, BeganMS: 1})
	if err != nil || u.Undistributed != 5 || u.ContractionBound != 100 || run.UnitsAfter != 100 {
		t.Errorf("U is %d, the bound %d: %+v, %v", u.Undistributed, u.ContractionBound, run, err)
	}
}

// TestRecycleStepsAtRandom recycles budgets in stores while units are used and some stores do not
// answer. Each step keeps I1, takes few epochs, none twice, and ends; no unit is lost. The last
// step leaves nothing in U that a bucket below its share could have.
func TestRecycleStepsAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := definitions["promo"]
		d.TotalQuantity = rapid.Int64Range(1, 5000).Draw(t, "total")
		n := rapid.IntRange(1, 40).Draw(t, "buckets")
		b, s := inStores(d, n)
		id := rapid.Int64Range(1, int64(n))
		demand, away, done := map[int64]Used{}, map[int64]bool{}, map[int64]bool{}
		for range rapid.IntRange(0, 5).Draw(t, "used") {
			demand[id.Draw(t, "bucket")] = Used{Units: rapid.Int64Range(0, 1000).Draw(t, "units"), Largest: 3,
				SinceMS: day}
		}
		for range rapid.IntRange(0, 3).Draw(t, "down") {
			away[id.Draw(t, "away")] = true
		}
		refill := func() {
			row := b.Buckets.Get(id.Draw(t, "refilled"))
			if _, err := b.ApplyInStore(b.Budgets.Get(1), row, Refill{Lacks: 1, Rate: 200}); err != nil {
				t.Fatal(err)
			}
			b = s.deliver(b, away)
		}
		for steps := 0; ; steps++ {
			if row := id.Draw(t, "selling"); s[row] > 0 && b.newest(b.Buckets.Get(row)).live() {
				s.use(b, row, 1)
			}
			b.Used, b.Away = demand, nil
			if steps > 0 {
				b.Away = away
			}
			_, closing, err := b.CloseAbove(b.Budgets.Get(1), done)
			if err != nil || b.Check() != nil || steps > 40 {
				t.Fatalf("step %d: %v, %v, %v", steps, closing, err, b.Check())
			}
			for bucket := range done {
				if e := b.newest(b.Buckets.Get(bucket)); done[bucket] && e.Status == Closing {
					t.Fatalf("step %d closes bucket %d a second time", steps, bucket)
				}
			}
			b = s.deliver(b, away)
			for bucket := range closing {
				if done[bucket] || len(closing) > mostDonors {
					t.Fatalf("%v are closed after %v", closing, done)
				}
				done[bucket] = !away[bucket]
			}
			if len(closing) == 0 {
				break
			}
			refill()
		}
		refill()
		b.Used, b.Away = demand, away
		u, before := b.Budgets.Get(1), map[*Epoch]int64{}
		for _, e := range b.Epochs.All() {
			before[e] = e.Outstanding
		}
		run, err := b.Recycle(u, "operator", &Collected{BeganMS: 1})
		if err != nil || b.Check() != nil {
			t.Fatalf("%v, %v", err, b.Check())
		}
		left := u.Undistributed
		for _, e := range b.Epochs.All() {
			left += e.Outstanding
			if e.Outstanding < before[e] { // its store has them
				t.Fatalf("bucket %d had %d and has %d", e.Bucket, before[e], e.Outstanding)
			}
		}
		sold := int64(0)
		for _, e := range b.Epochs.All() {
			sold += e.Used
		}
		if left+sold != d.TotalQuantity || run.UnitsAfter != left {
			t.Fatalf("%d are left and %d sold of %d: %+v", left, sold, d.TotalQuantity, *run)
		}
		l := b.Layout(u)
		for i, share := range b.shares(u, &l) {
			if l.Holdings[i].Units < share && u.Undistributed > 0 {
				t.Fatalf("U is %d, bucket %d has %d of %d", u.Undistributed, l.Holdings[i].Bucket,
					l.Holdings[i].Units, share)
			}
		}
	})
}

// TestShareOutWithoutAPeriod checks that nothing moves without an open period.
func TestShareOutWithoutAPeriod(t *testing.T) {
	d := definitions["spread"]
	b, _ := inStores(d, 2)
	b.NowMS = 30 * day
	if _, closing, err := b.CloseAbove(b.Budgets.Get(1), nil); !budget.Is(err, budget.BudgetExpired) {
		t.Errorf("%v, %v", closing, err)
	}
}
