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
		return nil, l.session.server.unavailable(op, nil, "the lane was activated anew or disconnected")
	}
	defer p.leave()
	w := &witness{text: second}
	args := make([]any, 0, 2+len(rest))
	args = append(append(args, name, w), rest...)
	cmd := redis.NewCmd(ctx, args...)
	if err := p.client.Process(ctx, cmd); err != nil {
		s.atlas.doubt()
		v := l.session.server.judge(op, err, w.written)
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

// strange is the error for an answer that is none.
func (s *Store) strange(op string, answer any) error {
	return &budget.Error{Code: budget.OutcomeUnknown, Op: op, Message: fmt.Sprintf(
		"instance %s answered a script with %.200s", s.config.Name, fmt.Sprint(answer))}
}

// replies reads a script's answer: three elements per operation, or four with a record.
// order[i] says which operation the i-th answer is of; most is the highest verdict that there can be.
func (s *Store) replies(op string, answer any, order []int, record bool, most bucket.Verdict) ([]bucket.Reply, error) {
	width := 3
	if record {
		width = 4
	}
	values, ok := answer.([]any)
	if !ok || len(values) != width*len(order) {
		return nil, s.strange(op, answer)
	}
	out := make([]bucket.Reply, len(order))
	for _, operation := range order {
		if out[operation], ok = replyOfScript(values[:width], most); !ok {
			return nil, s.strange(op, answer)
		}
		values = values[width:]
	}
	return out, nil
}

// replyOfScript reads what a script says of one operation. The fourth element, where there is one,
// is the record found.
func replyOfScript(values []any, most bucket.Verdict) (reply bucket.Reply, ok bool) {
	verdict, ok1 := values[0].(int64)
	if !ok1 || verdict < int64(bucket.OK) || verdict > int64(most) {
		return reply, false
	}
	reply.Verdict = bucket.Verdict(verdict)
	ok2, ok3, ok4 := false, false, true
	if reply.Verdict == bucket.Broken || reply.Verdict == bucket.EpochGone {
		reply.Why, ok2 = values[1].(string)
	}
	if !ok2 && reply.Verdict != bucket.Broken {
		reply.Balance, ok2 = values[1].(int64)
	}
	reply.Seq, ok3 = values[2].(int64)
	switch {
	case reply.Verdict == bucket.Recorded:
		var text string
		if text, ok4 = values[3].(string); ok4 {
			reply = recordedAs(reply, text)
		}
	case len(values) == 4:
		_, ok4 = values[3].(int64)
	}
	return reply, ok2 && ok3 && ok4
}

// groups sorts the operations of a call by what a script takes together, their Ref at least, so that it reads and
// writes each hash once. Operations on different hashes do not affect one another, and those on one hash
// stay in the order given, so the answers are those of one by one.
type groups[M grouped] struct {
	// refs has a Ref again where another activation of its epoch came between.
	refs   []M
	counts []int
	// order lists the operations group by group, each group in the order given.
	order []int
}

// hash names a balance hash.
type hash struct{ bucket, epoch int64 }

// grouped is what operations of a group have in common.
type grouped interface {
	comparable
	hash() hash
}

// refMember groups operations by their Ref alone.
type refMember bucket.Ref

func (r refMember) hash() hash { return hash{r.Bucket, r.Epoch} }

// fewGroups is up to how many groups are looked through one by one.
const fewGroups = 16

func groupBy[M grouped](n int, memberOf func(int) M) groups[M] {
	g := groups[M]{order: make([]int, n)}
	if n == 1 {
		g.refs, g.counts = []M{memberOf(0)}, []int{1}
		return g
	}
	var index map[hash]int // the last group of a hash, once there are many
	of := make([]int, n)
	for i := range n {
		m := memberOf(i)
		at := g.last(m.hash(), index)
		if at < 0 || g.refs[at] != m {
			at = len(g.refs)
			g.refs, g.counts = append(g.refs, m), append(g.counts, 0)
			if index != nil {
				index[m.hash()] = at
			} else if len(g.refs) == fewGroups {
				index = make(map[hash]int)
				for j := range g.refs {
					index[g.refs[j].hash()] = j
				}
			}
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

// last returns the place of the last group of a hash, -1 if there is none.
func (g *groups[M]) last(h hash, index map[hash]int) int {
	if index != nil {
		if at, known := index[h]; known {
			return at
		}
		return -1
	}
	for at := len(g.refs) - 1; at >= 0; at-- {
		if g.refs[at].hash() == h {
			return at
		}
	}
	return -1
}
