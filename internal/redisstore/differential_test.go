package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore"
)

// TestDifferential makes random calls, and compares every answer with that of a model of each bucket.
// The model gets the instant of a call from the answer. Time passes: short windows end and slide.
func TestDifferential(t *testing.T) {
	k := &kit{T: t, server: testservers.SharedRedis(t)}
	rapid.Check(t, func(t *rapid.T) {
		c := config(k.server)
		c.InstallationID = testservers.UniqueName() // the record window does not end: see young
		store, err := redisstore.New(c)
		k.must(err)
		defer func() { _ = store.Disconnect() }()
		p := &pair{kit: &kit{T: k.T, store: store, server: k.server}, epochs: map[int64]int64{}, homes: map[int64]int{}}
		for i := range p.partitions {
			p.partitions[i] = &modelPartition{m: p.adopt(i, 1, 1), since: 1, buckets: map[int64]*modelBucket{}}
			for id := int64(1); id <= buckets; id++ {
				p.partitions[i].buckets[id] = newModelBucket()
			}
		}
		now := p.now()
		p.terms = allTerms(now, rapid.SampledFrom([]int64{1e9, 60}).Draw(t, "window"))
		for id := range p.partitions[0].buckets {
			p.opened(t, p.partitions[0], bucket.Opening{Ref: bucket.Ref{Bucket: id, Epoch: 1}})
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": p.open, "grant": p.grant, "deduct": p.deduct, "again": p.deduct, "more": p.deduct,
			"rollback": p.rollback, "cancel": p.cancel, "close": p.close, "lose": p.lose,
			"acknowledge": p.acknowledge, "move": p.move, "adopt": p.next, "read": p.read,
		})
		p.read(t)
	})
}

// buckets is the number of buckets of a run, ids that of ids per bucket.
const buckets, ids = 3, 12

// pair is a store with the model of each bucket on each partition.
type pair struct {
	*kit
	partitions [2]*modelPartition
	homes      map[int64]int   // the partition of each bucket
	epochs     map[int64]int64 // the newest epoch of each bucket
	terms      []*bucket.Terms
	moved      bool
}

// modelPartition is the memory of a partition. It is young, once an earlier one was lost.
type modelPartition struct {
	m       bucket.Memory
	since   int64
	young   bool
	buckets map[int64]*modelBucket
}

// allTerms returns two versions of the limits. The next terms have ended, and those after them have a
// calendar window that has ended.
func allTerms(now, lengthMS int64) (all []*bucket.Terms) {
	for i, version := range []int64{1, 2, 2, 2} {
		t := &bucket.Terms{LimitsVersion: version, EndMS: now + 1e9, Limits: []bucket.LimitTerms{
			{Name: "day", Changed: 1, Kind: budget.WindowCalendar, FromMS: now - 1e6, ToMS: now + 1e9,
				Max: 20, Measure: budget.MeasureAmount},
			{Name: "all", Changed: version, Kind: budget.WindowLifetime, Max: 6,
				Measure: budget.MeasureCount},
			{Name: "hit", Changed: version, Kind: budget.WindowFirstHit, LengthMS: lengthMS, Max: 12,
				Measure: budget.MeasureAmount},
			{Name: "slide", Changed: version, Kind: budget.WindowSliding, LengthMS: lengthMS,
				SlotMS: lengthMS / 10, Max: 10, Measure: budget.MeasureAmount}}[:2*version]}
		switch i {
		case 2:
			t.EndMS = now
		case 3:
			t.Limits[0].ToMS = now
		}
		all = append(all, t)
	}
	return all
}

// equal compares two answers.
func equal[T any](t *rapid.T, what string, got, want T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s: the model differs from the store (-model +store):\n%s", what, diff)
	}
}

// rarely draws true once in about n times.
func rarely(t *rapid.T, n int, what string) bool {
	return rapid.Custom(func(t *rapid.T) int {
		return int(rapid.Uint64().Draw(t, "bits") % uint64(n))
	}).Draw(t, what) == 1
}

// ref draws a bucket with its present epoch or an adjacent one, and nearly always the partition of
// it.
func (p *pair) ref(t *rapid.T) (bucket.Ref, *modelPartition) {
	id := rapid.Int64Range(1, buckets).Draw(t, "bucket")
	epoch, partition := p.epochs[id], p.homes[id]
	if rarely(t, 15, "another epoch") {
		epoch += rapid.SampledFrom([]int64{-1, 1}).Draw(t, "difference")
	}
	if rarely(t, 30, "elsewhere") {
		partition = 1 - partition
	}
	return bucket.Ref{Bucket: id, Epoch: max(epoch, 1)}, p.partitions[partition]
}

func (p *pair) open(t *rapid.T) {
	ref, l := p.ref(t)
	if rarely(t, 2, "next") {
		ref.Epoch = p.epochs[ref.Bucket] + 1
	}
	p.opened(t, l, bucket.Opening{Ref: ref})
}

