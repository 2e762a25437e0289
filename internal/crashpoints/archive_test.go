package crashpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

var _ bucket.Archiver = (*shelf)(nil)

// keptFor is how long entries stay in the feed of a world that archives: what ended can be archived.
const keptFor = time.Millisecond

// shelf is the archive, as package archive has it on a disk: a file is there as a whole or not at all, and
// a segment that is kept again replaces it. It knows all entries that there ever were.
type shelf struct {
	*world
	mu    sync.Mutex
	files map[string][]bucket.FeedEntry
	late  []bucket.Segment
	seen  map[entryOf]ledger.FeedEntry
}

// entryOf names an entry of the feed.
type entryOf struct{ bucket, entry int64 }

func newShelf(w *world) *shelf {
	return &shelf{world: w, files: map[string][]bucket.FeedEntry{}, seen: map[entryOf]ledger.FeedEntry{}}
}

var errNotKept = errors.New("the file is not known to be written")

// Keep writes a segment, a step of the node like any other.
func (h *shelf) Keep(_ context.Context, s bucket.Segment) error {
	if !h.trace.file("archive Keep", func() { h.write(s) }, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.late = append(h.late, s)
	}) {
		return errNotKept
	}
	return nil
}

// write puts a segment into its file. A file that is there already gets the same lines again.
func (h *shelf) write(s bucket.Segment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := fmt.Sprintf("%s.%d/%s/%d.%d-%d", s.Bound.Name, s.Bound.Budget, s.Day, s.Bound.Ordinal,
		s.Entries[0].Entry, s.Entries[len(s.Entries)-1].Entry)
	if was, found := h.files[name]; found && !slices.Equal(was, s.Entries) {
		h.fault("archive: %s had %+v, and gets %+v", name, was, s.Entries)
	}
	h.files[name] = slices.Clone(s.Entries)
}

// release lets the writes arrive that were postponed.
func (h *shelf) release() {
	h.mu.Lock()
	late := h.late
	h.late = nil
	h.mu.Unlock()
	for _, s := range late {
		h.write(s)
	}
}

// lines are all entries of the archive; none may be there twice.
func (h *shelf) lines() (out map[entryOf]ledger.FeedEntry, wrong []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out = map[entryOf]ledger.FeedEntry{}
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		for _, e := range h.files[name] {
			at := entryOf{e.Bucket, e.Entry}
			if _, twice := out[at]; twice {
				wrong = append(wrong, fmt.Sprintf("entry %+v is in the archive twice, the second time in %s", at, name))
			}
			out[at] = e.FeedEntry
		}
	}
	return out, wrong
}

// recount proves I7 of the feed and the archive together: what is in the feed stays as it is, what is not
// any more is in the archive as it was, once, and nothing else is there.
func (h *shelf) recount(b *memstore.BudgetRow) (kept map[entryOf]ledger.FeedEntry, wrong []string) {
	kept, wrong = h.lines()
	h.mu.Lock()
	defer h.mu.Unlock()
	here := map[entryOf]bool{}
	for _, e := range feed(b) {
		at := entryOf{e.Bucket, e.Entry}
		here[at] = true
		if was, found := h.seen[at]; found && was != e {
			wrong = append(wrong, fmt.Sprintf("the feed had %+v, and has %+v", was, e))
		}
		h.seen[at] = e
	}
	for _, at := range slices.SortedFunc(maps.Keys(h.seen), entryOf.compare) {
		if line, found := kept[at]; (found || !here[at]) && line != h.seen[at] {
			wrong = append(wrong, fmt.Sprintf("the feed had %+v, the archive has %+v", h.seen[at], line))
		}
	}
	for at, line := range kept {
		if _, found := h.seen[at]; !found {
			wrong = append(wrong, fmt.Sprintf("the archive has %+v, which the feed never had", line))
		}
	}
	return kept, wrong
}

func (at entryOf) compare(other entryOf) int {
	return cmp.Or(cmp.Compare(at.bucket, other.bucket), cmp.Compare(at.entry, other.entry))
}

// feed lists the entries that readers of the feed get, from the rows alone.
func feed(b *memstore.BudgetRow) (out []ledger.FeedEntry) {
	add := func(d ledger.Deduction, e ledger.FeedEntry) {
		if e.Entry == 0 {
			return // archived
		}
		e.Bucket, e.Epoch, e.RequestID = d.Position.Bucket, d.Position.Epoch, d.RequestID
		e.Reference, e.Dimensions = d.Reference, d.Dimensions
		out = append(out, e)
	}
	for i := range b.Buckets {
		for j := range b.Buckets[i].Epochs {
			for _, d := range b.Buckets[i].Epochs[j].Deductions {
				add(d, ledger.FeedEntry{Kind: ledger.FeedDeduct, Entry: d.Entry, Amount: d.Amount, At: d.CountedAt,
					Held: !d.HoldUntil.IsZero()})
			}
		}
	}
	for _, r := range b.Rollbacks {
		add(b.Deductions[r.RequestID], ledger.FeedEntry{Kind: ledger.FeedRollback, Entry: r.Entry,
			RollbackID: r.RollbackID, Amount: r.Amount, At: r.At})
	}
	for _, e := range b.HoldEnds {
		add(b.Deductions[e.RequestID], ledger.FeedEntry{Kind: e.Kind, Entry: e.Entry, Amount: e.Amount, At: e.At})
	}
	return out
}

// unkept says what is to be archived still: the first entry of a bucket's feed, when its epoch has ended.
func (h *shelf) unkept(b *memstore.BudgetRow) (open []string) {
	first := map[int64]ledger.FeedEntry{}
	for _, e := range feed(b) {
		if was, found := first[e.Bucket]; !found || e.Entry < was.Entry {
			first[e.Bucket] = e
		}
	}
	for i := range b.Buckets {
		newest := b.Buckets[i].Newest()
		e, found := first[newest.Bucket]
		if found && (e.Epoch < newest.Number || !newest.Status.Live()) {
			open = append(open, fmt.Sprintf("%s: entry %d of bucket %d is to be archived", b.Definition.Name, e.Entry,
				e.Bucket))
		}
	}
	return open
}

// keeps expects an undisturbed run to have archived so many lines in so many files.
func keeps(lines, files int) func(*world) string {
	return func(w *world) string {
		got, _ := w.shelf.lines()
		if len(got) != lines || len(w.shelf.files) != files {
			return fmt.Sprintf("%d lines in %d files are archived, not %d in %d", len(got), len(w.shelf.files), lines,
				files)
		}
		return ""
	}
}
