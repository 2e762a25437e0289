package memstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// shard is a bucket in the memory: its balances by epoch, and its log over all epochs.
type shard struct {
	epochs map[int64]*balance
	log    []line
	// counters are by the epoch that they began with: they outlive it.
	counters map[int64]*counters
}

// balance is the balance hash of an epoch.
type balance struct {
	closed            bool
	activation        int64
	balance           int64
	seq, grantSeq     int64
	granted, deducted int64
	chain             string
	// records are by request id; slice is the slice of time that was written last, 0 before the
	// first record.
	records map[string]remembered
	slice   int64
	// void are the cancelled ids: they stay as long as the epoch.
	void map[string]bool
	// limits is the highest version of the budget's limits that a deduction was admitted by, or asked to load
	// counters of.
	limits int64
}

// remembered is a request record and the slice of time that it was made in.
type remembered struct {
	bucket.Record
	slice int64
}

// line is an entry of a log as a store keeps it.
type line struct {
	epoch, seq int64
	text       string
}

// at compares the line's position with another.
func (l line) at(epoch, seq int64) int {
	return cmp.Or(cmp.Compare(l.epoch, epoch), cmp.Compare(l.seq, seq))
}

// open creates the balance and entry 0 of an epoch. serves is the activation of the lane.
func (b *shard) open(ref bucket.Ref, serves int64) bucket.Reply {
	e := b.epochs[ref.Epoch]
	switch {
	case e != nil && e.closed:
		return e.reply(bucket.EpochClosed)
	case ref.Activation != serves:
		return bucket.Reply{Verdict: bucket.WrongActivation}
	case e != nil && e.activation != ref.Activation:
		return e.reply(bucket.EpochClosed)
	case e != nil:
		return e.reply(bucket.Already)
	case len(b.log) > 0 && b.log[len(b.log)-1].epoch >= ref.Epoch && !safeguard.Off(safeguard.LateOpen):
		reply := bucket.Reply{Verdict: bucket.EpochGone}
		if b.overtaken(ref) {
			reply.Why = b.end()
		}
		return reply
	}
	e = &balance{activation: ref.Activation, seq: -1}
	b.epochs[ref.Epoch] = e
	b.append(ref, e, ledger.OpenLine(ref.Bucket, ref.Epoch, ref.Activation))
	return e.reply(bucket.OK)
}

// grant adds a numbered grant.
func (b *shard) grant(o bucket.GrantOrder, serves int64) bucket.Reply {
	e, stands := b.standing(o.Ref, serves)
	switch {
	case stands != 0:
		return e.reply(stands)
	case o.Number <= e.grantSeq && !safeguard.Off(safeguard.GrantNumbers):
		return e.reply(bucket.Already)
	case o.Number > e.grantSeq+1 && !safeguard.Off(safeguard.GrantOrder):
		return e.reply(bucket.Gap)
	case o.Amount > budget.MaxAmount-e.balance:
		return bucket.Reply{Verdict: bucket.Broken,
			Why: "the balance would exceed the largest amount"}
	case b.overtaken(o.Ref):
		return bucket.Reply{Verdict: bucket.EpochGone}
	}
	b.append(o.Ref, e, ledger.Line(ledger.KindGrant, o.Amount, strconv.FormatInt(o.Number, 10)))
	e.grantSeq, e.balance, e.granted = o.Number, e.balance+o.Amount, e.granted+o.Amount
	return e.reply(bucket.OK)
}

