package wire

import (
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
	"github.com/go-json-experiment/json/jsontext"
)

// feedPage is the JSON form of a page of the feed.
type feedPage struct {
	Entries []feedEntry `json:"entries"`
	Next    string      `json:"next"`
}

// feedEntry is the JSON form of an entry. Bucket and entry together identify it permanently. Amount
// is in minor units.
type feedEntry struct {
	Kind      ledger.FeedKind `json:"kind"`
	Bucket    string          `json:"bucket"`
	Entry     int64           `json:"entry"`
	RequestID string          `json:"request_id"`
	// RollbackID is absent for the default id, for a cancel, which Cancelled marks, and for the
	// rollback of a group, which OfGroup marks.
	RollbackID string         `json:"rollback_id,omitzero"`
	Cancelled  bool           `json:"cancelled,omitzero"`
	OfGroup    bool           `json:"of_group,omitzero"`
	Amount     int64          `json:"amount"`
	Held       bool           `json:"held"`
	Dimensions jsontext.Value `json:"dimensions,omitzero"`
	Reference  string         `json:"reference,omitzero"`
	At         time.Time      `json:"at"`
}

// readable replaces the bytes of a text that have no JSON form. The API accepts no such text, but
// other programs could write one into the database, and one entry must not stop the feed.
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
