package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestTakenBack checks that a repeat of a deduction of which nothing is left is refused as
// already_rolled_back, alone, in a batch and as a dry run, however its units came back, and that one
// of which a part is left replays. Otherwise a message that is delivered again would hand out what
// is for sale again (I4).
func TestTakenBack(t *testing.T) {
	single := start(t, t.TempDir())
	cluster := newCluster(t).start(t)
	for _, on := range []struct {
		name       string
		node       *node
		durability budget.Durability
	}{{"sqlite", single, budget.Ledger}, {"mariadb", cluster, budget.Ledger},
		{"mariadb and redis", cluster, budget.Store}} {
		t.Run(on.name, func(t *testing.T) {
			c := on.node.client()
			name := "taken-" + string(on.durability)
			createBudget(t, c, client.CreateRequest{Name: name, Unit: budget.Count, Type: budget.Promo,
				Durability: on.durability, TotalQuantity: 1000, BucketQuantity: 4})
			for _, way := range waysBack {
				if way.holds && on.durability == budget.Store {
					continue // store mode has no holds
				}
				t.Run(way.name, func(t *testing.T) { takenBack(t, c, name, way) })
			}
			checkBooks(t, c, name, 1000, 2)
		})
	}
}

// way is a way in which units come back. state is that of the refusal, "" if a part is left.
type way struct {
	name, state string
	holds       bool
	back        func(t *testing.T, c *client.Client, name string, made client.DeductRequest)
}

var waysBack = []way{
	{name: "rollback", state: "rolled_back",
		back: func(t *testing.T, c *client.Client, name string, made client.DeductRequest) {
			_, err := c.Rollback(t.Context(), name, made.Return())
			must(t, err)
		}},
	{name: "two parts", state: "rolled_back",
		back: func(t *testing.T, c *client.Client, name string, made client.DeductRequest) {
			for _, part := range []string{"one", "two"} {
				back := made.Return()
				back.RollbackID, back.Amount = part, made.Amount/2
				_, err := c.Rollback(t.Context(), name, back)
				must(t, err)
			}
		}},
	{name: "one part",
		back: func(t *testing.T, c *client.Client, name string, made client.DeductRequest) {
			back := made.Return()
			back.RollbackID, back.Amount = "one", made.Amount/2
			_, err := c.Rollback(t.Context(), name, back)
			must(t, err)
		}},
	{name: "cancel", state: "rolled_back",
		back: func(t *testing.T, c *client.Client, name string, made client.DeductRequest) {
			_, err := c.Cancel(t.Context(), name, made.Cancellation())
			must(t, err)
		}},
	{name: "expiry", state: "expired", holds: true,
		back: func(t *testing.T, c *client.Client, name string, made client.DeductRequest) {
			_, err := c.Extend(t.Context(), name, client.ExtendRequest{RequestID: made.RequestID,
				HoldTTL: "1ms"})
			must(t, err)
			eventually(t, 30*time.Second, "the hold expires", func() error {
				d, err := c.Deduction(context.Background(), name, made.RequestID)
				if err == nil && d.State != "expired" {
					err = fmt.Errorf("it is %s", d.State)
				}
				return err
			})
		}},
}

func takenBack(t *testing.T, c *client.Client, name string, way way) {
	request := client.DeductRequest{RequestID: way.name, Amount: 4, Key: "ann"}
	if way.holds {
		request.HoldTTL = "1h"
	}
	_, err := c.Deduct(t.Context(), name, request)
	must(t, err)
	way.back(t, c, name, request)

	item := client.BatchItem{Budget: name, DeductRequest: request}
	batch, err := c.DeductBatch(t.Context(), []client.BatchItem{item, item})
	must(t, err)
	alone, err := c.Deduct(t.Context(), name, request)
	for i, got := range append(batch, client.BatchResult{Answer: alone, Err: err}) {
		checkRepeat(t, fmt.Sprint("repeat ", i), way.state, got.Answer, got.Err)
	}
	dry, err := c.DryRun(t.Context(), name, request)
	if way.state == "" && (err != nil || dry.Outcome != "accepted") ||
		way.state != "" && client.CodeOf(err) != budget.AlreadyRolledBack {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	request.Amount++
	if _, err := c.Deduct(t.Context(), name, request); client.CodeOf(err) != budget.RequestConflict {
		t.Errorf("another amount: %v", err)
	}
}

// checkRepeat checks the answer to a repeat: a refusal with a state, or a replay if it is "".
func checkRepeat(t *testing.T, what, state string, got *client.DeductAnswer, err error) {
	t.Helper()
	if state == "" {
		if err != nil || !got.Replayed || got.Amount != 4 || got.State != "used" {
			t.Errorf("%s: %+v, %v; want a replay", what, got, err)
		}
		return
	}
	var p *client.Problem
	if !errors.As(err, &p) || p.Code != budget.AlreadyRolledBack || p.State != state ||
		p.Cancelled || client.KindOf(err) != budget.Conflict {
		t.Errorf("%s: %+v, %v (%+v); want already_rolled_back, %s", what, got, err, p, state)
	}
}
