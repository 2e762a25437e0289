package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore"
)

// TestConformance checks the contract of package bucket, one call at a time.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*kit)
	}{
		{"Marker", markerRules}, {"OtherMemory", otherMemory}, {"OpenGrantClose", openGrantClose},
		{"LateOpen", lateOpen}, {"LostEntry", lostEntry}, {"Grants", grantNumbers},
		{"Order", orderOfChecks}, {"Refusals", refusalsWriteNothing}, {"Repeat", repeats},
		{"Slices", slicesOfRecords}, {"Instants", instants}, {"Calendar", calendarWindow}, {"WindowOfOthers", windowOfOthers},
		{"Sliding", slidingWindow}, {"FirstHit", firstHitWindow}, {"Lifetime", lifetimeWindow},
		{"LimitChanged", limitChanged}, {"Raise", raises}, {"OwnCounts", ownCounts}, {"SameValue", sameValue},
		{"Predict", predictions}, {"Sums", sumsStayNumbers}, {"Rollback", rollbacks},
		{"RollbackLimits", rollbackLimits}, {"LargeCounts", rollbackLargeCounts},
		{"Cancel", cancels}, {"Young", youngMemory}, {"Older", olderIncarnation},
		{"Late", lateSums}, {"Changes", changesAndAcknowledge}, {"Copy", copyReplaces},
		{"CopyRules", copyRules},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(newKit(t)) })
	}
}

// window is the record window of the stores under test.
const window = time.Second

// kit is the environment of a test: an empty store whose partition 0 has incarnation 1.
type kit struct {
	*testing.T
	store  *redisstore.Store
	server *testservers.RedisServer
	m      bucket.Memory
}

// newKit returns a store on the server that all tests share.
func newKit(t *testing.T) *kit {
	k := &kit{T: t, server: testservers.SharedRedis(t)}
	c := config(k.server)
	c.InstallationID, c.RecordWindow = testservers.UniqueName(), window
	k.store = connect(t, c)
	k.m = k.adopt(0, 1, 1)
	return k
}

// loseEntry removes the entry of a bucket of a partition and nothing else.
func (k *kit) loseEntry(partition int, bucketID int64) {
	k.Helper()
	_, err := k.server.Command("HDEL", k.store.Prefix(k.partition(partition))+"epoch", fmt.Sprint(bucketID))
	k.must(err)
}

// partition returns partition i.
func (k *kit) partition(i int) bucket.Partition {
	return bucket.Partition{Instance: instance, Index: i}
}

// must ends the test if there is an error.
func (k *kit) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// adopt marks a partition with an incarnation.
func (k *kit) adopt(partition int, incarnation, since int64) bucket.Memory {
	k.Helper()
	identity, err := k.store.Identity(k.Context(), k.partition(partition))
	k.must(err)
	m := bucket.Memory{Partition: k.partition(partition), Incarnation: incarnation, Identity: identity}
	k.must(k.store.Mark(k.Context(), m, since))
	return m
}

// now returns the partition's clock in milliseconds.
func (k *kit) now() int64 {
	k.Helper()
	at, err := k.store.Time(k.Context(), k.partition(0))
	k.must(err)
	return at.UnixMilli()
}

// fill opens an epoch of a bucket and grants it units.
func (k *kit) fill(bucketID, epoch, units int64) {
	k.Helper()
	k.open(bucketID, epoch, bucket.Accepted)
	k.grant(bucketID, epoch, 1, units, bucket.Accepted)
}

func (k *kit) open(bucketID, epoch int64, want bucket.Verdict) {
	k.Helper()
	got, err := k.store.Open(k.Context(), k.m,
		[]bucket.Opening{{Ref: bucket.Ref{Bucket: bucketID, Epoch: epoch}}})
	k.must(err)
	k.verdict("open", got[0].Verdict, want)
}

func (k *kit) grant(bucketID, epoch, number, units int64, want bucket.Verdict) {
	k.Helper()
	got, err := k.store.Grant(k.Context(), k.m, []bucket.StoreGrant{{Ref: bucket.Ref{Bucket: bucketID,
		Epoch: epoch}, Number: number, Amount: units}})
	k.must(err)
	k.verdict("grant", got[0].Verdict, want)
}

func (k *kit) close(bucketID, epoch int64, moving bool, want bucket.Verdict) bucket.Entry {
	k.Helper()
	got, err := k.store.Close(k.Context(), k.m, []bucket.Ref{{Bucket: bucketID, Epoch: epoch}},
		moving)
	k.must(err)
	k.verdict("close", got[0].Verdict, want)
	return got[0]
}

