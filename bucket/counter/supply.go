package counter

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// supply finds units for the operations of a budget that lack some, and opens their buckets' epochs
// if they are not open.
func (s *Service) supply(budgetID int64, ops []*op) {
	ctx, cancel := s.bounded()
	defer cancel()
	p := &provision{s: s, began: s.clock.Now()}
	for _, o := range ops {
		if !o.Withdrawn() {
			p.ops = append(p.ops, o)
		}
	}
	if len(p.ops) == 0 {
		return
	}
	p.run(ctx, budgetID)
	for _, o := range p.ops {
		o.Back(true)
	}
}

// provision is one run of supply.
type provision struct {
	s     *Service
	b     *bucket.Budget
	began time.Time
	ops   []*op
}

// end sets the step and the error with which operations return to their waves.
func end(ops []*op, err error) {
	for _, o := range ops {
		o.Step, o.Err = stepSupplied, nil
		if err != nil {
			o.Step, o.Err = deduct.StepFailed, err
		}
	}
}

func (p *provision) run(ctx context.Context, budgetID int64) {
	var err error
	if slices.ContainsFunc(p.ops, func(o *op) bool { return o.turn }) {
		err = p.s.turn(ctx, budgetID)
		for _, o := range p.ops {
			o.turn = false
		}
		end(p.ops, err)
		return
	}
	p.b = p.ops[0].Budget
	left := p.ops
	if err = p.odd(ctx); err == nil {
		left, err = p.hopeful(ctx)
	}
	if len(left) == 0 && err == nil {
		return
	}
	if err == nil {
		p.b, err = p.s.budgets.Reload(ctx, budgetID)
	}
	if err != nil {
		end(left, err)
		return
	}
	left = slices.DeleteFunc(left, func(o *op) bool {
		bk := p.b.Bucket(o.Bucket)
		served := bk == nil || bk.Epoch.Status == ledger.Open && !o.short()
		if served {
			end([]*op{o}, nil)
		}
		return served
	})
	if len(left) > 0 {
		p.rounds(ctx, left)
	}
}

// short reports whether the operation's bucket had too little.
func (o *op) short() bool {
	return o.Step == stepDeducted && o.outcome.Verdict == bucket.Short
}

// full reports whether the epoch of the operation's bucket cannot take the amount, however many
// units the bucket gets: the sum of what it has taken would be above the largest quantity, or the
// budget is unlimited and gives each epoch that quantity once.
func (o *op) full() bool {
	return o.short() && (o.Budget.Unlimited || o.outcome.Balance >= o.Amount)
}

// hopeful returns the operations that units may be found for, and marks the others as exhausted. It
// runs before the definition is read, because most calls after a sell-out end here.
func (p *provision) hopeful(ctx context.Context) ([]*op, error) {
	var short, left []*op
	for _, o := range p.ops {
		if o.short() {
			short = append(short, o)
		} else {
			left = append(left, o)
		}
	}
	if len(short) > 0 {
		var err error
		if short, err = p.exhaust(ctx, short); err != nil {
			return p.ops, err
		}
	}
	return append(left, short...), nil
}

