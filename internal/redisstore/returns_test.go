package redisstore_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// rollbacks checks that a deduction gives back at most what it took, and that a rollback id takes
// effect once (I5).
func rollbacks(k *kit) {
	k.fill(1, 1, 20)
	k.deducted(k.deduction("a", 10, k.terms()), bucket.Accepted)
	got := k.rollback("a", "r1", 3, bucket.Accepted)
	k.same("gave", got.Amount, int64(3))
	k.same("again", k.rollback("a", "r1", 3, bucket.Known).Amount, int64(3))
	k.same("the same with another amount", k.rollback("a", "r1", 4, bucket.Known).Amount, int64(3))
	k.rollback("a", "r2", 8, bucket.TooMuch)
	for i := range 6 {
		k.rollback("a", fmt.Sprint("part", i), 1, bucket.Accepted)
	}
	k.same("rolled back", k.find("a", bucket.Known).RolledBack, int64(9))
	k.rollback("a", "r8", 1, bucket.Accepted)
	k.same("all", k.rollback("a", "r9", 0, bucket.Known).Amount, int64(0))
	k.rollback("a", "r9", 1, bucket.TooMuch)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 20, Taken: 10,
		GivenBack: 10, LastGrant: 1})
	k.deducted(k.deduction("b", 20, k.terms()), bucket.Accepted)
	for i := range bucket.MostRollbackIDs {
		k.rollback("b", fmt.Sprint(i), 1, bucket.Accepted)
	}
	k.rollback("b", "one more", 1, bucket.TooMany)
	k.cancel("b", bucket.Accepted) // needs no further rollback id
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 20, Taken: 30,
		GivenBack: 30, LastGrant: 1})
}

// rollbackLimits checks that a rollback lowers what its deduction counted: a call when its last
// unit comes back, units in proportion.
func rollbackLimits(k *kit) {
	k.fill(1, 1, 20)
	terms := k.terms(bucket.LimitTerms{Name: "a", Changed: 1, Kind: budget.WindowLifetime, Max: 100,
		Measure: budget.MeasureAmount}, bucket.LimitTerms{Name: "n", Changed: 1,
		Kind: budget.WindowLifetime, Max: 100, Measure: budget.MeasureCount})
	d := k.valued("a", 3, "u", terms)
	k.used(k.deducted(d, bucket.Accepted), 3, 1)
	d.ID, d.Counts = "own", []int64{5, 2}
	k.used(k.deducted(d, bucket.Accepted), 8, 3)
	k.rollback("a", "1", 1, bucket.Accepted, terms)
	k.rollback("own", "1", 1, bucket.Accepted, terms) // 4 of 5 stay, rounded up
	k.used(k.deducted(k.valued("x", 1, "u", terms), bucket.Accepted), 7, 4)
	k.rollback("a", "2", 0, bucket.Accepted, terms)
	k.rollback("own", "2", 0, bucket.Accepted, terms)
	k.used(k.deducted(k.valued("y", 1, "u", terms), bucket.Accepted), 2, 2)
}

// cancels checks that a cancelled id never takes effect afterwards, and that what it took comes
// back.
func cancels(k *kit) {
	k.fill(1, 1, 10)
	k.verdict("void", k.cancel("a", bucket.Voided).Verdict, bucket.Voided)
	if out := k.deducted(k.deduction("a", 1, k.terms()), bucket.Known); !out.Record.Void {
		k.Errorf("record %+v", out.Record)
	}
	k.cancel("a", bucket.Known)
	if got := k.rollback("a", "r", 0, bucket.Known); !got.Record.Void {
		k.Errorf("rolled back: %+v", got)
	}
	k.deducted(k.deduction("b", 4, k.terms()), bucket.Accepted)
	k.rollback("b", "r", 1, bucket.Accepted)
	k.same("rest", k.cancel("b", bucket.Accepted).Amount, int64(3))
	k.cancel("b", bucket.Known)
	k.deducted(k.deduction("b", 4, k.terms()), bucket.Known)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 10, Taken: 4,
		GivenBack: 4, LastGrant: 1})
}

