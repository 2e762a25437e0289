package books

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// TestReturns deducts and gives back at random: parts, the whole, holds and groups of them, by
// several principals, in epochs that end, are halted, or whose period is over. After each movement
// the accounts of every epoch, the feed and the counters of limits are what the rows of deductions
// add up to, and the same orders again change nothing.
func TestReturns(t *testing.T) {
	all := maps.Clone(definitions)
	all["unlimited"] = budget.Definition{Type: budget.Promo, Unlimited: true, BucketQuantity: 2}
	for name, d := range all {
		t.Run(name, func(t *testing.T) {
			d.Tenant, d.Name, d.Unit, d.Durability = "shop", name, budget.Count, budget.Ledger
			rapid.Check(t, func(r *rapid.T) { returnAtRandom(r, d) })
		})
	}
}

// userLimits count all deductions of a value, by amount and by call.
func userLimits(t *rapid.T) *limit.Set {
	ever := budget.Limit{Name: "ever", Dimension: "user", Max: 1000, Measure: budget.MeasureAmount,
		Window: budget.LimitWindow{Kind: budget.WindowLifetime}}
	calls := ever
	calls.Name, calls.Measure = "calls", budget.MeasureCount
	set, err := limit.Compile(limit.Begin([]budget.Limit{ever, calls}, at(1)))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func returnAtRandom(t *rapid.T, d budget.Definition) {
	b := New(day + 1)
	b.Create(Creation{Definition: d, As: "{}", ID: 1, FirstBucket: 1, Homes: make([]Home, d.BucketQuantity),
		KeyOf: func(ordinal int) string { return fmt.Sprint(ordinal) }})
	sets := map[int64]*limit.Set{1: userLimits(t)}
	for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
		b = committed(b, b.NowMS+rapid.SampledFrom([]int64{0, 1, 40, 40, day / 3}).Draw(t, "later"))
		switch rapid.SampledFrom([]string{"deduct", "deduct", "orders", "orders", "group", "end", "halt"}).Draw(t, "what") {
		case "deduct":
			deductOne(t, b, sets[1], fmt.Sprint("r", i))
		case "orders":
			orders := ordersAtRandom(t, i)
			b = twice(t, b, repeatable(orders, sets))
		case "group":
			o := ledger.GroupOrder{Budget: 1, Group: "g", OnlyBy: rapid.SampledFrom(principals).Draw(t, "by"),
				Kind: rapid.SampledFrom([]ledger.OrderKind{ledger.OrderRollback, ledger.OrderConfirm, ledger.OrderExtend}).Draw(t, "kind"),
				TTL:  time.Duration(rapid.Int64Range(1, 60).Draw(t, "ttl")) * time.Millisecond}
			rest := withoutOthers(b)
			b = twice(t, b, func(b *Books) ([]ledger.Result, error) { return b.ReturnGroup(&o, sets) })
			for _, row := range rest.Deductions.All() {
				b.Deductions.Load([]Deduction{*row}, false)
			}
			for _, row := range rest.Holds.All() {
				b.Holds.Load([]Hold{*row}, false)
			}
		case "end":
			row := rapid.SampledFrom(b.Buckets.All()).Draw(t, "bucket")
			if e := b.newest(row); e.live() && e.Halted == "" {
				units := e.Outstanding
				e.Outstanding, e.Closed, e.Status = 0, e.Closed+units, Closed
				b.returnUnits(b.Budgets.Get(1), e, units, 0)
				b.beginNext(b.Budgets.Get(1), row)
			}
		case "halt":
			rapid.SampledFrom(b.Epochs.All()).Draw(t, "epoch").Halted = rapid.SampledFrom([]string{"", "broken"}).Draw(t, "why")
		}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		recount(t, b, sets[1])
	}
}

// repeatable carries out orders, and the next time those that were not refused: of a rollback of
// more than was left, there may be enough after a confirm above the hold.
func repeatable(orders []ledger.Order, sets map[int64]*limit.Set) func(*Books) ([]ledger.Result, error) {
	return func(b *Books) ([]ledger.Result, error) {
		out, err := returnAll(b, orders, sets)
		done := orders[:0:0]
		for i := range out {
			if out[i].Err == nil {
				done = append(done, orders[i])
			}
		}
		orders = done
		return out, err
	}
}

