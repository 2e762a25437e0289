package memstore

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// shard is a bucket in the memory: its balances by epoch, and its log over all epochs.
type shard struct {
	epochs map[int64]*balance
	log    []line
}

// balance is the balance hash of an epoch.
type balance struct {
	closed            bool
	activation        int64
	balance           int64
	seq, grantSeq     int64
	granted, deducted int64
	chain             string
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
	case ref.Activation != serves || e != nil && e.activation != ref.Activation:
		return bucket.Reply{Verdict: bucket.WrongActivation}
	case e != nil:
		return e.reply(bucket.Already)
	case len(b.log) > 0 && b.log[len(b.log)-1].epoch >= ref.Epoch:
		return bucket.Reply{Verdict: bucket.EpochGone}
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
	case o.Number <= e.grantSeq:
		return e.reply(bucket.Already)
	case o.Number > e.grantSeq+1:
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

// deduct takes an amount.
func (b *shard) deduct(o bucket.Operation, serves int64) bucket.Reply {
	e, stands := b.standing(o.Ref, serves)
	switch {
	case stands != 0:
		return e.reply(stands)
	case e.seq < o.MinSeq:
		return e.reply(bucket.WentBack)
	case e.balance < o.Amount:
		return e.reply(bucket.Insufficient)
	case b.overtaken(o.Ref):
		return bucket.Reply{Verdict: bucket.EpochGone}
	}
	b.append(o.Ref, e, ledger.Line(ledger.KindDeduct, o.Amount, ledger.EncodeRequest(o.Request)))
	e.balance, e.deducted = e.balance-o.Amount, e.deducted+o.Amount
	return e.reply(bucket.OK)
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
	case e.activation != ref.Activation || ref.Activation != serves:
		return nil, bucket.WrongActivation
	case e.closed:
		return e, bucket.EpochClosed
	}
	return e, 0
}

// overtaken reports whether the log holds a later epoch: it refuses an append.
func (b *shard) overtaken(ref bucket.Ref) bool {
	return len(b.log) > 0 && b.log[len(b.log)-1].epoch > ref.Epoch
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
