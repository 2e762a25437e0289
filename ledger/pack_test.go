package ledger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/ledger"
)

func TestPackedNotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := ledger.Note{Reference: rapid.String().Draw(t, "reference"),
			Dimensions: rapid.String().Draw(t, "dimensions"), Counts: rapid.String().Draw(t, "counts"),
			By: rapid.SampledFrom([]string{"", "till-7"}).Draw(t, "by")}
		packed := n.Pack()
		if got, ok := ledger.ReadNote(packed); !ok || got != n {
			t.Fatalf("%q became %q, %v", n, got, ok)
		}
		if packed == "" {
			return
		}
		cut := rapid.IntRange(1, len(packed)-1).Draw(t, "cut")
		if got, ok := ledger.ReadNote(packed[:cut]); ok {
			t.Fatalf("the first %d bytes are read as %q", cut, got)
		}
	})
}

func TestPackedFeedBodies(t *testing.T) {
	kinds := []ledger.FeedKind{ledger.FeedDeduct, ledger.FeedRollback, ledger.FeedConfirm, ledger.FeedExpire}
	rapid.Check(t, func(t *rapid.T) {
		body, want := ledger.BeginFeed(nil), []ledger.FeedEntry(nil)
		for range rapid.IntRange(0, 5).Draw(t, "entries") {
			e := ledger.FeedEntry{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
				RequestID: rapid.String().Draw(t, "id"), Amount: rapid.Int64Min(0).Draw(t, "amount")}
			switch e.Kind {
			case ledger.FeedRollback:
				e.RollbackID = rapid.String().Draw(t, "rollback")
			case ledger.FeedDeduct:
				e.Held = rapid.Bool().Draw(t, "held")
			}
			body, want = ledger.AppendFeed(body, e), append(want, e)
		}
		got, err := ledger.ReadFeed(string(body))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%v, %s", err, diff)
		}
	})
	for _, bad := range []string{"", "\x00", "\x01\x09", "\x01\x01", "\x01\x01\x05\x03ab"} {
		if got, err := ledger.ReadFeed(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}
