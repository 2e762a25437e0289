package redisstore

import (
	"context"
	"encoding/binary"
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
	return s.replies(op, answer, order, false, bucket.Broken)
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
	g := groupBy(len(orders), func(i int) refMember { return refMember(orders[i].Ref) })
	keys := make([]any, 0, 2*len(g.refs))
	argv := make([]any, 0, 3*(len(g.refs)+len(orders)))
	for i, of := range g.refs {
		ref := bucket.Ref(of)
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
	return s.replies(op, answer, g.order, false, bucket.Broken)
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
	g := groupBy(len(operations), func(i int) member { return memberOf(&operations[i]) })
	keys, argv, script := s.deductArguments(l.prefix, g, operations)
	answer, err := s.eval(ctx, op, l, script, keys, argv)
	if err != nil {
		return nil, err
	}
	return s.deductReplies(op, answer, g, operations)
}

// member says which operations deduct.lua takes together: those of one Ref, and, of those that count against limits,
// those that agree on From and Ahead; and all that know the same limits.
type member struct {
	bucket.Ref
	limits      int64
	counting    bool
	from, ahead int64
}

func (m member) hash() hash { return hash{m.Bucket, m.Epoch} }

func memberOf(o *bucket.Operation) member {
	m := member{Ref: o.Ref, limits: o.LimitsVersion}
	if c := o.Counting; c != nil {
		m.counting, m.from, m.ahead = true, c.From, c.Ahead
	}
	return m
}

// What deduct.lua is told of an epoch.
const (
	withoutRecords = iota
	withRecords
	withLimits
)

// deductArguments returns what deduct.lua wants: see there. An epoch without records costs what it
// would cost if there were none at all. script is the one that knows limits only if there are any.
func (s *Store) deductArguments(prefix string, g groups[member], operations []bucket.Operation) (
	keys, argv []any, script verb) {
	keys, argv = make([]any, 0, 6*len(g.refs)), make([]any, 0, 1+len(g.refs))
	argv, script = append(argv, 0), verbDeduct
	room := 0
	for i := range operations {
		room += operationBytes(&operations[i])
	}
	p := packing{text: make([]byte, 0, room+headBytes*len(g.refs))}
	next := 0
	for n, ref := range g.refs {
		group := g.order[next : next+g.counts[n]]
		next += g.counts[n]
		mode := withoutRecords
		switch {
		case ref.counting:
			mode, script = withLimits, verbCount
		case slices.ContainsFunc(group, func(i int) bool { return operations[i].Record }):
			mode = withRecords
		}
		keys = append(keys, balanceKey(prefix, ref.Ref), logKey(prefix, ref.Bucket))
		if mode >= withRecords {
			argv[0] = s.config.RecordWindow.Milliseconds()
			even, odd, void := recordKeys(prefix, ref.Ref)
			keys = append(keys, even, odd, void)
		}
		if mode == withLimits {
			keys = append(keys, countersKey(prefix, ref.Bucket, ref.from))
		}
		begin := len(p.text)
		p.addGroup(ref, mode, group, operations)
		argv = append(argv, p.text[begin:len(p.text):len(p.text)])
	}
	return keys, argv, script
}

// addGroup adds an epoch's argument.
func (p *packing) addGroup(ref member, mode int, group []int, operations []bucket.Operation) {
	text := appendNumberText(p.text, ref.Epoch)
	text = appendNumberText(text, ref.Activation)
	text = append(text, byte(mode))
	text = binary.BigEndian.AppendUint32(text, uint32(len(group))) //nolint:gosec // a call has fewer
	if mode >= withRecords {
		text = append7(text, ref.limits)
	}
	if mode == withLimits {
		p.text = append8(text, ref.ahead)
		p.addLimits(group, operations)
		text = p.text
	} else {
		p.limits = p.limits[:0]
	}
	for _, i := range group {
		o := &operations[i]
		text = append7(append7(text, o.MinSeq), o.Amount)
		if mode >= withRecords {
			text = appendRecord(append7(append7(text, o.Ceiling), o.Until), o)
		}
		if mode == withLimits {
			text = append(text, byte(len(o.Counting.Counts)))
		}
	}
	for _, i := range group {
		text = append(text, 'e', 0, 0, 0, 0)
		begin := len(text)
		text = appendLine(text, &operations[i])
		binary.BigEndian.PutUint32(text[begin-4:], uint32(len(text)-begin)) //nolint:gosec // of one request
	}
	if mode >= withRecords {
		for _, i := range group {
			text = appendText(text, recordField(operations[i].Request.ID))
		}
	}
	p.text = text
	if mode == withLimits {
		for _, i := range group {
			p.addCounts(operations[i].Counting)
		}
		p.endCounts()
	}
}

// headBytes is about what an epoch's argument has before its operations.
const headBytes = 64

// operationBytes is about how many bytes deduct.lua is told of an operation.
func operationBytes(o *bucket.Operation) int {
	const fixed, perCount = 160, 80
	r := &o.Request
	n := fixed + 2*len(r.ID) + len(r.Reference) + len(r.Dimensions) + len(r.Group) + len(r.Counts)
	if o.Counting != nil {
		n += perCount * len(o.Counting.Counts)
	}
	return n
}

// appendLine adds the entry of an operation as it is chained; of one that counts, without its instant.
func appendLine(text []byte, o *bucket.Operation) []byte {
	payload := ""
	if o.Counting != nil {
		payload = ledger.EncodeUntimed(o.Request)
	} else {
		payload = ledger.EncodeRequest(o.Request)
	}
	return append(text, ledger.Line(ledger.KindDeduct, o.Amount, payload)...)
}
