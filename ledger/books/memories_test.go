package books

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
)

// entry is what a store has of an epoch.
type entry struct {
	balance, taken, given, last, late int64
	open                              bool
}

// stores are the rows of a budget in store mode, its grants, and what its stores have.
type stores struct {
	t       *rapid.T
	b       *Books
	grants  map[Position]int64 // all there were
	pending []Grant
	entries map[Position]*entry
}

// TestMemories opens, counts, closes, loses and releases epochs at random. Check compares every
// movement with I1 and with the rows that explain it, and each epoch is compared with all grants that
// it ever got. What a store tells twice has no second effect, and no epoch is halted, because what
// stores tell is true.
func TestMemories(t *testing.T) {
	for name, d := range definitions {
		for _, loss := range []budget.OnLoss{budget.Quarantine, budget.AssumeUnused} {
			t.Run(fmt.Sprint(name, " ", loss), func(t *testing.T) {
				d.Tenant, d.Name, d.Unit, d.Durability, d.OnLoss = "shop", name, budget.Count, budget.Store, loss
				rapid.Check(t, func(r *rapid.T) { storesAtRandom(r, d) })
			})
		}
	}
}

func storesAtRandom(t *rapid.T, d budget.Definition) {
	b := New(day + 1)
	homes := make([]Home, d.BucketQuantity)
	for i := range homes {
		homes[i] = Home{"redis", 0, 1}
	}
	b.Create(Creation{Definition: d, As: "{}", ID: 1, FirstBucket: 1, Homes: homes,
		KeyOf: func(ordinal int) string { return fmt.Sprint(ordinal) }})
	s := &stores{t: t, grants: map[Position]int64{}, entries: map[Position]*entry{}}
	s.commit(b)
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		s.step()
		s.commit(s.b)
	}
}

// commit checks a movement, and begins the next one.
func (s *stores) commit(b *Books) {
	s.t.Helper()
	if err := b.Check(); err != nil {
		s.t.Fatal(err)
	}
	before := map[[3]int64]bool{}
	for _, g := range s.pending {
		before[[3]int64{g.Bucket, g.Epoch, g.Number}] = true
	}
	s.pending = nil
	for _, g := range b.Grants.All() {
		if !before[[3]int64{g.Bucket, g.Epoch, g.Number}] {
			s.grants[Position{g.Bucket, g.Epoch}] += g.Amount
		}
		if g.Status == Pending {
			s.pending = append(s.pending, *g)
		}
	}
	for _, e := range b.Epochs.All() {
		has := e.Outstanding + e.Used + e.Returning + e.Closed + e.Swept
		for _, q := range b.Releases.All() {
			if q.GoesTo == ToUsed && q.Bucket == e.Bucket && q.Epoch == e.Number {
				has -= q.Quantity
			}
		}
		if has != s.grants[e.Position()] || e.Halted != "" {
			s.t.Fatalf("%d granted to %+v", s.grants[e.Position()], *e)
		}
		if !e.live() && slices.ContainsFunc(s.pending, func(g Grant) bool {
			return Position{g.Bucket, g.Epoch} == e.Position()
		}) {
			s.t.Fatalf("a grant of %v is pending after its end", e.Position())
		}
	}
	held := int64(0)
	for _, q := range b.Quarantines.All() {
		held += q.Quantity - q.Released
	}
	if u := b.Budgets.Get(1); held != u.Quarantined {
		s.t.Fatalf("Q is %d, the quarantines have %d", u.Quarantined, held)
	}
	s.b = committed(b, b.NowMS+1)
	reload(&s.b.Quarantines, &b.Quarantines)
	reload(&s.b.Releases, &b.Releases)
	s.b.Partitions.Load([]Partition{{Instance: "redis", Incarnation: 1, Since: 1}}, true)
	s.b.Grants.Load(slices.Clone(s.pending), false)
}

func (s *stores) step() {
	t, b, u := s.t, s.b, s.b.Budgets.Get(1)
	row := rapid.SampledFrom(b.Buckets.All()).Draw(t, "bucket")
	e, units := b.newest(row), rapid.Int64Range(1, 40).Draw(t, "units")
	at := e.Position()
	x := s.entries[at]
	switch rapid.SampledFrom([]string{"push", "push", "use", "return", "sync", "sync", "close", "closed", "lose",
		"late", "release", "spread", "sweep", "later", "offline"}).Draw(t, "what") {
	case "push":
		s.push(e)
	case "use":
		if x != nil && x.open {
			units = min(units, x.balance)
			x.balance, x.taken = x.balance-units, x.taken+units
		}
	case "return":
		if x != nil && x.open {
			units = min(units, x.taken-x.given)
			x.balance, x.given = x.balance+units, x.given+units
		}
	case "sync":
		if x != nil && e.live() {
			used := e.Used
			if n := b.Count(e, x.taken, x.given); n != e.Used-used || b.Count(e, x.taken, x.given) != 0 {
				t.Fatalf("S grew by %d, not %d", e.Used-used, n)
			}
		}
	case "close":
		b.Close(u, row)
	case "offline":
		if err := b.Offline(u, row, byOperator); err != nil && !budget.Is(err, budget.LastBucket) {
			t.Fatal(err)
		}
	case "closed":
		s.closed(e, units)
	case "lose":
		s.lose(e)
	case "late":
		s.late(row, units)
	case "release":
		s.release(units)
	case "spread":
		b.Distribute(u)
	case "sweep":
		b.Sweep(u)
	case "later":
		b.NowMS += rapid.Int64Range(1, 3*day).Draw(t, "ms")
		if _, err := b.RollOver(u); err != nil {
			t.Fatal(err)
		}
	}
}

