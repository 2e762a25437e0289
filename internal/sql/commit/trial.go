package commit

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

// trial judges the operations of a flight against rows that are locked, or that the fast form
// assumes, and collects what has to be written.
type trial struct {
	*flight
	nowMS int64
	// known holds the rows of ids. If it is nil, every id is assumed new.
	known  map[bucket.ID]ledger.Deduction
	epochs map[int64]*bucketState
	groups map[groupKey]*group
	limits limitRows
	// refused has the verdict of every operation of a budget, for Bring: Over or Gone.
	refused map[int64]bucket.Verdict
	// owners are the rows of the owners of accepted sets.
	owners []*ledger.Deduction
	// freed are the ids of accepted operations whose rows are tombstones of other principals.
	freed []bucket.ID
	// available is what each whole budget has left, for Bring. An operation that does not fit in any
	// other budget is Short.
	available map[int64]*ledger.Availability
	accepted  int
}

// bucketState is the state of a bucket: its present epoch and what the flight takes from it.
type bucketState struct {
	epoch books.Epoch
	// unlimited means that nothing is taken from O.
	unlimited bool
	// believed says that left is what the node remembers, not what a locked row has.
	believed bool
	// nowMS is SQL's clock, read after the lock.
	nowMS int64
	// judged is the lowest version of the definition by which an accepted operation was judged.
	judged int64
	// left is O after the accepted operations.
	left int64
	// used, held and entries are the increases of S, H and next_entry. body holds the entries.
	used, held, entries int64
	body                []byte
}

// isOver reports whether the epoch's period has ended.
func (s *bucketState) isOver() bool {
	return s.epoch.PeriodEndMS != 0 && s.nowMS >= s.epoch.PeriodEndMS
}

// groupKey identifies a group of holds.
type groupKey struct {
	budget int64
	name   string
}

// groupOf returns the group of holds of an operation. That of a set counts as that of its first
// leg.
func groupOf(op *bucket.Operation) (key groupKey, is bool) {
	key = groupKey{op.Budget.ID, op.Request.Group}
	if op.Set != nil {
		key = groupKey{op.Set.Owner.Budget, op.Set.Group}
	}
	return key, key.name != ""
}

// group is a group of holds that operations of the flight belong to.
type group struct {
	exists, open, joined bool
}

// judgeAll judges every operation. The legs of a set share nothing with each other, because each is
// of another budget: all are judged, and then all are accepted or none.
func (t *trial) judgeAll() {
	now := time.UnixMilli(t.nowMS).UTC()
	var scratch []*limit.Usage
	for i := 0; i < len(t.ops); {
		legs := t.ops[i].Legs()
		fits, all := false, true
		for j := i; j < i+legs; j += max(t.ops[j].Sources.Count, 1) {
			gives := false
			if gives, scratch = t.judgeLeg(i, j, scratch); gives {
				fits = true
			} else {
				all = false
			}
		}
		for j := i; j < i+legs && fits; j++ {
			switch v := &t.out[j].Verdict; {
			case all && *v == bucket.Accepted:
				t.accept(j, t.limits.usages(j, scratch[:0]), now)
			case !all && (*v == bucket.Accepted || *v == bucket.Passed):
				*v = bucket.Fits
			}
		}
		if all {
			t.own(i, now)
		}
		i += legs
	}
}

