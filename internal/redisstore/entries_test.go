package redisstore_test

import (
	"errors"

	"github.com/budgetd/budgetd/bucket"
)

// markerRules checks that a marker only replaces a smaller one, and that it says since when the
// memory has been kept without a gap.
func markerRules(k *kit) {
	mark := func(incarnation, since int64) error {
		m := k.m
		m.Incarnation = incarnation
		return k.store.Mark(k.Context(), m, since)
	}
	read := func(incarnation, since int64) {
		k.Helper()
		got, err := k.store.Marker(k.Context(), k.partition(0), k.m.Identity, true)
		k.must(err)
		k.same("marker", [2]int64{got.Incarnation, got.Since}, [2]int64{incarnation, since})
	}
	read(1, 1)
	k.must(mark(1, 1)) // again
	k.must(mark(4, 4))
	k.must(mark(5, 4)) // kept without a gap
	read(5, 4)
	if err := mark(4, 4); !errors.Is(err, bucket.ErrOtherMemory) {
		k.Errorf("over a larger one: %v", err)
	}
	if err := mark(7, 3); !errors.Is(err, bucket.ErrOtherMemory) {
		k.Errorf("since before the last gap: %v", err)
	}
	read(5, 4)
	if _, err := k.store.Marker(k.Context(), k.partition(0), "a b master", true); !errors.Is(err, bucket.ErrOtherMemory) {
		k.Errorf("another identity: %v", err)
	}
	empty, err := k.store.Marker(k.Context(), k.partition(1), k.adopt(1, 3, 3).Identity, true)
	k.must(err)
	k.same("another partition", empty.Incarnation, int64(3))
}

// otherMemory checks that a call for another incarnation or another identity does nothing.
func otherMemory(k *kit) {
	k.fill(1, 1, 10)
	for _, m := range []bucket.Memory{
		{Partition: k.partition(0), Incarnation: 2, Identity: k.m.Identity},
		{Partition: k.partition(0), Incarnation: 1, Identity: "run of another master"},
		{Partition: k.partition(1), Incarnation: 1, Identity: k.m.Identity},
	} {
		ctx, ref := k.Context(), bucket.Ref{Bucket: 1, Epoch: 1}
		errs := map[string]error{}
		_, errs["deduct"] = k.store.Deduct(ctx, m,
			[]bucket.StoreDeduction{k.deduction("a", 1, k.terms())})
		_, errs["rollback"] = k.store.Rollback(ctx, m,
			[]bucket.StoreRollback{{RecordID: bucket.RecordID{Bucket: 1, ID: "a"}}})
		_, errs["cancel"] = k.store.Cancel(ctx, m,
			[]bucket.StoreRollback{{RecordID: bucket.RecordID{Bucket: 1, ID: "a"}}})
		_, errs["find"] = k.store.Find(ctx, m, []bucket.RecordID{{Bucket: 1, ID: "a"}})
		_, errs["open"] = k.store.Open(ctx, m, []bucket.Opening{{Ref: ref}})
		_, errs["grant"] = k.store.Grant(ctx, m, []bucket.StoreGrant{{Ref: ref, Number: 2, Amount: 1}})
		_, errs["close"] = k.store.Close(ctx, m, []bucket.Ref{ref}, false)
		errs["raise"] = k.store.Raise(ctx, m, []bucket.LimitsVersion{{Bucket: 1, Version: 9}})
		_, errs["read"] = k.store.Read(ctx, m, []bucket.Ref{ref})
		_, _, errs["changed"] = k.store.Changed(ctx, m, "")
		errs["acknowledge"] = k.store.Acknowledge(ctx, m, nil)
		_, errs["sweep"] = k.store.Sweep(ctx, m)
		_, errs["begin copy"] = k.store.BeginCopy(ctx, m, ref, "x")
		for call, err := range errs {
			if !errors.Is(err, bucket.ErrOtherMemory) && call != "acknowledge" {
				k.Errorf("%s of %+v: %v", call, m, err)
			}
		}
	}
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 10, LastGrant: 1})
	k.deducted(k.deduction("a", 1, k.terms()), bucket.Accepted) // no version was raised
}

