package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/auditor"
)

// quietLimit is how long a working installation may take to finish all pending work.
const quietLimit = 60 * time.Second

// AwaitQuiet waits until two checks in a row find no unfinished work in the ledger and no
// unreachable partition on any node. After quietLimit it returns an error that lists what the last
// check found.
func (w *World) AwaitQuiet() error {
	deadline := time.Now().Add(quietLimit)
	for checks := 0; ; {
		err := w.unquiet()
		if err == nil {
			if checks++; checks == 2 {
				return nil
			}
		} else {
			checks = 0
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not quiet %s after everything is up: %w", quietLimit, err)
		}
		time.Sleep(150 * time.Millisecond)
	}
}

// unquiet returns an error that lists unfinished work, unreachable partitions and stores with sums
// that SQL does not have, or nil.
func (w *World) unquiet() error {
	ctx, cancel := bounded()
	defer cancel()
	found, err := auditor.HalfDone(ctx, w.Rows)
	if err != nil {
		return err
	}
	for i, n := range w.Nodes {
		list, err := w.Clients[i].Instances(ctx)
		if err != nil {
			found = append(found, err.Error())
			continue
		}
		for _, instance := range list.Instances {
			for _, partition := range instance.Partitions {
				if !partition.Reachable {
					found = append(found, fmt.Sprintf("%s: partition of %s: %s", n.name, instance.Name, partition.Problem))
				}
			}
		}
	}
	for i, r := range w.Redis {
		// SQL gets the sums of store mode later than the callers get their answers.
		changed, err := auditor.Server(r.Addr()).Keys("budgetd:*:changed")
		if err != nil {
			found = append(found, err.Error())
		} else if len(changed) > 0 {
			found = append(found, fmt.Sprintf("redis-%d has changes that SQL does not have", i))
		}
	}
	if len(found) > 0 {
		return errors.New(strings.Join(found, "; "))
	}
	return nil
}

// TestUnsyncedIsNotQuiet checks that a store with a sum that SQL does not have is not quiet.
func TestUnsyncedIsNotQuiet(t *testing.T) {
	w := New(t, 1, "everysec")
	create(t, w, budget.Store, "b")
	c, ctx := w.Clients[0], context.Background()
	for i := range units { // a sync may come between the deduction and the check
		if _, err := c.Deduct(ctx, "b", client.DeductRequest{RequestID: fmt.Sprint(i), Amount: 1}); err != nil {
			t.Fatal(err)
		}
		if w.unquiet() != nil {
			if err := w.AwaitQuiet(); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Error("always quiet after a deduction")
}
