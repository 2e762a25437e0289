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
	// freed are the ids of accepted operations whose rows are tombstones of other principals.
	freed []bucket.ID
	// available is what the whole budget has left, for Bring. If it is nil, an operation that does not
	// fit is Short.
	available *ledger.Availability
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

// group is a group of holds that operations of the flight belong to.
type group struct {
	exists, open, joined bool
}

// judgeAll judges every operation.
func (t *trial) judgeAll() {
	now := time.UnixMilli(t.nowMS).UTC()
	var scratch []*limit.Usage
	for i := range t.ops {
		scratch = t.limits.usages(i, scratch[:0])
		t.out[i] = t.judge(i, scratch)
		if t.out[i].Verdict == bucket.Accepted {
			t.accept(i, scratch, now)
		}
	}
}

// judge returns the outcome of an operation. It counts nothing.
func (t *trial) judge(i int, usages []*limit.Usage) bucket.Outcome {
	op := &t.ops[i]
	if t.known != nil {
		if d, ok := t.known[id(op)]; ok && d.Decides(op.Request.By) {
			return bucket.Outcome{Verdict: bucket.Known, Deduction: d}
		}
	}
	s := t.epochs[op.Bucket]
	switch {
	case s == nil || s.epoch.Budget != op.Budget.ID || !s.epoch.MayGrow():
		return bucket.Outcome{Verdict: bucket.Gone}
	case s.isOver():
		return bucket.Outcome{Verdict: bucket.Over}
	case op.Budget.Version < s.epoch.Version:
		return bucket.Outcome{Verdict: bucket.Outdated}
	}
	if name := op.Request.Group; name != "" && !t.groups[groupKey{op.Budget.ID, name}].open {
		return bucket.Outcome{Verdict: bucket.GroupClosed}
	}
	if refused := limit.Exceeded(op.Charges, usages); refused != nil {
		return bucket.Outcome{Verdict: bucket.Limited, Refused: refused}
	}
	if s.unlimited || op.Request.Amount <= s.left {
		return bucket.Outcome{Verdict: bucket.Accepted}
	}
	if t.available != nil && op.Request.Amount > t.available.Sum() {
		return bucket.Outcome{Verdict: bucket.Exhausted, Availability: *t.available}
	}
	return bucket.Outcome{Verdict: bucket.Short, Remaining: s.left, Guess: s.believed}
}

// accept counts an operation and creates its row.
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
	if tombstone, ok := t.known[id(op)]; ok {
		out.Deduction.VoidFor = tombstone.VoidFor
		t.freed = append(t.freed, id(op))
	}
	if r.HoldTTL > 0 {
		out.Deduction.State = ledger.StateHeld
		out.Deduction.HoldUntil = engine.FromMS(t.nowMS + r.HoldTTL)
		out.Deduction.Above = r.Above
		s.held += r.Amount
	} else {
		s.used += r.Amount
	}
	if !s.unlimited {
		s.left -= r.Amount
		if t.available != nil {
			spend(t.available, r.Amount)
		}
	}
	if r.Group != "" {
		t.groups[groupKey{op.Budget.ID, r.Group}].joined = true
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
	if t.duplicates {
		if t.known == nil {
			t.known = map[bucket.ID]ledger.Deduction{}
		}
		t.known[id(op)] = out.Deduction
	}
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
