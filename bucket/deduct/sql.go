package deduct

import (
	"context"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/bucket/span"
	"github.com/budgetd/budgetd/budget"
)

// sqlHome is the home in SQL: a transaction decides.
type sqlHome struct {
	s        *Service
	ledger   Ledger
	lookup   Lookup
	rollover Rollover
	refills  Refills
	usedUp   *usedUp
	gate     *Gate
	// balances reads O of buckets, limits how far limits are used.
	balances, limits *batch.Queue[*Op]
}

// newSQLHome returns the home in SQL, with the queue of the node's flights. An operation waits for
// a flight in the air that has its id or a limit row of it.
func newSQLHome(s *Service, c *Config) (h *sqlHome, err error) {
	h = &sqlHome{s: s, ledger: c.Ledger, lookup: c.Lookup, rollover: c.Rollover, refills: c.Refills}
	if h.usedUp, err = newUsedUp(); err != nil {
		return nil, err
	}
	away := c.Away
	if away == nil {
		away = func() time.Duration { return 0 }
	}
	h.gate = NewGate(h, batch.Config[*Op]{Works: works,
		Keys: MaxFlightBuckets, Claims: claims,
		Most: func(usual time.Duration) int { return batch.InTheAir(usual, away()) },
		Size: s.set.FlightRows, Bound: s.set.Queue}, readSize)
	h.balances, h.limits = s.queue(h.readBalances), s.queue(h.readLimits)
	return h, nil
}

// works appends the buckets of an operation.
func works(o *Op, to []int64) []int64 {
	for l := range o.active {
		to = append(to, l.bucketID())
	}
	return to
}

// bucketID returns the bucket of a leg, or 0: that of the ring, or the one that a transaction of
// this node has left as the only one that serves, until the definition says so too.
func (l *Leg) bucketID() int64 {
	if l.Route == nil {
		return 0
	}
	if a := l.State.alone.Load(); a != nil && a.list == l.Budget.ListVersion {
		return a.bucket
	}
	return l.Route.ID
}

// claims appends what an operation has for itself: its deduction, and its limit rows.
func claims(o *Op, to []uint64) []uint64 {
	id := o.id()
	to = append(to, batch.Claim(id.Budget, id.RequestID))
	for l := range o.active {
		for i := range l.Charges {
			t := &l.Charges[i]
			to = append(to, batch.Claim(l.Budget.ID, t.Limit.Dimension, t.Key))
		}
	}
	return to
}

// Count implements Home.
func (h *sqlHome) Count(o *Op, _ time.Time) error { return o.count() }

// count sets what a leg counts against limits. Error: Invalid.
func (l *Leg) count() error {
	counts, err := l.CountsLimits()
	if counts {
		r := l.Request
		l.Charges, _ = l.Budget.LimitSet().Charges(r.Amount, r.Dimensions, r.Counts)
	}
	return err
}

// Next implements Home. What was found hopeless is read again first, for many at a time.
func (h *sqlHome) Next(o *Op, now time.Time) (*batch.Queue[*Op], error) {
	switch {
	case !o.Unsure && h.usedUp.refuses(o, now):
		return h.limits, nil
	case !o.Unsure && o.State.isSoldOut(o.Request.Amount):
		o.remembered = true
		return h.s.inSQL.sums, nil
	case o.Route == nil:
		return nil, nil
	}
	return h.gate.decides, nil
}

// Gate implements Home.
func (h *sqlHome) Gate(*Op) (*Gate, error) { return h.gate, nil }

// RollOver implements Home.
func (h *sqlHome) RollOver(ctx context.Context, budgetID int64) error {
	return h.rollover.RollOver(ctx, budgetID)
}

// Learn implements Home.
func (h *sqlHome) Learn(o *Op, _ time.Time) []budget.LimitState {
	if o.Verdict == bucket.Limited {
		h.usedUp.note(o, o.Outcome.Refused)
		return o.Outcome.Refused
	}
	return o.Outcome.Limits
}

// flights holds the lists of flights between their uses.
var flights = sync.Pool{New: func() any { return new(flight) }}

// flight is the operations of one flight.
type flight struct {
	ops  []*Op
	rows []bucket.Operation
}

// Decide implements Decider: it commits the operations of one flight.
func (h *sqlHome) Decide(ops []*Op) {
	f := flights.Get().(*flight)
	f.claim(ops)
	defer func() {
		clear(f.ops)
		clear(f.rows)
		flights.Put(f)
	}()
	if len(f.ops) == 0 {
		return
	}
	ctx, cancel := h.s.bounded()
	defer cancel()
	began := h.s.clock.Now()
	ctx, end := span.Flight(ctx, h.s.tracer, "flight", f.ops)
	outcomes, err := h.ledger.Commit(ctx, f.rows)
	end(err)
	h.handBack(ctx, StepDecided, f.ops, outcomes, err, began)
}

// claim collects the operations whose requests still wait.
func (f *flight) claim(ops []*Op) {
	f.ops, f.rows = f.ops[:0], f.rows[:0]
	for _, o := range ops {
		if o.Claim() {
			f.ops = append(f.ops, o)
			f.rows = o.operations(f.rows)
		}
	}
}

