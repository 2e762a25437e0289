package redisstore

import (
	"context"
	"strconv"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// Open creates balance hashes and entries 0. See bucket.Store.
func (s *Store) Open(ctx context.Context, at bucket.Lane, refs []bucket.Ref) (
	[]bucket.Reply, error) {
	return s.perEpoch(ctx, "open", at, verbOpen, refs, func(ref bucket.Ref) string {
		return ledger.OpenLine(ref.Bucket, ref.Epoch, ref.Activation)
	})
}

// Close ends epochs. See bucket.Store.
func (s *Store) Close(ctx context.Context, at bucket.Lane, refs []bucket.Ref) (
	[]bucket.Reply, error) {
	head := ledger.Line(ledger.KindClose, 0, "")[:2] // the script knows the amount
	return s.perEpoch(ctx, "close", at, verbClose, refs, func(bucket.Ref) string { return head })
}

// perEpoch runs a script that takes one operation per epoch, in the order given.
func (s *Store) perEpoch(ctx context.Context, op string, at bucket.Lane, v verb, refs []bucket.Ref,
	text func(bucket.Ref) string) ([]bucket.Reply, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return nil, err
	}
	keys, argv := make([]any, 0, 2*len(refs)), make([]any, 0, 3*len(refs))
	order := make([]int, len(refs))
	for i, ref := range refs {
		if err := ref.Check(); err != nil {
			return nil, err
		}
		keys = append(keys, balanceKey(l.prefix, ref), logKey(l.prefix, ref.Bucket))
		argv = append(argv, ref.Epoch, ref.Activation, text(ref))
		order[i] = i
	}
	answer, err := s.eval(ctx, op, l, v, keys, argv)
	if err != nil {
		return nil, err
	}
	return s.replies(op, answer, order)
}

// Grant adds numbered grants. See bucket.Store.
func (s *Store) Grant(ctx context.Context, at bucket.Lane, orders []bucket.GrantOrder) (
	[]bucket.Reply, error) {
	const op = "grant"
	for i := range orders {
		if err := orders[i].Check(); err != nil {
			return nil, err
		}
	}
	return s.grouped(ctx, op, at, verbGrant, len(orders),
		func(i int) bucket.Ref { return orders[i].Ref },
		func(i int) (first, amount int64, line string) {
			o := orders[i]
			number := strconv.FormatInt(o.Number, 10)
			return o.Number, o.Amount, ledger.Line(ledger.KindGrant, o.Amount, number)
		})
}

// Deduct takes amounts from balances. See bucket.Store.
func (s *Store) Deduct(ctx context.Context, at bucket.Lane, operations []bucket.Operation) (
	[]bucket.Reply, error) {
	const op = "deduct"
	for i := range operations {
		if err := operations[i].Check(); err != nil {
			return nil, err
		}
	}
	return s.grouped(ctx, op, at, verbDeduct, len(operations),
		func(i int) bucket.Ref { return operations[i].Ref },
		func(i int) (first, amount int64, line string) {
			o := &operations[i]
			return o.MinSeq, o.Amount,
				ledger.Line(ledger.KindDeduct, o.Amount, ledger.EncodeRequest(o.Request))
		})
}

// grouped runs a script that takes many operations per epoch; operation i is three arguments.
func (s *Store) grouped(ctx context.Context, op string, at bucket.Lane, v verb, n int,
	ref func(int) bucket.Ref, operation func(int) (first, amount int64, line string)) (
	[]bucket.Reply, error) {
	if n == 0 {
		return nil, nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return nil, err
	}
	g := groupByRef(n, ref)
	keys, argv := make([]any, 0, 2*len(g.refs)), make([]any, 0, 3*(len(g.refs)+n))
	for i, ref := range g.refs {
		keys = append(keys, balanceKey(l.prefix, ref), logKey(l.prefix, ref.Bucket))
		argv = append(argv, ref.Epoch, ref.Activation, g.counts[i])
	}
	for _, i := range g.order {
		first, amount, line := operation(i)
		argv = append(argv, first, amount, line)
	}
	answer, err := s.eval(ctx, op, l, v, keys, argv)
	if err != nil {
		return nil, err
	}
	return s.replies(op, answer, g.order)
}