// opened opens an epoch and mostly grants it units.
func (p *pair) opened(t *rapid.T, l *modelPartition, x bucket.Opening) {
	got, err := p.store.Open(p.Context(), l.m, []bucket.Opening{x})
	want := l.buckets[x.Bucket].open(x)
	equal(t, "open", got, []bucket.Entry{want}, err)
	if want.Verdict == bucket.Accepted {
		p.epochs[x.Bucket] = max(p.epochs[x.Bucket], x.Epoch)
		p.granted(t, l, bucket.StoreGrant{Ref: x.Ref, Number: 1, Amount: 20})
	}
}

func (p *pair) grant(t *rapid.T) {
	ref, l := p.ref(t)
	number := l.buckets[ref.Bucket].granted + rapid.Int64Range(-1, 2).Draw(t, "number")
	p.granted(t, l, bucket.StoreGrant{Ref: ref, Number: max(number, 1),
		Amount: rapid.Int64Range(1, 30).Draw(t, "amount")})
}

func (p *pair) granted(t *rapid.T, l *modelPartition, x bucket.StoreGrant) {
	got, err := p.store.Grant(p.Context(), l.m, []bucket.StoreGrant{x})
	equal(t, "grant", got, []bucket.Entry{l.buckets[x.Bucket].grant(x)}, err)
}

func (p *pair) id(t *rapid.T, of int64) bucket.RecordID {
	return bucket.RecordID{Bucket: of, ID: fmt.Sprint("id", rapid.IntRange(1, ids).Draw(t, "id"))}
}

// deduct predicts and deducts. Those of one bucket have one epoch and one Terms.
func (p *pair) deduct(t *rapid.T) {
	_, l := p.ref(t)
	terms := p.terms[rapid.SampledFrom([]int{0, 0, 0, 1, 1, 1, 1, 1, 2, 3}).Draw(t, "terms")]
	if p.moved && terms == p.terms[0] {
		terms = p.terms[1] // a move forgets which version a bucket has seen
	}
	var all, once []bucket.StoreDeduction
	epochs := map[int64]int64{}
	for range rapid.IntRange(1, 6).Draw(t, "deductions") {
		ref, _ := p.ref(t)
		epoch, known := epochs[ref.Bucket]
		if !known {
			epoch, epochs[ref.Bucket] = ref.Epoch, ref.Epoch
		}
		d := bucket.StoreDeduction{RecordID: p.id(t, ref.Bucket), Epoch: epoch,
			Amount:     rapid.Int64Range(1, 8).Draw(t, "amount"),
			NotAfterMS: 1 << 52, Fingerprint: "f", Nonce: "n", Terms: terms,
			Value: rapid.SampledFrom([]string{"", "u", "v"}).Draw(t, "value")}
		if n := len(terms.Limits); rarely(t, 4, "own") {
			d.Counts = rapid.SliceOfN(rapid.Int64Range(0, 5), n, n).Draw(t, "counts")
			d.Max = rapid.SliceOfN(rapid.Int64Range(0, 40), n, n).Draw(t, "max")
		}
		if rarely(t, 20, "too old") {
			d.NotAfterMS = 1
		}
		if all = append(all, d); !known {
			once = append(once, d)
		}
	}
	got, err := p.store.Predict(p.Context(), l.m, once) // of several buckets: in one script, at one instant
	for i := range got.Outcomes {
		want := l.buckets[once[i].Bucket].predict(&once[i], got.NowMS)
		equal(t, "predict", got.Outcomes[i], want, err)
	}
	p.must(err)
	got, err = p.store.Deduct(p.Context(), l.m, all)
	for i := range got.Outcomes {
		want := l.buckets[all[i].Bucket].deduct(&all[i], l.m.Incarnation, got.NowMS)
		equal(t, "deduct", got.Outcomes[i], want, err)
	}
	p.must(err)
}

func (p *pair) rollback(t *rapid.T) { p.undo(t, false) }
func (p *pair) cancel(t *rapid.T)   { p.undo(t, true) }

func (p *pair) undo(t *rapid.T, cancel bool) {
	_, l := p.ref(t)
	do, terms := p.store.Rollback, p.terms[rapid.IntRange(0, 1).Draw(t, "terms")]
	if cancel {
		do = p.store.Cancel
	}
	var all []bucket.StoreRollback
	for range rapid.IntRange(1, 3).Draw(t, "number") {
		ref, _ := p.ref(t)
		x := bucket.StoreRollback{RecordID: p.id(t, ref.Bucket), Terms: terms}
		if !cancel {
			x.RollbackID = rapid.SampledFrom([]string{"", "r1", "r2", "r3"}).Draw(t, "rollback")
			x.Amount = rapid.Int64Range(0, 4).Draw(t, "amount")
		}
		all = append(all, x)
	}
	got, err := do(p.Context(), l.m, all)
	p.must(err)
	for i := range got {
		b := l.buckets[all[i].Bucket]
		want := b.undo(&all[i], cancel, l.m.Incarnation, l.since, got[i].Record.AtMS, l.young)
		equal(t, "undo", got[i], want, nil)
	}
}