// push brings an epoch and a part of its grants to the store.
func (s *stores) push(e *Epoch) {
	if !e.live() || e.Status == Closing {
		return
	}
	x := s.entries[e.Position()]
	if x == nil {
		x = &entry{open: true}
		s.entries[e.Position()] = x
	}
	for range rapid.IntRange(0, 3).Draw(s.t, "grants") {
		for _, g := range s.b.pending(e) {
			if g.Number == x.last+1 {
				x.last, x.balance = g.Number, x.balance+g.Amount
				break
			}
		}
	}
	if rapid.Bool().Draw(s.t, "answered") {
		s.b.Confirm(e, true, x.last)
		if e.Status != Open || slices.ContainsFunc(s.b.pending(e), func(g *Grant) bool { return g.Number <= x.last }) {
			s.t.Fatalf("after its store has it: %+v", *e)
		}
	}
}

// closed closes an epoch in its store, and tells that twice.
func (s *stores) closed(e *Epoch, need int64) {
	if e.Status != Closing {
		return
	}
	x := s.entries[e.Position()]
	if x == nil {
		x = &entry{}
		s.entries[e.Position()] = x
	}
	x.open = false
	finals := []Final{{Position: e.Position(), Balance: x.balance, Taken: x.taken, GivenBack: x.given, LastGrant: x.last}}
	p, row := s.b.Partitions.All()[0], s.b.Buckets.Get(e.Bucket)
	u, status := s.b.Budgets.Get(1), row.Status
	there := s.b.pending(e)
	begun := s.b.EndClosed(p, finals, need-10)
	for _, g := range there {
		if (g.Status == Done) != (g.Number <= x.last) {
			s.t.Fatalf("the store has grants up to %d: %+v", x.last, *g)
		}
	}
	if e.Status != Closed || e.Outstanding != 0 || e.Used != x.taken-x.given {
		s.t.Fatalf("after %+v: %+v", finals[0], *e)
	}
	if len(begun) > 0 && (need < 10 || status != Online || u.Undistributed < need-10 || s.b.newest(row).Status != Opening) {
		s.t.Fatalf("%v begun, need %d, U is %d", begun, need-10, u.Undistributed)
	}
	before := *e
	if begun = s.b.EndClosed(p, finals, 0); len(begun) > 0 || *e != before {
		s.t.Fatalf("again: %v, %+v after %+v", begun, *e, before)
	}
}

// lose loses the entry of an epoch, and tells that twice.
func (s *stores) lose(e *Epoch) {
	u, p, was := s.b.Budgets.Get(1), s.b.Partitions.All()[0], *e
	list := []Position{e.Position()}
	if out := s.b.Lose(p, list, func(*Epoch) string { return "" }); len(out.Buckets) > 0 {
		s.t.Fatalf("without a cause: %+v", out)
	}
	out := s.b.Lose(p, list, func(*Epoch) string { return "why" })
	if len(out.Buckets) == 0 != !was.live() || out.Quarantined+out.Returned != was.Outstanding-e.Outstanding {
		s.t.Fatalf("%+v of %+v", out, was)
	}
	if unused := u.OnLoss == Word(budget.AssumeUnused) || was.Status == Opening; unused && out.Quarantined > 0 || !unused && out.Returned > 0 {
		s.t.Fatalf("%+v of %+v", out, was)
	}
	if was.live() {
		delete(s.entries, e.Position())
	}
	if out = s.b.Lose(p, list, func(*Epoch) string { return "why" }); len(out.Buckets) > 0 {
		s.t.Fatalf("again: %+v", out)
	}
}

// late gives units back to an epoch that has ended, and tells that twice.
func (s *stores) late(row *Bucket, units int64) {
	for number := row.Epoch; number > 0; number-- {
		e := s.b.Epochs.Get(Position{row.ID, number})
		x := s.entries[e.Position()]
		if e.Status != Closed || x == nil {
			continue
		}
		x.late = min(x.late+units, x.taken-x.given)
		more, used := x.late-e.LateSum, e.Used
		if n := s.b.CountLate(e, x.late); n != more || e.Used != used-n || s.b.CountLate(e, x.late) != 0 {
			s.t.Fatalf("%d came back late of %+v", n, *e)
		}
		return
	}
}

func (s *stores) release(units int64) {
	u, r := s.b.Budgets.Get(1), Release{RequestID: fmt.Sprint("r", s.b.NowMS), GoesTo: ToTotal}
	if rapid.Bool().Draw(s.t, "used") {
		r.GoesTo = ToUsed
	}
	held, want := u.Quarantined, u.Quarantined
	if rapid.Bool().Draw(s.t, "a part") {
		r.Asked, want = units, min(units, held)
	}
	if n := s.b.Release(u, r); n != want || u.Quarantined != held-n {
		s.t.Fatalf("%d of %d released, %d wanted", n, held, want)
	}
}
