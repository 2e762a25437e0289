package faultstore

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/redisstore"
)

// Store is a store behind a network. Time is not subject to faults.
type Store struct {
	*redisstore.Store
	Network *Network
}

var (
	_ bucket.Counter  = Store{}
	_ bucket.Entries  = Store{}
	_ bucket.Changes  = Store{}
	_ bucket.Memories = Store{}
	_ bucket.Copies   = Store{}
)

// list sends a call with a list of elements. The caller may change the list once it has an answer,
// but a call that is held back needs it later.
func list[X, T any](ctx context.Context, s Store, op string, m bucket.Memory, all []X,
	call func(context.Context, bucket.Memory, []X) (T, error)) (T, error) {
	all = slices.Clone(all)
	return send(ctx, s.Network, op, m.Partition, func(ctx context.Context) (T, error) {
		return call(ctx, m, all)
	})
}

// done sends a call that returns only an error.
func done(ctx context.Context, s Store, op string, m bucket.Memory,
	call func(context.Context) error) error {
	_, err := send(ctx, s.Network, op, m.Partition, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, call(ctx)
	})
	return err
}

// Deduct implements bucket.Counter.
func (s Store) Deduct(ctx context.Context, m bucket.Memory, all []bucket.StoreDeduction) (
	bucket.StoreAnswer, error) {
	return list(ctx, s, "deduct", m, all, s.Store.Deduct)
}

// Predict implements bucket.Counter.
func (s Store) Predict(ctx context.Context, m bucket.Memory, all []bucket.StoreDeduction) (
	bucket.StoreAnswer, error) {
	return list(ctx, s, "predict", m, all, s.Store.Predict)
}

// Rollback implements bucket.Counter.
func (s Store) Rollback(ctx context.Context, m bucket.Memory, all []bucket.StoreRollback) (
	[]bucket.StoreReturn, error) {
	return list(ctx, s, "rollback", m, all, s.Store.Rollback)
}

// Cancel implements bucket.Counter.
func (s Store) Cancel(ctx context.Context, m bucket.Memory, all []bucket.StoreRollback) (
	[]bucket.StoreReturn, error) {
	return list(ctx, s, "cancel", m, all, s.Store.Cancel)
}

// Find implements bucket.Counter.
func (s Store) Find(ctx context.Context, m bucket.Memory, ids []bucket.RecordID) (
	[]bucket.StoreReturn, error) {
	return list(ctx, s, "find", m, ids, s.Store.Find)
}

// Open implements bucket.Entries.
func (s Store) Open(ctx context.Context, m bucket.Memory, all []bucket.Opening) (
	[]bucket.Entry, error) {
	return list(ctx, s, "open", m, all, s.Store.Open)
}

// Grant implements bucket.Entries.
func (s Store) Grant(ctx context.Context, m bucket.Memory, all []bucket.StoreGrant) (
	[]bucket.Entry, error) {
	return list(ctx, s, "grant", m, all, s.Store.Grant)
}

// Close implements bucket.Entries.
func (s Store) Close(ctx context.Context, m bucket.Memory, refs []bucket.Ref, moving bool) (
	[]bucket.Entry, error) {
	return list(ctx, s, "close", m, refs,
		func(ctx context.Context, m bucket.Memory, refs []bucket.Ref) ([]bucket.Entry, error) {
			return s.Store.Close(ctx, m, refs, moving)
		})
}

// Read implements bucket.Entries.
func (s Store) Read(ctx context.Context, m bucket.Memory, refs []bucket.Ref) (
	[]bucket.Entry, error) {
	return list(ctx, s, "read", m, refs, s.Store.Read)
}

// Raise implements bucket.Entries.
func (s Store) Raise(ctx context.Context, m bucket.Memory, all []bucket.LimitsVersion) error {
	return done(ctx, s, "raise", m, func(ctx context.Context) error {
		return s.Store.Raise(ctx, m, all)
	})
}