// youngMemory checks that a missing record is no proof while the memory is younger than the window,
// and that a cancel which relied on one never becomes a proof.
func youngMemory(k *kit) {
	k.fill(1, 1, 10)
	id := ""
	for n := int64(2); ; n++ { // a busy machine may need longer than the window
		began := time.Now()
		k.m, id = k.adopt(0, n, n), fmt.Sprint("id", n)
		one := []bucket.StoreRollback{{RecordID: bucket.RecordID{Bucket: 1, ID: id}}}
		back, err := k.store.Rollback(k.Context(), k.m, one)
		k.must(err)
		void, err := k.store.Cancel(k.Context(), k.m, one)
		k.must(err)
		if time.Since(began) < window {
			k.verdict("rollback", back[0].Verdict, bucket.Unclear)
			k.verdict("cancel", void[0].Verdict, bucket.Unclear)
			break
		}
	}
	time.Sleep(window + 50*time.Millisecond)
	k.rollback("other", "r", 0, bucket.NotFound)
	if got := k.cancel(id, bucket.Unclear); !got.Record.Void || !got.Record.Unsure {
		k.Errorf("cancelled: %+v", got)
	}
	k.rollback(id, "r", 0, bucket.Unclear)
	if got := k.find(id, bucket.Known); !got.Void || !got.Unsure {
		k.Errorf("record %+v", got)
	}
	if got := k.deducted(k.deduction(id, 1, k.terms()), bucket.Known); !got.Record.Void {
		k.Errorf("deducted: %+v", got)
	}
	if got := k.cancel("c", bucket.Voided); got.Record.Unsure {
		k.Errorf("cancelled: %+v", got)
	}
	k.cancel("c", bucket.Known)
	now, err := k.store.Time(k.Context(), k.m.Partition)
	k.must(err)
	// The later instant counts. This one is so late that the memory stays young.
	for _, since := range []int64{now.Add(time.Hour).UnixMilli(), 1} {
		k.must(k.store.Doubt(k.Context(), k.m, since))
		k.rollback("d", "r", 0, bucket.Unclear)
	}
	k.cancel("d", bucket.Unclear)
	k.cancel("c", bucket.Known)
	other := k.m
	other.Incarnation++
	if err := k.store.Doubt(k.Context(), other, 1); !errors.Is(err, bucket.ErrOtherMemory) {
		k.Errorf("of another memory: %v", err)
	}
}

// olderIncarnation checks that records from before a gap answer repeats and cannot be rolled back,
// and that those kept without a gap can.
func olderIncarnation(k *kit) {
	k.fill(1, 1, 10)
	k.deducted(k.deduction("a", 3, k.terms()), bucket.Accepted)
	k.m = k.adopt(0, 2, 1)
	k.rollback("a", "kept", 1, bucket.Accepted)
	k.m = k.adopt(0, 3, 3)
	k.rollback("a", "gap", 1, bucket.Unclear)
	k.cancel("a", bucket.Unclear)
	k.deducted(k.deduction("a", 3, k.terms()), bucket.Known)
	k.entry(1, 1, bucket.Entry{Verdict: bucket.Accepted, Epoch: 1, Balance: 8, Taken: 3, GivenBack: 1,
		LastGrant: 1})
}

// lateSums checks that what comes back after the end of an epoch is added to the epoch's late sum,
// and that the sum is kept until it is acknowledged and cannot grow any more.
func lateSums(k *kit) {
	k.fill(1, 1, 10)
	k.deducted(k.deduction("a", 6, k.terms()), bucket.Accepted)
	k.must(k.store.Acknowledge(k.Context(), k.m, k.changes()))
	k.close(1, 1, false, bucket.Accepted)
	if got := k.rollback("a", "1", 2, bucket.Accepted); !got.Late {
		k.Error("a rollback into a closed epoch is not late")
	}
	k.entry(1, 1,
		bucket.Entry{Verdict: bucket.Closed, Epoch: 1, Balance: 4, Taken: 6, LastGrant: 1, Late: 2})
	k.fill(1, 2, 5)
	if got := k.rollback("a", "2", 1, bucket.Accepted); !got.Late {
		k.Error("a rollback into an earlier epoch is not late")
	}
	want := bucket.Sum{Bucket: 1, Epoch: 1, Late: true, LateSum: 3, Verdict: bucket.Accepted}
	k.same("changed", k.changes(), []bucket.Sum{want})
	late := func() int64 {
		got, err := k.store.Read(k.Context(), k.m, []bucket.Ref{{Bucket: 1, Epoch: 1}})
		k.must(err)
		return got[0].Late
	}
	nextSlice := func() {
		time.Sleep(window + 50*time.Millisecond)
		k.sweep()
	}
	nextSlice()
	nextSlice()
	k.same("not acknowledged", late(), int64(3))
	k.must(k.store.Acknowledge(k.Context(), k.m, []bucket.Sum{want}))
	k.same("acknowledged", len(k.changes()), 0)
	nextSlice()
	k.same("acknowledged and final", late(), int64(0))
	k.entry(1, 2, bucket.Entry{Verdict: bucket.Accepted, Epoch: 2, Balance: 5, LastGrant: 1})
}

