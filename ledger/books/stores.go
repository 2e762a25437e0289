package books

import (
	"cmp"
	"slices"

	"github.com/budgetd/budgetd/allocation"
)

// mostDonors bounds the epochs that one CloseDonors takes.
const mostDonors = 16

// CloseDonors sets epochs in stores to closing, those with the most units first and mostDonors at
// most, until they, U and F cover the need of a budget. Epochs that are closing already count. It
// returns the buckets whose units are on their way.
func (b *Books) CloseDonors(u *Budget, need int64) (donors []int64) {
	missing := need - u.Undistributed - u.Unfunded
	var open []*Epoch
	for _, row := range b.Buckets.All() {
		e := b.newest(row)
		switch {
		case e.Halted != "":
		case e.Status == Closing: // somebody has begun with it
			missing -= e.Outstanding
			donors = append(donors, row.ID)
		case e.Status == Open && e.Outstanding > 0:
			open = append(open, e)
		}
	}
	slices.SortStableFunc(open, func(x, y *Epoch) int {
		return cmp.Compare(y.Outstanding, x.Outstanding)
	})
	for _, e := range open[:min(len(open), mostDonors)] {
		if missing <= 0 {
			break
		}
		missing -= e.Outstanding
		b.end(u, e)
		donors = append(donors, e.Bucket)
	}
	return donors
}

// Close sets the epoch of a bucket in a store to closing, unless it has ended or is halted.
func (b *Books) Close(u *Budget, row *Bucket) {
	if e := b.newest(row); e.live() && e.Halted == "" {
		b.end(u, e)
	}
}

// RestartCounts lets the counts of applications of a budget's buckets start from 0.
func (b *Books) RestartCounts(u *Budget) {
	for _, row := range b.bucketsOf(u) {
		row.OutCnt, row.CollectCnt = 0, 0
	}
}

// Granted returns the buckets that got new grants.
func (b *Books) Granted() (buckets []int64) {
	for _, g := range b.Grants.All() {
		buckets = append(buckets, g.Bucket)
	}
	return buckets
}

// Refill is what a bucket applies for.
type Refill struct {
	// Lacks is what the bucket lacks, at least 1; Rate what it uses per second.
	Lacks int64
	Rate  float64
	// Of is among how many buckets U is shared: 0 means all that may take units, which are loaded.
	Of int
	// Even says that an operator asks: for the even share. Background says that no operation waits:
	// near the end of a budget the units stay in U.
	Even, Background bool
}

// Refilled is what a movement gave to buckets.
type Refilled struct {
	Units int64
	// Closing says that the bucket's epoch must be closed first.
	Closing bool
	// Empty says that U has nothing for refills of any bucket in a store.
	Empty bool
}

// ApplyInStore moves units from U to a bucket in a store, as far as the period, sharding_quantity,
// adjust_cnt and pending shrinks allow. A bucket without a live epoch begins its next one. R is
// swept before. The whole budget and Applied are loaded. Errors: BudgetExpired if no period is
// open; Unavailable: see Supply.
func (b *Books) ApplyInStore(u *Budget, row *Bucket, r Refill) (out Refilled, err error) {
	b.Sweep(u)
	may, err := b.mayBeGranted(u, row, false, false)
	if err == nil && may {
		err = b.mustBeOpen(u, "apply")
	}
	if err != nil || !may {
		return Refilled{Closing: err == nil}, err
	}
	if u.Unlimited == 1 {
		b.grantUnlimited(u, row)
		return out, nil
	}
	units, _ := b.refill(u, row, r)
	if units > 0 {
		b.grant(u, row, units, false, true)
	}
	return Refilled{Units: units, Empty: b.hasNone(u, r)}, nil
}

// hasNone reports whether U has nothing for a refill, whatever bucket asks.
func (b *Books) hasNone(u *Budget, r Refill) bool {
	free := u.releasable(b.NowMS)
	return free <= 0 || r.Background && free <= u.ContractionBound
}

// refill returns how much a bucket applies for, and the kind of its grant. Units that came back
// come first, because they are free. Otherwise it is the even share at least if adjust_cnt bounds
// the applications, because small steps would use them up, or if an operator asks.
func (b *Books) refill(u *Budget, row *Bucket, r Refill) (int64, Word) {
	free, share := u.releasable(b.NowMS), r.Of
	if b.hasNone(u, r) {
		return 0, Apply
	}
	if share == 0 {
		share = int(b.takersOf(u))
	}
	units := allocation.Refill(r.Lacks, r.Rate, free, share, u.Sharding)
	if r.Even || u.AdjustCnt > 0 {
		units = max(units, allocation.Step(0, free+int64(share)-1, share, u.Sharding))
	}
	units = min(units, free)
	switch back := min(units, b.returnedUnits(u)); {
	case u.AdjustCnt > 0 && back > 0:
		return back, Again
	case u.AdjustCnt > 0 && row.OutCnt >= u.AdjustCnt:
		return 0, Apply
	}
	return units, Apply
}
