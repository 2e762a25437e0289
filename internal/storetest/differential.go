package storetest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Differential runs the same random calls on two stores and compares every answer. The stores'
// clocks differ, so instants are not compared, and windows are long. Each run uses other buckets of
// the stores.
func Differential(t *testing.T, one, two Subject) {
	a, b := &kit{T: t, Subject: one}, &kit{T: t, Subject: two}
	a.m, b.m = a.adopt(0, 1, 1), b.adopt(0, 1, 1)
	toA, toB := a.adopt(1, 1, 1), b.adopt(1, 1, 1)
	run := int64(0)
	rapid.Check(t, func(t *rapid.T) {
		run++
		p := &pair{a: a, b: b, toA: toA, toB: toB, first: run * 1000, epochs: map[int64]int64{}}
		nowA, nowB := a.now(), b.now() // one instant for both versions of the terms
		for i := range p.terms {
			p.terms[i] = &pairTerms{termsOf(int64(i+1), nowA), termsOf(int64(i+1), nowB)}
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": p.open, "grant": p.grant, "deduct": p.deduct,
			"again": p.deduct,
			"more":  p.deduct, "rollback": p.rollback, "cancel": p.cancel, "close": p.close, "read": p.read,
			"lose": p.lose, "acknowledge": p.acknowledge, "copy": p.copy,
		})
	})
}

// pair is two stores that should behave alike.
type pair struct {
	a, b     *kit
	toA, toB bucket.Memory
	first    int64 // the run's buckets are first + 1 …
	epochs   map[int64]int64
	terms    [2]*pairTerms
}

// pairTerms are the same terms by the clocks of both stores.
type pairTerms struct{ a, b *bucket.Terms }

// termsOf returns one of two versions of the terms by a store's clock.
func termsOf(version, now int64) *bucket.Terms {
	return &bucket.Terms{LimitsVersion: version, EndMS: now + 1e9, Limits: []bucket.LimitTerms{
		{Name: "day", Changed: 1, Kind: budget.WindowCalendar, FromMS: now - 1e6, ToMS: now + 1e9,
			Max: 20, Measure: budget.MeasureAmount},
		{Name: "all", Changed: version, Kind: budget.WindowLifetime, Max: 6,
			Measure: budget.MeasureCount},
		{Name: "hit", Changed: version, Kind: budget.WindowFirstHit, LengthMS: 1e9, Max: 30,
			Measure: budget.MeasureAmount},
		{Name: "slide", Changed: version, Kind: budget.WindowSliding, LengthMS: 1e9, SlotMS: 1e8,
			Max: 25, Measure: budget.MeasureAmount}}[:2*version]}
}

// same compares two answers; instants, and what follows from the age of a memory, may differ.
func same[T any](t *rapid.T, what string, a, b T, errA, errB error) {
	t.Helper()
	if (errA == nil) != (errB == nil) {
		t.Fatalf("%s: %v and %v", what, errA, errB)
	}
	instants := cmp.FilterPath(func(path cmp.Path) bool {
		switch path.Last().String() {
		case ".AtMS", ".NowMS", ".ResetMS", ".SinceMS", ".Young", ".Unsure":
			return true
		}
		return false
	}, cmp.Ignore())
	if diff := cmp.Diff(a, b, instants, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s: the stores differ (-%s +%s):\n%s", what, "one", "two", diff)
	}
}

func (p *pair) bucket(t *rapid.T) int64 {
	return p.first + rapid.Int64Range(1, 3).Draw(t, "bucket")
}

// ref draws a bucket with its present epoch or an adjacent one.
func (p *pair) ref(t *rapid.T) bucket.Ref {
	b := p.bucket(t)
	epoch := p.epochs[b] + rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 1, -1}).Draw(t, "epoch")
	return bucket.Ref{Bucket: b, Epoch: max(epoch, 1)}
}

func (p *pair) open(t *rapid.T) {
	x := []bucket.Opening{{Ref: p.ref(t)}}
	if rapid.IntRange(0, 2).Draw(t, "new") > 0 {
		x[0].Epoch = p.epochs[x[0].Bucket] + 1
	}
	a, errA := p.a.Store.Open(p.a.Context(), p.a.m, x)
	b, errB := p.b.Store.Open(p.b.Context(), p.b.m, x)
	same(t, "open", a, b, errA, errB)
	if a[0].Verdict == bucket.Accepted {
		p.epochs[x[0].Bucket] = x[0].Epoch
	}
}