// raises checks that buckets whose version was raised refuse older terms and no others, whether
// they have an entry yet or not, that a version never falls, and that a repeat of an accepted id is
// answered by its record whatever the version is.
func raises(k *kit) {
	const many = 3000 // more than one call takes
	k.fill(1, 1, 100)
	known := k.deduction("known", 1, k.terms())
	k.deducted(known, bucket.Accepted)
	raise := func(bucketID, version int64) {
		k.Helper()
		all := make([]bucket.LimitsVersion, many)
		for i := range all {
			all[i] = bucket.LimitsVersion{Bucket: 1000 + int64(i), Version: 7}
		}
		all[many-1] = bucket.LimitsVersion{Bucket: bucketID, Version: version}
		k.must(k.store.Raise(k.Context(), k.m, all))
	}
	deduct := func(id string, bucketID, version int64, want bucket.Verdict) {
		k.Helper()
		d := k.deduction(id, 1, &bucket.Terms{LimitsVersion: version})
		d.Bucket = bucketID
		k.deducted(d, want)
	}
	for range 2 {
		raise(1, 2)
		deduct("old", 1, 1, bucket.Outdated)
	}
	k.deducted(known, bucket.Known)
	deduct("present", 1, 2, bucket.Accepted)
	raise(1, 1)
	deduct("old", 1, 1, bucket.Outdated)
	deduct("newer", 1, 3, bucket.Accepted)
	raise(1, 2)
	deduct("old", 1, 2, bucket.Outdated)
	raise(2, 5)
	k.fill(2, 1, 10)
	deduct("old", 2, 4, bucket.Outdated)
	deduct("present", 2, 5, bucket.Accepted)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 97, Taken: 3, LastGrant: 1})
}

// openGrantClose goes through the life of an epoch and repeats every step.
func openGrantClose(k *kit) {
	k.entry(1, 1, bucket.Entry{Verdict: bucket.NotFound})
	for range 2 {
		k.open(1, 1, bucket.Accepted)
	}
	for range 2 {
		k.grant(1, 1, 1, 10, bucket.Accepted)
	}
	k.deducted(k.deduction("a", 4, k.terms()), bucket.Accepted)
	k.rollback("a", "r", 1, bucket.Accepted)
	for range 2 {
		got := k.close(1, 1, false, bucket.Accepted)
		k.same("closed", got, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 7, Taken: 4, GivenBack: 1, LastGrant: 1})
	}
	k.open(1, 1, bucket.Closed)
	k.grant(1, 1, 2, 10, bucket.Closed)
	k.deducted(k.deduction("b", 1, k.terms()), bucket.Closed)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Closed, Epoch: 1, Balance: 7, Taken: 4, GivenBack: 1,
		LastGrant: 1})
	k.fill(1, 2, 5)
	k.entry(1, 2, bucket.Entry{Verdict: bucket.Accepted, Epoch: 2, Balance: 5, LastGrant: 1})
	k.entry(1, 1, bucket.Entry{Verdict: bucket.NotFound})
	k.open(1, 3, bucket.Accepted) // replaces an open one of a smaller epoch
	k.close(1, 2, false, bucket.Closed)
	k.grant(1, 2, 2, 1, bucket.Closed)
}

// lateOpen checks that an open that arrives after the close of its epoch does nothing, even if the
// close found no entry.
func lateOpen(k *kit) {
	got := k.close(1, 5, false, bucket.Accepted)
	k.same("closed", got, bucket.Entry{Verdict: bucket.Accepted, Epoch: 5})
	k.open(1, 5, bucket.Closed)
	k.open(1, 4, bucket.Closed)
	k.grant(1, 5, 1, 10, bucket.Closed)
	k.open(1, 6, bucket.Accepted)
}

// lostEntry checks that an epoch whose entry is lost does not open again, and that closing it
// reports the loss.
func lostEntry(k *kit) {
	k.fill(1, 1, 10)
	k.fill(2, 1, 10)
	k.loseEntry(0, 1)
	k.deducted(k.deduction("a", 1, k.terms()), bucket.Lost)
	k.open(1, 1, bucket.Lost)
	k.grant(1, 1, 2, 10, bucket.Lost)
	k.close(1, 1, false, bucket.Lost)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Lost})
	other := k.deduction("b", 1, k.terms())
	other.Bucket = 2
	k.deducted(other, bucket.Accepted)
	k.fill(1, 2, 3)
	k.deducted(k.deduction("a", 1, k.terms()), bucket.Closed)
	k.entry(1, 2, bucket.Entry{Verdict: bucket.Accepted, Epoch: 2, Balance: 3, LastGrant: 1})
}

// grantNumbers checks that each grant counts once, and that a grant with a gap before it is
// refused.
func grantNumbers(k *kit) {
	k.grant(1, 1, 1, 10, bucket.Lost)
	k.fill(1, 1, 10)
	k.grant(1, 1, 3, 10, bucket.Gap)
	k.grant(1, 1, 2, 5, bucket.Accepted)
	k.grant(1, 1, 1, 10, bucket.Accepted)
	k.grant(1, 1, 2, 5, bucket.Accepted)
	k.grant(1, 2, 1, 5, bucket.Lost)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 15, LastGrant: 2})
	k.grant(1, 1, 3, 1<<53-1, bucket.Broken) // the balance would be above 2^53 - 1
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 15, LastGrant: 2})
}
