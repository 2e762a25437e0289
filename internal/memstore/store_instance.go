package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

var (
	_ bucket.Instance = (*Store)(nil)
	_ bucket.Records  = (*Store)(nil)
)

// Store is one node's view of a Server. Safe for concurrent use.
type Store struct {
	server *Server

	mu    sync.Mutex
	lanes map[int]activated
}

// Identity reads who the lane is. See bucket.Memory.
func (s *Store) Identity(ctx context.Context, at bucket.Lane) (who string, err error) {
	if err := s.known("identity", at); err != nil {
		return "", err
	}
	err = s.server.walk(ctx, "identity", lane{Lane: at}, 1, noRef, func(_ int, again bool) error {
		if !again { // nobody hears the second answer, and the caller of a late one is gone
			who = s.server.who()
		}
		return nil
	})
	return who, notUnknown(err)
}

// Time reads the lanes' clock. See bucket.Memory.
func (s *Store) Time(ctx context.Context, at bucket.Lane) (now time.Time, err error) {
	if err := s.known("time", at); err != nil {
		return now, err
	}
	err = s.server.walk(ctx, "time", lane{Lane: at}, 1, noRef, func(_ int, again bool) error {
		if !again { // nobody hears the second answer, and the caller of a late one is gone
			now = s.server.now()
		}
		return nil
	})
	return now, notUnknown(err)
}