// odd pushes the buckets of operations whose epochs are not open, and ends epochs that were lost.
func (p *provision) odd(ctx context.Context) error {
	var ids []int64
	for _, o := range p.ops {
		if o.Step != stepDeducted {
			ids = append(ids, o.Bucket)
			continue
		}
		l := p.s.partitionOf(o.Route.Partition)
		if o.short() || l == nil {
			continue
		}
		m, err := l.memory(ctx)
		if err != nil {
			return err
		}
		push := pushing{l: l, m: m}
		if err := push.odd(ctx, o.Route.Ref(), o.outcome.Verdict); err != nil {
			return push.failed(err)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return p.s.push(ctx, ids, -1)
}

// rounds moves units to the buckets of all operations that wait, until each has what it waits for
// or nothing more can be found. An operation is exhausted only after two reads of the sum. The
// second one locks and begins after the first has ended (I3).
func (p *provision) rounds(ctx context.Context, ops []*op) {
	const most = 8
	r := p.round(ops)
	var down error
	for range most {
		r.Asks = asks(ops)
		got, err := p.s.ledger.Supply(ctx, p.b.ID, r)
		if err != nil {
			end(ops, err)
			return
		}
		if !p.b.Unlimited && got.Units > 0 {
			p.s.observer.Moved("apply", got.Units)
		}
		begun, failed, err := p.s.pushPatiently(ctx, got.Push, got.Keep)
		if err != nil {
			end(ops, err)
			return
		}
		if len(begun) > 0 {
			p.s.failed("store", p.s.push(ctx, begun, -1))
		}
		down = orFirst(down, p.without(&r, failed))
		ops = p.served(ops, &got, failed)
		maps.Copy(r.Have, got.Have)
		switch {
		case len(ops) == 0:
			return
		case got.Unsynced && !r.Synced:
			r.Synced = true
			down = orFirst(down, p.without(&r, p.sync(ctx)))
		case got.Waits:
			r.Collected = true
		default:
			end(ops, down) // the sum may include units that are still moving: look again
			return
		}
		if ops, err = p.exhaust(ctx, ops); err != nil || len(ops) == 0 {
			end(ops, err)
			return
		}
	}
	end(ops, down)
}

// sync tells SQL what the stores used, as far as they answer.
func (p *provision) sync(ctx context.Context) map[bucket.Partition]error {
	patience, cancel := p.s.patience(ctx)
	defer cancel()
	return p.s.syncBudget(ctx, patience, p.b, p.began)
}

// round returns what the stores said when they had too little.
func (p *provision) round(ops []*op) books.Round {
	r := books.Round{Have: map[books.Position]int64{}, Full: map[books.Position]bool{},
		Rate: map[int64]float64{}, Away: map[int64]bool{}, Recent: ops[0].state.recent.Usual()}
	for _, o := range ops {
		at := books.Position{Bucket: o.Bucket, Epoch: o.Epoch}
		r.Rate[o.Bucket] = p.s.rate(o.Bucket)
		if o.short() {
			r.Have[at] = o.outcome.Balance // the last one is the latest
		}
		if o.full() {
			r.Full[at] = true
		}
	}
	return r
}

// asks returns what operations ask for, each id once.
func asks(ops []*op) []books.Ask {
	seen := make(map[bucket.RecordID]bool, len(ops))
	out := make([]books.Ask, len(ops))
	for i, o := range ops {
		out[i] = books.Ask{Bucket: o.Bucket, Amount: max(o.Amount, 1)}
		if seen[o.RecordID] {
			out[i].Amount = 0
		}
		seen[o.RecordID] = true
	}
	return out
}

// without leaves the buckets of partitions that do not answer out of the following rounds, and
// returns one of their errors.
func (p *provision) without(r *books.Round, failed map[bucket.Partition]error) (err error) {
	for i := range p.b.Buckets {
		bk := &p.b.Buckets[i]
		if e := failed[bk.Partition]; e != nil {
			r.Away[bk.ID] = true
			err = orFirst(err, e)
		}
	}
	return err
}

// served returns the operations that still wait. The others may ask their stores again, or learn
// why they may not.
func (p *provision) served(ops []*op, got *books.Supplied,
	failed map[bucket.Partition]error) (left []*op) {
	for i, o := range ops {
		away := failed[p.b.Bucket(o.Bucket).Partition]
		switch {
		case got.Refused[o.Bucket] != nil:
			end([]*op{o}, got.Refused[o.Bucket])
		case got.Given[i], away != nil:
			end([]*op{o}, away)
		default:
			left = append(left, o)
		}
	}
	return left
}

// exhaust marks the operations whose amounts are above the sum as exhausted, and returns the
// others. An unlimited budget covers every amount.
func (p *provision) exhaust(ctx context.Context, ops []*op) (left []*op, err error) {
	if p.b.Unlimited {
		for _, o := range ops {
			o.cover = ledger.Cover{Undistributed: budget.MaxAmount}
		}
		return ops, nil
	}
	for _, exact := range []bool{false, true} {
		covers, err := p.s.covers.Covers(ctx, []int64{p.b.ID}, exact)
		if err != nil {
			return ops, err
		}
		c, known := covers[p.b.ID]
		if !known {
			return ops, budget.Refuse(budget.BudgetNotFound, "deduct", "budget %s no longer exists",
				p.b.Name)
		}
		all := true
		for _, o := range ops {
			o.cover = c
			all = all && o.Amount <= c.Sum()
		}
		if all {
			return ops, nil
		}
	}
	for _, o := range ops {
		if o.Amount > o.cover.Sum() {
			o.Step, o.Err = stepExhausted, nil
			continue
		}
		left = append(left, o)
	}
	return left, nil
}

// turn rolls over a budget's period if that is due.
func (s *Service) turn(ctx context.Context, budgetID int64) error {
	const rounds = 6 // epochs may have been opened meanwhile
	for range rounds {
		turned, err := s.ledger.RollOver(ctx, budgetID)
		if err != nil {
			return err
		}
		// The epochs of a partition that is down stay closing. Their units go where the rule says.
		s.failed("store", s.push(ctx, slices.Concat(turned.Closing, turned.Begun), -1))
		if len(turned.Closing) == 0 {
			break
		}
	}
	_, err := s.budgets.Reload(ctx, budgetID)
	return err
}

// RolloverLoop rolls over budgets whose period is over.
type RolloverLoop struct{ s *Service }

// RunOnce rolls over at most 100 budgets. It returns the first error.
func (r *RolloverLoop) RunOnce(ctx context.Context) error {
	const limit = 100
	ids, err := r.s.ledger.Over(ctx, limit)
	for _, id := range ids {
		if e := r.s.turn(ctx, id); e != nil && err == nil {
			err = e
		}
	}
	return err
}
