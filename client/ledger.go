package client

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// MaxLedgerPage is the most entries of one page; MaxLedgerWait the longest that a call can wait for
// news.
const (
	MaxLedgerPage = 1000
	MaxLedgerWait = 30 * time.Second
)

// LedgerEntry is what happened to one deduction. Bucket and Entry together name it for good:
// whoever may see an entry twice, because it stored its cursor too late, knows it again by them, or
// by request id, kind, rollback id, Cancelled and OfGroup.
type LedgerEntry struct {
	// Kind is "deduct", "rollback", or how a hold ended: "confirm", "expire".
	Kind   string `json:"kind"`
	Bucket string `json:"bucket"`
	// Entry numbers the entries of the bucket, from 1, without gaps.
	Entry     int64  `json:"entry"`
	RequestID string `json:"request_id"`
	// RollbackID is the caller's; "": the default one, that of a cancel (Cancelled), or of the
	// rollback of a whole group (OfGroup).
	RollbackID string `json:"rollback_id,omitzero"`
	Cancelled  bool   `json:"cancelled,omitzero"`
	OfGroup    bool   `json:"of_group,omitzero"`
	// Amount is what was deducted or given back, in minor units.
	Amount int64 `json:"amount"`
	// Held says that the units are held and not used.
	Held bool `json:"held"`
	// Dimensions and Reference are the deduction's.
	Dimensions map[string]string `json:"dimensions,omitempty"`
	Reference  string            `json:"reference,omitzero"`
	// At is when it was committed, by the database's clock.
	At time.Time `json:"at"`
}

// LedgerPage is a part of a budget's change feed.
type LedgerPage struct {
	Entries []LedgerEntry `json:"entries"`
	// Next resumes behind these entries, also when there are none.
	Next string `json:"next"`
}

// Ledger reads a page of a budget's change feed: what follows the cursor after, at most limit
// entries (0: the server's default of 100). The cursor is the Next of the page before; "" begins
// with the oldest entries that are kept. While there is nothing new it waits for up to wait, at
// most MaxLedgerWait, then answers an empty page. Entries of one bucket come in the order of their
// commits; all entries come exactly once to whoever goes on from Next.
//
// Errors: budget_not_found; invalid (the cursor is none of this budget); unavailable.
func (c *Client) Ledger(ctx context.Context, name, after string, limit int, wait time.Duration) (
	*LedgerPage, error,
) {
	what := c.get("ledger", name, "ledger")
	set(what.query, "after", after)
	return c.ledgerPage(ctx, what, limit, wait)
}

// LedgerTail reads the last n entries of a budget's change feed, 1 to MaxLedgerPage. Errors as of
// Ledger, which goes on from the page's Next.
func (c *Client) LedgerTail(ctx context.Context, name string, n int) (*LedgerPage, error) {
	what := c.get("ledger", name, "ledger")
	what.query.Set("tail", strconv.Itoa(n))
	return c.ledgerPage(ctx, what, n, 0)
}

// LedgerSince reads a page of a budget's change feed that begins with what was committed at an
// instant or later. Errors as of Ledger, which goes on from the page's Next.
func (c *Client) LedgerSince(ctx context.Context, name string, since time.Time, limit int) (
	*LedgerPage, error,
) {
	what := c.get("ledger", name, "ledger")
	what.query.Set("since", since.Format(time.RFC3339Nano))
	return c.ledgerPage(ctx, what, limit, 0)
}

func (c *Client) ledgerPage(ctx context.Context, what call, limit int, wait time.Duration) (
	*LedgerPage, error,
) {
	if limit != 0 {
		what.query.Set("limit", strconv.Itoa(limit))
	}
	if wait > 0 {
		what.query.Set("wait", wait.String())
		what.longer = wait
	}
	var answer LedgerPage
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Follow reads a budget's change feed from a cursor on and does not end: each page that has
// entries, and, while there are none, a waiting call of up to wait (0: 20 s; at most
// MaxLedgerWait). Whoever stores each page's Next after dealing with its entries, and goes on from
// the stored one, gets every entry exactly once, except that a crash between the two repeats that
// page.
//
// A server that is not reachable, or answers that it is not available, is tried again, with growing
// pauses, for as long as ctx lasts. Such errors are not yielded: ctx's end is the end of the
// sequence. Any other error (budget_not_found, invalid) is yielded with a nil page and ends
// it.
func (c *Client) Follow(ctx context.Context, name, after string, limit int, wait time.Duration) (
	pages iter.Seq2[*LedgerPage, error],
) {
	if wait <= 0 {
		wait = defaultLedgerWait
	}
	wait = min(wait, MaxLedgerWait)
	return func(yield func(*LedgerPage, error) bool) {
		for idle := 0; ctx.Err() == nil; {
			began := time.Now()
			page, err := c.Ledger(ctx, name, after, limit, wait)
			switch {
			case err != nil && ctx.Err() != nil:
				return
			case err != nil && (!undecided(err) || CodeOf(err) == budget.Internal):
				yield(nil, err)
				return
			case err == nil:
				after = page.Next
				if len(page.Entries) > 0 {
					idle = 0
					if !yield(page, nil) {
						return
					}
					continue
				}
				if time.Since(began) >= wait/2 {
					continue // the server has waited
				}
			}
			idle++
			pause := time.Duration(c.retry.Rand() * float64(c.retry.ceiling(idle)))
			if c.retry.Sleep(ctx, max(pause, min(retryAfter(err), maxRetryAfter))) != nil {
				return
			}
		}
	}
}

// defaultLedgerWait is below the time-outs of ordinary proxies.
const defaultLedgerWait = 20 * time.Second
