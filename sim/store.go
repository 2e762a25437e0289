package sim

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
)

var (
	_ bucket.Instance = (*storeView)(nil)
	_ bucket.Records  = (*storeView)(nil)
	_ bucket.Counters = (*storeView)(nil)
)

// store is an instance: a memory that may be lost, and what nodes see of it.
type store struct {
	name   string
	server *memstore.Server
}

// storeView is a store as one node sees it: over the network.
type storeView struct {
	n     *node
	place int // in world.stores
	inner *memstore.Store
}

// The verbs of a store. Identity and Activate change nothing that matters: they can be repeated.
var (
	verbIdentity = storeRead("Identity")
	verbTime     = storeRead("Time")
	verbActivate = storeRead("Activate")
	verbOpen     = storeWrite("Open")
	verbGrant    = storeWrite("Grant")
	verbDeduct   = storeWrite("Deduct")
	verbVoid     = storeWrite("Void")
	verbUnload   = storeWrite("Unload")
	verbClose    = storeWrite("Close")
	verbRead     = storeRead("Read")
	verbBalances = storeRead("Balances")
	verbTrim     = storeWrite("Trim")
	verbForget   = storeWrite("Forget")
	verbDiscard  = storeWrite("Discard")
	verbLeave    = storeWrite("Leave")
)

// at is what a call of a store says, for the trace.
type at struct {
	Lane bucket.Lane
	What any
}

func through[A any](ctx context.Context, s *storeView, v verb, lane bucket.Lane, what any,
	do func() (A, error)) (A, error) {
	return ask(ctx, s.n, v, s.place, at{lane, what}, do)
}

// Identity asks the store. See bucket.Memory.
func (s *storeView) Identity(ctx context.Context, lane bucket.Lane) (string, error) {
	return through(ctx, s, verbIdentity, lane, nil, func() (string, error) { return s.inner.Identity(bg, lane) })
}

// Time asks the store. See bucket.Memory.
func (s *storeView) Time(ctx context.Context, lane bucket.Lane) (time.Time, error) {
	return through(ctx, s, verbTime, lane, nil, func() (time.Time, error) { return s.inner.Time(bg, lane) })
}

// Activate asks the store. See bucket.Memory.
func (s *storeView) Activate(ctx context.Context, lane bucket.Lane, identity string, activation int64) error {
	_, err := through(ctx, s, verbActivate, lane, []any{identity, activation}, func() (struct{}, error) {
		return struct{}{}, s.inner.Activate(bg, lane, identity, activation)
	})
	return err
}

// Open asks the store. See bucket.Store.
func (s *storeView) Open(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) ([]bucket.Reply, error) {
	return through(ctx, s, verbOpen, lane, refs, func() ([]bucket.Reply, error) {
		return s.inner.Open(bg, lane, refs)
	})
}

// Grant asks the store. See bucket.Store.
func (s *storeView) Grant(ctx context.Context, lane bucket.Lane, orders []bucket.GrantOrder) (
	[]bucket.Reply, error) {
	return through(ctx, s, verbGrant, lane, orders, func() ([]bucket.Reply, error) {
		return s.inner.Grant(bg, lane, orders)
	})
}

// Deduct asks the store. See bucket.Store. A command that runs again later repeats what it did, not
// what it was refused: the service answers a refusal once every call was answered, and relies on one
// that was answered not to run again. Over a connection of its own, with the client's retries off, a
// command is delivered once. In ledger mode the commit may refuse what a store did, because of a limit or a
// closed group, and then the id is free: there only what it cannot refuse is repeated.
func (s *storeView) Deduct(ctx context.Context, lane bucket.Lane, operations []bucket.Operation) (
	[]bucket.Reply, error) {
	left := operations
	for i := range operations {
		s.n.w.budgetOf.Store(operations[i].Ref.Bucket, operations[i].Budget)
	}
	return through(ctx, s, verbDeduct, lane, operations, func() ([]bucket.Reply, error) {
		replies, err := s.inner.Deduct(bg, lane, left)
		var did []bucket.Operation
		for i, r := range replies {
			q := &left[i].Request
			if r.Verdict == bucket.OK && (left[i].Record || q.Dimensions == "" && q.Group == "") {
				did = append(did, left[i])
			}
		}
		left = did
		return replies, err
	})
}

// Void asks the store. See bucket.Records.
func (s *storeView) Void(ctx context.Context, lane bucket.Lane, orders []bucket.VoidOrder) (
	[]bucket.Reply, error) {
	return through(ctx, s, verbVoid, lane, orders, func() ([]bucket.Reply, error) {
		return s.inner.Void(bg, lane, orders)
	})
}

// Unload asks the store. See bucket.Counters.
func (s *storeView) Unload(ctx context.Context, lane bucket.Lane, orders []bucket.Unloading) error {
	_, err := through(ctx, s, verbUnload, lane, orders, func() (struct{}, error) {
		return struct{}{}, s.inner.Unload(bg, lane, orders)
	})
	return err
}

// Close asks the store. See bucket.Store.
func (s *storeView) Close(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) ([]bucket.Reply, error) {
	return through(ctx, s, verbClose, lane, refs, func() ([]bucket.Reply, error) {
		return s.inner.Close(bg, lane, refs)
	})
}

// Read asks the store. See bucket.Log.
func (s *storeView) Read(ctx context.Context, lane bucket.Lane, cursors []bucket.Cursor, limit int) (
	[]bucket.Extract, error) {
	return through(ctx, s, verbRead, lane, cursors, func() ([]bucket.Extract, error) {
		return s.inner.Read(bg, lane, cursors, limit)
	})
}

// Balances asks the store. See bucket.Log.
func (s *storeView) Balances(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) (
	[]bucket.Balance, error) {
	return through(ctx, s, verbBalances, lane, refs, func() ([]bucket.Balance, error) {
		return s.inner.Balances(bg, lane, refs)
	})
}

// Trim asks the store. See bucket.Log.
func (s *storeView) Trim(ctx context.Context, lane bucket.Lane, cursors []bucket.Cursor) error {
	_, err := through(ctx, s, verbTrim, lane, cursors, func() (struct{}, error) {
		return struct{}{}, s.inner.Trim(bg, lane, cursors)
	})
	return err
}

// Forget asks the store. See bucket.Log.
func (s *storeView) Forget(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) error {
	_, err := through(ctx, s, verbForget, lane, refs, func() (struct{}, error) {
		return struct{}{}, s.inner.Forget(bg, lane, refs)
	})
	return err
}

// Leave asks the store. See bucket.Log.
func (s *storeView) Leave(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) error {
	_, err := through(ctx, s, verbLeave, lane, refs, func() (struct{}, error) {
		return struct{}{}, s.inner.Leave(bg, lane, refs)
	})
	return err
}

// Discard asks the store. See bucket.Log.
func (s *storeView) Discard(ctx context.Context, lane bucket.Lane, ends []bucket.LogEnd) ([]bool, error) {
	return through(ctx, s, verbDiscard, lane, ends, func() ([]bool, error) {
		return s.inner.Discard(bg, lane, ends)
	})
}