// Changed implements bucket.Changes.
func (s Store) Changed(ctx context.Context, m bucket.Memory, cursor string) (
	sums []bucket.Sum, next string, err error) {
	return sendPage(ctx, s.Network, "changed", m.Partition,
		func(ctx context.Context) ([]bucket.Sum, string, error) {
			return s.Store.Changed(ctx, m, cursor)
		})
}

// Acknowledge implements bucket.Changes.
func (s Store) Acknowledge(ctx context.Context, m bucket.Memory, sums []bucket.Sum) error {
	sums = slices.Clone(sums)
	return done(ctx, s, "acknowledge", m, func(ctx context.Context) error {
		return s.Store.Acknowledge(ctx, m, sums)
	})
}

// Sweep implements bucket.Changes.
func (s Store) Sweep(ctx context.Context, m bucket.Memory) (more bool, err error) {
	return send(ctx, s.Network, "sweep", m.Partition, func(ctx context.Context) (bool, error) {
		return s.Store.Sweep(ctx, m)
	})
}

// Identity implements bucket.Memories.
func (s Store) Identity(ctx context.Context, partition bucket.Partition) (string, error) {
	return send(ctx, s.Network, "identity", partition, func(ctx context.Context) (string, error) {
		return s.Store.Identity(ctx, partition)
	})
}

// Marker implements bucket.Memories.
func (s Store) Marker(ctx context.Context, partition bucket.Partition, identity string,
	verifies bool) (bucket.Marker, error) {
	return send(ctx, s.Network, "marker", partition, func(ctx context.Context) (bucket.Marker, error) {
		return s.Store.Marker(ctx, partition, identity, verifies)
	})
}

// Mark implements bucket.Memories.
func (s Store) Mark(ctx context.Context, m bucket.Memory, since int64) error {
	return done(ctx, s, "mark", m, func(ctx context.Context) error {
		return s.Store.Mark(ctx, m, since)
	})
}

// Doubt implements bucket.Memories.
func (s Store) Doubt(ctx context.Context, m bucket.Memory, sinceMS int64) error {
	return done(ctx, s, "doubt", m, func(ctx context.Context) error {
		return s.Store.Doubt(ctx, m, sinceMS)
	})
}

// ReadCopy implements bucket.Copies.
func (s Store) ReadCopy(ctx context.Context, m bucket.Memory, ref bucket.Ref, cursor string) (
	part bucket.CopyPart, next string, err error) {
	return sendPage(ctx, s.Network, "copy", m.Partition,
		func(ctx context.Context) (bucket.CopyPart, string, error) {
			return s.Store.ReadCopy(ctx, m, ref, cursor)
		})
}

// BeginCopy implements bucket.Copies.
func (s Store) BeginCopy(ctx context.Context, m bucket.Memory, ref bucket.Ref, attempt string) (
	bucket.Verdict, error) {
	return send(ctx, s.Network, "copy", m.Partition, func(ctx context.Context) (bucket.Verdict,
		error) {
		return s.Store.BeginCopy(ctx, m, ref, attempt)
	})
}

// AddCopy implements bucket.Copies.
func (s Store) AddCopy(ctx context.Context, m bucket.Memory, ref bucket.Ref, attempt string,
	part bucket.CopyPart) (bucket.Verdict, error) {
	return send(ctx, s.Network, "copy", m.Partition, func(ctx context.Context) (bucket.Verdict,
		error) {
		return s.Store.AddCopy(ctx, m, ref, attempt, part)
	})
}

// EndCopy implements bucket.Copies.
func (s Store) EndCopy(ctx context.Context, m bucket.Memory, ref bucket.Ref, attempt string) (
	bucket.Verdict, error) {
	return send(ctx, s.Network, "copy", m.Partition, func(ctx context.Context) (bucket.Verdict,
		error) {
		return s.Store.EndCopy(ctx, m, ref, attempt)
	})
}
