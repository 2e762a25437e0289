package crashpoints

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// What store mode promises besides: the ledger follows the stores, and what was accepted and is lost
// with a store's memory is covered by quarantined units.

// recountQuarantine sums what is held in quarantine, and proves Q from the releases.
func recountQuarantine(b *memstore.BudgetRow) (held int64) {
	for _, q := range b.Quarantines {
		held += q.Quantity
	}
	for _, r := range b.Releases {
		held -= r.Quantity
	}
	return held
}

// behind says what of an epoch the ledger does not have yet, or that the epoch waits for being settled.
func (w *world) behind(lane bucket.Lane, e *memstore.EpochRow,
	lanes map[bucket.Lane]bucket.LaneRow) (open []string) {
	ref := bucket.Ref{Bucket: e.Bucket, Epoch: e.Number, Activation: e.Activation}
	end, found := w.servers[lane.Instance].End(lane.Index, ref)
	switch {
	case !e.Status.Live():
	case e.Activation < lanes[lane].Activation:
		open = append(open, fmt.Sprintf("bucket %d, epoch %d waits to be settled", e.Bucket, e.Number))
	case w.rows: // there is no log
	case !found && e.Status == ledger.Open:
		open = append(open, fmt.Sprintf("bucket %d, epoch %d is not in its store", e.Bucket, e.Number))
	case end > e.DrainedSeq:
		open = append(open, fmt.Sprintf("bucket %d, epoch %d: the log ends at %d, the ledger at %d",
			e.Bucket, e.Number, end, e.DrainedSeq))
	}
	return open
}

// follow waits, in store mode, until the ledger has everything that was accepted.
func (w *world) follow() {
	if w.durability == budget.Store {
		w.settle()
	}
}

// arrive lets what was postponed arrive, unless the operation's own calls do so.
func (w *world) arrive(op *operation) {
	if !op.late {
		w.release()
	}
}

// comes waits, in store mode, until a deduction that was accepted is in the ledger.
func (w *world) comes(c *call) bool {
	if w.durability != budget.Store || !c.behind {
		return c.did(w.rowOf(c))
	}
	const bound, pause = 2 * time.Second, 10 * time.Millisecond
	for began := time.Now(); !c.did(w.rowOf(c)); time.Sleep(pause) {
		if time.Since(began) > bound {
			return false
		}
	}
	return true
}

// covered proves that units which were accepted and are missing are covered by quarantined ones (I2),
// and that nothing is missing or quarantined where no memory was lost (I7). What a store says once that has
// forgotten its scripts is a loss while a node that is gone may have acknowledged more.
func (w *world) covered(op *operation, missing int64) {
	row := w.row()
	if row == nil {
		return
	}
	if missing > row.Quarantined {
		w.fault("%d were accepted and are not in the ledger, %d are in quarantine", missing, row.Quarantined)
	}
	if !op.loses && !(w.forgot && w.gone) && (missing > 0 || row.Quarantined > 0) {
		w.fault("%d are missing and %d in quarantine, and no memory was lost", missing, row.Quarantined)
	}
}

// unquarantine releases all that is in quarantine, as an operator may who has the callers repeat what
// they were told.
func (w *world) unquarantine() {
	row := w.row()
	if row == nil || row.Quarantined == 0 {
		return
	}
	w.released++
	order := bucket.ReleaseRequest{Budget: w.budget, RequestID: fmt.Sprint("all ", w.released), Reason: "callers repeat", By: "test"}
	for turn := range 2 {
		got, err := w.node.Release(context.Background(), order)
		if err != nil || got.Released != row.Quarantined || got.Quarantined != 0 || got.Replayed != (turn == 1) {
			w.fault("released (%d) %d: %+v, %v", turn, row.Quarantined, got, err)
		}
	}
	w.settle()
	w.prove("after the release")
}

// quarantines expects an undisturbed run to have put units into quarantine, or none.
func quarantines(units int64) func(*world) string {
	return func(w *world) string {
		if got := w.row().Quarantined; got != units {
			return fmt.Sprintf("%d are in quarantine, not %d", got, units)
		}
		return ""
	}
}
