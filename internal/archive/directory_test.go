package archive

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

var at = time.Date(2026, 1, 31, 23, 0, 0, 5e6, time.FixedZone("CST", 8*3600))

func segment() bucket.Segment {
	entry := func(e ledger.FeedEntry) bucket.FeedEntry {
		e.Bucket, e.At = 70, at
		return bucket.FeedEntry{FeedEntry: e, BucketKey: "sale:bucket-12"}
	}
	return bucket.Segment{
		Bound: bucket.ArchiveBound{Budget: 7, Tenant: "acme", Name: "sale", Bucket: 70, Ordinal: 12},
		Day:   "2026-01-31",
		Entries: []bucket.FeedEntry{
			entry(ledger.FeedEntry{Kind: ledger.FeedDeduct, Entry: 8, RequestID: "o<1>", Amount: 5,
				Reference: "a\nb", Dimensions: `{"user":"u1"}`}),
			entry(ledger.FeedEntry{Kind: ledger.FeedRollback, Entry: 9, RequestID: "o<1>", RollbackID: "r", Amount: 2}),
			entry(ledger.FeedEntry{Kind: ledger.FeedRollback, Entry: 10, RequestID: "o<1>",
				RollbackID: ledger.CancelID, Amount: 3, Dimensions: "{broken"}),
			entry(ledger.FeedEntry{Kind: ledger.FeedRollback, Entry: 11, RequestID: "o2",
				RollbackID: ledger.GroupRollbackID, Amount: 4}),
		},
	}
}

const want = `{"kind":"deduct","bucket":"sale:bucket-12","entry":8,"request_id":"o<1>","amount":5,"held":false,"dimensions":{"user":"u1"},"reference":"a\nb","at":"2026-01-31T15:00:00.005Z"}
{"kind":"rollback","bucket":"sale:bucket-12","entry":9,"request_id":"o<1>","rollback_id":"r","amount":2,"held":false,"at":"2026-01-31T15:00:00.005Z"}
{"kind":"rollback","bucket":"sale:bucket-12","entry":10,"request_id":"o<1>","cancelled":true,"amount":3,"held":false,"at":"2026-01-31T15:00:00.005Z"}
{"kind":"rollback","bucket":"sale:bucket-12","entry":11,"request_id":"o2","of_group":true,"amount":4,"held":false,"at":"2026-01-31T15:00:00.005Z"}
`

// TestKeep: one file, whatever is kept how often by whomever.
func TestKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet") + "/"
	file := filepath.Join(dir, "acme", "sale.7", "2026-01-31", "0012.0000000000000008-0000000000000011.jsonl")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			d, err := Open(dir)
			if err != nil {
				t.Error(err)
				return
			}
			for range 5 {
				if err := d.Keep(context.Background(), segment()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(file)
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
		}
		return err
	})
	if files != 1 || err != nil {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestKeepFails: an error leaves no file behind, and nothing under the final name.
func TestKeepFails(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	day := filepath.Join(dir, "acme", "sale.7", "2026-01-31")
	// A folder of that name cannot be replaced by a file.
	if err := os.MkdirAll(filepath.Join(day, "0012.0000000000000008-0000000000000011.jsonl"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := d.Keep(t.Context(), segment()); err == nil {
		t.Error("no error")
	}
	left, err := os.ReadDir(day)
	if err != nil || len(left) != 1 || strings.HasPrefix(left[0].Name(), ".") {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := d.Keep(t.Context(), bucket.Segment{}); err != nil {
		t.Errorf("nothing to keep: %v", err)
	}
}

func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if _, err := Open(path); err == nil {
			t.Errorf("%s was opened", path)
		}
	}
}