// move copies bucket 1 from partition 0 to partition 1 in one attempt.
func (k *kit) move(epoch int64, to bucket.Memory, attempt string) {
	k.Helper()
	ref := bucket.Ref{Bucket: 1, Epoch: epoch}
	got, err := k.store.BeginCopy(k.Context(), to, ref, attempt)
	k.must(err)
	k.verdict("begin", got, bucket.Accepted)
	for cursor := ""; ; {
		part, next, err := k.store.ReadCopy(k.Context(), k.m, ref, cursor)
		k.must(err)
		got, err := k.store.AddCopy(k.Context(), to, ref, attempt, part)
		k.must(err)
		k.verdict("add", got, bucket.Accepted)
		if cursor = next; cursor == "" {
			break
		}
	}
	got, err = k.store.EndCopy(k.Context(), to, ref, attempt)
	k.must(err)
	k.verdict("end", got, bucket.Accepted)
}

// copyReplaces checks that a copy replaces records, counters and late sums at the new place, and
// that the copied records can be rolled back there.
func copyReplaces(k *kit) {
	terms := k.terms(bucket.LimitTerms{Name: "l", Changed: 1, Kind: budget.WindowLifetime, Max: 9,
		Measure: budget.MeasureAmount})
	from, to := k.m, k.adopt(1, 7, 7)
	k.m = to
	k.fill(1, 1, 50)
	k.deducted(k.valued("stale", 5, "u", terms), bucket.Accepted)
	k.close(1, 1, false, bucket.Accepted)
	k.m = from
	k.fill(1, 2, 20)
	d := k.valued("a", 3, "u", terms)
	d.Epoch = 2
	k.deducted(d, bucket.Accepted)
	k.cancel("void", bucket.Voided)
	k.close(1, 2, true, bucket.Accepted)
	k.move(2, to, "one")
	k.deducted(d, bucket.Moving) // the source answers nothing else
	k.find("a", bucket.Moving)

	k.m = to
	k.find("a", bucket.Moving) // nor does the new place before open
	k.deducted(d, bucket.Moving)
	opened, err := k.store.Open(k.Context(), k.m,
		[]bucket.Opening{{Ref: bucket.Ref{Bucket: 1, Epoch: 3}, CopyOf: 2}})
	k.must(err)
	k.verdict("open", opened[0].Verdict, bucket.Accepted)
	k.grant(1, 3, 1, 10, bucket.Accepted)
	k.find("stale", bucket.NotFound)
	d.Epoch = 3
	k.deducted(d, bucket.Known)
	void := k.deduction("void", 1, terms)
	void.Epoch = 3
	if out := k.deducted(void, bucket.Known); !out.Record.Void {
		k.Errorf("void: %+v", out.Record)
	}
	next := k.valued("b", 1, "u", terms)
	next.Epoch = 3
	k.used(k.deducted(next, bucket.Accepted), 4)
	if got := k.rollback("a", "r", 0, bucket.Accepted, terms); !got.Late {
		k.Error("a rollback into a closed epoch is not late")
	}
	next.ID = "c"
	k.used(k.deducted(next, bucket.Accepted), 2)
}

// copyRules checks that only the copy of the most recently closed epoch opens, and that only the
// last attempt continues.
func copyRules(k *kit) {
	to := k.adopt(1, 1, 1)
	k.fill(1, 1, 20)
	ref := bucket.Ref{Bucket: 1, Epoch: 1}
	if _, _, err := k.store.ReadCopy(k.Context(), k.m, ref, ""); !budget.Is(err, budget.Invalid) {
		k.Errorf("a copy of an open bucket: %v", err)
	}
	k.close(1, 1, true, bucket.Accepted)
	k.rollback("a", "r", 0, bucket.Moving)
	k.cancel("a", bucket.Moving)
	begin := func(attempt string, want bucket.Verdict) {
		k.Helper()
		got, err := k.store.BeginCopy(k.Context(), to, ref, attempt)
		k.must(err)
		k.verdict("begin "+attempt, got, want)
	}
	end := func(attempt string, want bucket.Verdict) {
		k.Helper()
		got, err := k.store.EndCopy(k.Context(), to, ref, attempt)
		k.must(err)
		k.verdict("end "+attempt, got, want)
	}
	open := func(epoch, copyOf int64, want bucket.Verdict) {
		k.Helper()
		got, err := k.store.Open(k.Context(), to,
			[]bucket.Opening{{Ref: bucket.Ref{Bucket: 1, Epoch: epoch}, CopyOf: copyOf}})
		k.must(err)
		k.verdict("open", got[0].Verdict, want)
	}
	open(2, 1, bucket.Moving) // there is no copy
	begin("one", bucket.Accepted)
	begin("two", bucket.Accepted)
	end("one", bucket.Closed)
	open(2, 0, bucket.Moving)
	got, err := k.store.AddCopy(k.Context(), to, ref, "one", bucket.CopyPart{})
	k.must(err)
	k.verdict("add one", got, bucket.Closed)
	end("two", bucket.Accepted)
	end("two", bucket.Accepted)
	open(3, 2, bucket.Moving) // not the copy of the last closed epoch
	open(2, 1, bucket.Accepted)
	begin("three", bucket.Closed)
	end("two", bucket.Closed)
}
