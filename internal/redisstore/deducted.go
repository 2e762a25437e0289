package redisstore

import (
	"github.com/budgetd/budgetd/bucket"
)

// deductReplies reads the answer of deduct.lua: see there. Balance, seq and sum after an operation follow from
// what they were before the call, and from the amounts of those that were admitted.
func (s *Store) deductReplies(op string, answer any, g groups[member], operations []bucket.Operation) (
	[]bucket.Reply, error) {
	values, ok := answer.([]any)
	out := make([]bucket.Reply, len(operations))
	for k, next := 0, 0; ok && k < len(g.refs); k++ {
		group := g.order[next : next+g.counts[k]]
		next += g.counts[k]
		values, ok = repliesOfEpoch(values, group, operations, out)
	}
	if !ok || len(values) != 0 {
		return nil, s.strange(op, answer)
	}
	return out, nil
}

// verdictsAt is where the verdicts of an epoch begin in its text.
const verdictsAt = 32

// repliesOfEpoch reads what is answered of one epoch's operations into out, and returns the rest of the answer.
func repliesOfEpoch(values []any, group []int, operations []bucket.Operation, out []bucket.Reply) (
	rest []any, ok bool) {
	text, rest, ok := nextText(values)
	if !ok || len(text) < verdictsAt+len(group) {
		return nil, false
	}
	balance, seq, deducted := int64At(text, 0), int64At(text, 8), int64At(text, 16)
	limits := toldOf(int64At(text, 24), text[verdictsAt+len(group):], len(group))
	for n, i := range group {
		o, r := &operations[i], &out[i]
		r.Verdict = bucket.Verdict(text[verdictsAt+n])
		if r.Verdict < bucket.OK || r.Verdict > mostOf(o) {
			return nil, false
		}
		switch r.Verdict {
		case bucket.OK:
			balance, seq, deducted = balance-o.Amount, seq+1, deducted+o.Amount
		case bucket.Broken:
			if r.Why, rest, ok = nextText(rest); !ok {
				return nil, false
			}
			continue
		case bucket.EpochGone, bucket.WrongActivation:
			continue
		}
		r.Balance, r.Seq = balance, seq
		if o.Record && (r.Verdict == bucket.OK || r.Verdict == bucket.Behind) {
			r.Deducted = deducted
		}
		if r.Verdict == bucket.Recorded {
			var record string
			if record, rest, ok = nextText(rest); !ok {
				return nil, false
			}
			*r = recordedAs(*r, record)
		}
		if o.Counting != nil {
			r.Counted = limits.counted(r.Verdict, o.Counting)
		}
	}
	return rest, !limits.cut && limits.text == ""
}

// nextText returns the first of some elements and the others; not ok where that is no text.
func nextText(values []any) (text string, rest []any, ok bool) {
	if len(values) == 0 {
		return "", nil, false
	}
	text, ok = values[0].(string)
	return text, values[1:], ok
}

// mostOf is the highest verdict that there can be of an operation.
func mostOf(o *bucket.Operation) bucket.Verdict {
	switch {
	case o.Counting != nil:
		return bucket.OverLimit
	case o.Record:
		return bucket.Outdated
	}
	return bucket.Broken
}

// int64At reads a signed number of 8 bytes.
func int64At(text string, at int) int64 {
	n := uint64(0)
	for _, b := range []byte(text[at : at+8]) {
		n = n<<8 | uint64(b)
	}
	return int64(n) //nolint:gosec // as two's complement
}