// returnAll carries out orders as package hold does: confirms above the hold that need the whole
// budget come after the others.
func returnAll(b *Books, orders []ledger.Order, sets map[int64]*limit.Set) ([]ledger.Result, error) {
	out, err := b.Return(orders, sets)
	u := b.Budgets.Get(1)
	for i := range out {
		if out[i].Err != ErrNeedsBudget || err != nil {
			continue
		}
		if b.Due(u) {
			out[i].Err = budget.Refuse(budget.Unavailable, "confirm", "a rollover comes first")
			continue
		}
		out[i], err = b.ConfirmAbove(u, &orders[i], sets)
	}
	return out, err
}

var principals = []string{"", "", "ann", "bob"}

// withoutOthers takes the deductions and holds that are in no group out of the books, and returns
// them in books of their own.
func withoutOthers(b *Books) *Books {
	rest, all := New(0), committed(b, 0)
	b.Deductions, b.Holds = New(0).Deductions, New(0).Holds
	for _, row := range all.Deductions.All() {
		h := all.Holds.Get(row.ID())
		if h != nil && h.Group != nil {
			b.Deductions.Load([]Deduction{*row}, false)
			b.Holds.Load([]Hold{*h}, false)
			continue
		}
		rest.Deductions.Load([]Deduction{*row}, false)
		if h != nil {
			rest.Holds.Load([]Hold{*h}, false)
		}
	}
	return rest
}

func ordersAtRandom(t *rapid.T, step int) []ledger.Order {
	out := make([]ledger.Order, rapid.IntRange(1, 4).Draw(t, "orders"))
	ttl := time.Duration(rapid.Int64Range(1, 60).Draw(t, "ttl")) * time.Millisecond // of an extension and a step
	for i := range out {
		out[i] = ledger.Order{Budget: 1, RequestID: fmt.Sprint("r", rapid.IntRange(0, step+1).Draw(t, "id")),
			Kind: rapid.SampledFrom([]ledger.OrderKind{ledger.OrderRollback, ledger.OrderRollback, ledger.OrderCancel,
				ledger.OrderConfirm, ledger.OrderExtend, ledger.OrderExpire, ledger.OrderRenew, ledger.OrderRenew,
				ledger.OrderRenew}).Draw(t, "kind"),
			Step: rapid.Int64Range(1, 3).Draw(t, "step"), Used: rapid.Int64Range(0, 20).Draw(t, "used"),
			Hold:       rapid.SampledFrom([]int64{0, 1, 10, 30}).Draw(t, "hold"),
			Amount:     rapid.Int64Range(0, 30).Draw(t, "amount"),
			RollbackID: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "rollback"),
			OnlyBy:     rapid.SampledFrom(principals).Draw(t, "by"), TTL: ttl}
	}
	return out
}

