package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// copyKeys returns the hashes with fields of a bucket, in the order in which they are copied: the
// records of the previous slice, those of the present one, counters, late sums.
func (k *keyset) copyKeys(bucketID, slice int64) [4]string {
	page := pageOf(bucketID)
	return [4]string{k.records(slice-1, page), k.records(slice, page), k.counters[page], k.late}
}

// ReadCopy implements bucket.Copies. A cursor is `slice stage cursor`.
func (s *Store) ReadCopy(ctx context.Context, m bucket.Memory, ref bucket.Ref, cursor string) (
	part bucket.CopyPart, next string, err error) {
	const op = "copy from"
	k, err := s.keysOf(op, m)
	if err != nil {
		return part, "", err
	}
	if k.slice.Load() == 0 {
		if err := s.nextSlice(ctx, op, m, k); err != nil {
			return part, "", err
		}
	}
	slice, stage, at := k.slice.Load(), 0, "0"
	if cursor != "" {
		if _, err := fmt.Sscanf(cursor, "%d %d %s", &slice, &stage, &at); err != nil || stage < 0 ||
			stage > 3 {
			return part, "", budget.Refuse(budget.Invalid, op, "%.40q is no cursor", cursor)
		}
	}
	keys := []string{k.marker, k.epoch(), k.copyKeys(ref.Bucket, slice)[stage]}
	answer, err := s.call(ctx, op, m, copyRead, keys, ref.Bucket, ref.Epoch, at, mostScanned)
	if err != nil {
		return part, "", err
	}
	parts, ok := answer.([]any)
	switch {
	case answer == int64(0):
		return part, "", budget.Refuse(budget.Invalid, op, "bucket %d is not moving away at epoch %d",
			ref.Bucket, ref.Epoch)
	case !ok || len(parts) != 3:
		return part, "", strange(op, m.Partition, answer)
	}
	since, ok := parts[0].(int64)
	at, ok2 := parts[1].(string)
	fields, ok3 := texts(parts[2])
	if !ok || !ok2 || !ok3 {
		return part, "", strange(op, m.Partition, answer)
	}
	part = bucket.CopyPart{Incarnation: m.Incarnation, Since: since}
	switch stage {
	case 0, 1:
		part.Records = fields
	case 2:
		part.Counters = fields
	case 3:
		part.Late = fields
	}
	if at == "0" {
		stage++
	}
	if stage > 3 {
		return part, "", nil
	}
	return part, fmt.Sprintf("%d %d %s", slice, stage, at), nil
}

// texts reads a list of texts.
func texts(answer any) ([]string, bool) {
	list, ok := answer.([]any)
	if !ok {
		return nil, false
	}
	out := make([]string, len(list))
	for i, v := range list {
		if out[i], ok = v.(string); !ok {
			return nil, false
		}
	}
	return out, true
}

// BeginCopy implements bucket.Copies.
func (s *Store) BeginCopy(ctx context.Context, m bucket.Memory, ref bucket.Ref,
	attempt string) (bucket.Verdict, error) {
	const op = "begin a copy"
	k, err := s.keysOf(op, m)
	if err != nil {
		return 0, err
	}
	if attempt == "" || strings.ContainsAny(attempt, " \r\n") {
		return 0, budget.Refuse(budget.Invalid, op, "an attempt must have a name without spaces")
	}
	if err := s.nextSlice(ctx, op, m, k); err != nil {
		return 0, err
	}
	for _, key := range k.copyKeys(ref.Bucket, k.slice.Load()) {
		for cursor := "0"; ; {
			answer, err := s.call(ctx, op, m, copyBegin, k.entries(key), ref.Bucket, ref.Epoch, attempt,
				cursor, mostScanned)
			if err != nil {
				return 0, err
			}
			parts, ok := answer.([]any)
			if !ok || len(parts) != 2 {
				return 0, strange(op, m.Partition, answer)
			}
			verdict, ok := parts[0].(int64)
			if cursor, _ = parts[1].(string); !ok || cursor == "" {
				return 0, strange(op, m.Partition, answer)
			}
			if v := bucket.Verdict(verdict); v != bucket.Accepted { //nolint:gosec // a verdict
				return v, nil
			}
			if cursor == "0" {
				break
			}
		}
	}
	return bucket.Accepted, nil
}

// AddCopy implements bucket.Copies.
func (s *Store) AddCopy(ctx context.Context, m bucket.Memory, ref bucket.Ref, attempt string,
	part bucket.CopyPart) (
	bucket.Verdict, error) {
	return s.copyAdd(ctx, "write a copy", m, ref, attempt, part, 0)
}

// EndCopy implements bucket.Copies.
func (s *Store) EndCopy(ctx context.Context, m bucket.Memory, ref bucket.Ref,
	attempt string) (bucket.Verdict, error) {
	return s.copyAdd(ctx, "end a copy", m, ref, attempt, bucket.CopyPart{}, 1)
}

func (s *Store) copyAdd(ctx context.Context, op string, m bucket.Memory, ref bucket.Ref,
	attempt string, part bucket.CopyPart, ends int64) (bucket.Verdict, error) {
	k, err := s.keysOf(op, m)
	if err != nil {
		return 0, err
	}
	page := pageOf(ref.Bucket)
	answer, err := s.sliced(op, m, k, func(slice int64) (any, error) {
		a := packer(nil).array(9).
			decimal(slice).
			decimal(ref.Bucket).
			text(strconv.FormatInt(ref.Epoch, 10)).
			text(attempt)
		for _, list := range [][]string{part.Records, part.Counters, part.Late} {
			a = a.array(len(list))
			for _, text := range list {
				a = a.text(text)
			}
		}
		a = a.number(part.Since).number(ends)
		keys := []string{
			k.marker,
			k.epoch(),
			k.records(slice, page),
			k.counters[page],
			k.late,
			k.changed,
		}
		return s.call(ctx, op, m, copyAdd, keys, []byte(a))
	})
	if err != nil {
		return 0, err
	}
	verdict, ok := answer.(int64)
	if !ok {
		return 0, strange(op, m.Partition, answer)
	}
	return bucket.Verdict(verdict), nil //nolint:gosec // a verdict
}
