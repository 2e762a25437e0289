package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestHoldsWhoseOwnerDies makes 10,000 holds through a node, confirms a few of them, and kills the
// node. The other node must give back the rest when the holds expire: all units, and each hold
// once.
func TestHoldsWhoseOwnerDies(t *testing.T) {
	const holds, each, total, confirmed, parts, name = 10_000, 3, 40_000, 40, 30, "held"
	const ttl = 20 * time.Second // longer than it takes to make the holds
	world := newCluster(t)
	owner, other := world.start(t), world.start(t)
	ctx, c := context.Background(), owner.client()
	create(t, c, name, total, 8)
	for first := 0; first < holds; first += client.MaxBatch {
		items := make([]client.BatchItem, client.MaxBatch)
		for i := range items {
			items[i] = client.BatchItem{Budget: name, DeductRequest: client.DeductRequest{
				RequestID: fmt.Sprint("h", first+i), Amount: each, HoldTTL: ttl.String()}}
		}
		results, err := c.DeductBatch(ctx, items)
		must(t, err)
		for i, r := range results {
			if r.Err != nil || r.Answer.State != "held" {
				t.Fatalf("hold %d: %+v, %v", first+i, r.Answer, r.Err)
			}
		}
	}
	for i := range confirmed + parts {
		request := client.ConfirmRequest{RequestID: fmt.Sprint("h", i*100)}
		if i >= confirmed {
			request.Amount = 1
		}
		_, err := c.Confirm(ctx, name, request)
		must(t, err)
	}
	const used = confirmed*each + parts
	owner.kill()
	c = other.client()
	b, err := c.Budget(ctx, name)
	must(t, err)
	if b.Used != used {
		t.Errorf("%d used after the confirms, want %d", b.Used, used)
	}
	eventually(t, ttl+60*time.Second, "all units are back", func() error {
		b, err := c.Budget(ctx, name)
		if err != nil || b.Held == 0 && b.InTransit == 0 && *b.InBuckets+*b.Undistributed == total-used {
			return err
		}
		return fmt.Errorf("held %d, in transit %d, remaining %d, undistributed %d", b.Held, b.InTransit, *b.InBuckets,
			*b.Undistributed)
	})
	if b, err = c.Budget(ctx, name); err != nil || b.Used != used || b.Quarantined != 0 {
		t.Errorf("used %d, want %d; quarantined %d, %v", b.Used, used, b.Quarantined, err)
	}
	if report, err := c.Audit(ctx, name); err != nil || !report.OK {
		t.Errorf("audit: %+v, %v", report, err)
	}
	expiredOnce(t, c, name, holds-confirmed-parts, each)
	_, err = c.Confirm(ctx, name, client.ConfirmRequest{RequestID: "h1"})
	if client.CodeOf(err) != budget.HoldExpired {
		t.Errorf("a confirm after the expiry: %v", err)
	}
	if answer, err := c.Deduct(ctx, name, client.DeductRequest{RequestID: "all", Amount: total - used}); err != nil {
		t.Errorf("what came back cannot be used: %+v, %v", answer, err)
	}
}

// expiredOnce checks in the feed that so many holds expired, each once and with all of its units.
func expiredOnce(t *testing.T, c *client.Client, name string, holds int, amount int64) {
	t.Helper()
	ends := map[string]string{}
	for after := ""; ; {
		page, err := c.Ledger(context.Background(), name, after, 1000, 0)
		must(t, err)
		if len(page.Entries) == 0 {
			break
		}
		for _, e := range page.Entries {
			if e.Kind != "confirm" && e.Kind != "expire" {
				continue
			}
			if ends[e.RequestID] != "" || e.Kind == "expire" && e.Amount != amount {
				t.Errorf("%s of %d of %s, after %q", e.Kind, e.Amount, e.RequestID, ends[e.RequestID])
			}
			ends[e.RequestID] = string(e.Kind)
		}
		after = page.Next
	}
	expired := 0
	for _, kind := range ends {
		if kind == "expire" {
			expired++
		}
	}
	if expired != holds {
		t.Errorf("%d holds expired, want %d", expired, holds)
	}
}