// deductOne writes what a flight writes of one deduction, if its bucket covers it.
func deductOne(t *rapid.T, b *Books, set *limit.Set, id string) {
	row := rapid.SampledFrom(b.Buckets.All()).Draw(t, "bucket")
	amount := rapid.Int64Range(1, 20).Draw(t, "amount")
	e, u := b.newest(row), b.Budgets.Get(1)
	known := b.Deductions.Get(ID{1, id})
	if !e.mayGrow() || known != nil || u.Unlimited == 0 && e.Outstanding < amount {
		return
	}
	note := ledger.Note{Dimensions: ledger.Dimensions(map[string]string{"user": rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user")}),
		By: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "deducted by")}
	packed := note.Pack()
	b.Deductions.Add(Deduction{Budget: 1, RequestID: id, Bucket: row.ID, Epoch: e.Number, Amount: amount,
		CountedAt: b.NowMS, Note: &packed})
	if u.Unlimited == 0 {
		e.Outstanding -= amount
	}
	isHeld := rapid.Bool().Draw(t, "held")
	if isHeld {
		e.Held += amount
		until := b.NowMS + rapid.Int64Range(1, 60).Draw(t, "ttl")
		h := Hold{Budget: 1, RequestID: id, State: "held", UntilMS: until, DueMS: &until, Bucket: row.ID, Epoch: e.Number,
			Above:     rapid.SampledFrom([]Word{"refuse", "available", "available"}).Draw(t, "above"),
			ExpiresAs: rapid.SampledFrom([]Word{"released", "released", "used"}).Draw(t, "expires as")}
		group := b.Groups.Get(ID{1, "g"})
		if rapid.Bool().Draw(t, "grouped") && (group == nil || group.State == "open") {
			name := "g"
			h.Group = &name
			if group == nil {
				b.Groups.Add(Group{Budget: 1, Name: "g", State: "open"})
			}
		}
		b.Holds.Add(h)
	} else {
		e.Used += amount
	}
	b.Feeds.Add(Feed{Bucket: row.ID, First: e.NextEntry, Entries: 1, Units: amount, Body: string(ledger.AppendFeed(
		ledger.BeginFeed(nil), ledger.FeedEntry{Kind: ledger.FeedDeduct, RequestID: id, Amount: amount, Held: isHeld}))})
	e.NextEntry++
	charges, _ := set.Charges(amount, ledger.ReadDimensions(note.Dimensions), nil)
	for i := range charges {
		key := CounterID{1, "user", charges[i].Key}
		c := b.Counters.Get(key)
		if c == nil {
			c = b.Counters.Add(Counter{Budget: 1, Dimension: key.Dimension, Value: key.Value})
		}
		counts, _ := limit.ReadCounters(c.Counts)
		usage := counts.Usage(charges[i].Limit, key.Value, b.NowMS)
		usage.Stale()
		limit.Count(charges[i:i+1], []*limit.Usage{&usage})
		counts.Put(&usage)
		c.Counts, c.Version = counts.Pack(), c.Version+1
	}
}

// twice carries out orders, commits, and carries them out again, which changes nothing.
func twice(t *rapid.T, b *Books, do func(b *Books) ([]ledger.Result, error)) *Books {
	before := committed(b, b.NowMS)
	first, err := do(b)
	if err == nil {
		err = b.Check()
	}
	if err != nil && budget.CodeOf(err) == budget.Internal {
		t.Fatal(err)
	}
	if err != nil {
		if diff := cmp.Diff(rowsOfAll(before), rowsOfAll(b)); diff != "" {
			t.Fatalf("%v, and it changed\n%s", err, diff)
		}
		return before
	}
	for _, c := range b.Counters.All() {
		was := orZero(before.Counters.Get(CounterID{c.Budget, c.Dimension, c.Value}))
		if c.Counts != was.Counts && c.Version <= was.Version {
			t.Fatalf("%+v after %+v", *c, was)
		}
	}
	after := committed(b, b.NowMS)
	second, err := do(after)
	if err != nil && !budget.Is(err, budget.NotHeld) {
		t.Fatal(err)
	}
	for i := range second {
		if budget.CodeOf(second[i].Err) == budget.Internal && second[i].Err != nil {
			t.Fatalf("%+v, again %+v", first, second[i])
		}
	}
	if diff := cmp.Diff(rowsOfAll(committed(b, 0)), rowsOfAll(after)); diff != "" {
		t.Fatalf("the same again changed\n%s", diff)
	}
	return after
}

func rowsOfAll(b *Books) map[string]any {
	return map[string]any{"epochs": b.Epochs.All(), "deductions": b.Deductions.All(), "holds": b.Holds.All(),
		"extras": b.Extras.All(), "back": b.GiveBacks.All(), "groups": b.Groups.All(), "counters": b.Counters.All(),
		"values": b.Values.All(), "feed": b.Feeds.All(), "sums": b.Back}
}

// recount compares the accounts with the rows of deductions.
func recount(t *rapid.T, b *Books, set *limit.Set) {
	held, used, back := map[Position]int64{}, map[Position]int64{}, map[ID]int64{}
	fed, counted := map[int64]int64{}, map[string]int64{}
	ofExtra := map[ExtraID]int64{}
	for _, g := range b.GiveBacks.All() {
		back[ID{g.Budget, g.RequestID}] += g.Amount
		ofExtra[ExtraID{ID{g.Budget, g.RequestID}, g.Number}] += g.Amount
	}
	usedOf := map[ID]int64{}
	for _, x := range b.Extras.All() {
		used[Position{x.Bucket, x.Epoch}] += x.Used
		held[Position{x.Bucket, x.Epoch}] += x.Amount - x.Back - x.Used
		usedOf[ID{x.Budget, x.RequestID}] += x.Used
		if x.Back != ofExtra[ExtraID{ID{x.Budget, x.RequestID}, x.Number}] {
			t.Fatalf("%+v: %v came back", *x, ofExtra)
		}
	}
	for _, row := range b.Deductions.All() {
		d, err := b.DeductionOf(row)
		if err != nil || d.RolledBack != back[row.ID()] || d.RolledBack > d.Amount+d.Extra {
			t.Fatalf("%v, %+v: %d came back", err, d, back[row.ID()])
		}
		if h := b.Holds.Get(row.ID()); h != nil && (h.State == "held") != (h.DueMS != nil && *h.DueMS == h.UntilMS) {
			t.Fatalf("%+v", *h)
		}
		first := d.Amount - ofExtra[ExtraID{row.ID(), 0}]
		usedFirst := first
		if b.Holds.Get(row.ID()) != nil {
			usedFirst = d.Used - usedOf[row.ID()]
			if d.State != ledger.StateHeld && d.Used != d.Left() {
				t.Fatalf("%+v: what is left of it is not used", d)
			}
		}
		used[Position{d.Bucket, d.Epoch}] += usedFirst
		held[Position{d.Bucket, d.Epoch}] += first - usedFirst
		charges, _ := set.Charges(d.Amount, ledger.ReadDimensions(d.Dimensions), nil)
		for _, charge := range charges {
			counted[charge.Limit.Name+" "+charge.Key] += charge.Limit.Kept(charge.Counts, d.Amount, ofExtra[ExtraID{row.ID(), 0}])
		}
	}
	for _, x := range b.Extras.All() {
		d, _ := b.DeductionOf(b.Deductions.Get(ID{x.Budget, x.RequestID}))
		user := ledger.ReadDimensions(d.Dimensions)["user"]
		counted["ever "+user] += x.Amount - x.Back
		if x.Late == 1 && x.Amount > x.Back {
			counted["calls "+user]++
		}
	}
	left := map[int64]int64{}
	for _, e := range b.Epochs.All() {
		if e.Held != held[e.Position()] || e.Used != used[e.Position()] {
			t.Fatalf("%+v, the rows have %d held and %d used", *e, held[e.Position()], used[e.Position()])
		}
		left[e.Bucket] += e.Held + e.Used
	}
	for _, f := range slices.SortedFunc(slices.Values(b.Feeds.All()), func(x, y *Feed) int { return int(x.First - y.First) }) {
		entries, err := ledger.ReadFeed(f.Body)
		if err != nil || f.First != fed[f.Bucket]+1 || int(f.Entries) != len(entries) {
			t.Fatalf("%+v after entry %d: %v, %+v", *f, fed[f.Bucket], err, entries)
		}
		fed[f.Bucket] += f.Entries
		left[f.Bucket] -= f.Units
	}
	for _, row := range b.Buckets.All() {
		if b.newest(row).NextEntry != fed[row.ID]+1 || left[row.ID] != 0 {
			t.Fatalf("bucket %d: %d entries, the next is %d; the feed is off by %d", row.ID, fed[row.ID], b.newest(row).NextEntry, left[row.ID])
		}
	}
	for _, c := range b.Counters.All() {
		counts, err := limit.ReadCounters(c.Counts)
		for _, l := range set.List {
			usage := counts.Usage(l, c.Value, b.NowMS)
			if got, _ := usage.Used(); err != nil || got != counted[l.Name+" "+c.Value] {
				t.Fatalf("%s %s counts %d, its deductions %d: %v", l.Name, c.Value, got, counted[l.Name+" "+c.Value], err)
			}
		}
	}
}

// TestCheckOfReturns checks that a movement is not saved that gives more or less back than its rows
// say.
func TestCheckOfReturns(t *testing.T) {
	for name, spoil := range map[string]func(b *Books, e *Epoch){
		"":                      func(*Books, *Epoch) {},
		"H and S changed":       func(_ *Books, e *Epoch) { e.Used, e.Outstanding = e.Used+1, e.Outstanding-1 },
		"was not loaded":        func(b *Books, _ *Epoch) { b.GiveBacks.All()[0].Epoch++ },
		"than was deducted":     func(b *Books, _ *Epoch) { b.Back[ID{1, "r"}] = 11 },
		"an account is below 0": func(_ *Books, e *Epoch) { e.Used, e.Held = e.Used-7, e.Held+7 },
	} {
		b := New(day)
		b.Create(Creation{Definition: definitions["promo"], As: "{}", ID: 1, FirstBucket: 1, Homes: make([]Home, 3),
			KeyOf: func(ordinal int) string { return fmt.Sprint(ordinal) }})
		e := b.Epochs.All()[0]
		e.Outstanding, e.Used = e.Outstanding-10, 10
		b.Deductions.Add(Deduction{Budget: 1, RequestID: "r", Bucket: 1, Epoch: 1, Amount: 10})
		b = committed(b, day)
		e = b.Epochs.All()[0]
		if _, err := b.Return([]ledger.Order{{Kind: ledger.OrderRollback, Budget: 1, RequestID: "r", Amount: 4}}, nil); err != nil {
			t.Fatal(err)
		}
		spoil(b, e)
		if err := b.Check(); (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
