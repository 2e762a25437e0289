package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// witness is an argument of a command that notices when the command is being written: go-redis asks
// it for its text at that moment, in the caller's goroutine. As long as nobody asked, no byte of
// the command has left, whatever the error says.
type witness struct {
	text    string
	written bool
}

// MarshalBinary returns the argument.
func (w *witness) MarshalBinary() ([]byte, error) {
	w.written = true
	return []byte(w.text), nil
}

// command sends one command of a lane, with its second word as a witness. What it does must be
// what the whole call does: the error is the call's.
func (s *Store) command(ctx context.Context, op string, l *lane, name, second string,
	rest []any) (any, error) {
	p := l.session.enter()
	if p == nil {
		return nil, s.unavailable(op, nil, "the lane was activated anew or disconnected")
	}
	defer p.leave()
	w := &witness{text: second}
	args := make([]any, 0, 2+len(rest))
	args = append(append(args, name, w), rest...)
	cmd := redis.NewCmd(ctx, args...)
	if err := p.client.Process(ctx, cmd); err != nil {
		v := s.judge(op, err, w.written)
		if v.lost {
			l.lost.Store(true)
		}
		if v.moved {
			l.session.renew(p)
		}
		return nil, v.err
	}
	return cmd.Val(), nil
}

// eval runs a verb's script of the lane's activation; arguments are the keys, then ARGV.
func (s *Store) eval(ctx context.Context, op string, l *lane, v verb, keys, argv []any) (
	any, error) {
	rest := make([]any, 0, 1+len(keys)+len(argv))
	rest = append(append(append(rest, len(keys)), keys...), argv...)
	return s.command(ctx, op, l, "EVALSHA", l.scripts[v].sha, rest)
}

// replies reads a script's answer: three elements per operation. order[i] says which operation the
// i-th answer is of.
func (s *Store) replies(op string, answer any, order []int) ([]bucket.Reply, error) {
	strange := func() error {
		return &budget.Error{Code: budget.OutcomeUnknown, Op: op, Message: fmt.Sprintf(
			"instance %s answered a script with %.200v", s.config.Name, answer)}
	}
	values, ok := answer.([]any)
	if !ok || len(values) != 3*len(order) {
		return nil, strange()
	}
	out := make([]bucket.Reply, len(order))
	for i, operation := range order {
		verdict, ok1 := values[3*i].(int64)
		seq, ok3 := values[3*i+2].(int64)
		reply := bucket.Reply{Verdict: bucket.Verdict(verdict), Seq: seq}
		ok2 := false
		if reply.Verdict == bucket.Broken {
			reply.Why, ok2 = values[3*i+1].(string)
		} else {
			reply.Balance, ok2 = values[3*i+1].(int64)
		}
		if !ok1 || !ok2 || !ok3 || verdict < int64(bucket.OK) || verdict > int64(bucket.Broken) {
			return nil, strange()
		}
		out[operation] = reply
	}
	return out, nil
}

// groups sorts the operations of a call by their Ref, so that a script reads and writes each hash
// once. Operations on different hashes do not affect one another, so the answers are those of one
// by one.
type groups struct {
	refs   []bucket.Ref
	counts []int
	// order lists the operations group by group, each group in the order given.
	order []int
}

func groupByRef(n int, ref func(int) bucket.Ref) groups {
	g := groups{order: make([]int, n)}
	if n == 1 {
		return groups{refs: []bucket.Ref{ref(0)}, counts: []int{1}, order: g.order}
	}
	index := make(map[bucket.Ref]int)
	of := make([]int, n)
	for i := range n {
		r := ref(i)
		at, known := index[r]
		if !known {
			at = len(g.refs)
			index[r] = at
			g.refs, g.counts = append(g.refs, r), append(g.counts, 0)
		}
		of[i] = at
		g.counts[at]++
	}
	next := make([]int, len(g.refs))
	for at := 1; at < len(next); at++ {
		next[at] = next[at-1] + g.counts[at-1]
	}
	for i, at := range of {
		g.order[next[at]] = i
		next[at]++
	}
	return g
}
