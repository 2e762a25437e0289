package counter

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
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
	dry := map[int64][]*op{} // by bucket
	for _, o := range left {
		bk := p.b.Bucket(o.Bucket)
		if bk == nil || bk.Epoch.Status == ledger.Open && !o.short() {
			end([]*op{o}, nil)
			continue
		}
		dry[o.Bucket] = append(dry[o.Bucket], o)
	}
	for id, list := range dry {
		p.bring(ctx, id, list)
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

// bring moves units to one bucket for the operations that wait there. An operation is exhausted
// only after two reads of the sum. The second one locks and begins after the first has ended (I3).
func (p *provision) bring(ctx context.Context, id int64, ops []*op) {
	const rounds = 8
	synced, collected := false, false
	var have, full int64
	if o := ops[0]; o.short() {
		have = o.outcome.Balance
	}
	for _, o := range ops {
		if o.full() {
			full = max(full, o.Epoch)
		}
	}
	var down error
	for range rounds {
		var err error
		if ops, err = p.exhaust(ctx, ops); err != nil || len(ops) == 0 {
			end(ops, err)
			return
		}
		need := max(p.fitting(ops)-have, 1)
		got, err := p.s.ledger.Supply.Apply(ctx, p.b.ID, Want{Bucket: id, Need: need,
			Rate: p.s.rate(id), Collected: collected, Full: full})
		switch {
		case err != nil:
			end(ops, err)
			return
		case got.Units > 0:
			if !p.b.Unlimited {
				p.s.observer.Moved("apply", got.Units)
			}
			have += got.Units
			err = p.s.push(ctx, []int64{id}, -1)
			if err != nil || got.Units >= need {
				end(ops, err)
				return
			}
		case got.Closing:
			if err := p.s.push(ctx, []int64{id}, -1); err != nil {
				end(ops, err)
				return
			}
			have = 0
		case got.Undelivered, synced && got.Barred && got.Outstanding > have: // it gets or got more
			end(ops, p.s.push(ctx, []int64{id}, -1))
			return
		case got.Short > 0 && !synced:
			p.s.syncBudget(ctx, p.b, p.began)
			synced = true
		case got.Short > 0:
			donors, err := p.donors(ctx, id, need, got)
			switch {
			case err != nil:
				end(ops, err)
				return
			case len(donors) == 0 && got.Barred:
				end(ops, scattered(down))
				return
			case len(donors) == 0:
				end(ops, down) // the sum may include units that are still moving: look again
				return
			}
			collected = true
			down = p.s.push(ctx, donors, need)
		default:
			end(ops, nil)
			return
		}
	}
	end(ops, down)
}

// donors returns the buckets from which a bucket receives the units it lacks. If the bucket may not
// apply for undistributed units, another bucket applies instead and becomes the donor.
func (p *provision) donors(ctx context.Context, id, need int64, got Applied) ([]int64, error) {
	donors, err := p.s.ledger.Supply.Collect(ctx, p.b.ID, id, need+got.Kept)
	if err != nil || len(donors) > 0 || got.Other == 0 {
		return donors, err
	}
	other, err := p.s.ledger.Supply.Apply(ctx, p.b.ID, Want{Bucket: got.Other, Need: 1})
	if err != nil || other.Units == 0 {
		return nil, err
	}
	return []int64{got.Other}, nil
}

// scattered is the answer if there are units that the bucket may not receive.
func scattered(cause error) error {
	e := &budget.Error{Code: budget.Unavailable, Op: "deduct", Err: cause, RetryAfter: time.Second,
		Reason:  budget.ReasonCollecting,
		Message: "adjust_cnt allows the bucket no further application; repeat later"}
	return e
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
		covers, err := p.s.ledger.Covers.Covers(ctx, []int64{p.b.ID}, exact)
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

// fitting returns the sum of the first operations that the cover is enough for together.
func (p *provision) fitting(ops []*op) (units int64) {
	for _, o := range ops {
		if o.Amount <= ops[0].cover.Sum()-units {
			units += o.Amount
		}
	}
	return units
}

// turn rolls over a budget's period if that is due.
func (s *Service) turn(ctx context.Context, budgetID int64) error {
	const rounds = 6 // epochs may have been opened meanwhile
	for range rounds {
		turned, err := s.ledger.Periods.RollOver(ctx, budgetID)
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
	ids, err := r.s.ledger.Periods.Over(ctx, limit)
	for _, id := range ids {
		if e := r.s.turn(ctx, id); e != nil && err == nil {
			err = e
		}
	}
	return err
}
