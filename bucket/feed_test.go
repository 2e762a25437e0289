package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/archive"
	"github.com/budgetd/budgetd/ledger"
)

// follow reads pages from a cursor on until one is empty, and returns the entries and the last cursor.
func follow(t *testing.T, s *bucket.Service, ref bucket.BudgetRef, after string, limit int) (
	entries []bucket.FeedEntry, next string) {
	t.Helper()
	for {
		page, err := s.Feed(context.Background(), bucket.FeedRequest{Budget: ref, After: after, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Entries) > limit {
			t.Fatalf("%d entries, limit %d", len(page.Entries), limit)
		}
		after = page.Next
		if len(page.Entries) == 0 {
			return entries, after
		}
		entries = append(entries, page.Entries...)
	}
}

// followAll is follow until there were n entries or more, or for a minute: in store mode the ledger is behind.
func followAll(t *testing.T, s *bucket.Service, ref bucket.BudgetRef, after string, limit, n int) (
	entries []bucket.FeedEntry, next string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		var more []bucket.FeedEntry
		more, after = follow(t, s, ref, after, limit)
		entries = append(entries, more...)
		if len(entries) >= n || time.Since(began) > time.Minute {
			return entries, after
		}
	}
}

// names are entries as kind, request id and rollback id; each may be there once.
func names(t *testing.T, entries []bucket.FeedEntry) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, e := range entries {
		name := fmt.Sprint(e.Kind, " ", e.RequestID, " ", e.RollbackID)
		if out[name] || !strings.Contains(e.BucketKey, ":bucket-") {
			t.Errorf("twice, or of no bucket: %+v", e)
		}
		out[name] = true
	}
	return out
}

func TestFeed(t *testing.T) { everywhere(t, feed) }

func feed(t *testing.T, w *world) {
	ctx := context.Background()
	nodes := []*bucket.Service{w.node(quick), w.node(quick)}
	ref := w.create(nodes[0], promo("fed", 10_000, 4))
	if _, next := follow(t, nodes[0], ref, "", 5); next == "" {
		t.Error("an empty feed has no cursor")
	}
	_, start := follow(t, nodes[0], ref, "", 5)
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			id := fmt.Sprint("o", i)
			if _, err := deduct(nodes[i%2], ref, id, 3); err != nil {
				t.Error(err)
			}
			if i%5 == 0 {
				if _, err := nodes[i%2].Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: id}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got, next := followAll(t, nodes[1], ref, start, 7, 72)
	if n := len(names(t, got)); n != 72 {
		t.Errorf("%d entries, want 72", n)
	}
	whole, again := follow(t, nodes[0], ref, "", 1000)
	if len(whole) != 72 {
		t.Errorf("%d entries from the beginning", len(whole))
	}
	for i := 1; i < len(whole); i++ {
		if whole[i].At.Before(whole[i-1].At) && whole[i].Bucket != whole[i-1].Bucket {
			t.Errorf("%+v after %+v", whole[i], whole[i-1])
		}
	}
	if rest, _ := follow(t, nodes[0], ref, again, 1000); len(rest) != 0 {
		t.Errorf("read again: %+v", rest)
	}
	// A reader that waits is told as soon as there is something.
	told := make(chan error, 1)
	go func() {
		page, err := nodes[0].Feed(ctx, bucket.FeedRequest{Budget: ref, After: next, Wait: bucket.MaxFeedWait})
		if err == nil && (len(page.Entries) != 1 || page.Entries[0].RequestID != "news") {
			err = fmt.Errorf("%+v", page)
		}
		told <- err
	}()
	if _, err := deduct(nodes[1], ref, "news", 1); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
	if more, after := followAll(t, nodes[0], ref, next, 10, 1); len(more) == 1 {
		next = after
	}
	if _, err := nodes[0].Change(ctx, ref, bucket.Change{BucketQuantity: new(7)}); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if _, err := deduct(nodes[i%2], ref, fmt.Sprint("r", i), 3); err != nil {
			t.Fatal(err)
		}
	}
	got, next = followAll(t, nodes[1], ref, next, 7, 30)
	if n := len(names(t, got)); n != 30 {
		t.Errorf("%d entries since buckets were added, want 30", n)
	}
	feedRefusals(t, w, nodes[0], ref, next)
}

