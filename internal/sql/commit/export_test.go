package commit

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// Forms returns how many flights were written by a packet, and how many came to the locking form.
func (d *Decider) Forms() (packets, locking int64) { return d.packets.Load(), d.lockings.Load() }

// Packet carries out the fast form alone.
func (d *Decider) Packet(ctx context.Context, ops ...bucket.Operation) (
	engine.Sent, []bucket.Outcome, error) {
	out := make([]bucket.Outcome, len(ops))
	_, sent, err := d.fastForm(ctx, newFlight(ops, out), d.repeats.Load() > 0, false)
	if sent == engine.Failed {
		err = nil
	}
	return sent, out, err
}

// ReadsAll returns how many more flights read all limit rows of a budget.
func (d *Decider) ReadsAll(budgetID int64) int64 { return d.counters.of(budgetID).reads.Load() }

// TakeForAbsent makes the next flights take limit rows that they do not remember for absent.
func (d *Decider) TakeForAbsent(budgetID int64) {
	d.counters.of(budgetID).absent.Store(absentRows)
}

// TakesForAbsent reports whether flights take limit rows that they do not remember for absent.
func (d *Decider) TakesForAbsent(budgetID int64) bool {
	return d.counters.of(budgetID).absent.Load() >= absentRows
}
