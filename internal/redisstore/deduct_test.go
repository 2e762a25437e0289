package redisstore_test

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// orderOfChecks checks that the verdict is that of the first failing check, in the order of
// bucket.Counter. Each step removes the first failure.
func orderOfChecks(k *kit) {
	now := k.now()
	limit := bucket.LimitTerms{Name: "l", Changed: 1, Kind: budget.WindowCalendar, FromMS: now - 10,
		ToMS: now - 5, Max: 2, Measure: budget.MeasureAmount}
	wrong := &bucket.Terms{LimitsVersion: 1, EndMS: now - 1, Limits: []bucket.LimitTerms{limit}}
	d := k.deduction("a", 5, wrong)
	d.NotAfterMS, d.Value = now-1, "user"
	known := k.deduction("known", 1, &bucket.Terms{LimitsVersion: 2})

	k.deducted(d, bucket.Lost)
	k.fill(1, 1, 5)
	k.deducted(known, bucket.Accepted)
	k.close(1, 1, false, bucket.Accepted)
	k.deducted(d, bucket.Closed)
	k.fill(1, 2, 5)
	d.Epoch, known.Epoch = 2, 2
	old := known
	old.NotAfterMS = now - 1
	k.deducted(d, bucket.TooOld)
	k.deducted(old, bucket.TooOld)
	again := known
	again.Terms = wrong
	k.deducted(again, bucket.Known)
	d.NotAfterMS = now + 600_000
	k.deducted(d, bucket.Over)
	step := func(change func(*bucket.Terms)) {
		terms := *d.Terms
		terms.Limits = append([]bucket.LimitTerms(nil), terms.Limits...)
		change(&terms)
		d.Terms = &terms
	}
	step(func(t *bucket.Terms) { t.EndMS = now + 600_000 })
	k.deducted(d, bucket.Outdated)
	step(func(t *bucket.Terms) { t.LimitsVersion = 2 })
	k.deducted(d, bucket.WindowOver)
	step(func(t *bucket.Terms) { t.Limits[0].ToMS = now + 600_000 })
	d.Amount = 6
	if out := k.deducted(d, bucket.Limited); out.Balance != 5 || !out.Limits[0].Exceeded {
		k.Errorf("limited: %+v", out)
	}
	step(func(t *bucket.Terms) { t.Limits[0].Max = 6 })
	if out := k.deducted(d, bucket.Short); out.Balance != 5 || out.Limits != nil {
		k.Errorf("short: %+v", out)
	}
	d.Amount = 5
	if out := k.deducted(d, bucket.Accepted); out.Balance != 0 || out.Limits[0].Used != 5 {
		k.Errorf("accepted: %+v", out)
	}
	k.close(1, 2, true, bucket.Accepted)
	k.deducted(d, bucket.Moving)
}

// refusalsWriteNothing checks that a refused deduction leaves no record, no count and no change
// (I6).
func refusalsWriteNothing(k *kit) {
	k.fill(1, 1, 5)
	before := k.changes()
	limit := bucket.LimitTerms{Name: "l", Changed: 1, Kind: budget.WindowLifetime, Max: 5,
		Measure: budget.MeasureAmount}
	terms := k.terms(limit, bucket.LimitTerms{Name: "n", Changed: 1, Kind: budget.WindowLifetime,
		Max: 1, Measure: budget.MeasureCount})
	with := func(id string, amount int64) bucket.StoreDeduction {
		d := k.deduction(id, amount, terms)
		d.Value = "user"
		return d
	}
	tooMuch := k.deduction("balance", 6, k.terms())
	k.deducted(tooMuch, bucket.Short)
	k.deducted(with("limit", 6), bucket.Limited)
	over := with("over", 1)
	over.Terms = &bucket.Terms{EndMS: 1, LimitsVersion: 9}
	k.deducted(over, bucket.Over)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 5, LastGrant: 1})
	k.same("changes", k.changes(), before)
	for _, id := range []string{"balance", "limit", "over"} {
		got, err := k.store.Find(k.Context(), k.m, []bucket.RecordID{{Bucket: 1, ID: id}})
		k.must(err)
		k.verdict(id, got[0].Verdict, bucket.NotFound)
	}
	k.used(k.deducted(with("fits", 4), bucket.Accepted), 4, 1)
	out := k.deducted(with("next", 1), bucket.Limited)
	k.used(out, 4, 1)
	k.same("exceeded", []bool{out.Limits[0].Exceeded, out.Limits[1].Exceeded}, []bool{false, true})
	mixed := k.deduct(k.deduction("m1", 2, terms), k.deduction("m2", 1, terms),
		k.deduction("m3", 1, terms))
	k.same("mixed", []bucket.Verdict{mixed[0].Verdict, mixed[1].Verdict, mixed[2].Verdict},
		[]bucket.Verdict{bucket.Short, bucket.Accepted, bucket.Short})
	k.deducted(k.deduction("old", 1, k.terms()),
		bucket.Outdated) // its terms are older than the limits
	k.fill(2, 1, 5)
	roomy := k.terms(bucket.LimitTerms{Name: "r", Changed: 1, Kind: budget.WindowLifetime, Max: 100,
		Measure: budget.MeasureAmount})
	short, fits := k.deduction("short", 50, roomy), k.deduction("small", 1, roomy)
	short.Bucket, short.Value, fits.Bucket, fits.Value = 2, "user", 2, "user"
	beside := k.deduct(short, fits)
	k.verdict("beside it", beside[0].Verdict, bucket.Short)
	k.used(beside[1], 1)
	fits.ID = "another"
	k.used(k.deducted(fits, bucket.Accepted), 2)
}

