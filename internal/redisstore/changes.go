package redisstore

import (
	"cmp"
	"context"
	"strconv"
	"sync"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/redisstore/driver"
)

// mostScanned is about how many fields of a hash, or members of a set, one step reads.
const mostScanned = 500

// Changed implements bucket.Changes.
func (s *Store) Changed(ctx context.Context, m bucket.Memory,
	cursor string) ([]bucket.Sum, string, error) {
	const op = "read changes"
	k, err := s.keysOf(op, m)
	if err != nil {
		return nil, "", err
	}
	answer, err := s.call(ctx, op, m, changed, k.entries(k.late, k.changed), cmp.Or(cursor, "0"),
		mostScanned)
	if err != nil {
		return nil, "", err
	}
	next, rows, ok := scanned(answer)
	if !ok || len(rows)%7 != 0 {
		return nil, "", strange(op, m.Partition, answer)
	}
	sums := make([]bucket.Sum, 0, len(rows)/7)
	for ; len(rows) > 0; rows = rows[7:] {
		id, ok := rows[0].(string)
		of, err := strconv.ParseInt(id, 10, 64)
		v, ok2 := integers(rows[1:7])
		if !ok || !ok2 || err != nil {
			return nil, "", strange(op, m.Partition, answer)
		}
		sums = append(sums, bucket.Sum{Bucket: of, Epoch: v[0], Late: v[1] == 1,
			Verdict: bucket.Verdict(
				v[2],
			), Taken: v[3], GivenBack: v[4], LateSum: v[5]}) //nolint:gosec // a verdict
	}
	return sums, next, nil
}

// scanned reads an answer of a cursor and a list. next is "" at the end.
func scanned(answer any) (next string, list []any, ok bool) {
	parts, ok := answer.([]any)
	if !ok || len(parts) != 2 {
		return "", nil, false
	}
	next, ok = parts[0].(string)
	list, ok2 := parts[1].([]any)
	if next == "0" {
		next = ""
	}
	return next, list, ok && ok2
}

// Acknowledge implements bucket.Changes.
func (s *Store) Acknowledge(ctx context.Context, m bucket.Memory, sums []bucket.Sum) error {
	const op = "acknowledge changes"
	k, err := s.keysOf(op, m)
	if err != nil {
		return err
	}
	return inParts(op, len(sums), func(from, to int) error {
		var entries, late []bucket.Sum
		for _, sum := range sums[from:to] {
			if sum.Late {
				late = append(late, sum)
			} else {
				entries = append(entries, sum)
			}
		}
		a, n := packer(nil).array(6), len(entries)
		a = decimals(a, 0, n, func(i int) int64 { return entries[i].Bucket })
		a = numbers(a, 0, n, func(i int) int64 { return entries[i].Epoch })
		a = numbers(a, 0, n, func(i int) int64 { return entries[i].Taken })
		a = numbers(a, 0, n, func(i int) int64 { return entries[i].GivenBack }).array(len(late))
		for _, sum := range late {
			a = a.field(sum.Bucket, strconv.FormatInt(sum.Epoch, 10))
		}
		a = numbers(a, 0, len(late), func(i int) int64 { return late[i].LateSum })
		_, err := s.call(ctx, op, m, acknowledge, k.entries(k.late, k.changed), []byte(a))
		return err
	})
}

// sweeper is the progress of a partition's sweep: the hash, and the position in it.
type sweeper struct {
	mu sync.Mutex
	// hash is a page of counters, or `pages` for the late sums.
	hash   int
	cursor string
}

// Sweep implements bucket.Changes. A step reads a part of one hash.
func (s *Store) Sweep(ctx context.Context, m bucket.Memory) (more bool, err error) {
	const op = "sweep"
	k, err := s.keysOf(op, m)
	if err != nil {
		return false, err
	}
	at := &s.sweeps[m.Partition.Index]
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.hash == 0 && at.cursor == "" {
		if err := s.nextSlice(ctx, op, m, k); err != nil {
			return false, err
		}
	}
	kind, key := "counters", k.late
	if at.hash == pages {
		kind = "late"
	} else {
		key = k.counters[at.hash]
	}
	answer, err := s.call(ctx, op, m, sweep, []string{k.marker, key, k.changed}, kind,
		cmp.Or(at.cursor, "0"), mostScanned)
	if err != nil {
		return false, err
	}
	parts, ok := answer.([]any)
	if !ok || len(parts) != 2 {
		return false, strange(op, m.Partition, answer)
	}
	if at.cursor, ok = parts[0].(string); !ok {
		return false, strange(op, m.Partition, answer)
	}
	if at.cursor == "0" {
		at.cursor, at.hash = "", (at.hash+1)%(pages+1)
	}
	return at.hash != 0 || at.cursor != "", nil
}

// nextSlice advances the slice of the records when it is due.
func (s *Store) nextSlice(ctx context.Context, op string, m bucket.Memory, k *keyset) error {
	for range mostSlices {
		slice := k.slice.Load()
		keys := []string{k.marker}
		for page := range pages {
			keys = append(keys, k.records(slice-1, page))
		}
		answer, err := s.call(ctx, op, m, nextSlice, keys, slice,
			s.Config().RecordWindow.Milliseconds())
		if err != nil {
			return err
		}
		text, ok := answer.(string)
		now, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil {
			return strange(op, m.Partition, answer)
		}
		k.slice.Store(now)
		if now == slice || now == slice+1 {
			return nil
		}
	}
	return nil
}

// Mark implements bucket.Memories.
func (s *Store) Mark(ctx context.Context, m bucket.Memory, since int64) error {
	const op = "mark a memory"
	k, err := s.keysOf(op, m)
	if err != nil {
		return err
	}
	_, err = s.call(ctx, op, m, mark, []string{k.marker}, since)
	return err
}

// Doubt implements bucket.Memories.
func (s *Store) Doubt(ctx context.Context, m bucket.Memory, sinceMS int64) error {
	const op = "doubt a memory"
	k, err := s.keysOf(op, m)
	if err != nil {
		return err
	}
	_, err = s.call(ctx, op, m, doubt, []string{k.marker}, sinceMS)
	return err
}

// Marker implements bucket.Memories.
func (s *Store) Marker(ctx context.Context, partition bucket.Partition,
	identity string, verifies bool) (bucket.Marker, error) {
	const op = "read a marker"
	if err := s.Known(op, partition); err != nil {
		return bucket.Marker{}, err
	}
	answer, err := s.Run(ctx, driver.Call{Op: op, Partition: partition, Identity: identity,
		Verifies: verifies, Script: marker, Keys: []string{s.keys[partition.Index].marker}})
	if err != nil {
		return bucket.Marker{}, err
	}
	values, ok := answer.([]any)
	if !ok || len(values) != 4 {
		return bucket.Marker{}, strange(op, partition, answer)
	}
	number := func(i int) int64 {
		text, _ := values[i].(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return 0
		}
		return n
	}
	installation, _ := values[0].(string)
	return bucket.Marker{
		Installation: installation,
		Incarnation:  number(1),
		Since:        number(2),
		SinceMS:      number(3),
	}, nil
}
