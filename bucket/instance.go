package bucket

import (
	"context"
	"time"
)

// Node is a budgetd that uses the database.
type Node struct {
	// Name is node.name, Address where it listens.
	Name, Address, Version string
	// SeenAt is when it last refreshed its row; it does so every few seconds.
	StartedAt, SeenAt time.Time
}

// DrainView is how far the draining of an instance is.
type DrainView struct {
	Instance string
	Draining bool
	// Left buckets are on it still, Moved ones have left it since this drain began, and the store
	// keeps something of Uncleared ones.
	Left, Moved, Uncleared int
	// Done says that no bucket is left, nor any key, unless the store cannot be reached to remove
	// them.
	Done bool
	// Problem says what keeps it from going on, as this node sees it; "" if nothing.
	Problem string
	// GivenUp is what became of units when the instance was given up.
	GivenUp GivenUp
}

// GivenUp is what giving lanes up did with what their buckets held, in minor units.
type GivenUp struct{ Quarantined, Returned int64 }

// Condition is what the settings of a store say of it.
type Condition struct {
	// Findings are settings with which it may lose what it holds.
	Findings []Finding
	// Persistent says that every write is on its disk before it is answered. Ledger mode does not
	// need it: what was never committed was never acknowledged. It is what durability "store" asks
	// of a lane.
	Persistent bool
	// Unfit says why the store cannot be the truth of a budget in store mode, whatever its settings;
	// "": it can.
	Unfit string
}

// Refused lists the problems with which a store is not used under `strict`.
func (c Condition) Refused() (problems []string) {
	for _, f := range c.Findings {
		if f.Refused {
			problems = append(problems, f.Problem)
		}
	}
	return problems
}

// Finding is a setting with which a store may lose what it holds.
type Finding struct {
	// Problem is one sentence: what is set, what happens, and the command that mends it.
	Problem string
	// Refused: with `strict` the store is not used. The others cost a recovery and no units.
	Refused bool
	// StoreMode: it concerns budgets in store mode only.
	StoreMode bool
}

// Inspected is an instance whose settings decide what it may lose.
type Inspected interface {
	// Condition reads what the settings of the store that serves a lane say of it. Errors:
	// Unavailable.
	Condition(ctx context.Context, lane Lane) (Condition, error)
}

// Quarantine is what an epoch held, beyond what the ledger has, when its store lost its memory: how
// much of it was sold is not known.
type Quarantine struct {
	Bucket int64
	Key    string
	Epoch  int64
	// Quantity went into quarantine, Released left it since. Minor units.
	Quantity, Released int64
	Cause              string
	At                 time.Time
}

// Held is what is in quarantine still, in minor units.
func (q Quarantine) Held() int64 { return q.Quantity - q.Released }

// ReleaseRequest is an operator's decision on quarantined units.
type ReleaseRequest struct {
	Budget    BudgetRef
	RequestID string
	// Quantity 0 asks for all that is in quarantine.
	Quantity   int64
	Reason, By string
	// Used says that the units were sold: they count as used. Otherwise they return to the total.
	Used bool
}

// ReleaseAnswer is what a release did.
type ReleaseAnswer struct {
	Released, Quarantined int64
	Replayed              bool
}