// repeats checks that an id takes effect once, within one call and across calls, and that a repeat
// returns its record (I4).
func repeats(k *kit) {
	k.fill(1, 1, 10)
	terms := k.terms() // shared, so that all run in one script
	out := k.deduct(k.deduction("a", 3, terms), k.deduction("a", 3, terms), k.deduction("b", 3, terms))
	k.same("in one call", []bucket.Verdict{out[0].Verdict, out[1].Verdict, out[2].Verdict},
		[]bucket.Verdict{bucket.Accepted, bucket.Known, bucket.Accepted})
	k.same("balances", []int64{out[0].Balance, out[2].Balance}, []int64{7, 4})
	other := k.deduction("a", 2, k.terms())
	other.Fingerprint, other.Nonce = "another", "another"
	got := k.deducted(other, bucket.Known).Record
	if now := k.now(); got.AtMS < now-60_000 || got.AtMS > now {
		k.Errorf("recorded at %d, now %d", got.AtMS, now)
	}
	got.AtMS = 0
	k.same("record", got,
		bucket.Record{Amount: 3, Epoch: 1, Incarnation: 1, Fingerprint: "print of a", Nonce: "nonce"})
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 4, Taken: 6,
		LastGrant: 1})
	if found := k.find("a", bucket.Known); found.Amount != 3 {
		k.Errorf("found %+v", found)
	}
	for _, id := range []string{"A", "a ", "á", "", "a\x00b", "1e3", "b:a", fmt.Sprintf("%0128d",
		7)} {
		if id != "" {
			k.find(id, bucket.NotFound)
		}
	}
}

// slicesOfRecords checks that a record is kept for at least one window and is gone after two, even
// if it was made at the end of a slice.
func slicesOfRecords(k *kit) {
	k.fill(1, 1, 10)
	k.sweep()
	k.deducted(k.deduction("a", 1, k.terms()), bucket.Accepted)
	time.Sleep(window + 50*time.Millisecond)
	k.sweep()
	k.deducted(k.deduction("a", 1, k.terms()), bucket.Known)
	k.deducted(k.deduction("b", 1, k.terms()), bucket.Accepted)
	k.sweep() // too early
	k.deducted(k.deduction("a", 1, k.terms()), bucket.Known)
	k.rollback("a", "r", 0, bucket.Accepted)
	time.Sleep(window + 50*time.Millisecond)
	k.sweep()
	k.find("a", bucket.NotFound)
	k.find("b", bucket.Known)
	k.deducted(k.deduction("a", 1, k.terms()), bucket.Accepted)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 8, Taken: 3, GivenBack: 1,
		LastGrant: 1})
}

// instants checks that the partition's clock determines the end of a period and the deadline of a
// deduction.
func instants(k *kit) {
	k.fill(1, 1, 10)
	d := k.deduction("a", 1, &bucket.Terms{EndMS: k.now() + 150})
	k.deducted(d, bucket.Accepted)
	time.Sleep(200 * time.Millisecond)
	d.ID = "b"
	k.deducted(d, bucket.Over)
	d = k.deduction("c", 1, k.terms())
	d.NotAfterMS = k.now() + 150
	k.deducted(d, bucket.Accepted)
	time.Sleep(200 * time.Millisecond)
	k.deducted(d, bucket.TooOld)
}

// changesAndAcknowledge checks that a change is reported until SQL has its sums.
func changesAndAcknowledge(k *kit) {
	k.fill(1, 1, 10)
	k.fill(2, 1, 10)
	k.same("opened", len(k.changes()), 0)
	k.deducted(k.deduction("a", 4, k.terms()), bucket.Accepted)
	first := k.changes()
	k.same("changed", first, []bucket.Sum{{Bucket: 1, Epoch: 1, Taken: 4, Verdict: bucket.Accepted}})
	k.deducted(k.deduction("b", 1, k.terms()), bucket.Accepted)
	k.must(k.store.Acknowledge(k.Context(), k.m, first)) // the sum has changed since
	later := k.changes()
	k.same("not acknowledged", later,
		[]bucket.Sum{{Bucket: 1, Epoch: 1, Taken: 5, Verdict: bucket.Accepted}})
	k.must(k.store.Acknowledge(k.Context(), k.m, later))
	k.same("acknowledged", len(k.changes()), 0)
	k.rollback("a", "r", 2, bucket.Accepted)
	second := k.changes()
	k.same("changed again", second,
		[]bucket.Sum{{Bucket: 1, Epoch: 1, Taken: 5, GivenBack: 2, Verdict: bucket.Accepted}})
	k.must(k.store.Acknowledge(k.Context(), k.m, second))
	k.same("acknowledged", len(k.changes()), 0)
	k.close(1, 1, false, bucket.Accepted)
	k.same("closed", len(k.changes()), 0)
	var all []bucket.StoreDeduction
	const many = 1300
	for i := range int64(many) {
		_, err := k.store.Open(k.Context(), k.m,
			[]bucket.Opening{{Ref: bucket.Ref{Bucket: 100 + i, Epoch: 1}}})
		k.must(err)
		_, err = k.store.Grant(k.Context(), k.m,
			[]bucket.StoreGrant{{Ref: bucket.Ref{Bucket: 100 + i, Epoch: 1}, Number: 1, Amount: 1}})
		k.must(err)
		d := k.deduction("x", 1, k.terms())
		d.Bucket = 100 + i
		all = append(all, d)
	}
	for i, out := range k.deduct(all...) {
		if out.Verdict != bucket.Accepted {
			k.Fatalf("deduction %d: %+v", i, out)
		}
	}
	seen := map[int64]bool{}
	sums := k.changes()
	for _, sum := range sums {
		seen[sum.Bucket] = true
	}
	k.same("many", len(seen), many)
	k.must(k.store.Acknowledge(k.Context(), k.m, sums))
	k.same("many acknowledged", len(k.changes()), 0)
}
