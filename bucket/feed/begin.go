package feed

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/internal/sql/engine"
)

// toTail moves the cursor before the last n entries by time, and returns how many numbers follow
// it.
func (p *page) toTail(ctx context.Context, n int) (numbers int, err error) {
	var entries []bucketEntry
	for i, b := range p.bounds {
		if p.cursor.read[i] = (position{entry: b.Last}); b.Last > 0 {
			entries = append(entries, bucketEntry{b.Bucket, b.Last})
		}
	}
	rows, err := readBefore(ctx, p.db, entries, n)
	if err != nil {
		return 0, err
	}
	next := make([][]row, len(p.bounds)) // of each bucket, the newest first
	for _, row := range rows {
		i := p.ordinals[row.Bucket]
		next[i] = append(next[i], row)
	}
	for left := int64(n); left > 0; {
		newest := -1
		for i, list := range next {
			if len(list) > 0 && (newest < 0 || list[0].CreatedMS > next[newest][0].CreatedMS) {
				newest = i
			}
		}
		if newest < 0 {
			break
		}
		row := next[newest][0]
		next[newest] = next[newest][1:]
		took := min(left, row.Count)
		left -= took
		p.cursor.read[newest] = position{entry: row.First + row.Count - took - 1,
			within: row.Count - took}
	}
	for i, b := range p.bounds {
		numbers += int(b.Last - p.cursor.read[i].entry)
	}
	return numbers, nil
}

// border is the range in which the rows of an instant and later begin in a bucket. Rows that begin
// at or before old are older; rows that begin at wanted or later are not.
type border struct{ old, wanted int64 }

// toInstant moves the cursor before the first row of each bucket that was committed at an instant
// or later. It bisects all buckets together.
func (p *page) toInstant(ctx context.Context, since time.Time) error {
	borders := make([]border, len(p.bounds))
	for i, b := range p.bounds {
		borders[i] = border{0, b.Last + 1}
	}
	for {
		var entries []bucketEntry
		for i, b := range borders {
			if b.wanted-b.old > 1 {
				entries = append(entries, bucketEntry{p.bounds[i].Bucket, b.old + (b.wanted-b.old)/2})
			}
		}
		if len(entries) == 0 {
			break
		}
		rows, err := readBefore(ctx, p.db, entries, 1)
		if err != nil {
			return err
		}
		found := make(map[int64]row, len(rows))
		for _, row := range rows {
			found[row.Bucket] = row
		}
		for _, e := range entries {
			borders[p.ordinals[e.Bucket]].narrow(e.Entry, found[e.Bucket], since)
		}
	}
	for i, b := range borders {
		p.cursor.read[i] = position{entry: b.wanted - 1}
	}
	return nil
}

// narrow narrows the border. row is the last one that begins at or before middle; its Count is 0 if
// there is no such row.
func (b *border) narrow(middle int64, row row, since time.Time) {
	switch {
	case row.Count == 0, row.First <= b.old:
		b.old = middle
	case row.at().Before(since):
		b.old = max(middle, row.First+row.Count-1)
	default:
		b.wanted = row.First
	}
}

// bucketEntry identifies an entry of a bucket.
type bucketEntry struct{ Bucket, Entry int64 }

const (
	selectBefore = `SELECT bucket_id, first_entry, entries, created_at FROM (SELECT f.bucket_id,
		f.first_entry, f.entries, f.created_at FROM feed f /*by PRIMARY*/
		WHERE f.bucket_id = ? AND f.first_entry <= ? ORDER BY f.first_entry DESC LIMIT ?) t`
	// beforeChunk is the most SELECTs in one statement.
	beforeChunk = 32
)

// readBefore returns, for each entry, the extents of the last rows that begin at or before it, at
// most limit per bucket, the newest first.
func readBefore(ctx context.Context, db *engine.DB, entries []bucketEntry, limit int) (
	out []row, err error) {
	err = db.Read(ctx, "feed", func(r *engine.Reader) error {
		out = nil
		for chunk := range slices.Chunk(entries, beforeChunk) {
			s := r.Statement()
			for i, e := range chunk {
				if i > 0 {
					s.SQL(" UNION ALL ")
				}
				numbers := [...]int64{e.Bucket, e.Entry, int64(limit)}
				s.Fill(selectBefore, func(at int) { s.Number(numbers[at]) })
			}
			var found []row
			if err := r.RowsOf(&found, s); err != nil {
				return err
			}
			out = append(out, found...)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b row) int { // a UNION has no order
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(b.First, a.First))
	})
	return out, err
}
