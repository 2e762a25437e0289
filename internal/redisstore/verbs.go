package redisstore

import (
	"context"
	"slices"
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
	return s.replies(op, answer, order, nil, nil)
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
	if len(orders) == 0 {
		return nil, nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return nil, err
	}
	g := groupByRef(len(orders), func(i int) bucket.Ref { return orders[i].Ref })
	keys := make([]any, 0, 2*len(g.refs))
	argv := make([]any, 0, 3*(len(g.refs)+len(orders)))
	for i, ref := range g.refs {
		keys = append(keys, balanceKey(l.prefix, ref), logKey(l.prefix, ref.Bucket))
		argv = append(argv, ref.Epoch, ref.Activation, g.counts[i])
	}
	for _, i := range g.order {
		o := orders[i]
		argv = append(argv, o.Number, o.Amount,
			ledger.Line(ledger.KindGrant, o.Amount, strconv.FormatInt(o.Number, 10)))
	}
	answer, err := s.eval(ctx, op, l, verbGrant, keys, argv)
	if err != nil {
		return nil, err
	}
	return s.replies(op, answer, g.order, nil, nil)
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
	if len(operations) == 0 {
		return nil, nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return nil, err
	}
	g := groupByRef(len(operations), func(i int) bucket.Ref { return operations[i].Ref })
	keys, argv, counted := s.deductArguments(l.prefix, g, operations)
	script, ofLimits := verbDeduct, func(i int) bool { return counted[operations[i].Ref] }
	if len(counted) > 0 {
		script = verbCount
	}
	answer, err := s.eval(ctx, op, l, script, keys, argv)
	if err != nil {
		return nil, err
	}
	return s.replies(op, answer, g.order, func(i int) bool { return operations[i].Record }, ofLimits)
}

// deductArguments returns what deduct.lua wants: see there. An epoch without records costs what it
// would cost if there were none at all. counted are the epochs with limits.
func (s *Store) deductArguments(prefix string, g groups, operations []bucket.Operation) (
	keys, argv []any, counted map[bucket.Ref]bool) {
	keys = make([]any, 0, 5*len(g.refs))
	argv = make([]any, 0, 1+4*len(g.refs)+7*len(operations))
	argv = append(argv, 0)
	next := 0
	for n, ref := range g.refs {
		group := g.order[next : next+g.counts[n]]
		next += g.counts[n]
		recorded := slices.ContainsFunc(group, func(i int) bool { return operations[i].Record })
		counting := slices.IndexFunc(group, func(i int) bool { return operations[i].Counting != nil })
		mode := withoutRecords
		if recorded {
			mode = withRecords
			argv[0] = s.config.RecordWindow.Milliseconds()
		}
		if counting >= 0 {
			mode = withLimits
			if counted == nil {
				counted = map[bucket.Ref]bool{}
			}
			counted[ref] = true
		}
		keys = append(keys, balanceKey(prefix, ref), logKey(prefix, ref.Bucket))
		argv = append(argv, ref.Epoch, ref.Activation, len(group), mode)
		for _, i := range group {
			argv = operationArguments(argv, &operations[i], mode)
		}
		if !recorded {
			continue
		}
		even, odd, void := recordKeys(prefix, ref)
		keys = append(keys, even, odd, void)
		for _, i := range group {
			argv = append(argv, recordField(operations[i].Request.ID))
		}
		if mode != withLimits {
			continue
		}
		keys = append(keys, countersKey(prefix, ref.Bucket, operations[group[counting]].Counting.From))
		for _, i := range group {
			if c := operations[i].Counting; c != nil {
				argv = append(argv, countingArguments(c)...)
			}
		}
	}
	return keys, argv, counted
}

// What deduct.lua is told of an epoch.
const (
	withoutRecords = iota
	withRecords
	withLimits
)

// operationArguments adds those of one operation.
func operationArguments(argv []any, o *bucket.Operation, mode int) []any {
	payload := ""
	if o.Counting != nil {
		payload = ledger.EncodeUntimed(o.Request)
	} else {
		payload = ledger.EncodeRequest(o.Request)
	}
	argv = append(argv, o.MinSeq, o.Amount, ledger.Line(ledger.KindDeduct, o.Amount, payload))
	if mode >= withRecords {
		argv = append(argv, o.Ceiling, o.Until, recordOf(o))
	}
	if mode == withLimits {
		limits := 0
		if o.Counting != nil {
			limits = len(o.Counting.Counts)
		}
		argv = append(argv, limits)
	}
	return argv
}