// judgeLeg judges a leg, of the set that begins with first: its one operation, or its sources, in
// order. It reports whether the leg would be accepted. What a source does not give is asked of the
// next one; if that is unknown, the leg has the source's verdict.
func (t *trial) judgeLeg(first, i int, scratch []*limit.Usage) (gives bool, _ []*limit.Usage) {
	of := t.ops[i].Sources
	if of.Count == 0 {
		scratch = t.limits.usages(i, scratch[:0])
		t.out[i] = t.judge(first, i, scratch)
		return t.out[i].Verdict == bucket.Accepted, scratch
	}
	left := of.Amount
	for j := i; j < i+of.Count; j++ {
		has := ledger.Availability{}
		if a := t.available[t.ops[j].Budget.ID]; a != nil {
			has = *a
		}
		if left == 0 {
			t.out[j] = bucket.Outcome{Verdict: bucket.Passed, Availability: has}
			continue
		}
		t.ops[j].TakePart(left)
		if of.Split && has.Sum() > 0 {
			t.ops[j].TakePart(min(left, has.Sum()))
		}
		scratch = t.limits.usages(j, scratch[:0])
		switch t.out[j] = t.judge(first, j, scratch); t.out[j].Verdict {
		case bucket.Accepted:
			left -= t.ops[j].Request.Amount
		case bucket.Limited, bucket.Exhausted:
			t.out[j].Availability = has
		default:
			return false, scratch
		}
	}
	for j := i; j < i+of.Count; j++ {
		switch v := &t.out[j].Verdict; {
		case left == 0 && *v != bucket.Accepted:
			*v = bucket.Passed
		case left > 0 && *v == bucket.Accepted:
			t.out[j] = bucket.Outcome{Verdict: bucket.Exhausted,
				Availability: *t.available[t.ops[j].Budget.ID]}
		}
	}
	return left == 0, scratch
}

// judge returns the outcome of an operation, which is first itself or a further leg of its set. It
// counts nothing.
func (t *trial) judge(first, i int, usages []*limit.Usage) bucket.Outcome {
	op := &t.ops[i]
	if t.known != nil {
		if d, ok := t.known[t.ops[first].ID()]; ok && d.Decides(op.Request.By) {
			return bucket.Outcome{Verdict: bucket.Known, Deduction: d}
		}
	}
	s := t.epochs[op.Bucket]
	if v := t.refused[op.Budget.ID]; v != 0 {
		return bucket.Outcome{Verdict: v}
	}
	switch {
	case s == nil || s.epoch.Budget != op.Budget.ID || !s.epoch.MayGrow():
		return bucket.Outcome{Verdict: bucket.Gone}
	case s.isOver():
		return bucket.Outcome{Verdict: bucket.Over}
	case op.Budget.Version < s.epoch.Version:
		return bucket.Outcome{Verdict: bucket.Outdated}
	}
	if key, is := groupOf(op); is && !t.groups[key].open {
		return bucket.Outcome{Verdict: bucket.GroupClosed}
	}
	if refused := limit.Exceeded(op.Charges, usages); refused != nil {
		return bucket.Outcome{Verdict: bucket.Limited, Refused: refused}
	}
	if s.unlimited || op.Request.Amount <= s.left {
		return bucket.Outcome{Verdict: bucket.Accepted}
	}
	if a := t.available[op.Budget.ID]; a != nil && op.Request.Amount > a.Sum() {
		return bucket.Outcome{Verdict: bucket.Exhausted, Availability: *a}
	}
	return bucket.Outcome{Verdict: bucket.Short, Remaining: s.left, Guess: s.believed}
}