func (p *pair) grant(t *rapid.T) {
	x := []bucket.StoreGrant{{Ref: p.ref(t), Number: rapid.Int64Range(1, 4).Draw(t, "number"),
		Amount: rapid.Int64Range(1, 30).Draw(t, "amount")}}
	a, errA := p.a.Store.Grant(p.a.Context(), p.a.m, x)
	b, errB := p.b.Store.Grant(p.b.Context(), p.b.m, x)
	same(t, "grant", a, b, errA, errB)
}

func (p *pair) deduct(t *rapid.T) {
	var forA, forB []bucket.StoreDeduction
	version := rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "terms")
	epochs := map[int64]int64{}
	for range rapid.IntRange(1, 6).Draw(t, "deductions") {
		ref := p.ref(t)
		if _, known := epochs[ref.Bucket]; !known {
			epochs[ref.Bucket] = ref.Epoch
		}
		d := bucket.StoreDeduction{RecordID: p.id(t, ref.Bucket), Epoch: epochs[ref.Bucket],
			Amount: rapid.Int64Range(1, 8).
				Draw(t, "amount"),
			NotAfterMS: 1 << 52, Fingerprint: "f", Nonce: "n",
			Value: rapid.SampledFrom([]string{"", "u", "v"}).Draw(t, "value"), Terms: p.terms[version].a}
		if n := len(d.Terms.Limits); rapid.IntRange(0, 3).Draw(t, "own") == 0 {
			d.Counts = rapid.SliceOfN(rapid.Int64Range(0, 5), n, n).Draw(t, "counts")
			d.Max = rapid.SliceOfN(rapid.Int64Range(0, 40), n, n).Draw(t, "max")
		}
		forA = append(forA, d)
		d.Terms = p.terms[version].b
		forB = append(forB, d)
	}
	a, errA := p.a.Store.Predict(p.a.Context(), p.a.m, forA)
	b, errB := p.b.Store.Predict(p.b.Context(), p.b.m, forB)
	same(t, "predict", a, b, errA, errB)
	a, errA = p.a.Store.Deduct(p.a.Context(), p.a.m, forA)
	b, errB = p.b.Store.Deduct(p.b.Context(), p.b.m, forB)
	same(t, "deduct", a, b, errA, errB)
}

func (p *pair) id(t *rapid.T, of int64) bucket.RecordID {
	return bucket.RecordID{Bucket: of, ID: fmt.Sprint("id", rapid.IntRange(1, 12).Draw(t, "id"))}
}

// rollbacks draws the same rollbacks for both stores.
func (p *pair) rollbacks(t *rapid.T) (forA, forB []bucket.StoreRollback) {
	version := rapid.IntRange(0, 1).Draw(t, "terms")
	for range rapid.IntRange(1, 3).Draw(t, "rollbacks") {
		x := bucket.StoreRollback{RecordID: p.id(t, p.bucket(t)), Terms: p.terms[version].a,
			RollbackID: rapid.SampledFrom([]string{"", "r1", "r2", "r3"}).Draw(t, "rollback"),
			Amount:     rapid.Int64Range(0, 4).Draw(t, "amount")}
		forA = append(forA, x)
		x.Terms = p.terms[version].b
		forB = append(forB, x)
	}
	return forA, forB
}

func (p *pair) rollback(t *rapid.T) {
	forA, forB := p.rollbacks(t)
	a, errA := p.a.Store.Rollback(p.a.Context(), p.a.m, forA)
	b, errB := p.b.Store.Rollback(p.b.Context(), p.b.m, forB)
	for i := range a {
		ageless(&a[i], &b[i])
	}
	same(t, "rollback", a, b, errA, errB)
}

func (p *pair) cancel(t *rapid.T) {
	forA, forB := p.rollbacks(t)
	for i := range forA {
		forA[i].RollbackID, forB[i].RollbackID, forA[i].Amount, forB[i].Amount = "", "", 0, 0
	}
	a, errA := p.a.Store.Cancel(p.a.Context(), p.a.m, forA)
	b, errB := p.b.Store.Cancel(p.b.Context(), p.b.m, forB)
	for i := range a {
		ageless(&a[i], &b[i])
	}
	same(t, "cancel", a, b, errA, errB)
}