func feedRefusals(t *testing.T, w *world, s *bucket.Service, ref bucket.BudgetRef, next string) {
	t.Helper()
	ctx, nodes := context.Background(), []*bucket.Service{s}
	until := make(chan struct{})
	close(until)
	_, next = follow(t, nodes[0], ref, next, 10)
	if page, err := nodes[0].Feed(ctx, bucket.FeedRequest{Budget: ref, After: next, Wait: bucket.MaxFeedWait, Until: until}); err != nil || page.Next != next {
		t.Errorf("with an end to the wait: %+v, %v", page, err)
	}
	other := w.create(nodes[0], promo("other", 100, 4))
	for what, r := range map[string]bucket.FeedRequest{
		"another budget's": {Budget: other, After: next}, "no cursor": {Budget: ref, After: "x"},
	} {
		if _, err := nodes[0].Feed(ctx, r); !budget.Is(err, budget.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := nodes[0].Feed(ctx, bucket.FeedRequest{Budget: bucket.BudgetRef{ID: 99}}); !budget.Is(err, budget.BudgetNotFound) {
		t.Errorf("no budget: %v", err)
	}
}

// TestFeedGap: a number without a row stops the feed with an error, and is not passed over.
func TestFeedGap(t *testing.T) {
	w := newWorld(t)
	w.sql = &gapped{SQL: w.model}
	s := w.node(quick)
	ref := w.create(s, promo("b", 100, 1))
	for i := range 3 {
		if _, err := deduct(s, ref, fmt.Sprint("o", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.Feed(context.Background(), bucket.FeedRequest{Budget: ref, Limit: 1})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	if _, err := s.Feed(context.Background(), bucket.FeedRequest{Budget: ref, After: page.Next}); !budget.Is(err, budget.Internal) ||
		!strings.Contains(err.Error(), "entry 2") {
		t.Errorf("over the gap: %v", err)
	}
}

// gapped is a database in which entry 2 is missing.
type gapped struct{ bucket.SQL }

func (g *gapped) FeedEntries(ctx context.Context, spans []bucket.FeedSpan) ([]ledger.FeedEntry, error) {
	rows, err := g.SQL.FeedEntries(ctx, spans)
	var out []ledger.FeedEntry
	for _, row := range rows {
		if row.Entry != 2 {
			out = append(out, row)
		}
	}
	return out, err
}

// archiving are settings under which everything that can be archived soon is.
func archiving() bucket.Settings {
	set := quick
	set.Keep, set.Chores = time.Millisecond, 10*time.Millisecond
	return set
}

// archived reads all lines of an archive; none may be there twice.
func archived(t *testing.T, dir string) map[string]bool {
	t.Helper()
	lines := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(filepath.Base(path), ".") {
			return nil // being written, a second time
		}
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if lines[line] {
				t.Errorf("twice in the archive: %s", line)
			}
			lines[line] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// failing is an archiver that keeps every segment, and says so every third time only.
type failing struct {
	bucket.Archiver
	mu    sync.Mutex
	calls int
}

func (f *failing) Keep(ctx context.Context, s bucket.Segment) error {
	err := f.Archiver.Keep(ctx, s)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls++; err == nil && f.calls%3 != 0 {
		err = errors.New("broken off")
	}
	return err
}

// TestArchive: two nodes archive what two nodes wrote, every step of them failing again and again: each
// entry is in the archive once, ids replay, rollbacks work, old cursors are refused.
func TestArchive(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	directory, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	w.archiver = &failing{Archiver: directory}
	var mu sync.Mutex
	failures, breaking := map[string]int{}, false
	w.model.Hook = func(method string, before bool) error {
		mu.Lock()
		defer mu.Unlock()
		key := fmt.Sprint(method, " ", before)
		failures[key]++
		if breaking && strings.HasSuffix(method, "Archive") && failures[key]%3 != 0 {
			return errors.New("broken off")
		}
		return nil
	}
	ctx := context.Background()
	nodes := []*bucket.Service{w.node(archiving()), w.node(archiving())}
	ref := w.create(nodes[0], promo("old", 10_000, 2))
	_, start := follow(t, nodes[0], ref, "", 5)
	for i := range 40 {
		if _, err := deduct(nodes[i%2], ref, fmt.Sprint("o", i), 3); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		if _, err := nodes[0].Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: fmt.Sprint("o", i), RollbackID: "part", Amount: 1}); err != nil {
			t.Fatal(err)
		}
	}
	looked := func() int {
		mu.Lock()
		defer mu.Unlock()
		return failures["ArchiveBounds true"]
	}
	for before := looked(); looked() < before+6; {
		time.Sleep(10 * time.Millisecond)
	}
	if lines := archived(t, dir); len(lines) > 0 {
		t.Errorf("%d lines of live epochs are archived", len(lines))
	}
	mu.Lock()
	breaking = true
	mu.Unlock()
	for i := range 2 { // ends the epochs
		key := fmt.Sprintf("old:bucket-%d", i)
		if _, err := nodes[0].Offline(ctx, ref, key); err != nil {
			t.Fatal(err)
		}
		if _, err := nodes[0].Online(ctx, ref, key); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all is archived", func() error {
		if rest, _ := follow(t, nodes[1], ref, "", 100); len(rest) > 0 {
			return fmt.Errorf("%d entries are left", len(rest))
		}
		return nil
	})
	afterArchive(t, w, nodes, ref, dir, start)
}

func afterArchive(t *testing.T, w *world, nodes []*bucket.Service, ref bucket.BudgetRef, dir, start string) {
	t.Helper()
	ctx := context.Background()
	if lines := archived(t, dir); len(lines) != 50 {
		t.Errorf("%d lines in the archive, want 50", len(lines))
	}
	if _, err := nodes[0].Feed(ctx, bucket.FeedRequest{Budget: ref, After: start}); !budget.Is(err, budget.CursorExpired) {
		t.Errorf("an old cursor: %v", err)
	}
	for i := range 40 {
		again, err := deduct(nodes[i%2], ref, fmt.Sprint("o", i), 3)
		if err != nil || !again.Replayed || again.Amount != 3 {
			t.Fatalf("repeat of an archived id: %+v, %v", again, err)
		}
	}
	if _, err := deduct(nodes[0], ref, "o1", 4); !budget.Is(err, budget.RequestConflict) {
		t.Errorf("an archived id with another amount: %v", err)
	}
	v, err := nodes[1].Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: "o1", RollbackID: "part", Amount: 1})
	if err != nil || !v.Replayed || v.RolledBack != 1 {
		t.Errorf("an archived rollback: %+v, %v", v, err)
	}
	if v, err = nodes[1].Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: "o1"}); err != nil || v.RolledBack != 3 {
		t.Errorf("the rest: %+v, %v", v, err)
	}
	w.settled(nodes[0], ref, 40*3-10-2)
}
