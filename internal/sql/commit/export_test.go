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
	sent, err := d.fastForm(ctx, newFlight(ops, out), d.repeats.Load() > 0)
	if sent == engine.Failed {
		err = nil
	}
	return sent, out, err
}