// ageless makes two verdicts equal that differ only because one of the stores has a real clock, so
// that only one memory was younger than the record window.
func ageless(a, b *bucket.StoreReturn) {
	if a.Record.Amount+b.Record.Amount == 0 && a.Verdict != b.Verdict &&
		(a.Verdict == bucket.Unclear || b.Verdict == bucket.Unclear) {
		a.Verdict, b.Verdict = bucket.Unclear, bucket.Unclear
	}
}

func (p *pair) close(t *rapid.T) {
	x, moving := []bucket.Ref{p.ref(t)}, rapid.IntRange(0, 9).Draw(t, "moving") == 0
	a, errA := p.a.Store.Close(p.a.Context(), p.a.m, x, moving)
	b, errB := p.b.Store.Close(p.b.Context(), p.b.m, x, moving)
	same(t, "close", a, b, errA, errB)
}

// read compares the entries, records and changed sums of all buckets.
func (p *pair) read(t *rapid.T) {
	var refs []bucket.Ref
	var ids []bucket.RecordID
	for b := p.first + 1; b <= p.first+3; b++ {
		refs = append(refs, bucket.Ref{Bucket: b, Epoch: max(p.epochs[b], 1)},
			bucket.Ref{Bucket: b, Epoch: max(p.epochs[b]-1, 1)})
		for i := range 12 {
			ids = append(ids, bucket.RecordID{Bucket: b, ID: fmt.Sprint("id", i+1)})
		}
	}
	a, errA := p.a.Store.Read(p.a.Context(), p.a.m, refs)
	b, errB := p.b.Store.Read(p.b.Context(), p.b.m, refs)
	same(t, "read", a, b, errA, errB)
	foundA, errA := p.a.Store.Find(p.a.Context(), p.a.m, ids)
	foundB, errB := p.b.Store.Find(p.b.Context(), p.b.m, ids)
	same(t, "find", foundA, foundB, errA, errB)
	same(t, "changes", p.sums(p.a), p.sums(p.b), nil, nil)
}

// sums returns the changed sums of the run's buckets.
func (p *pair) sums(k *kit) map[string]bucket.Sum {
	out := map[string]bucket.Sum{}
	for _, sum := range k.changes() {
		if sum.Bucket > p.first {
			out[fmt.Sprint(sum.Bucket, sum.Epoch, sum.Late)] = sum
		}
	}
	return out
}

func (p *pair) acknowledge(t *rapid.T) {
	sums := p.a.changes()
	for i := range sums {
		sums[i].Taken += rapid.SampledFrom([]int64{0, 0, 0, 1}).Draw(t, "off")
	}
	same(t, "acknowledge", 0, 0, p.a.Store.Acknowledge(p.a.Context(), p.a.m, sums),
		p.b.Store.Acknowledge(p.b.Context(), p.b.m, sums))
}

func (p *pair) lose(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "really") == 0 {
		b := p.bucket(t)
		p.a.LoseEntry(b)
		p.b.LoseEntry(b)
	}
}

// copy begins, adds and ends copies on the other partition, in any order.
func (p *pair) copy(t *rapid.T) {
	ref, attempt := p.ref(t), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "attempt")
	partA, _, errA := p.a.Store.ReadCopy(p.a.Context(), p.a.m, ref, "")
	partB, _, errB := p.b.Store.ReadCopy(p.b.Context(), p.b.m, ref, "")
	same(t, "read copy", 0, 0, errA, errB)
	var a, b bucket.Verdict
	switch rapid.IntRange(0, 2).Draw(t, "step") {
	case 0:
		a, errA = p.a.Store.BeginCopy(p.a.Context(), p.toA, ref, attempt)
		b, errB = p.b.Store.BeginCopy(p.b.Context(), p.toB, ref, attempt)
	case 1:
		a, errA = p.a.Store.AddCopy(p.a.Context(), p.toA, ref, attempt, partA)
		b, errB = p.b.Store.AddCopy(p.b.Context(), p.toB, ref, attempt, partB)
	default:
		a, errA = p.a.Store.EndCopy(p.a.Context(), p.toA, ref, attempt)
		b, errB = p.b.Store.EndCopy(p.b.Context(), p.toB, ref, attempt)
	}
	same(t, "copy", a, b, errA, errB)
}
