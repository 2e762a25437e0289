package bucket

import (
	"context"
	"time"
)

// Node is a budgetd process that uses the database.
type Node struct {
	// Name is node.name of its configuration. Address is where it listens.
	Name, Address, Version string
	// ZoneRelease is the release of its time zones, such as "2025c".
	ZoneRelease string
	// SeenAt is when it last refreshed its row, which it does every few seconds.
	StartedAt, SeenAt time.Time
	// Up says that it has done so lately. A node that was stopped is not up either.
	Up bool
}

// DrainView is the progress of draining an instance.
type DrainView struct {
	Instance string
	Draining bool
	// Left counts the buckets that are still on it, Moved those that have left since this drain began,
	// and Uncleared those that the store still has keys of.
	Left, Moved, Uncleared int
	// Done says that no bucket and no key is left. Keys of a store that cannot be reached are ignored.
	Done bool
	// Problem says why it does not progress, as this node sees it. It is empty if there is no problem.
	Problem string
	// GivenUp is where the units went if the instance was given up.
	GivenUp GivenUp
}

// GivenUp is where the units of given-up partitions went, in minor units.
type GivenUp struct{ Quarantined, Returned int64 }

// Condition is the assessment of a store's settings.
type Condition struct {
	// Findings are settings with which the store may lose data.
	Findings []Finding
	// Persistent says that every write is on disk before it is answered.
	Persistent bool
	// Unfit says why the store cannot decide for a budget, whatever its settings are. It is empty if
	// it can.
	Unfit string
}

// Refused lists the problems for which a store is not used under `strict`.
func (c Condition) Refused() (problems []string) {
	for _, f := range c.Findings {
		if f.Refused {
			problems = append(problems, f.Problem)
		}
	}
	return problems
}

// Finding is a setting with which a store may lose data.
type Finding struct {
	// Problem is one sentence: what is set, what happens, and the command that corrects it.
	Problem string
	// Refused says that the store is not used under `strict`. Other findings cost a recovery but no
	// units.
	Refused bool
}

// Inspected is an instance whose settings determine what it may lose.
type Inspected interface {
	// Condition reads and assesses the settings of the store that serves a partition. Error:
	// Unavailable.
	Condition(ctx context.Context, partition Partition) (Condition, error)
}

// Quarantine is what an epoch held, beyond what the ledger has, when its store lost its memory. How
// much of it was sold is not known.
type Quarantine struct {
	// Key is the bucket's.
	Key   string
	Epoch int64
	// Quantity went into quarantine, and Released has left it, in minor units.
	Quantity, Released int64
	Cause              string
	At                 time.Time
	// Releases are the decisions by which units left it, the oldest first.
	Releases []QuarantineRelease
}

// QuarantineRelease is the part of an operator's decision that is about one quarantine.
type QuarantineRelease struct {
	RequestID string
	// Quantity is in minor units. Used says that they count as used; otherwise they went back.
	Quantity   int64
	Used       bool
	Reason, By string
	At         time.Time
}

// Held returns what is still in quarantine, in minor units.
func (q Quarantine) Held() int64 { return q.Quantity - q.Released }

// ReleaseRequest is an operator's decision on quarantined units.
type ReleaseRequest struct {
	Budget    BudgetRef
	RequestID string
	// Quantity is what to release; 0 means all that is in quarantine.
	Quantity   int64
	Reason, By string
	// Used says that the units were sold: they count as used. Otherwise they return to the total.
	Used bool
}

// ReleaseAnswer is the result of a release.
type ReleaseAnswer struct {
	Released, Quarantined int64
	Replayed              bool
}
