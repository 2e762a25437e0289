package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/storetest"
)

var (
	storeLane = bucket.Lane{Instance: "memory"}
	storeRef  = bucket.Ref{Bucket: 1, Epoch: 1, Activation: 1}
)

// activated connects a node to a memory and activates it.
func activated(t *testing.T, server *memstore.Server, activation int64) *memstore.Store {
	t.Helper()
	store := server.Connect()
	who, err := store.Identity(t.Context(), storeLane)
	if err == nil {
		err = store.Activate(t.Context(), storeLane, who, activation)
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// filledServer has one bucket with 100 units.
func filledServer(t *testing.T) (*memstore.Server, *memstore.Store) {
	t.Helper()
	server := memstore.NewServer("memory", 1)
	store := activated(t, server, 1)
	_, err := store.Open(t.Context(), storeLane, []bucket.Ref{storeRef})
	if err == nil {
		_, err = store.Grant(t.Context(), storeLane,
			[]bucket.GrantOrder{{Ref: storeRef, Number: 1, Amount: 100}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return server, store
}

func deduct(ctx context.Context, store *memstore.Store, amounts ...int64) ([]bucket.Reply, error) {
	operations := make([]bucket.Operation, len(amounts))
	for i, amount := range amounts {
		operations[i] = storetest.Deduction(storeRef, amount, fmt.Sprint("request ", i))
	}
	return store.Deduct(ctx, storeLane, operations)
}

func wantLeft(t *testing.T, server *memstore.Server, left, seq int64) {
	t.Helper()
	hook := server.Hook
	server.Hook = nil
	defer func() { server.Hook = hook }()
	got, err := activated(t, server, 1).Balances(t.Context(), storeLane, []bucket.Ref{storeRef})
	if err != nil || got[0].Balance != left || got[0].Seq != seq {
		t.Errorf("balance is %+v (%v), want %d at %d", got[0], err, left, seq)
	}
}

// TestFaults: what each fault does to a call of three deductions of 1, 2 and 4 units, and what the
// caller hears. A fault strikes the operation of that index.
func TestFaults(t *testing.T) {
	tests := []struct {
		name      string
		fault     memstore.Fault
		at        int
		after     bool
		code      budget.Code
		left, seq int64
		// late are the figures once everything postponed was done.
		late, lateSeq int64
	}{
		{"none", memstore.Proceed, 0, false, "", 93, 4, 93, 4},
		{"refuse", memstore.Refuse, 0, false, budget.Unavailable, 100, 1, 100, 1},
		{"refuse in the middle", memstore.Refuse, 1, false, budget.OutcomeUnknown, 99, 2, 99, 2},
		{"drop the request", memstore.DropRequest, 0, false, budget.OutcomeUnknown, 100, 1, 100, 1},
		{"drop a later request", memstore.DropRequest, 2, false, budget.OutcomeUnknown, 97, 3, 97, 3},
		{"drop the reply, before", memstore.DropReply, 0, false, budget.OutcomeUnknown, 93, 4, 93, 4},
		{"drop the reply, after", memstore.DropReply, 2, true, budget.OutcomeUnknown, 93, 4, 93, 4},
		{"duplicate, before", memstore.Duplicate, 1, false, "", 91, 5, 91, 5},
		{"duplicate, after", memstore.Duplicate, 2, true, "", 89, 5, 89, 5},
		{"postpone", memstore.Postpone, 0, false, budget.OutcomeUnknown, 100, 1, 93, 4},
		{"postpone in the middle", memstore.Postpone, 1, false, budget.OutcomeUnknown, 99, 2, 93, 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server, store := filledServer(t)
			server.Hook = func(call memstore.Call) memstore.Fault {
				if call.Verb != "deduct" || call.Of != 3 || call.Ref != storeRef || call.Lane != storeLane {
					t.Errorf("the hook was asked about %+v", call)
				}
				if call.Index == test.at && call.After == test.after {
					return test.fault
				}
				return memstore.Proceed
			}
			got, err := deduct(t.Context(), store, 1, 2, 4)
			if budget.CodeOf(err) != test.code {
				t.Errorf("error %v, want code %q", err, test.code)
			}
			if test.code == "" && (len(got) != 3 || got[0].Verdict != bucket.OK || got[0].Balance != 99) {
				t.Errorf("answered %+v", got)
			}
			wantLeft(t, server, test.left, test.seq)
			server.Release()
			wantLeft(t, server, test.late, test.lateSeq)
			if server.Release() != 0 {
				t.Error("what was postponed is done more than once")
			}
		})
	}
}

// TestFaultsOfReads: a call that changes nothing is never unknown.
func TestFaultsOfReads(t *testing.T) {
	server, store := filledServer(t)
	server.Hook = func(memstore.Call) memstore.Fault { return memstore.DropReply }
	_, err := store.Read(t.Context(), storeLane, []bucket.Cursor{{Ref: storeRef}}, 1)
	_, err2 := store.Balances(t.Context(), storeLane, []bucket.Ref{storeRef})
	_, err3 := store.Identity(t.Context(), storeLane)
	for _, err := range []error{err, err2, err3, store.Activate(t.Context(), storeLane, "x", 1)} {
		if !budget.Is(err, budget.Unavailable) && !errors.Is(err, bucket.ErrMemoryLost) {
			t.Errorf("error %v, want %s", err, budget.Unavailable)
		}
	}
}

// TestDelay: a hook that waits delays its own call and no other.
func TestDelay(t *testing.T) {
	server, store := filledServer(t)
	held, goOn := make(chan bool), make(chan bool)
	server.Hook = func(call memstore.Call) memstore.Fault {
		if call.Of == 2 && call.Index == 1 && !call.After {
			held <- true
			<-goOn
		}
		return memstore.Proceed
	}
	slow := make(chan []bucket.Reply)
	go func() {
		got, _ := deduct(t.Context(), store, 1, 1)
		slow <- got
	}()
	<-held
	got, err := deduct(t.Context(), store, 10)
	if err != nil || got[0].Balance != 89 {
		t.Errorf("the quick call: %+v, %v", got, err)
	}
	close(goOn)
	if got := <-slow; len(got) != 2 || got[1].Balance != 88 {
		t.Errorf("the slow call: %+v", got)
	}
}

// TestPostponedIsFenced: what was postponed for a memory that is gone, or for an epoch that ended,
// changes nothing.
func TestPostponedIsFenced(t *testing.T) {
	server, store := filledServer(t)
	server.Hook = func(call memstore.Call) memstore.Fault {
		if call.Verb == "deduct" {
			return memstore.Postpone
		}
		return memstore.Proceed
	}
	if _, err := deduct(t.Context(), store, 1); !budget.Is(err, budget.OutcomeUnknown) {
		t.Error(err)
	}
	image := server.Snapshot()
	if _, err := store.Close(t.Context(), storeLane, []bucket.Ref{storeRef}); err != nil {
		t.Fatal(err)
	}
	if n := server.Release(); n != 1 {
		t.Errorf("%d operations were released, want 1", n)
	}
	wantLeft(t, server, 0, 2)

	server.Restore(image, true)
	wantLeft(t, server, 100, 1)
	_, _ = deduct(t.Context(), store, 1)
	server.Restore(image, false) // a restart with the same data
	server.Release()
	wantLeft(t, server, 100, 1)
}

// TestRestore: with the identity, nobody is told; without it, everybody is.
func TestRestore(t *testing.T) {
	server, store := filledServer(t)
	image := server.Snapshot()
	if _, err := deduct(t.Context(), store, 1, 2); err != nil {
		t.Fatal(err)
	}
	wantLeft(t, server, 97, 3)
	server.Restore(image, true)
	operation := storetest.Deduction(storeRef, 1, "x")
	operation.MinSeq = 3
	got, err := store.Deduct(t.Context(), storeLane, []bucket.Operation{operation})
	if err != nil || got[0].Verdict != bucket.WentBack {
		t.Errorf("a memory that went back answers %+v, %v", got, err)
	}
	got, err = deduct(t.Context(), store, 5)
	if err != nil || got[0].Balance != 95 {
		t.Errorf("answered %+v, %v", got, err)
	}
	server.Restore(image, false)
	for range 2 {
		if _, err := deduct(t.Context(), store, 5); !errors.Is(err, bucket.ErrMemoryLost) {
			t.Errorf("a memory of another identity answers %v", err)
		}
	}
	wantLeft(t, server, 100, 1) // the image was not changed by what happened since
}

// TestPostponedReads: a read that is done late writes nothing into an answer that somebody has had. The
// race detector judges.
func TestPostponedReads(t *testing.T) {
	server, store := filledServer(t)
	server.Hook = func(memstore.Call) memstore.Fault { return memstore.Postpone }
	for name, read := range map[string]func() error{
		"identity": func() error { _, err := store.Identity(t.Context(), storeLane); return err },
		"time":     func() error { _, err := store.Time(t.Context(), storeLane); return err },
	} {
		heard := make(chan error, 1)
		go func() { heard <- read() }()
		for server.Release() == 0 {
			runtime.Gosched()
		}
		if err := <-heard; !budget.Is(err, budget.Unavailable) {
			t.Errorf("%s: error %v, want %s", name, err, budget.Unavailable)
		}
	}
}