// deduct takes an amount. slice is the present slice of the lane's clock, now its ms since 1970.
func (b *shard) deduct(o bucket.Operation, serves, slice, now int64) bucket.Reply {
	if e := b.epochs[o.Ref.Epoch]; o.Record && e != nil {
		first := e.balance >= o.Amount || !safeguard.Off(safeguard.RecordsFirst)
		if known := e.recorded(o.Request.ID, slice); known != nil && first {
			return e.recordedReply(known)
		}
	}
	e, stands := b.standing(o.Ref, serves)
	switch {
	case stands != 0:
		return e.reply(stands)
	case o.Until > 0 && now >= o.Until && !safeguard.Off(safeguard.PeriodInStore):
		return e.reply(bucket.PeriodOver)
	case e.seq < o.MinSeq && !safeguard.Off(safeguard.SmallestSeq):
		return e.reply(bucket.WentBack)
	}
	var told *bucket.Counted
	var counts *counting
	if o.Record && o.LimitsVersion < e.limits && !safeguard.Off(safeguard.OlderLimits) {
		reply := e.reply(bucket.Outdated)
		if o.Counting != nil {
			reply.Counted = &bucket.Counted{Now: now - o.Counting.Ahead, Over: -1}
		}
		return reply
	}
	if o.Counting != nil {
		var verdict bucket.Verdict
		verdict, told, counts = b.judge(o.Counting, now)
		if verdict != 0 {
			if verdict == bucket.Unloaded {
				counts.hear()
				e.limits = max(e.limits, o.LimitsVersion)
			}
			reply := e.reply(verdict)
			reply.Counted = told
			return reply
		}
	}
	switch {
	case e.balance < o.Amount && !safeguard.Off(safeguard.Balance):
		return e.reply(bucket.Insufficient)
	case o.Ceiling > 0 && e.deducted+o.Amount > o.Ceiling && !safeguard.Off(safeguard.WindowCeiling):
		reply := e.reply(bucket.Behind)
		reply.Deducted = e.deducted
		return reply
	case b.overtaken(o.Ref):
		return bucket.Reply{Verdict: bucket.EpochGone}
	}
	if counts != nil {
		o.Request.At = told.Now
		counts.keep(o.Counting, told)
	}
	b.append(o.Ref, e, ledger.Line(ledger.KindDeduct, o.Amount, ledger.EncodeRequest(o.Request)))
	e.balance, e.deducted = e.balance-o.Amount, e.deducted+o.Amount
	reply := e.reply(bucket.OK)
	reply.Counted = told
	e.limits = max(e.limits, o.LimitsVersion)
	if o.Record {
		reply.Deducted = e.deducted
		e.remember(o.Request.ID, slice, bucket.Record{Seq: e.seq, Nonce: o.Request.Nonce,
			Fingerprint: o.Request.Fingerprint})
	}
	return reply
}

// void leaves a void record.
func (b *shard) void(o bucket.VoidOrder, serves, slice int64) bucket.Reply {
	if e := b.epochs[o.Ref.Epoch]; e != nil {
		if known := e.recorded(o.RequestID, slice); known != nil {
			return e.recordedReply(known)
		}
	}
	e, stands := b.standing(o.Ref, serves)
	if stands != 0 {
		return e.reply(stands)
	}
	if safeguard.Off(safeguard.KeptVoids) {
		e.remember(o.RequestID, slice, bucket.Record{Void: true})
		return e.reply(bucket.OK)
	}
	if e.void == nil {
		e.void = make(map[string]bool)
	}
	e.void[o.RequestID] = true
	return e.reply(bucket.OK)
}

// recorded returns the record of an id: void, or a deduction's of this slice or the one before; nil if
// there is none. A clock that went back counts as being in the slice that was written last.
func (e *balance) recorded(id string, slice int64) *bucket.Record {
	if e.void[id] {
		return &bucket.Record{Void: true}
	}
	known, found := e.records[id]
	if !found || known.slice < max(slice, e.slice)-1 {
		return nil
	}
	return &known.Record
}

// remember records an id, and forgets what is older than the slice before.
func (e *balance) remember(id string, slice int64, record bucket.Record) {
	if e.records == nil {
		e.records = make(map[string]remembered)
	}
	if slice > e.slice {
		e.slice = slice
		maps.DeleteFunc(e.records,
			func(_ string, known remembered) bool { return known.slice < slice-1 })
	}
	e.records[id] = remembered{Record: record, slice: e.slice}
}

func (e *balance) recordedReply(known *bucket.Record) bucket.Reply {
	reply := e.reply(bucket.Recorded)
	reply.Record = known
	return reply
}

