package redisstore

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
)

// The kinds of elements of lua/undo.lua.
const (
	kindRollback = 1
	kindCancel   = 2
)

// Rollback implements bucket.Counter.
func (s *Store) Rollback(ctx context.Context, m bucket.Memory, rollbacks []bucket.StoreRollback) (
	[]bucket.StoreReturn, error) {
	return s.undo(ctx, "rollback", m, kindRollback, rollbacks)
}

// Cancel implements bucket.Counter.
func (s *Store) Cancel(ctx context.Context, m bucket.Memory, cancels []bucket.StoreRollback) (
	[]bucket.StoreReturn, error) {
	return s.undo(ctx, "cancel", m, kindCancel, cancels)
}

func (s *Store) undo(ctx context.Context, op string, m bucket.Memory, kind int64,
	all []bucket.StoreRollback) (
	[]bucket.StoreReturn, error) {
	k, err := s.keysOf(op, m)
	if err != nil {
		return nil, err
	}
	out := make([]bucket.StoreReturn, 0, len(all))
	err = inParts(op, len(all), func(from, to int) error {
		part := all[from:to]
		answer, err := s.sliced(op, m, k, func(slice int64) (any, error) {
			keys, arg := s.undoCall(k, slice, kind, part)
			return s.call(ctx, op, m, undo, keys, []byte(arg))
		})
		if err != nil {
			return err
		}
		returns, ok := readReturns(answer, len(part))
		if !ok {
			return strange(op, m.Partition, answer)
		}
		out = append(out, returns...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// undoCall returns the keys and the argument of lua/undo.lua.
func (s *Store) undoCall(k *keyset, slice, kind int64,
	part []bucket.StoreRollback) ([]string, packer) {
	keys := k.entries(k.late, k.changed)
	var at [pages]int
	var terms []*bucket.Terms
	var elements packer
	used := 0
	for i := range part {
		r := &part[i]
		page := pageOf(r.Bucket)
		if at[page] == 0 {
			used++
			at[page] = used
			keys = append(keys, k.records(slice, page), k.records(slice-1, page), k.counters[page])
		}
		term := 0
		if r.Terms != nil && len(r.Terms.Limits) > 0 {
			if len(terms) == 0 || terms[len(terms)-1] != r.Terms {
				terms = append(terms, r.Terms)
			}
			term = len(terms)
		}
		elements = elements.array(7).number(int64(at[page])).field(r.Bucket, r.ID).number(int64(i) + 1)
		elements = elements.number(int64(term)).number(kind).text(r.RollbackID).number(r.Amount)
	}
	arg := make(packer, 0, 64+40*len(part)+len(elements)).array(5).decimal(slice)
	arg = arg.number(s.Config().RecordWindow.Milliseconds()).array(len(part))
	for i := range part {
		arg = arg.decimal(part[i].Bucket)
	}
	arg = arg.array(len(terms))
	for _, t := range terms {
		arg = arg.array(len(t.Limits))
		for l := range t.Limits {
			x := &t.Limits[l]
			arg = arg.array(6).number(int64(tagOf(x))).number(kindOf(x.Kind)).number(x.Changed)
			arg = arg.number(x.LengthMS).number(max(x.SlotMS, 1)).number(measureOf(x.Measure))
		}
	}
	return keys, append(arg.array(len(part)), elements...)
}

// readReturns reads the answer of lua/undo.lua.
func readReturns(answer any, n int) ([]bucket.StoreReturn, bool) {
	parts, ok := answer.([]any)
	if !ok || len(parts) != 2 {
		return nil, false
	}
	values, ok := parts[1].([]any)
	if !ok || len(values) != 4*n {
		return nil, false
	}
	out := make([]bucket.StoreReturn, n)
	for i := range out {
		v := values[4*i:]
		amount, ok := v[2].(int64)
		if !ok || !readReturn(v[0], v[1], &out[i]) {
			return nil, false
		}
		out[i].Amount, out[i].Late = amount, v[3] == int64(1)
	}
	return out, true
}

// readReturn reads a verdict and a record.
func readReturn(verdict, record any, r *bucket.StoreReturn) bool {
	code, ok := verdict.(int64)
	if !ok || code < 1 || code > int64(bucket.Voided) {
		return false
	}
	r.Verdict = bucket.Verdict(code) //nolint:gosec // checked
	if text, found := record.(string); found {
		var err error
		if r.Record, err = readRecord(text); err != nil {
			r.Verdict = bucket.Broken
		}
	}
	return true
}

// Find implements bucket.Counter.
func (s *Store) Find(ctx context.Context, m bucket.Memory,
	ids []bucket.RecordID) ([]bucket.StoreReturn, error) {
	const op = "find a record"
	k, err := s.keysOf(op, m)
	if err != nil {
		return nil, err
	}
	out := make([]bucket.StoreReturn, len(ids))
	err = inParts(op, len(ids), func(from, to int) error {
		part := ids[from:to]
		var byPage [pages][]int
		for i := range part {
			page := pageOf(part[i].Bucket)
			byPage[page] = append(byPage[page], i)
		}
		answer, err := s.sliced(op, m, k, func(slice int64) (any, error) {
			keys, arg := s.findCall(k, slice, part, &byPage)
			return s.call(ctx, op, m, find, keys, []byte(arg))
		})
		if err == nil && !readFound(answer, &byPage, out[from:to]) {
			err = strange(op, m.Partition, answer)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// findCall returns the keys and the argument of lua/find.lua.
func (s *Store) findCall(k *keyset, slice int64, part []bucket.RecordID,
	byPage *[pages][]int) ([]string, packer) {
	keys := []string{k.marker, k.epoch()}
	arg := make(packer, 0, 64+32*len(part)).array(4).decimal(slice)
	arg = arg.number(s.Config().RecordWindow.Milliseconds()).array(len(part))
	for i := range part {
		arg = arg.decimal(part[i].Bucket)
	}
	used := 0
	for _, list := range byPage {
		if len(list) > 0 {
			used++
		}
	}
	arg = arg.array(used)
	for page, list := range byPage {
		if len(list) == 0 {
			continue
		}
		keys = append(keys, k.records(slice, page), k.records(slice-1, page))
		arg = arg.array(2).array(len(list))
		for _, i := range list {
			arg = arg.field(part[i].Bucket, part[i].ID)
		}
		arg = arg.array(len(list))
		for _, i := range list {
			arg = arg.number(int64(i) + 1)
		}
	}
	return keys, arg
}

// readFound reads the answer of lua/find.lua.
func readFound(answer any, byPage *[pages][]int, out []bucket.StoreReturn) bool {
	parts, ok := answer.([]any)
	if !ok || len(parts) != 2 {
		return false
	}
	values, ok := parts[1].([]any)
	if !ok || len(values) != 2*len(out) {
		return false
	}
	for _, list := range byPage {
		for _, i := range list {
			if !readReturn(values[0], values[1], &out[i]) {
				return false
			}
			out[i].Young = parts[0] == int64(1)
			values = values[2:]
		}
	}
	return true
}