// Activate prepares the lane for an activation. See bucket.Memory.
func (s *Store) Activate(ctx context.Context, at bucket.Lane, identity string,
	activation int64) error {
	if err := s.known("activate", at); err != nil {
		return err
	}
	if !budget.ValidAmount(activation) {
		return budget.Refuse(budget.Invalid, "activate", "activation %d must be 1 to %d", activation,
			budget.MaxAmount)
	}
	err := s.server.walk(ctx, "activate", lane{Lane: at}, 1, noRef, func(int, bool) error {
		if s.server.who() != identity {
			return bucket.ErrMemoryLost
		}
		s.server.memory.scripts[script{at.Index, activation}] = true
		return nil
	})
	if err != nil {
		return notUnknown(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes[at.Index] = activated{identity: identity, activation: activation}
	return nil
}

// Open creates balances and entries 0. See bucket.Store.
func (s *Store) Open(ctx context.Context, at bucket.Lane, refs []bucket.Ref) (
	[]bucket.Reply, error) {
	return answer(ctx, s, "open", at, refs, bucket.Ref.Check, same,
		func(b *shard, ref bucket.Ref, serves int64) bucket.Reply { return b.open(ref, serves) })
}

// Grant adds numbered grants. See bucket.Store.
func (s *Store) Grant(ctx context.Context, at bucket.Lane, orders []bucket.GrantOrder) (
	[]bucket.Reply, error) {
	return answer(ctx, s, "grant", at, orders,
		func(o bucket.GrantOrder) error { return o.Check() },
		func(o bucket.GrantOrder) bucket.Ref { return o.Ref },
		func(b *shard, o bucket.GrantOrder, serves int64) bucket.Reply { return b.grant(o, serves) })
}

// Deduct takes amounts. See bucket.Store.
func (s *Store) Deduct(ctx context.Context, at bucket.Lane, operations []bucket.Operation) (
	[]bucket.Reply, error) {
	return answer(ctx, s, "deduct", at, operations,
		func(o bucket.Operation) error { return o.Check() },
		func(o bucket.Operation) bucket.Ref { return o.Ref },
		func(b *shard, o bucket.Operation, serves int64) bucket.Reply {
			return b.deduct(o, serves, s.server.slice(), s.server.now().UnixMilli())
		})
}

// Void leaves void records. See bucket.Records.
func (s *Store) Void(ctx context.Context, at bucket.Lane, orders []bucket.VoidOrder) (
	[]bucket.Reply, error) {
	return answer(ctx, s, "void", at, orders,
		func(o bucket.VoidOrder) error { return o.Ref.Check() },
		func(o bucket.VoidOrder) bucket.Ref { return o.Ref },
		func(b *shard, o bucket.VoidOrder, serves int64) bucket.Reply {
			return b.void(o, serves, s.server.slice())
		})
}

// Close ends epochs. See bucket.Store.
func (s *Store) Close(ctx context.Context, at bucket.Lane, refs []bucket.Ref) (
	[]bucket.Reply, error) {
	return answer(ctx, s, "close", at, refs, bucket.Ref.Check, same,
		func(b *shard, ref bucket.Ref, serves int64) bucket.Reply { return b.close(ref, serves) })
}

// Read reads logs. See bucket.Log.
func (s *Store) Read(ctx context.Context, at bucket.Lane, cursors []bucket.Cursor, limit int) (
	[]bucket.Extract, error) {
	out, err := answer(ctx, s, "read", at, cursors,
		func(c bucket.Cursor) error { return c.Check() }, cursorRef,
		func(b *shard, c bucket.Cursor, _ int64) bucket.Extract { return b.read(c, limit) })
	return out, notUnknown(err)
}

// Balances reads balances. See bucket.Log.
func (s *Store) Balances(ctx context.Context, at bucket.Lane, refs []bucket.Ref) (
	[]bucket.Balance, error) {
	out, err := answer(ctx, s, "balances", at, refs, bucket.Ref.Check, same,
		func(b *shard, ref bucket.Ref, _ int64) bucket.Balance { return b.state(ref) })
	return out, notUnknown(err)
}

// Trim forgets the beginning of logs. See bucket.Log.
func (s *Store) Trim(ctx context.Context, at bucket.Lane, cursors []bucket.Cursor) error {
	_, err := answer(ctx, s, "trim", at, cursors,
		func(c bucket.Cursor) error { return c.Check() }, cursorRef,
		func(b *shard, c bucket.Cursor, _ int64) struct{} { b.trim(c); return struct{}{} })
	return err
}

// Discard deletes logs that end beyond an epoch. See bucket.Log.
func (s *Store) Discard(ctx context.Context, at bucket.Lane, ends []bucket.LogEnd) ([]bool, error) {
	return answer(ctx, s, "discard", at, ends,
		func(e bucket.LogEnd) error { return e.Ref.Check() },
		func(e bucket.LogEnd) bucket.Ref { return e.Ref },
		func(b *shard, e bucket.LogEnd, _ int64) bool { return b.discard(e) })
}

// Leave deletes the logs of buckets that have left the lane. See bucket.Log.
func (s *Store) Leave(ctx context.Context, at bucket.Lane, refs []bucket.Ref) error {
	_, err := answer(ctx, s, "leave", at, refs, bucket.Ref.Check, same,
		func(b *shard, ref bucket.Ref, _ int64) struct{} { b.leave(ref); return struct{}{} })
	return err
}

// Forget removes balances and their records. See bucket.Log.
func (s *Store) Forget(ctx context.Context, at bucket.Lane, refs []bucket.Ref) error {
	_, err := answer(ctx, s, "forget", at, refs, bucket.Ref.Check, same,
		func(b *shard, ref bucket.Ref, _ int64) struct{} {
			delete(b.epochs, ref.Epoch)
			return struct{}{}
		})
	return err
}

// answer does one operation per input and returns its answers, in order.
func answer[In, Out any](ctx context.Context, s *Store, verb string, at bucket.Lane, inputs []In,
	check func(In) error, ref func(In) bucket.Ref,
	do func(b *shard, input In, serves int64) Out) ([]Out, error) {
	for _, input := range inputs {
		if err := check(input); err != nil {
			return nil, err
		}
	}
	if len(inputs) == 0 {
		return nil, nil
	}
	l, err := s.find(verb, at)
	if err != nil {
		return nil, err
	}
	out := make([]Out, len(inputs))
	err = s.server.walk(ctx, verb, l, len(inputs),
		func(i int) bucket.Ref { return ref(inputs[i]) },
		func(i int, again bool) error {
			if s.server.who() != l.identity || !s.server.memory.scripts[script{at.Index, l.activation}] {
				return bucket.ErrMemoryLost
			}
			reply := do(s.server.shard(at.Index, ref(inputs[i]).Bucket), inputs[i], l.activation)
			if !again {
				out[i] = reply
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// find returns what the lane was activated for. ErrMemoryLost before that.
func (s *Store) find(verb string, at bucket.Lane) (lane, error) {
	if err := s.known(verb, at); err != nil {
		return lane{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, found := s.lanes[at.Index]
	if !found {
		return lane{}, bucket.ErrMemoryLost
	}
	return lane{Lane: at, activated: a}, nil
}

func (s *Store) known(verb string, at bucket.Lane) error {
	if at.Instance != s.server.name || at.Index < 0 || at.Index >= s.server.lanes {
		return budget.Refuse(budget.Unavailable, verb, "instance %s has no lane %s/%d",
			s.server.name, at.Instance, at.Index)
	}
	return nil
}

// notUnknown is for calls that change nothing that matters: whatever happened, they can be
// repeated.
func notUnknown(err error) error {
	if budget.Is(err, budget.OutcomeUnknown) {
		return &budget.Error{Code: budget.Unavailable, Message: "no answer"}
	}
	return err
}

func noRef(int) bucket.Ref                 { return bucket.Ref{} }
func same(ref bucket.Ref) bucket.Ref       { return ref }
func cursorRef(c bucket.Cursor) bucket.Ref { return c.Ref }
