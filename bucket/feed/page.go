package feed

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const (
	// pageBytes bounds the texts of a page. A longer page is cut, but has at least one entry.
	pageBytes = 4 << 20
	// detailsChunk is the number of deductions read at a time.
	detailsChunk = 128
	// emptySpans bounds how often a page continues across numbers without entries. Each step is twice
	// as long as the previous one, up to widest numbers.
	emptySpans, widest = 100, 1 << 16
)

// page is one page while it is read.
type page struct {
	db     *engine.DB
	bounds []bound
	cursor cursor
	// ordinals are the places of the buckets in bounds.
	ordinals map[int64]int
}

// read reads at most limit entries and moves the cursor past them.
func (p *page) read(ctx context.Context, limit int) ([]bucket.FeedEntry, error) {
	numbers := limit
	for range emptySpans {
		spans, turn := p.cursor.spans(p.bounds, numbers)
		if len(spans) == 0 {
			return nil, nil
		}
		rows, err := readRows(ctx, p.db, spans)
		if err != nil {
			return nil, err
		}
		entries := p.entries(spans, rows)
		all := lasts(entries)
		entries = entries[:min(len(entries), limit)]
		if entries, err = p.details(ctx, entries); err != nil {
			return nil, err
		}
		p.move(spans, all, lasts(entries))
		p.cursor.turn = turn
		if len(entries) > 0 {
			out := make([]bucket.FeedEntry, len(entries))
			for i := range entries {
				out[i] = entries[i].FeedEntry
			}
			return out, nil
		}
		numbers = max(numbers, min(2*numbers, widest))
	}
	return nil, nil
}

// timed is an entry with its position among the others of a page.
type timed struct {
	bucket.FeedEntry
	sortedAt time.Time
	// within is how many entries of its row a reader has read with it; 0 with the last one.
	within int64
}

// entries lists the entries of rows that lie in their spans. They are sorted by time, but those of
// one bucket by number, because the clocks of nodes differ and times alone could reverse them.
func (p *page) entries(spans []span, rows []row) []timed {
	turns := make(map[int64]int, len(spans))
	for i, span := range spans {
		turns[span.Bucket] = i
	}
	var out []timed
	latest := make(map[int64]time.Time, len(spans))
	for _, row := range rows {
		span := spans[turns[row.Bucket]]
		at := row.at()
		if latest[row.Bucket].Before(at) {
			latest[row.Bucket] = at
		}
		for i, e := range row.Entries {
			e.Bucket, e.Entry, e.At = row.Bucket, row.First+int64(i), at
			if e.Entry <= span.After || e.Entry > span.UpTo {
				continue
			}
			t := timed{FeedEntry: bucket.FeedEntry{FeedEntry: e}, sortedAt: latest[row.Bucket]}
			t.BucketKey = p.bounds[p.ordinals[row.Bucket]].Key
			if i+1 < len(row.Entries) {
				t.within = int64(i + 1)
			}
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b timed) int {
		return cmp.Or(a.sortedAt.Compare(b.sortedAt), cmp.Compare(turns[a.Bucket], turns[b.Bucket]),
			cmp.Compare(a.Entry, b.Entry))
	})
	return out
}

// details adds the deductions' part of entries, and cuts the list if it is too large.
func (p *page) details(ctx context.Context, entries []timed) ([]timed, error) {
	bytes, done := 0, 0
	for chunk := range slices.Chunk(entries, detailsChunk) {
		ids := make([]bucket.ID, len(chunk))
		for i := range chunk {
			ids[i] = bucket.ID{Budget: p.cursor.budget, RequestID: chunk[i].RequestID}
		}
		found, err := readDetails(ctx, p.db, ids)
		if err != nil {
			return nil, err
		}
		for i := range chunk {
			e, d := &chunk[i], found[ids[i]]
			e.Epoch, e.Reference, e.Dimensions = d.Epoch, d.Reference, d.Dimensions
			bytes += len(e.RequestID) + len(e.RollbackID) + len(e.Reference) + len(e.Dimensions)
			if bytes > pageBytes && done > 0 {
				return entries[:done], nil
			}
			done++
		}
	}
	return entries, nil
}

// lasts returns the last entry of each bucket in a list.
func lasts(entries []timed) map[int64]position {
	out := map[int64]position{}
	for i := range entries {
		out[entries[i].Bucket] = position{entries[i].Entry, entries[i].within}
	}
	return out
}

// move moves the cursor past the entries of a page. all are the last entries of each bucket before
// the page was cut: if they are in the page, the span was read to its end, which may be a number
// without an entry.
func (p *page) move(spans []span, all, read map[int64]position) {
	for _, span := range spans {
		at := &p.cursor.read[p.ordinals[span.Bucket]]
		last, some := read[span.Bucket]
		switch {
		case last != all[span.Bucket]: // cut
			if some {
				*at = last
			}
		case last.entry == span.UpTo:
			*at = last
		default:
			*at = position{entry: span.UpTo}
		}
	}
}
