package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/go-json-experiment/json/jsontext"
)

// Feeds is the service's change feed.
type Feeds interface {
	// Feed reads a page of a budget's ledger, and waits for one entry at least as the request says.
	Feed(ctx context.Context, request bucket.FeedRequest) (bucket.FeedPage, error)
}

// ledger answers a page of the feed. With wait= it may take that much longer than other calls; it
// ends with the caller, and at once when the node stops.
func (a *API) ledger(c *call) (answer, error) {
	query := c.query("tenant", "after", "limit", "wait")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	request := bucket.FeedRequest{Budget: ref, After: query.Get("after"), Until: a.left}
	if query.Has("limit") {
		limit, ok := budget.ParseAmount(query.Get("limit"))
		if !ok || limit > bucket.MaxFeedLimit {
			c.faults.Invalid("limit", "must be 1 to %d", bucket.MaxFeedLimit)
		}
		request.Limit = int(limit)
	}
	if query.Has("wait") {
		wait, err := time.ParseDuration(query.Get("wait"))
		if err != nil || wait < 0 || wait > bucket.MaxFeedWait {
			c.faults.Invalid("wait", "must be a duration of 0s to %s, such as 20s", bucket.MaxFeedWait)
		}
		request.Wait = wait
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	ctx := c.ctx
	if request.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(c.work, request.Wait+a.limits.RequestTimeout)
		defer cancel()
		c.allow(request.Wait)
	}
	page, err := a.service.Feed(ctx, request)
	return answer{body: feedOf(&page)}, err
}

// allow moves the connection's time limits, which count from the beginning of the request, for a
// call that may take so much longer. A connection that has none is left as it is.
func (c *call) allow(longer time.Duration) {
	limits, control := &c.api.limits, http.NewResponseController(c.w)
	_ = control.SetReadDeadline(time.Time{}) // the request is read; the end of it would end the wait
	_ = control.SetWriteDeadline(time.Now().Add(longer + limits.RequestTimeout + limits.WriteTimeout))
}

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
	// RollbackID is absent for the default one, for a cancel, which Cancelled marks, and for the rollback
	// of a whole group, which OfGroup marks.
	RollbackID string         `json:"rollback_id,omitzero"`
	Cancelled  bool           `json:"cancelled,omitzero"`
	OfGroup    bool           `json:"of_group,omitzero"`
	Amount     int64          `json:"amount"`
	Held       bool           `json:"held"`
	Dimensions jsontext.Value `json:"dimensions,omitzero"`
	Reference  string         `json:"reference,omitzero"`
	At         time.Time      `json:"at"`
}

// readable is a text that has a JSON form. The API lets no other in, but a store's log can be written
// by others, and one entry must not stop the feed.
func readable(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

func feedOf(page *bucket.FeedPage) feedPage {
	out := feedPage{Entries: make([]feedEntry, len(page.Entries)), Next: page.Next}
	for i := range page.Entries {
		e := &page.Entries[i]
		out.Entries[i] = feedEntry{
			Kind: e.Kind, Bucket: e.BucketKey, Entry: e.Entry, RequestID: readable(e.RequestID),
			RollbackID: e.RollbackID, Amount: e.Amount, Held: e.Held, Reference: readable(e.Reference),
			At: inUTC(e.At),
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
