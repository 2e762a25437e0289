package books

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
)

// balances are the balances of a budget's buckets: what each has in its open epoch.
type balances map[int64]int64

// inStores returns books with a budget whose buckets are in stores, open and delivered.
func inStores(d budget.Definition, buckets int) (*Books, balances) {
	d.Tenant, d.Name, d.Unit, d.Durability, d.BucketQuantity = "shop", "b", budget.Count, budget.Store, buckets
	homes := make([]Home, buckets)
	for i := range homes {
		homes[i] = Home{"redis", 0, 1}
	}
	b := New(day + 1)
	b.Create(Creation{Definition: d, As: "{}", ID: 1, FirstBucket: 1, Homes: homes,
		KeyOf: func(ordinal int) string { return fmt.Sprint(ordinal) }})
	s := balances{}
	return s.deliver(b, nil), s
}

// deliver returns books after a commit, as the stores of all buckets but those away have carried out
// what they were told: epochs are open, grants delivered, and closing epochs closed.
func (s balances) deliver(b *Books, away map[int64]bool) *Books {
	for _, g := range b.Grants.All() {
		if g.Status == Pending && !away[g.Bucket] {
			s[g.Bucket] += g.Amount
			g.Status = Done
		}
	}
	for _, row := range b.Buckets.All() {
		switch e := b.newest(row); {
		case away[row.ID]:
		case e.Status == Opening:
			e.Status = Open
		case e.Status == Closing:
			u := b.Budgets.Get(1)
			b.returnUnits(u, e, e.Outstanding, 0)
			e.Closed, e.Outstanding, e.Status = e.Closed+e.Outstanding, 0, Closed
			s[row.ID] = 0
		}
	}
	return s.commit(b)
}

func (s balances) commit(b *Books) *Books {
	out := committed(b, b.NowMS+1)
	for _, g := range b.Grants.All() {
		if g.Status == Pending {
			out.Grants.Load([]Grant{*g}, false)
		}
	}
	out.Applied = b.Applied
	out.Partitions.Load([]Partition{{Instance: "redis", Incarnation: 1}}, true)
	return out
}

// use takes units from a bucket's store, of which SQL knows at once.
func (s balances) use(b *Books, bucket, units int64) {
	e := b.newest(b.Buckets.Get(bucket))
	s[bucket] -= units
	e.Outstanding -= units
	e.Used += units
}

func (s balances) have(b *Books) map[Position]int64 {
	have := map[Position]int64{}
	for id, units := range s {
		have[b.newest(b.Buckets.Get(id)).Position()] = units
	}
	return have
}

// TestSupplyAtTheEnd checks a round near the end of a budget: the buckets whose operations fit get
// what they lack, each in one grant, the others give everything, and what is left stays in U, where
// neither a refill nor a small append takes it.
func TestSupplyAtTheEnd(t *testing.T) {
	b, s := inStores(definitions["promo"], 4) // 25 each
	u := b.Budgets.Get(1)
	asks := []Ask{{1, 30}, {2, 90}, {2, 28}}
	r := Round{Asks: asks, Have: s.have(b), Recent: 7}
	out, err := b.Supply(u, r)
	if err != nil || !out.Unsynced || out.Units != 0 || fmt.Sprint(out.Given) != "[false false false]" {
		t.Fatalf("before SQL knows what was used: %+v, %v", out, err)
	}
	r.Synced = true
	out, err = b.Supply(u, r)
	if err != nil || !out.Waits || out.Keep >= 0 || fmt.Sprint(out.Push) != "[1 2 3 4]" {
		t.Fatalf("with donors: %+v, %v", out, err)
	}
	b = s.deliver(b, nil)
	u = b.Budgets.Get(1)
	if u.Undistributed != 50 || u.ContractionBound != 112 {
		t.Fatalf("U is %d, the bound %d", u.Undistributed, u.ContractionBound)
	}
	r.Have, r.Collected = s.have(b), true
	out, err = b.Supply(u, r)
	if err != nil || out.Waits || out.Units != 8 || fmt.Sprint(out.Given) != "[true false true]" {
		t.Fatalf("from U: %+v, %v", out, err)
	}
	wants(t, b, " 30 28 0 0")
	b = s.deliver(b, nil)
	u = b.Budgets.Get(1)
	for _, background := range []bool{true, false} {
		got, err := b.ApplyInStore(u, b.Buckets.Get(1), Refill{Lacks: 1, Rate: 1, Background: background})
		if err != nil || (got.Units > 0) == background {
			t.Errorf("in the background %v: %+v, %v", background, got, err)
		}
	}
	b = s.deliver(b, nil)
	u = b.Budgets.Get(1)
	if moved := b.Distribute(u); moved != 0 || u.Undistributed == 0 {
		t.Errorf("%d of %d were handed out", moved, u.Undistributed)
	}
	u.Undistributed += 200
	u.Total += 200
	if b.Distribute(u); u.Undistributed != 0 || u.ContractionBound != 0 {
		t.Errorf("after an append U is %d, the bound %d", u.Undistributed, u.ContractionBound)
	}
}

