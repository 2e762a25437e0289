package redisstore

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Deduct implements bucket.Counter. Deductions of one bucket with different epochs or terms go into
// different runs of the script, because a run has one epoch and one Terms per bucket.
func (s *Store) Deduct(ctx context.Context, m bucket.Memory, deductions []bucket.StoreDeduction) (
	bucket.StoreAnswer, error) {
	return s.deduct(ctx, "deduct", m, deductions, false)
}

// Predict implements bucket.Counter. A run of the script has at most one deduction per bucket.
func (s *Store) Predict(ctx context.Context, m bucket.Memory, deductions []bucket.StoreDeduction) (
	bucket.StoreAnswer, error) {
	return s.deduct(ctx, "predict", m, deductions, true)
}

func (s *Store) deduct(ctx context.Context, op string, m bucket.Memory,
	deductions []bucket.StoreDeduction, predict bool) (
	bucket.StoreAnswer, error) {
	out := bucket.StoreAnswer{Outcomes: make([]bucket.StoreOutcome, len(deductions))}
	k, err := s.keysOf(op, m)
	if err != nil {
		return out, err
	}
	rest := make([]int, len(deductions))
	for i := range rest {
		rest[i] = i
	}
	for begun := false; len(rest) > 0; begun = true {
		r := newScriptRun(m, deductions)
		r.predict = predict
		rest = r.fill(rest)
		answer, err := s.sliced(op, m, k, func(slice int64) (any, error) {
			return s.call(ctx, op, m, deduct, r.keys(k, slice), []byte(r.argument(slice)))
		})
		switch {
		case err != nil && begun && !budget.Is(err, budget.OutcomeUnknown):
			err = &budget.Error{
				Code:    budget.OutcomeUnknown,
				Op:      op,
				Err:     err,
				Message: "a part of the call was done",
			}
		case err == nil && !r.read(answer, &out):
			err = strange(op, m.Partition, answer)
		}
		if err != nil {
			return bucket.StoreAnswer{}, err
		}
	}
	return out, nil
}

// read copies the script's answer into the outcomes. It returns false for any other answer.
func (r *scriptRun) read(answer any, out *bucket.StoreAnswer) bool {
	parts, ok := answer.([]any)
	if !ok || len(parts) != 4 {
		return false
	}
	now, ok := parts[0].(int64)
	balances, ok2 := integers(parts[1])
	exceptions, ok3 := parts[2].([]any)
	raws, ok4 := parts[3].([]any)
	if !ok || !ok2 || !ok3 || !ok4 || len(balances) != len(r.buckets) || len(exceptions)%3 != 0 ||
		len(raws) != len(r.pages) {
		return false
	}
	out.NowMS = now
	base := int64(0)
	for n, p := range r.pages {
		for j, i := range p.ops {
			o := &out.Outcomes[i]
			o.Verdict = bucket.Accepted
			if len(exceptions) > 0 && exceptions[0] == base+int64(1+j) {
				if !readException(exceptions[1], exceptions[2], o) {
					return false
				}
				exceptions = exceptions[3:]
			}
			at := p.bucketOf[j]
			switch o.Verdict {
			case bucket.Accepted:
				balances[at] -= r.all[i].Amount
				o.Balance = balances[at]
			case bucket.Short, bucket.Limited:
				o.Balance = balances[at]
			}
		}
		base += int64(len(p.ops))
		if !r.uses(p, raws[n], now, out) {
			return false
		}
	}
	return len(exceptions) == 0
}

// readException reads the outcome of an operation that was not accepted.
func readException(verdict, record any, o *bucket.StoreOutcome) bool {
	code, ok := verdict.(int64)
	if !ok || code < 1 || code > int64(bucket.Voided) {
		return false
	}
	o.Verdict = bucket.Verdict(code) //nolint:gosec // checked
	if o.Verdict == bucket.Known {
		text, ok := record.(string)
		if !ok {
			return false
		}
		var err error
		if o.Record, err = readRecord(text); err != nil {
			o.Verdict = bucket.Broken
		}
	}
	return true
}

// uses sets how far limits are used. It computes the state after each accepted operation from the
// counter before the call, because all operations of a call fall into the same windows.
func (r *scriptRun) uses(p *page, raws any, now int64, out *bucket.StoreAnswer) bool {
	list, ok := raws.([]any)
	if !ok || len(list) != len(p.list) {
		return false
	}
	states := make([][]bucket.LimitUse, len(p.list))
	var room, answers []bucket.LimitUse
	for u, raw := range list {
		text, ok := raw.(string)
		if !ok && raw != nil {
			return false
		}
		at := r.buckets[p.valueBucket[u]].terms
		states[u], room = carve(room, len(r.tags[at]), len(p.list)-u)
		usesOf(states[u], r.terms[at], r.tags[at], text, now)
	}
	for j, i := range p.ops {
		d, o := &r.all[i], &out.Outcomes[i]
		known := o.Verdict == bucket.Accepted || o.Verdict == bucket.Limited ||
			r.predict && o.Verdict == bucket.Short
		if p.values[j] == 0 || !known {
			continue
		}
		state := states[p.values[j]-1]
		o.Limits, answers = carve(answers, len(state), len(p.ops)-j)
		for l := range state {
			n := countOf(d, l)
			exceeded := o.Verdict == bucket.Limited && n > 0 && state[l].Used+n > maxOf(d, l)
			if o.Verdict == bucket.Accepted && !r.predict {
				state[l].Used += n
			}
			o.Limits[l] = state[l]
			o.Limits[l].Exceeded = exceeded
		}
		if o.Verdict == bucket.Limited {
			text, _ := list[p.values[j]-1].(string)
			tags := r.tags[r.buckets[p.bucketOf[j]].terms]
			o.Slots = slotsOf(state, d.Terms, tags, text, now)
		}
	}
	return true
}

// carve cuts n elements off room. If room is too small, it first allocates room for more lists.
func carve(room []bucket.LimitUse, n, more int) (list, rest []bucket.LimitUse) {
	if len(room) < n {
		room = make([]bucket.LimitUse, n*more)
	}
	return room[:n:n], room[n:]
}