// accept counts an operation, or a leg of a set, and creates its row.
func (t *trial) accept(i int, usages []*limit.Usage, now time.Time) {
	op, s := &t.ops[i], t.epochs[t.ops[i].Bucket]
	r := &op.Request
	out := &t.out[i]
	if len(usages) > 0 {
		out.Limits = limit.Count(op.Charges, usages)
		t.limits.count(i)
	}
	out.Deduction = ledger.Deduction{Budget: op.Budget.ID, RequestID: r.ID, Amount: r.Amount,
		State: ledger.StateUsed, Group: r.Group, Counts: r.Counts, Fingerprint: r.Fingerprint,
		Nonce: r.Nonce, Reference: r.Reference, Dimensions: r.Dimensions, By: r.By, Bucket: op.Bucket,
		Epoch: s.epoch.Number, CountedAt: now}
	if r.HoldTTL > 0 {
		out.Deduction.State = ledger.StateHeld
		out.Deduction.HoldUntil = engine.FromMS(t.nowMS + r.HoldTTL)
		out.Deduction.Above, out.Deduction.ExpiresAs = r.Above, r.ExpiresAs
		s.held += r.Amount
	} else {
		s.used += r.Amount
	}
	if !s.unlimited {
		s.left -= r.Amount
		if a := t.available[op.Budget.ID]; a != nil {
			spend(a, r.Amount)
		}
	}
	if key, is := groupOf(op); is {
		t.groups[key].joined = true
	}
	if s.entries == 0 || op.Budget.Version < s.judged {
		s.judged = op.Budget.Version
	}
	if s.entries == 0 {
		s.body = ledger.BeginFeed(s.body)
	}
	s.entries++
	s.body = ledger.AppendFeed(s.body, ledger.FeedEntry{Kind: ledger.FeedDeduct, RequestID: r.ID,
		Amount: r.Amount, Held: r.HoldTTL > 0})
	t.accepted++
}

// own makes the row by which a repetition finds an accepted operation, or the set that begins with
// it: the operation's own row, or that of the set.
func (t *trial) own(i int, now time.Time) {
	op, d := &t.ops[i], &t.out[i].Deduction
	id := op.ID()
	if op.Set != nil && id.Budget != 0 { // the row of its own leg lists the others
		d.Legs = t.legsAt(i+1, op.Set.Legs-1)
	} else if op.Set != nil {
		r := &op.Request
		for j := i; d.State == ""; j++ { // a source that gives nothing has no row
			d = &t.out[j].Deduction
		}
		d = &ledger.Deduction{Budget: id.Budget, RequestID: id.RequestID, State: d.State,
			HoldUntil: d.HoldUntil, Group: op.Set.Group, Above: d.Above, ExpiresAs: d.ExpiresAs,
			Fingerprint: r.Fingerprint, Nonce: r.Nonce, Reference: r.Reference, By: r.By, CountedAt: now,
			Legs: t.legsAt(i, op.Set.Legs)}
		t.owners = append(t.owners, d)
	}
	if tombstone, ok := t.known[id]; ok {
		d.VoidFor = tombstone.VoidFor
		t.freed = append(t.freed, id)
	}
	if t.duplicates {
		if t.known == nil {
			t.known = map[bucket.ID]ledger.Deduction{}
		}
		t.known[id] = *d
	}
}

// legsAt returns the legs of n operations as their owner lists them, from an operation on.
func (t *trial) legsAt(i, n int) ledger.Legs {
	legs := make([]ledger.Leg, 0, n)
	for j := i; j < i+n; j++ {
		if d := &t.out[j].Deduction; t.out[j].Verdict == bucket.Accepted {
			legs = append(legs, ledger.Leg{Budget: d.Budget, Bucket: d.Bucket, Epoch: d.Epoch,
				Tied: t.ops[j].Tied, Source: t.ops[j].Source})
		}
	}
	return ledger.PackLegs(legs)
}

// spend subtracts units from a sum, as far as it has them.
func spend(c *ledger.Availability, units int64) {
	for _, part := range []*int64{&c.Outstanding, &c.Returning, &c.Undistributed} {
		taken := min(*part, units)
		*part, units = *part-taken, units-taken
	}
}

// count returns the number of operations with a verdict.
func (t *trial) count(v bucket.Verdict) (n int) {
	for i := range t.out {
		if t.out[i].Verdict == v {
			n++
		}
	}
	return n
}

// remaining writes O of the buckets into the outcomes after all operations were judged.
func (t *trial) remaining() {
	for i := range t.out {
		if o := &t.out[i]; o.Verdict == bucket.Accepted || o.Verdict == bucket.Short {
			o.Remaining = t.epochs[t.ops[i].Bucket].left
		}
	}
}