// TestApplicationsOfOthers checks that buckets that may no longer apply get units of an application
// that counts on one that may, once for all of them, and what came back without any.
func TestApplicationsOfOthers(t *testing.T) {
	d := definitions["promo"]
	d.AdjustCnt = 1
	b, s := inStores(d, 3)
	u := b.Budgets.Get(1)
	b.Applied[1] = u.Total
	b.Buckets.Get(3).OutCnt = 0
	u.Undistributed, u.Total = u.Undistributed+50, u.Total+50
	b.Periods.All()[0].Funded += 40 // 10 came back
	u.Out = u.Total - u.Undistributed
	b = s.commit(b)
	u = b.Budgets.Get(1)
	out, err := b.Supply(u, Round{Asks: []Ask{{1, s[1] + 15}, {2, s[2] + 15}}, Have: s.have(b)})
	if err != nil || fmt.Sprint(out.Given) != "[true true]" {
		t.Fatalf("%+v, %v", out, err)
	}
	var counts []int64
	for _, row := range b.Buckets.All() {
		counts = append(counts, row.OutCnt)
	}
	if fmt.Sprint(counts) != "[1 1 1]" || b.Check() != nil {
		t.Errorf("applications %v, %v", counts, b.Check())
	}
	b = s.deliver(b, nil)
	u = b.Budgets.Get(1)
	u.Undistributed, u.Total = u.Undistributed+50, u.Total+50
	b.Periods.All()[0].Funded += 50
	b = s.commit(b)
	out, err = b.Supply(b.Budgets.Get(1), Round{Asks: []Ask{{1, s[1] + 1}}, Have: s.have(b)})
	if err != nil || out.Units != 0 {
		t.Errorf("when none may apply: %+v, %v", out, err)
	}
}

// TestRounds lets operations wait at random, while units are used and come back, buckets are halted,
// and partitions do not answer. Check compares every round with I1. An ask that is Given has its
// units once the grants are delivered; a round that is repeated before that grants nothing more; and
// after a few rounds every operation that fits into what is in reach, alone, was given or others
// were.
func TestRounds(t *testing.T) {
	for name, d := range definitions {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				d.AdjustCnt = rapid.IntRange(0, 2).Draw(r, "adjust_cnt")
				d.ShardingQuantity = rapid.Int64Range(0, 5).Draw(r, "sharding_quantity")
				b, s := inStores(d, 4)
				b.Applied[1] = b.Budgets.Get(1).Total - b.Budgets.Get(1).Unfunded - b.Budgets.Get(1).Undistributed
				for range rapid.IntRange(1, 8).Draw(r, "steps") {
					b = s.atRandom(r, b)
				}
			})
		})
	}
}

func (s balances) atRandom(t *rapid.T, b *Books) *Books {
	bucket := rapid.Int64Range(1, 4).Draw(t, "bucket")
	e := b.newest(b.Buckets.Get(bucket))
	units := rapid.Int64Range(1, 40).Draw(t, "units")
	switch rapid.SampledFrom([]string{"round", "round", "use", "return", "halt"}).Draw(t, "what") {
	case "use":
		if e.Status == Open {
			s.use(b, bucket, min(units, s[bucket]))
		}
	case "return":
		units = min(units, e.Used)
		e.Used -= units
		e.Returning += units
	case "halt":
		e.Halted = rapid.SampledFrom([]string{"", "a mismatch"}).Draw(t, "why")
	default:
		asks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Ask {
			return Ask{rapid.Int64Range(1, 4).Draw(t, "bucket"), rapid.Int64Range(1, 40).Draw(t, "amount")}
		}), 1, 6).Draw(t, "asks")
		away := map[int64]bool{rapid.Int64Range(1, 8).Draw(t, "away"): true}
		return s.rounds(t, b, Round{Asks: asks, Recent: rapid.Int64Range(0, 12).Draw(t, "recent"),
			Away: away, Synced: true})
	}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	return s.commit(b)
}

func (s balances) rounds(t *rapid.T, b *Books, r Round) *Books {
	for range 4 {
		r.Have = s.have(b)
		out, err := b.Supply(b.Budgets.Get(1), r)
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			t.Fatal(err)
		}
		b = s.commit(b)
		again, err := b.Supply(b.Budgets.Get(1), r)
		if err != nil || again.Units != 0 && !out.Waits {
			t.Fatalf("%+v, and again %+v, %v", out, again, err)
		}
		b = s.deliver(b, r.Away)
		var left []Ask
		for i, ask := range r.Asks {
			switch {
			case !out.Given[i]:
				left = append(left, ask)
			case s[ask.Bucket] < ask.Amount:
				t.Fatalf("bucket %d has %d for %d: %+v", ask.Bucket, s[ask.Bucket], ask.Amount, out)
			default:
				s.use(b, ask.Bucket, ask.Amount)
			}
		}
		b = s.commit(b)
		if r.Asks = left; !out.Waits || len(left) == 0 {
			break
		}
	}
	return b
}
