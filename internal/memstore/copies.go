package memstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// recordCopy is a record in transit, with its counts for limits.
type recordCopy struct {
	Record bucket.Record
	// Fingerprint and Nonce are Record's: bytes, which JSON would not preserve in a string.
	Fingerprint, Nonce []byte

	Value   string
	Version int64
	Counts  []countCopy
}

type countCopy struct {
	Name       string
	Changed, N int64
}

// ReadCopy implements bucket.Copies. It returns everything in one part. Counters are copied by
// name, because memstore only copies between partitions of one store.
func (s *Store) ReadCopy(_ context.Context, m bucket.Memory, ref bucket.Ref, _ string) (
	part bucket.CopyPart, next string, err error) {
	part, err = with(s, "copy", m, func(l *partition) (bucket.CopyPart, error) {
		if e := l.entries[ref.Bucket]; e.epoch != ref.Epoch || e.state != moving {
			return bucket.CopyPart{}, budget.Refuse(budget.Invalid, "copy from",
				"bucket %d is not moving away at epoch %d", ref.Bucket, ref.Epoch)
		}
		part := bucket.CopyPart{Incarnation: m.Incarnation, Since: l.marker.Since}
		for _, slice := range []int64{l.slice - 1, l.slice} {
			for id, r := range l.records[slice] {
				if id.Bucket == ref.Bucket {
					n := l.notes[id]
					c := recordCopy{Record: r, Value: n.value, Version: n.version,
						Fingerprint: []byte(r.Fingerprint), Nonce: []byte(r.Nonce)}
					for name, count := range n.counts {
						c.Counts = append(c.Counts, countCopy{name.name, name.changed, count})
					}
					part.Records = append(part.Records, id.ID, encoded(c))
				}
			}
		}
		for name := range l.counters {
			if name.bucket == ref.Bucket {
				part.Counters = append(part.Counters, name.value, strconv.Itoa(m.Partition.Index))
			}
		}
		for name, late := range l.late {
			if name.bucket == ref.Bucket {
				part.Late = append(part.Late, strconv.FormatInt(name.epoch, 10),
					strconv.FormatInt(late.units, 10))
			}
		}
		return part, nil
	})
	return part, "", err
}

func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and texts only
	}
	return string(text)
}

// BeginCopy implements bucket.Copies.
func (s *Store) BeginCopy(_ context.Context, m bucket.Memory, ref bucket.Ref,
	attempt string) (bucket.Verdict, error) {
	return with(s, "copy", m, func(l *partition) (bucket.Verdict, error) {
		e := l.entries[ref.Bucket]
		if l.newest[ref.Bucket] > ref.Epoch ||
			e.epoch == ref.Epoch && e.state != copying && e.state != copied {
			return bucket.Closed, nil
		}
		l.put(ref.Bucket, entry{epoch: ref.Epoch, state: copying, attempt: attempt})
		for _, records := range l.records {
			for id := range records {
				if id.Bucket == ref.Bucket {
					delete(records, id)
				}
			}
		}
		for name := range l.counters {
			if name.bucket == ref.Bucket {
				delete(l.counters, name)
			}
		}
		for name := range l.late {
			if name.bucket == ref.Bucket {
				delete(l.late, name)
			}
		}
		return bucket.Accepted, nil
	})
}

// AddCopy implements bucket.Copies.
func (s *Store) AddCopy(_ context.Context, m bucket.Memory, ref bucket.Ref, attempt string,
	part bucket.CopyPart) (
	bucket.Verdict, error) {
	return with(s, "copy", m, func(l *partition) (bucket.Verdict, error) {
		if e := l.entries[ref.Bucket]; e.epoch != ref.Epoch || e.state != copying ||
			e.attempt != attempt {
			return bucket.Closed, nil
		}
		for i := 0; i < len(part.Records); i += 2 {
			id := bucket.RecordID{Bucket: ref.Bucket, ID: part.Records[i]}
			var c recordCopy
			if err := json.Unmarshal([]byte(part.Records[i+1]), &c); err != nil {
				return 0, fmt.Errorf("copy a record: %w", err)
			}
			c.Record.Fingerprint, c.Record.Nonce = string(c.Fingerprint), string(c.Nonce)
			n := note{value: c.Value, version: c.Version}
			for _, x := range c.Counts {
				if n.counts == nil {
					n.counts = map[limitName]int64{}
				}
				n.counts[limitName{x.Name, x.Changed}] = x.N
			}
			if c.Record.Incarnation >= part.Since {
				c.Record.Incarnation = m.Incarnation
			} else {
				c.Record.Incarnation = 0
			}
			l.keep(l.slice, id, c.Record)
			l.notes[id] = n
		}
		for i := 0; i < len(part.Counters); i += 2 {
			from, _ := strconv.Atoi(part.Counters[i+1])
			name := valueName{ref.Bucket, part.Counters[i]}
			l.counters[name] = s.partitions[from].counters[name]
		}
		for i := 0; i < len(part.Late); i += 2 {
			epoch, _ := strconv.ParseInt(part.Late[i], 10, 64)
			units, _ := strconv.ParseInt(part.Late[i+1], 10, 64)
			name := epochName{ref.Bucket, epoch}
			l.late[name], l.changed[name] = lateSum{units, l.slice}, true
		}
		return bucket.Accepted, nil
	})
}

// EndCopy implements bucket.Copies.
func (s *Store) EndCopy(_ context.Context, m bucket.Memory, ref bucket.Ref,
	attempt string) (bucket.Verdict, error) {
	return with(s, "copy", m, func(l *partition) (bucket.Verdict, error) {
		e := l.entries[ref.Bucket]
		switch {
		case e.epoch == ref.Epoch && e.state == copied:
			return bucket.Accepted, nil
		case e.epoch != ref.Epoch || e.state != copying || e.attempt != attempt:
			return bucket.Closed, nil
		}
		e.state = copied
		l.put(ref.Bucket, e)
		return bucket.Accepted, nil
	})
}
