package wire

import (
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
	"github.com/go-json-experiment/json/jsontext"
)

// feedPage is a part of the feed as answered.
type feedPage struct {
	Entries []feedEntry `json:"entries"`
	Next    string      `json:"next"`
}

// feedEntry is an entry as answered: bucket and entry together name it for good. Amount is in minor
// units.
type feedEntry struct {
	Kind      ledger.FeedKind `json:"kind"`
	Bucket    string          `json:"bucket"`
	Entry     int64           `json:"entry"`
	RequestID string          `json:"request_id"`
	// RollbackID is absent for the default one, for a cancel, which Cancelled marks, and for the
	// rollback of a whole group, which OfGroup marks.
	RollbackID string         `json:"rollback_id,omitzero"`
	Cancelled  bool           `json:"cancelled,omitzero"`
	OfGroup    bool           `json:"of_group,omitzero"`
	Amount     int64          `json:"amount"`
	Held       bool           `json:"held"`
	Dimensions jsontext.Value `json:"dimensions,omitzero"`
	Reference  string         `json:"reference,omitzero"`
	At         time.Time      `json:"at"`
}

// readable is a text that has a JSON form. The API lets no other in, but a store's log can be
// written by others, and one entry must not stop the feed.
func readable(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// FeedOf returns the body that shows page.
func FeedOf(page *bucket.FeedPage) feedPage {
	out := feedPage{Entries: make([]feedEntry, len(page.Entries)), Next: page.Next}
	for i := range page.Entries {
		e := &page.Entries[i]
		out.Entries[i] = feedEntry{
			Kind: e.Kind, Bucket: e.BucketKey, Entry: e.Entry, RequestID: readable(e.RequestID),
			RollbackID: e.RollbackID, Amount: e.Amount, Held: e.Held, Reference: readable(e.Reference),
			At: InUTC(e.At),
		}
		if d := jsontext.Value(e.Dimensions); d.IsValid() {
			out.Entries[i].Dimensions = d
		}
		switch e.RollbackID {
		case ledger.CancelID:
			out.Entries[i].RollbackID, out.Entries[i].Cancelled = "", true
		case ledger.GroupRollbackID:
			out.Entries[i].RollbackID, out.Entries[i].OfGroup = "", true
		}
	}
	return out
}
