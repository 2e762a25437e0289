package client

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// MaxLedgerPage is the most entries of one page, MaxLedgerWait the longest wait for news in one
// call.
const (
	MaxLedgerPage = 1000
	MaxLedgerWait = 30 * time.Second
)

// Ledger returns a page of a budget's change feed: at most limit entries after a cursor (0 means
// the server's default of 100). The cursor is the Next of the previous page; "" begins with the
// oldest stored entry. While there is nothing new it waits for up to wait, at most MaxLedgerWait,
// and then returns an empty page. Entries of one bucket are in commit order. A reader that
// continues from Next gets every entry exactly once.
//
// Errors: budget_not_found; invalid (the cursor belongs to another budget); unavailable.
func (c *Client) Ledger(ctx context.Context, name, after string, limit int, wait time.Duration) (
	*LedgerPage, error,
) {
	what := c.get("ledger", name, "ledger")
	set(what.query, "after", after)
	return c.ledgerPage(ctx, what, limit, wait)
}

// LedgerTail returns the last n entries of a budget's change feed, 1 to MaxLedgerPage. Errors as
// for Ledger, which continues from the page's Next.
func (c *Client) LedgerTail(ctx context.Context, name string, n int) (*LedgerPage, error) {
	what := c.get("ledger", name, "ledger")
	what.query.Set("tail", strconv.Itoa(n))
	return c.ledgerPage(ctx, what, n, 0)
}

// LedgerSince returns a page of a budget's change feed that begins with what was committed at an
// instant or later. Errors as for Ledger, which continues from the page's Next.
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

// Follow reads a budget's change feed from a cursor on and does not end. It yields each page with
// entries. Between them it waits in calls of up to wait (0 means 20 s; at most MaxLedgerWait). A
// reader that stores each page's Next after processing its entries, and resumes from the stored
// one, gets every entry exactly once, except that a crash between the two repeats that page.
//
// While the server is unreachable or unavailable, Follow retries with growing pauses for as long as
// ctx lasts, without yielding those errors; the end of ctx ends the sequence. Any other error
// (budget_not_found, invalid) is yielded with a nil page and ends it.
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
					continue // the server has waited already
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

// defaultLedgerWait is below the timeouts of ordinary proxies.
const defaultLedgerWait = 20 * time.Second