// entry reads an entry and compares it.
func (k *kit) entry(bucketID, epoch int64, want bucket.Entry) {
	k.Helper()
	got, err := k.store.Read(k.Context(), k.m, []bucket.Ref{{Bucket: bucketID, Epoch: epoch}})
	k.must(err)
	k.same("entry", got[0], want)
}

// terms returns the terms of a budget with limits.
func (k *kit) terms(limits ...bucket.LimitTerms) *bucket.Terms {
	version := int64(0)
	if len(limits) > 0 {
		version = 1
	}
	return &bucket.Terms{LimitsVersion: version, Limits: limits}
}

// deduction returns a deduction from bucket 1, epoch 1, with a future deadline.
func (k *kit) deduction(id string, amount int64, terms *bucket.Terms) bucket.StoreDeduction {
	return bucket.StoreDeduction{
		RecordID:    bucket.RecordID{Bucket: 1, ID: id},
		Epoch:       1,
		Amount:      amount,
		NotAfterMS:  k.now() + 600_000,
		Fingerprint: "print of " + id,
		Nonce:       "nonce",
		Terms:       terms,
	}
}

// deduct makes deductions and returns their outcomes.
func (k *kit) deduct(all ...bucket.StoreDeduction) []bucket.StoreOutcome {
	k.Helper()
	answer, err := k.store.Deduct(k.Context(), k.m, all)
	k.must(err)
	return answer.Outcomes
}

// deducted makes one deduction, checks its verdict and returns its outcome.
func (k *kit) deducted(d bucket.StoreDeduction, want bucket.Verdict) bucket.StoreOutcome {
	k.Helper()
	out := k.deduct(d)[0]
	k.verdict("deduct "+d.ID, out.Verdict, want)
	return out
}

// rollback gives back units of a deduction of bucket 1.
func (k *kit) rollback(id, rollbackID string, amount int64, want bucket.Verdict,
	terms ...*bucket.Terms) bucket.StoreReturn {
	k.Helper()
	x := bucket.StoreRollback{
		RecordID:   bucket.RecordID{Bucket: 1, ID: id},
		RollbackID: rollbackID,
		Amount:     amount,
	}
	if len(terms) > 0 {
		x.Terms = terms[0]
	}
	got, err := k.store.Rollback(k.Context(), k.m, []bucket.StoreRollback{x})
	k.must(err)
	k.verdict("rollback "+rollbackID, got[0].Verdict, want)
	return got[0]
}

func (k *kit) cancel(id string, want bucket.Verdict) bucket.StoreReturn {
	k.Helper()
	got, err := k.store.Cancel(k.Context(), k.m,
		[]bucket.StoreRollback{{RecordID: bucket.RecordID{Bucket: 1, ID: id}}})
	k.must(err)
	k.verdict("cancel "+id, got[0].Verdict, want)
	return got[0]
}

func (k *kit) find(id string, want bucket.Verdict) bucket.Record {
	k.Helper()
	got, err := k.store.Find(k.Context(), k.m, []bucket.RecordID{{Bucket: 1, ID: id}})
	k.must(err)
	k.verdict("find "+id, got[0].Verdict, want)
	return got[0].Record
}

// changes returns all changed sums.
func (k *kit) changes() []bucket.Sum { k.Helper(); return k.changesOf(k.m) }

func (k *kit) changesOf(m bucket.Memory) (all []bucket.Sum) {
	k.Helper()
	for cursor := ""; ; {
		sums, next, err := k.store.Changed(k.Context(), m, cursor)
		k.must(err)
		all = append(all, sums...)
		if cursor = next; cursor == "" {
			return all
		}
	}
}

// sweep sweeps until nothing is left to sweep.
func (k *kit) sweep() {
	k.Helper()
	for {
		more, err := k.store.Sweep(k.Context(), k.m)
		k.must(err)
		if !more {
			return
		}
	}
}

func (k *kit) verdict(what string, got, want bucket.Verdict) {
	k.Helper()
	if got != want {
		k.Fatalf("%s: verdict %d, want %d", what, got, want)
	}
}

// same compares two values.
func (k *kit) same(what string, got, want any) {
	k.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		k.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// used compares the usage of limits.
func (k *kit) used(out bucket.StoreOutcome, want ...int64) {
	k.Helper()
	var got []int64
	for _, use := range out.Limits {
		got = append(got, use.Used)
	}
	k.same("used", got, want)
}
