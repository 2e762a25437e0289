package memstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/storetest"
)

// clocked returns an empty server whose clock stands still, and a hand on it: ms since 1970.
func clocked() (*memstore.Server, *atomic.Int64) {
	var now atomic.Int64
	now.Store(1_000_500)
	server := memstore.NewServer("memory", 1)
	server.RecordWindow = time.Second
	server.Now = func() time.Time { return time.UnixMilli(now.Load()) }
	return server, &now
}

func TestRecordSlices(t *testing.T) {
	storetest.RunRecords(t, func(*testing.T) storetest.RecordsUnderTest {
		server, now := clocked()
		return storetest.RecordsUnderTest{
			StoreUnderTest: storetest.StoreUnderTest{Store: server.Connect(), Lane: storeLane},
			Window:         server.RecordWindow,
			Now:            server.Now,
			Pass:           func(until time.Time) { now.Store(max(now.Load(), until.UnixMilli())) },
			Restart:        func() { server.Restore(server.Snapshot(), false) },
		}
	})
}

func deductRecorded(t *testing.T, store *memstore.Store, id string) bucket.Verdict {
	t.Helper()
	got, err := store.Deduct(t.Context(), storeLane,
		[]bucket.Operation{storetest.Recorded(storeRef, 1, id)})
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Verdict
}

func wantVerdict(t *testing.T, what string, got, want bucket.Verdict) {
	t.Helper()
	if got != want {
		t.Errorf("%s: verdict %d, want %d", what, got, want)
	}
}

func fillRecorded(t *testing.T, store *memstore.Store) {
	t.Helper()
	_, err := store.Open(t.Context(), storeLane, []bucket.Ref{storeRef})
	if err == nil {
		_, err = store.Grant(t.Context(), storeLane,
			[]bucket.GrantOrder{{Ref: storeRef, Number: 1, Amount: 100}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestClockBack: a clock that went back forgets nothing until it has caught up and gone on.
func TestClockBack(t *testing.T) {
	server, now := clocked()
	store := activated(t, server, 1)
	fillRecorded(t, store)
	wantVerdict(t, "first", deductRecorded(t, store, "a"), bucket.OK)
	now.Store(1_001_500)
	wantVerdict(t, "next slice", deductRecorded(t, store, "b"), bucket.OK)
	now.Store(990_000)
	for _, id := range []string{"a", "b"} {
		wantVerdict(t, "back "+id, deductRecorded(t, store, id), bucket.Recorded)
	}
	wantVerdict(t, "made while back", deductRecorded(t, store, "c"), bucket.OK)
	now.Store(1_002_500)
	wantVerdict(t, "a, caught up", deductRecorded(t, store, "a"), bucket.OK)
	wantVerdict(t, "b, caught up", deductRecorded(t, store, "b"), bucket.Recorded)
	wantVerdict(t, "c, caught up", deductRecorded(t, store, "c"), bucket.Recorded)
	now.Store(1_003_500)
	wantVerdict(t, "c, one later", deductRecorded(t, store, "c"), bucket.OK)
}

// TestRecordsInImages: an image has its own copy of the records; without data there are none.
func TestRecordsInImages(t *testing.T) {
	server, _ := clocked()
	store := activated(t, server, 1)
	fillRecorded(t, store)
	deductRecorded(t, store, "a")
	image := server.Snapshot()
	deductRecorded(t, store, "b")
	server.Restore(image, true)
	wantVerdict(t, "a of the image", deductRecorded(t, store, "a"), bucket.Recorded)
	wantVerdict(t, "b after the image", deductRecorded(t, store, "b"), bucket.OK)
	server.Restore(image, true)
	wantVerdict(t, "b, restored again", deductRecorded(t, store, "b"), bucket.OK)
	server.Lose()
	store = activated(t, server, 1)
	fillRecorded(t, store)
	wantVerdict(t, "a, lost", deductRecorded(t, store, "a"), bucket.OK)
}

// TestPostponedRecord: a deduction that is late finds the void record that was left meanwhile, and
// one that is done twice takes once.
func TestPostponedRecord(t *testing.T) {
	server, _ := clocked()
	store := activated(t, server, 1)
	fillRecorded(t, store)
	fault := memstore.Postpone
	server.Hook = func(call memstore.Call) memstore.Fault {
		if call.Verb == "deduct" && !call.After {
			return fault
		}
		return memstore.Proceed
	}
	_, err := store.Deduct(t.Context(), storeLane,
		[]bucket.Operation{storetest.Recorded(storeRef, 1, "a")})
	if err == nil {
		t.Error("a postponed call was answered")
	}
	voided, err := store.Void(t.Context(), storeLane,
		[]bucket.VoidOrder{{Ref: storeRef, RequestID: "a"}})
	if err != nil || voided[0].Verdict != bucket.OK {
		t.Errorf("void: %+v, %v", voided, err)
	}
	server.Release()
	wantLeft(t, server, 100, 1)
	fault = memstore.Duplicate
	wantVerdict(t, "twice", deductRecorded(t, store, "b"), bucket.OK)
	wantLeft(t, server, 99, 2)
}