func (p *pair) close(t *rapid.T) {
	ref, l := p.ref(t)
	if rarely(t, 3, "really") {
		p.closed(t, l, ref, rarely(t, 5, "moving"))
	}
}

func (p *pair) closed(t *rapid.T, l *modelPartition, ref bucket.Ref, moving bool) {
	got, err := p.store.Close(p.Context(), l.m, []bucket.Ref{ref}, moving)
	equal(t, "close", got, []bucket.Entry{l.buckets[ref.Bucket].close(ref.Epoch, moving)}, err)
}

// read compares the entries, records and changed sums of all buckets.
func (p *pair) read(t *rapid.T) {
	for _, l := range p.partitions {
		var refs []bucket.Ref
		var records []bucket.RecordID
		var entries []bucket.Entry
		var found []bucket.StoreReturn
		sums, want := map[string]bucket.Sum{}, map[string]bucket.Sum{}
		for id, b := range l.buckets {
			for _, epoch := range []int64{max(p.epochs[id], 1), max(p.epochs[id]-1, 1)} {
				refs = append(refs, bucket.Ref{Bucket: id, Epoch: epoch})
				entries = append(entries, b.read(epoch))
			}
			for i := range ids {
				record := bucket.RecordID{Bucket: id, ID: fmt.Sprint("id", i+1)}
				records, found = append(records, record), append(found, b.find(record.ID, l.young))
			}
			for epoch := range b.changed {
				sum := b.sum(id, epoch)
				want[fmt.Sprint(id, sum.Epoch, sum.Late)] = sum
			}
		}
		gotEntries, err := p.store.Read(p.Context(), l.m, refs)
		equal(t, "read", gotEntries, entries, err)
		gotFound, err := p.store.Find(p.Context(), l.m, records)
		equal(t, "find", gotFound, found, err)
		for _, sum := range p.changesOf(l.m) {
			sums[fmt.Sprint(sum.Bucket, sum.Epoch, sum.Late)] = sum
		}
		equal(t, "changes", sums, want, nil)
	}
}

func (p *pair) acknowledge(t *rapid.T) {
	_, l := p.ref(t)
	sums := p.changesOf(l.m)
	for i := range sums {
		if !sums[i].Late && rarely(t, 4, "has changed") {
			sums[i].Taken++
		}
		l.buckets[sums[i].Bucket].acknowledge(sums[i])
	}
	p.must(p.store.Acknowledge(p.Context(), l.m, sums))
}

// lose loses an entry.
func (p *pair) lose(t *rapid.T) {
	if !rarely(t, 10, "really") {
		return
	}
	ref, l := p.ref(t)
	p.loseEntry(l.m.Partition.Index, ref.Bucket)
	l.buckets[ref.Bucket].begin(0, "")
}

// next begins another incarnation of a partition, with or without a gap.
func (p *pair) next(t *rapid.T) {
	if !rarely(t, 3, "really") {
		return
	}
	_, l := p.ref(t)
	l.m.Incarnation++
	if rarely(t, 4, "gap") {
		l.since, l.young = l.m.Incarnation, true
	}
	p.must(p.store.Mark(p.Context(), l.m, l.since))
}

// move moves a bucket to the other partition. Each step may be left out.
func (p *pair) move(t *rapid.T) {
	ref, from := p.ref(t)
	to, ctx := p.partitions[1-from.m.Partition.Index], p.Context()
	source, target := from.buckets[ref.Bucket], to.buckets[ref.Bucket]
	attempt := rapid.SampledFrom([]string{"x", "x", "x", "y"})
	skips := func(step string) bool { return rarely(t, 10, "skips "+step) }
	if !rarely(t, 3, "really") {
		return
	}
	if !skips("close") {
		p.closed(t, from, ref, true)
	}
	if !skips("begin") {
		name := attempt.Draw(t, "attempt")
		got, err := p.store.BeginCopy(ctx, to.m, ref, name)
		equal(t, "begin copy", got, target.beginCopy(ref.Epoch, name), err)
	}
	name := attempt.Draw(t, "attempt")
	for cursor, more := "", !skips("add"); more; {
		part, next, err := p.store.ReadCopy(ctx, from.m, ref, cursor)
		if source.state != "moving" || source.epoch != ref.Epoch {
			if !budget.Is(err, budget.Invalid) {
				t.Fatalf("copy of a bucket that is not moving: %v", err)
			}
			return
		}
		p.must(err)
		got, err := p.store.AddCopy(ctx, to.m, ref, name, part)
		want := target.addCopy(ref.Epoch, name, source, from.since, to.m.Incarnation)
		equal(t, "add copy", got, want, err)
		cursor, more = next, next != ""
	}
	if !skips("end") {
		got, err := p.store.EndCopy(ctx, to.m, ref, name)
		equal(t, "end copy", got, target.endCopy(ref.Epoch, name), err)
	}
	p.opened(t, to, bucket.Opening{Ref: bucket.Ref{Bucket: ref.Bucket, Epoch: ref.Epoch + 1}, CopyOf: ref.Epoch})
	if target.state == "open" {
		p.homes[ref.Bucket], p.moved = to.m.Partition.Index, true
	}
}