// close ends an epoch.
func (b *shard) close(ref bucket.Ref, serves int64) bucket.Reply {
	e, stands := b.standing(ref, serves)
	switch {
	case stands == bucket.EpochClosed:
		return e.reply(bucket.Already)
	case stands != 0:
		return e.reply(stands)
	case b.overtaken(ref):
		return bucket.Reply{Verdict: bucket.EpochGone}
	}
	b.append(ref, e, ledger.Line(ledger.KindClose, e.balance, strconv.FormatInt(e.grantSeq, 10)))
	e.closed, e.balance = true, 0
	return e.reply(bucket.OK)
}

// standing returns the verdict that an epoch gives to every operation, 0 when it is for the
// operation to decide.
func (b *shard) standing(ref bucket.Ref, serves int64) (*balance, bucket.Verdict) {
	e := b.epochs[ref.Epoch]
	switch {
	case e == nil:
		return nil, bucket.EpochGone
	case e.activation != ref.Activation && !safeguard.Off(safeguard.Activation),
		ref.Activation != serves && !safeguard.Off(safeguard.LaneActivation):
		return nil, bucket.WrongActivation
	case e.closed && !safeguard.Off(safeguard.ClosedInStore):
		return e, bucket.EpochClosed
	}
	return e, 0
}

// overtaken reports whether the log holds a later epoch: it refuses an append.
func (b *shard) overtaken(ref bucket.Ref) bool {
	return len(b.log) > 0 && b.log[len(b.log)-1].epoch > ref.Epoch
}

// end is where the log ends, "" for an empty one.
func (b *shard) end() string {
	if len(b.log) == 0 {
		return ""
	}
	last := b.log[len(b.log)-1]
	return fmt.Sprintf("%d-%d", last.epoch, last.seq)
}

// discard deletes a log that ends beyond an epoch, at the place that was seen.
func (b *shard) discard(e bucket.LogEnd) bool {
	if !b.overtaken(e.Ref) || b.end() != e.Last {
		return false
	}
	b.log = nil
	return true
}

// leave deletes a log that holds no later epoch, and the counters that began with epochs up to this one.
func (b *shard) leave(ref bucket.Ref) {
	maps.DeleteFunc(b.counters, func(from int64, _ *counters) bool { return from <= ref.Epoch })
	if !b.overtaken(ref) {
		b.log = nil
	}
}

// append writes the next entry of an epoch.
func (b *shard) append(ref bucket.Ref, e *balance, text string) {
	e.seq++
	e.chain = ledger.Chain(e.chain, text)
	b.log = append(b.log, line{epoch: ref.Epoch, seq: e.seq, text: e.chain + text})
}

// reply is a verdict with the figures of the epoch, if there is one to speak of.
func (e *balance) reply(v bucket.Verdict) bucket.Reply {
	if e == nil {
		return bucket.Reply{Verdict: v}
	}
	return bucket.Reply{Verdict: v, Balance: e.balance, Seq: e.seq}
}

// read returns a part of the log.
func (b *shard) read(c bucket.Cursor, limit int) (out bucket.Extract) {
	for _, l := range b.log {
		if l.epoch != c.Ref.Epoch || l.seq < c.From || len(out.Entries) >= limit {
			continue
		}
		entry, err := ledger.ParseEntry(l.seq, l.text)
		if err != nil {
			out.Err = &ledger.Mismatch{Why: err.Error()}
			return out
		}
		out.Entries = append(out.Entries, entry)
	}
	return out
}

// state reads the balance.
func (b *shard) state(ref bucket.Ref) bucket.Balance {
	e := b.epochs[ref.Epoch]
	if e == nil {
		return bucket.Balance{Verdict: bucket.EpochGone}
	}
	return bucket.Balance{Verdict: bucket.OK, Closed: e.closed, Seq: e.seq, GrantSeq: e.grantSeq,
		Balance: e.balance, Granted: e.granted, Deducted: e.deducted}
}

// trim forgets what comes before a position, but never the last entry.
func (b *shard) trim(c bucket.Cursor) {
	keep := slices.IndexFunc(b.log, func(l line) bool { return l.at(c.Ref.Epoch, c.From) >= 0 })
	if keep < 0 {
		keep = max(len(b.log)-1, 0)
	}
	b.log = slices.Clone(b.log[keep:])
}
