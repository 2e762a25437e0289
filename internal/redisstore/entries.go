package redisstore

import (
	"context"
	"strconv"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/redisstore/driver"
)

// Open implements bucket.Entries.
func (s *Store) Open(ctx context.Context, m bucket.Memory,
	openings []bucket.Opening) ([]bucket.Entry, error) {
	return s.onEntries(ctx, "open", m, open, len(openings), func(a packer, from, to int) packer {
		a = a.array(3)
		a = decimals(a, from, to, func(i int) int64 { return openings[i].Bucket })
		a = numbers(a, from, to, func(i int) int64 { return openings[i].Epoch })
		return numbers(a, from, to, func(i int) int64 { return openings[i].CopyOf })
	})
}

// Grant implements bucket.Entries.
func (s *Store) Grant(ctx context.Context, m bucket.Memory,
	grants []bucket.StoreGrant) ([]bucket.Entry, error) {
	return s.onEntries(ctx, "grant", m, grant, len(grants), func(a packer, from, to int) packer {
		a = a.array(4)
		a = decimals(a, from, to, func(i int) int64 { return grants[i].Bucket })
		a = numbers(a, from, to, func(i int) int64 { return grants[i].Epoch })
		a = numbers(a, from, to, func(i int) int64 { return grants[i].Number })
		return numbers(a, from, to, func(i int) int64 { return grants[i].Amount })
	})
}

// Close implements bucket.Entries.
func (s *Store) Close(ctx context.Context, m bucket.Memory, refs []bucket.Ref,
	moving bool) ([]bucket.Entry, error) {
	state := "closed"
	if moving {
		state = "moving"
	}
	return s.onEntries(ctx, "close", m, closing, len(refs), func(a packer, from, to int) packer {
		a = a.array(3)
		a = decimals(a, from, to, func(i int) int64 { return refs[i].Bucket })
		return numbers(a, from, to, func(i int) int64 { return refs[i].Epoch }).text(state)
	})
}

// Raise implements bucket.Entries.
func (s *Store) Raise(ctx context.Context, m bucket.Memory, versions []bucket.LimitsVersion) error {
	const op = "raise versions"
	k, err := s.keysOf(op, m)
	if err != nil {
		return err
	}
	return inParts(op, len(versions), func(from, to int) error {
		a := packer(nil).array(2)
		a = decimals(a, from, to, func(i int) int64 { return versions[i].Bucket })
		a = numbers(a, from, to, func(i int) int64 { return versions[i].Version })
		_, err := s.call(ctx, op, m, raise, []string{k.marker, k.limits}, []byte(a))
		return err
	})
}

// onEntries runs a script that answers six integers per element.
func (s *Store) onEntries(ctx context.Context, op string, m bucket.Memory, script *driver.Script,
	n int, argument func(a packer, from, to int) packer) ([]bucket.Entry, error) {
	k, err := s.keysOf(op, m)
	if err != nil {
		return nil, err
	}
	out := make([]bucket.Entry, 0, n)
	err = inParts(op, n, func(from, to int) error {
		answer, err := s.call(ctx, op, m, script, k.entries(), []byte(argument(nil, from, to)))
		if err != nil {
			return err
		}
		entries, ok := readEntries(answer, to-from, 6)
		if !ok {
			return strange(op, m.Partition, answer)
		}
		out = append(out, entries...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Read implements bucket.Entries.
func (s *Store) Read(ctx context.Context, m bucket.Memory,
	refs []bucket.Ref) ([]bucket.Entry, error) {
	const op = "read"
	k, err := s.keysOf(op, m)
	if err != nil {
		return nil, err
	}
	out := make([]bucket.Entry, 0, len(refs))
	err = inParts(op, len(refs), func(from, to int) error {
		a := packer(nil).array(3)
		a = decimals(a, from, to, func(i int) int64 { return refs[i].Bucket })
		a = numbers(a, from, to, func(i int) int64 { return refs[i].Epoch }).array(to - from)
		for _, ref := range refs[from:to] {
			a = a.field(ref.Bucket, strconv.FormatInt(ref.Epoch, 10))
		}
		answer, err := s.call(ctx, op, m, read, k.entries(k.late), []byte(a))
		if err != nil {
			return err
		}
		entries, ok := readEntries(answer, to-from, 7)
		if !ok {
			return strange(op, m.Partition, answer)
		}
		out = append(out, entries...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readEntries reads n entries of six integers, or of seven with a late sum.
func readEntries(answer any, n, width int) ([]bucket.Entry, bool) {
	v, ok := integers(answer)
	if !ok || len(v) != width*n {
		return nil, false
	}
	out := make([]bucket.Entry, n)
	for i := range out {
		out[i] = bucket.Entry{
			Verdict:   bucket.Verdict(v[0]),
			Epoch:     v[1],
			Balance:   v[2], //nolint:gosec // a verdict
			Taken:     v[3],
			GivenBack: v[4],
			LastGrant: v[5],
		}
		if width == 7 {
			out[i].Late = v[6]
		}
		v = v[width:]
	}
	return out, true
}

// decimals adds an array of texts of digits.
func decimals(a packer, from, to int, of func(i int) int64) packer {
	a = a.array(to - from)
	for i := from; i < to; i++ {
		a = a.decimal(of(i))
	}
	return a
}

// numbers adds an array of integers.
func numbers(a packer, from, to int, of func(i int) int64) packer {
	a = a.array(to - from)
	for i := from; i < to; i++ {
		a = a.number(of(i))
	}
	return a
}