// operations appends the operations for a transaction, with the newest definitions that are known.
func (o *Op) operations(to []bucket.Operation) []bucket.Operation {
	first := len(to)
	for l := range o.active {
		op := bucket.Operation{Budget: l.Budget, Bucket: l.bucketID(), Request: l.Row,
			Charges: l.Charges, Tied: l.tied, Anywhere: o.set != nil && l.Request.Key == ""}
		if l.from != nil {
			op.Source = l.from.first
		}
		to = append(to, op)
	}
	if o.set != nil {
		o.set.Legs = len(to) - first
		to[first].Set = &o.set.Set
		o.askSources(to[first:])
	}
	return to
}

var errOutcomes = &budget.Error{Code: budget.OutcomeUnknown, Op: "commit",
	Message: "not every deduction got an outcome"}

// handBack returns the operations of a transaction to their calls. An earlier attempt is no longer
// in doubt, because the transaction waited for its connection's locks.
func (h *sqlHome) handBack(ctx context.Context, step Step, ops []*Op, outcomes []bucket.Outcome,
	err error, began time.Time) {
	if err == nil && len(outcomes) != legsIn(ops) {
		err = errOutcomes
	}
	if err != nil {
		h.s.failed("sql", err)
	}
	rows, used := 0, int64(0)
	for _, o := range ops {
		o.Step, o.Err, o.Verdict = step, err, 0
		if err != nil {
			continue
		}
		outcomes = o.take(outcomes)
		if o.Verdict != bucket.Accepted {
			continue
		}
		for l := range o.active {
			units := l.Outcome.Deduction.Amount
			if l.Outcome.Verdict != bucket.Accepted {
				continue
			}
			rows++
			l.Spent = l.State.Spent.Add(units)
			l.State.Recent.Add(units)
			if h.refills != nil && l.Budget.ID != used {
				used = l.Budget.ID
				h.refills.Used(used)
			}
		}
	}
	if rows > 0 {
		h.s.observer.Commit(ctx, rows, h.s.clock.Now().Sub(began))
	}
	for _, o := range ops {
		o.Back(o.Verdict != bucket.Accepted)
	}
}

// Supply implements Home: it commits all operations of a budget that wait in one bucket, into which
// it brings units, and the further legs of its sets in one bucket of their budgets each.
func (h *sqlHome) Supply(_ int64, ops []*Op) {
	var f flight
	f.claim(ops)
	if len(f.ops) == 0 {
		return
	}
	ctx, cancel := h.s.bounded()
	defer cancel()
	began := h.s.clock.Now()
	spent, usual := map[int64]int64{}, map[int64]int64{} // by budget
	for _, o := range f.ops {
		for l := range o.active {
			spent[l.Budget.ID], usual[l.Budget.ID] = l.State.Spent.Load(), l.State.Recent.Usual()
		}
	}
	ctx, end := span.Flight(ctx, h.s.tracer, "bring", f.ops)
	outcomes, err := h.ledger.Bring(ctx, usual, f.rows)
	end(err)
	i := 0
	for _, o := range f.ops {
		for l := range o.active {
			if i < len(outcomes) {
				l.learn(&outcomes[i], spent, began)
			}
			i++
		}
	}
	h.handBack(ctx, stepBrought, f.ops, outcomes, err, began)
}

// learn notes what a transaction that brought units says about the budget of a leg. spent is what
// this node has deducted from each budget, this transaction included.
func (l *Leg) learn(out *bucket.Outcome, spent map[int64]int64, began time.Time) {
	switch out.Verdict {
	case bucket.Accepted:
		spent[l.Budget.ID] += out.Deduction.Amount
		if out.Alone {
			l.State.alone.Store(&alone{l.Budget.ListVersion, out.Deduction.Bucket})
		}
		fallthrough
	case bucket.Exhausted, bucket.Passed:
		if l.from != nil {
			l.State.left.Store(&leftover{l.Budget.Version, out.Availability.Sum(), began})
		}
		l.Sum = &Sum{Availability: out.Availability, At: began, Spent: spent[l.Budget.ID]}
		l.State.note(l.Sum)
	}
}

// advanceSQL decides what follows after a read.
func (c *call) advanceSQL(o *Op) {
	switch {
	case o.Err != nil:
		c.retry(o, o.Err)
	case o.Step == stepBalance:
		c.complete(o)
	case o.Step == stepLimits && len(o.Exceeded) > 0:
		c.find(o, o.Budget.LimitExceeded(o.Exceeded, c.sqlNow))
	case o.Step == stepLimits:
		c.s.sql.usedUp.forget(o)
		c.send(o)
	case o.Recorded != nil && o.Recorded.Decides(o.Request.By):
		c.repeat(o)
	case o.Sum.Sum() < o.Request.Amount:
		c.reply(o, c.exhausted(o))
	case o.remembered:
		o.remembered = false
		o.State.soldOut.Store(0)
		c.send(o)
	default:
		c.out.putFor(o.way.supplies, o.Budget.ID, o)
	}
}
