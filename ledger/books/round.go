package books

import (
	"cmp"
	"slices"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

// Ask is an operation that waits because its bucket, which is in a store, has too little.
type Ask struct{ Bucket, Amount int64 }

// Round is what all operations of a budget in stores wait for.
type Round struct {
	// Asks are in the order in which they arrived.
	Asks []Ask
	// Have is what the stores had in epochs when they answered. Full are epochs that cannot take any
	// more.
	Have map[Position]int64
	Full map[Position]bool
	// Rate is what the buckets use per second.
	Rate map[int64]float64
	// Recent is what a usual deduction takes; 0 means that nobody knows.
	Recent int64
	// Away are the buckets on partitions that do not answer. They neither get units nor give any.
	Away map[int64]bool
	// Synced says that SQL knows what the stores used, so that donors may be closed. Collected says
	// that donors were closed for these asks.
	Synced, Collected bool
}

// Supplied is the result of a round.
type Supplied struct {
	// Given says of each ask whether its bucket has its units now, or gets them with a pending grant.
	Given []bool
	// Waits says that units for other asks are on their way: once their epochs are closed, the next
	// round has them in U. Unsynced says that SQL has to know first what the stores used.
	Waits, Unsynced bool
	// Units were granted. Push lists the buckets whose stores must be told something. Have is what
	// they then have in the epochs of the asks, when all Given are used.
	Units int64
	Push  []int64
	Have  map[Position]int64
	// Keep is how many units the donors that were closed must leave in U before they may keep some;
	// below 0 they keep none.
	Keep int64
	// Refused has the buckets that may not be granted anything, each with its refusal.
	Refused map[int64]error
}

// seat is a bucket with operations that wait.
type seat struct {
	row *Bucket
	// has is what the bucket has or gets with grants that were made before. own is what it would
	// give as a donor.
	has, own int64
	// asked is what its operations ask for that fit, given the part of it that is covered now, and
	// granted what the bucket gets for that.
	asked, given, granted int64
}

// lacks returns what the bucket lacks for the operations that fit.
func (s *seat) lacks() int64 { return max(s.asked-s.has, 0) }

// Supply grants buckets in stores what the operations that wait for them ask for, less what they
// have, each in one grant and also above sharding_quantity, in the order in which the operations
// arrived. It leaves out those that do not fit into U and what other buckets have. If U does not
// cover the rest, and r.Synced is set, donors are closed, the fullest first, until it does. R is
// swept before.
//
// Near the end of a budget every bucket without waiting operations gives all its units: if what is
// in reach is at most four times the recent amount for each bucket. They stay in U: until more than
// that is handed out, buckets get what operations wait for and nothing in advance.
//
// An application that a bucket may no longer make (adjust_cnt) counts on one that may. The whole
// budget, Applied and the pending grants of the buckets are loaded. A repetition finds the grants
// of the first attempt pending, and gives nothing more. Error: BudgetExpired if no period is open.
func (b *Books) Supply(u *Budget, r Round) (out Supplied, err error) {
	out = Supplied{Given: make([]bool, len(r.Asks)), Refused: map[int64]error{}, Keep: -1,
		Have: map[Position]int64{}}
	if err := b.mustBeOpen(u, "apply"); err != nil {
		return out, err
	}
	b.Sweep(u)
	seats := b.seats(u, r, &out)
	if u.Unlimited == 1 {
		for i, ask := range r.Asks {
			if s := seats[ask.Bucket]; s != nil {
				b.grantUnlimited(u, s.row)
				out.Given[i] = true
			}
		}
		return out, nil
	}
	free, share := b.usable(u), b.takersOf(u)
	donors, coming := b.givers(u, r.Away)
	reach := free + coming
	for _, e := range donors {
		reach += e.Outstanding
		if s := seats[e.Bucket]; s != nil {
			s.own = e.Outstanding
		}
	}
	fits := fitting(r.Asks, seats, reach)
	missing := -free
	for _, s := range seats {
		missing += s.lacks()
	}
	ends := b.isEnding(u, reach, near*share*min(r.Recent, budget.MaxAmount/(near*share)))
	left := grantInOrder(r.Asks, fits, seats, free, out.Given)
	counts := true // one application serves all buckets
	for _, row := range b.Buckets.All() {
		s := seats[row.ID]
		if s == nil {
			continue
		}
		if s.granted > 0 {
			if missing <= 0 && !ends {
				more := b.inAdvance(u, s, r.Rate[row.ID], free, left, share)
				s.granted += more
				left -= more
			}
			counts = !b.grant(u, row, s.granted, r.Collected || ends, counts) && counts
			out.Units += s.granted
		}
		out.Have[b.newest(row).Position()] = s.has + s.granted - s.given
	}
	switch {
	case !r.Synced:
		out.Unsynced = slices.Contains(out.Given, false)
	case missing > 0:
		b.close(u, donors, seats, missing-coming, ends, &out)
		out.Waits = out.Waits || coming > 0
		if !ends {
			out.Keep = missing + left
		}
	}
	return out, nil
}

// seats returns the buckets of a round that may be granted units. Those with an epoch that cannot
// take any are set to closing, and pushed.
func (b *Books) seats(u *Budget, r Round, out *Supplied) map[int64]*seat {
	seats, pending := map[int64]*seat{}, map[int64]int64{}
	for _, g := range b.Grants.All() {
		if row := b.Buckets.Get(g.Bucket); row != nil && g.Epoch == row.Epoch && g.Status == Pending {
			pending[g.Bucket] += g.Amount
		}
	}
	for _, ask := range r.Asks {
		row := b.Buckets.Get(ask.Bucket)
		if row == nil || slices.Contains(out.Push, row.ID) || out.Refused[row.ID] != nil {
			continue
		}
		e := b.newest(row)
		may, err := b.mayBeGranted(u, row, r.Full[e.Position()], false)
		if err != nil {
			out.Refused[row.ID] = err
			continue
		}
		out.Push = append(out.Push, row.ID)
		switch {
		case !may:
			out.Waits = true
		case !r.Away[row.ID]:
			seats[row.ID] = &seat{row: row}
			if e.live() {
				seats[row.ID].has = r.Have[e.Position()] + pending[row.ID]
			}
		}
	}
	return seats
}

// mayBeGranted reports whether a bucket in a store may be granted units. One whose epoch cannot
// take any more is set to closing, and may be once its store has closed it. Errors: Unavailable for
// a bucket that an operator took offline, that is halted, or that cannot begin an epoch where it
// is.
func (b *Books) mayBeGranted(u *Budget, row *Bucket, full, operator bool) (bool, error) {
	e, p := b.newest(row), b.Partitions.Get(PartitionID{row.Instance, row.Partition})
	switch {
	case row.OfflineBy == byOperator && !operator, row.OfflineBy == byResize:
		err := budget.Refuse(budget.Unavailable, "apply", "an operator took bucket %s offline", row.Key)
		err.Reason, err.RetryAfter = budget.ReasonOffline, time.Second
		return false, err
	case e.Halted != "" && e.Status != lost:
		return false, budget.Refuse(budget.Unavailable, "apply", "bucket %s is stopped: %s", row.Key,
			e.Halted)
	case e.live() && (e.Period != u.Period || full):
		b.end(u, e)
		return false, nil
	case e.live():
		return e.Status != Closing, nil
	case p == nil || p.Incarnation == 0:
		return false, budget.Refuse(budget.Unavailable, "apply", "instance %s has never been reached",
			row.Instance)
	case p.IsDraining == 1:
		return false, budget.Refuse(budget.Unavailable, "apply", "instance %s is being drained",
			row.Instance)
	}
	return true, nil
}

// usable returns what buckets may be given of U.
func (b *Books) usable(u *Budget) int64 {
	free := u.releasable(b.NowMS)
	if !b.anyMayApply(u) {
		free = min(free, b.returnedUnits(u))
	}
	return free
}

// takersOf counts the buckets that may take units.
func (b *Books) takersOf(u *Budget) (n int64) {
	for _, row := range b.bucketsOf(u) {
		if b.mayTake(u, row) {
			n++
		}
	}
	return max(n, 1)
}

// givers returns the epochs in stores that may be closed for their units, the fullest first, and
// what those have that are closing already.
func (b *Books) givers(u *Budget, away map[int64]bool) (list []*Epoch, coming int64) {
	for _, row := range b.Buckets.All() {
		e := b.newest(row)
		switch {
		case away[row.ID] || e.Halted != "" || e.Period != u.Period:
		case e.Status == Closing:
			coming += e.Outstanding
		case e.Status == Open && e.Outstanding > 0:
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(x, y *Epoch) int {
		return cmp.Compare(y.Outstanding, x.Outstanding)
	})
	return list, coming
}

// fitting says which operations fit into what is in reach, each together with those before it. A
// bucket whose operations fit gives nothing.
func fitting(asks []Ask, seats map[int64]*seat, reach int64) []bool {
	fits := make([]bool, len(asks))
	for i, ask := range asks {
		s := seats[ask.Bucket]
		if s == nil {
			continue
		}
		with := *s
		with.asked += ask.Amount
		cost := with.lacks() - s.lacks()
		if s.asked == 0 {
			cost += s.own
		}
		if cost <= reach {
			reach -= cost
			s.asked, fits[i] = with.asked, true
		}
	}
	return fits
}

// grantInOrder gives the operations that fit what their buckets lack, as far as free units go, and
// returns what is left of these.
func grantInOrder(asks []Ask, fits []bool, seats map[int64]*seat, free int64, given []bool) int64 {
	for i, ask := range asks {
		if !fits[i] {
			continue
		}
		s := seats[ask.Bucket]
		need := max(s.given+ask.Amount-s.has-s.granted, 0)
		if need > free {
			continue
		}
		s.given += ask.Amount
		s.granted += need
		free -= need
		given[i] = true
	}
	return free
}

// inAdvance returns how much more than it needs a bucket is given, of what is left of the free
// units.
func (b *Books) inAdvance(u *Budget, s *seat, rate float64, free, left, share int64) int64 {
	step := allocation.Refill(s.granted, rate, free, int(share), u.Sharding)
	if u.AdjustCnt > 0 && b.returnedUnits(u) < s.granted { // small steps would use the applications up
		step = max(step, allocation.Step(0, free+share-1, int(share), u.Sharding))
	}
	return min(max(step-s.granted, 0), left)
}

// isEnding reports whether a budget is so near its end that what is in reach is at most bound, and
// notes that on the budget.
func (b *Books) isEnding(u *Budget, reach, bound int64) bool {
	switch {
	case bound > 0 && reach <= bound:
		if u.ContractionBound != bound {
			u.ContractionBound, u.ContractedMS = bound, b.NowMS
		}
	case bound > 0 && reach > u.ContractionBound:
		u.ContractionBound = 0
	}
	return reach <= u.ContractionBound
}

// close sets donors to closing, until they cover what is missing, or all of them at the end.
func (b *Books) close(u *Budget, donors []*Epoch, seats map[int64]*seat, missing int64, ends bool,
	out *Supplied) {
	for _, e := range donors {
		if s := seats[e.Bucket]; missing <= 0 && !ends || s != nil && s.asked > 0 {
			continue
		}
		missing -= e.Outstanding
		b.end(u, e)
		out.Waits = true
		if !slices.Contains(out.Push, e.Bucket) {
			out.Push = append(out.Push, e.Bucket)
		}
	}
	for _, row := range b.Buckets.All() {
		if e := b.newest(row); e.Status == Closing && e.Halted == "" &&
			!slices.Contains(out.Push, row.ID) {
			out.Push = append(out.Push, row.ID)
		}
	}
}

// grant moves units of U to a bucket in a store: first those that came back, which are free, and
// the rest by an application, which counts, if it counts, on a bucket that may still make one. A
// bucket without a live epoch begins its next one. collected says that other buckets had the units.
// It reports whether it needed an application.
func (b *Books) grant(u *Budget, row *Bucket, units int64, collected, counts bool) (applied bool) {
	b.goOnline(u, row)
	by := b.applicant(u, row)
	free := Again
	if collected {
		free = Collect
	}
	back := int64(0)
	switch {
	case u.AdjustCnt > 0:
		back = min(b.returnedUnits(u), units)
	case collected:
		back = units
	}
	b.give(u, row, free, back)
	b.give(u, row, Apply, units-back)
	u.Undistributed -= units
	if applied = units > back; !applied || u.AdjustCnt == 0 {
		return applied
	}
	b.Applied[u.ID] += units - back
	row.OutCnt--
	if counts {
		by.OutCnt++
	}
	return applied
}

// goOnline brings a bucket online, with its next epoch if it has none that is live.
func (b *Books) goOnline(u *Budget, row *Bucket) {
	switch {
	case !b.newest(row).live():
		b.beginNext(u, row)
	case row.Status != Online:
		row.Status, row.OfflineBy, row.UpdatedAt = Online, "", b.NowMS
		u.ListVersion++
	}
}

// grantUnlimited begins an epoch of a budget without a total and gives it the largest amount, which
// comes out of no total.
func (b *Books) grantUnlimited(u *Budget, row *Bucket) {
	begins := !b.newest(row).live()
	b.goOnline(u, row)
	if begins {
		b.give(u, row, Apply, budget.MaxAmount)
	}
}
