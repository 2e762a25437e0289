package commit

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const (
	// maxHints is the number of buckets whose present epoch is remembered.
	maxHints = 1 << 16
	// sureAttempts bounds the attempts at a transaction that may have been committed.
	sureAttempts = 64
	// repeatsAhead is the number of flights that read their ids before they write, after a flight
	// with recorded ids.
	repeatsAhead = 64
)

// Decider commits deductions and reads what they are judged by. It is safe for concurrent use.
type Decider struct {
	db *engine.DB
	// hints has what flights found in buckets. The fast form relies on it, and fails if it is wrong.
	hints    *lru.Cache[int64, hint]
	counters *counterHints
	air      inAir
	// repeats is the number of coming flights that read their ids before they write.
	repeats atomic.Int64
	// packets and lockings count flights by the form that completed them.
	packets, lockings atomic.Int64
}

// hint is a bucket's present epoch and its O after the last flight.
type hint struct{ epoch, outstanding int64 }

// inAir is what packets in the air take from buckets, which may not be there for others.
type inAir struct {
	mu    sync.Mutex
	units map[int64]int64
}

// add adds what the accepted operations of a trial take, sign times.
func (a *inAir) add(t *trial, sign int64) {
	a.mu.Lock()
	for id, s := range t.epochs {
		if units := sign * s.drawn(); units != 0 {
			if a.units[id] += units; a.units[id] == 0 {
				delete(a.units, id)
			}
		}
	}
	a.mu.Unlock()
}

func (a *inAir) of(bucketID int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.units[bucketID]
}

// New returns the Decider of a database.
func New(db *engine.DB) *Decider {
	hints, err := lru.New[int64, hint](maxHints)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &Decider{db: db, hints: hints, counters: newCounterHints(),
		air: inAir{units: map[int64]int64{}}}
}

// Commit judges operations in order and writes the accepted ones. It uses one transaction for up to
// 1,000 operations in at most 512 buckets with at most 1 MiB of text, and several beyond that. The
// outcomes are in the order of the operations.
//
// Repeating the same operations is harmless: a row with an operation's nonce is that operation's
// own, and the operation is Known. Errors: Unavailable, nothing was written; OutcomeUnknown, some
// or all may have been written; Internal. Keeps I1, I2, I4, I6, I7.
func (d *Decider) Commit(ctx context.Context, ops []bucket.Operation) ([]bucket.Outcome, error) {
	d.gather(ops)
	out := make([]bucket.Outcome, len(ops))
	for i, f := range split(ops, out) {
		if err := d.commit(ctx, f); err != nil {
			if i > 0 && budget.Is(err, budget.Unavailable) {
				err = engine.MaybeDone("commit", err)
			}
			return nil, err
		}
	}
	return out, nil
}

// gather lets the operations of a budget that any bucket may serve share one that is believed to
// cover them, so that a flight has fewer rows to change.
func (d *Decider) gather(ops []bucket.Operation) {
	shared := map[int64]*struct{ bucket, left int64 }{} // by budget
	for i := range ops {
		op := &ops[i]
		if !op.Anywhere {
			continue
		}
		in := shared[op.Budget.ID]
		if in == nil || in.left < op.Request.Amount {
			known, ok := d.hints.Get(op.Bucket)
			if !ok {
				continue
			}
			in = &struct{ bucket, left int64 }{op.Bucket, known.outstanding - d.air.of(op.Bucket)}
			if op.Budget.Unlimited {
				in.left = math.MaxInt64
			}
			shared[op.Budget.ID] = in
		}
		if in.left >= op.Request.Amount {
			op.Bucket = in.bucket
			in.left -= op.Request.Amount
		}
	}
}

// commit commits one flight.
func (d *Decider) commit(ctx context.Context, f *flight) error {
	unsure := false
	if d.db.TakesPackets() {
		ids := d.repeats.Load() > 0
		hinted, sent, err := d.fastForm(ctx, f, ids, false)
		taken := sent == engine.Failed && engine.IsTaken(err) && !ids
		if taken {
			d.repeats.Store(repeatsAhead)
		}
		if taken || sent == engine.Failed && hinted {
			_, sent, err = d.fastForm(ctx, f, ids || taken, true)
		}
		switch {
		case sent == engine.Committed:
			d.packets.Add(1)
			return nil
		case sent == engine.NoReply && err != nil:
			return err // the outcome of the packet is not final
		}
		unsure = sent == engine.NoReply
	}
	d.lockings.Add(1)
	defer d.counters.forget(f)
	return d.sure(ctx, unsure, func(first bool) error { return d.locked(ctx, f, first) })
}

// locked runs the locking form.
func (d *Decider) locked(ctx context.Context, f *flight, first bool) error {
	guess := first && !d.db.TakesPackets() && d.repeats.Load() <= 0
	err := d.lockingForm(ctx, f, guess)
	if guess && err != nil {
		err = d.lockingForm(ctx, f, false)
	}
	if err == nil {
		d.rememberHints(f)
	}
	return err
}

// rememberHints stores the epochs and units that a flight found.
func (d *Decider) rememberHints(f *flight) {
	known := false
	for i := range f.out {
		switch o := &f.out[i]; o.Verdict {
		case bucket.Accepted:
			d.hints.Add(f.ops[i].Bucket, hint{o.Deduction.Epoch, o.Remaining})
		case bucket.Known:
			known = true
		case bucket.Gone, bucket.Over:
			d.hints.Remove(f.ops[i].Bucket)
		}
	}
	if known {
		d.repeats.Store(repeatsAhead)
	}
}

// sure runs a transaction until it is certain whether it was committed, or until the context ends.
// The argument of run marks the first attempt. unsure means that another form of the transaction
// may have been committed.
func (d *Decider) sure(ctx context.Context, unsure bool, run func(first bool) error) (err error) {
	for attempt := 1; attempt <= sureAttempts; attempt++ {
		err = run(attempt == 1 && !unsure)
		unsure = unsure || budget.Is(err, budget.OutcomeUnknown)
		if !unsure || err == nil || !budget.Is(err, budget.OutcomeUnknown) &&
			!budget.Is(err, budget.Unavailable) {
			break
		}
		if d.db.Pause(ctx, attempt) != nil {
			break
		}
	}
	if unsure && err != nil && !budget.Is(err, budget.OutcomeUnknown) {
		err = engine.MaybeDone("commit", err)
	}
	return err
}
