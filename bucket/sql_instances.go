package bucket

import (
	"context"
	"errors"
	"time"
)

// ErrDraining says that an epoch was not begun because its lane is being drained. Nothing was done.
var ErrDraining = errors.New("the lane is being drained")

// Ring returns the buckets that keys are spread over, by ordinal: all but those that have retired.
func (b *Budget) Ring() []Bucket {
	n := len(b.Buckets)
	for n > 0 && b.Buckets[n-1].OfflineBy == ByResize {
		n--
	}
	return b.Buckets[:n]
}

// LaneLoad is how many buckets a lane has, and how many have left it.
type LaneLoad struct {
	// Buckets counts those whose row names the lane, Moved those that left since it was last begun to be
	// drained, and Uncleared those of them, and from before, whose keys are still in the store.
	Buckets, Moved, Uncleared int
	// Held counts the uncleared ones that left under the lane's present activation.
	Held int
}

// Moving names a bucket and the lane it is to get.
type Moving struct {
	Budget, Bucket int64
	From, To       Lane
}

// Departures takes buckets off lanes that are being drained (docs/adr/0011). Errors as Ledger. Safe for
// concurrent use, by any number of nodes.
//
// While a lane is being drained no epoch begins on it: Create fails with ErrDraining, and HandOut,
// Reopen and Settle leave its buckets as they are.
type Departures interface {
	// KnownLanes reads the rows of all lanes that were ever reached, in the order of their names: also of
	// those that no configuration has any more.
	KnownLanes(ctx context.Context) ([]LaneRow, error)
	// SetDraining notes whether lanes are being drained; one that was never reached gets its row. Repeating
	// it is harmless.
	SetDraining(ctx context.Context, lanes []Lane, draining bool) error
	// LaneLoads counts. A lane without a row has zeros.
	LaneLoads(ctx context.Context, lanes []Lane) (map[Lane]LaneLoad, error)
	// OnLane lists at most limit buckets of a lane after an id, in that order, with their newest epochs,
	// whatever their status; also those that have retired.
	OnLane(ctx context.Context, lane Lane, after int64, limit int) ([]EpochOf, error)
	// Move gives a bucket, whose newest epoch has ended and whose lane is being drained, another lane, and,
	// if it is in the bucket list, its next epoch there, in one transaction: opening, under that lane's
	// present activation, with a grant of as many units as the last epoch gave back, if U has them. moved is
	// false when the bucket is no longer there, its epoch is live, or the lane is no longer being drained;
	// after an attempt whose commit stayed unknown the hand-out may be missing: it is in Unfinished.
	// Errors: Unavailable when the new lane was never reached or, with ErrDraining, is being drained itself.
	// Keeps I1.
	Move(ctx context.Context, m Moving) (h Handout, moved bool, err error)
	// Departed lists at most limit buckets that left a lane and whose keys can be removed there: the lane
	// has had another activation since, and no node that used it before, and whose lease has not been over for
	// `silence`, has still to report. Epoch is the newest that lived there.
	Departed(ctx context.Context, lane Lane, silence time.Duration, limit int) ([]Ref, error)
	// Cleared notes that the keys of buckets that left a lane with these epochs are gone.
	Cleared(ctx context.Context, lane Lane, refs []Ref) error
}

// Resizing is how far a change of the number of buckets is.
type Resizing struct {
	// Target is the number that is still to be brought about; 0: it is done.
	Target int
	// Ending are the epochs that are closing because of it: finish them, and in store mode call again.
	Ending []EpochOf
	// Opened are the buckets whose epochs have to be opened in their stores.
	Opened []Bucket
}

// Resizes changes how many buckets a budget has: Definitions.Change notes the number wanted.
type Resizes interface {
	// Resize goes on with a change of the number of buckets, in one transaction. lanes are where buckets
	// that do not exist yet go, by ordinal, one for each of the wanted number: if there are more or fewer,
	// nothing is done, and Target says how many it must be.
	//
	// In ledger mode it is done at once: buckets beyond the number retire, their epochs closing; missing
	// ones are made, and those that had retired come back. In store mode every epoch has to end first, so
	// that nobody can deduct by the old number any more (I4): until then no epoch of the budget begins.
	// Epochs that were opening are lost, their units returned. Errors: BudgetNotFound; Unavailable, with
	// ErrDraining where a lane is being drained. Repeating it is harmless. Keeps I1.
	Resize(ctx context.Context, budgetID int64, lanes []Lane) (Resizing, error)
}
