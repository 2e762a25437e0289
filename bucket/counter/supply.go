package counter

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// Supply implements deduct.Home. It finds units for the operations of a budget that lack some, and
// opens their buckets' epochs if they are not open.
func (s *Service) Supply(budgetID int64, ops []*deduct.Op) {
	ctx, cancel := s.bounded()
	defer cancel()
	p := &supply{s: s, began: s.clock.Now()}
	for _, o := range ops {
		if o.Granted = 0; !o.Withdrawn() {
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

// supply is one run of Supply.
type supply struct {
	s     *Service
	b     *bucket.Budget
	began time.Time
	ops   []*deduct.Op
}

// end sets the step and the error with which operations return to their calls.
func end(ops []*deduct.Op, err error) {
	for _, o := range ops {
		o.Step, o.Err = deduct.StepSupplied, nil
		if err != nil {
			o.Step, o.Err = deduct.StepFailed, err
		}
	}
}

func (p *supply) run(ctx context.Context, budgetID int64) {
	p.b = p.ops[0].Budget
	left, err := p.ops, p.handleLost(ctx)
	if err == nil {
		left, err = p.lookFirst(ctx)
	}
	if len(left) == 0 && err == nil {
		return
	}
	if err == nil {
		err = p.read(ctx, left)
	}
	if err != nil {
		end(left, err)
		return
	}
	left = slices.DeleteFunc(left, func(o *deduct.Op) bool {
		bk := p.b.Bucket(o.Route.ID)
		served := bk == nil || bk.Epoch.Status == ledger.Open && !isShort(o)
		if served {
			end([]*deduct.Op{o}, nil)
			if bk != nil {
				o.Granted = bk.Epoch.Number
			}
		}
		return served
	})
	if len(left) > 0 {
		p.rounds(ctx, left)
		p.learn(ctx, left)
	}
}

// learn reads the definition once for all operations whose buckets began epochs. They read it
// themselves if it cannot be read now.
func (p *supply) learn(ctx context.Context, ops []*deduct.Op) {
	if slices.ContainsFunc(ops, func(o *deduct.Op) bool {
		return o.Step == deduct.StepSupplied && o.Granted != 0 && o.Granted != o.Route.Epoch.Number
	}) {
		_, err := p.s.budgets.Reload(ctx, p.b.ID)
		p.s.failed("sql", err)
	}
}

// read reads the definition, unless all operations are short and a fresh one is cached: then only
// the partitions of buckets are needed.
func (p *supply) read(ctx context.Context, ops []*deduct.Op) (err error) {
	if !slices.ContainsFunc(ops, func(o *deduct.Op) bool { return !isShort(o) }) {
		if b := p.s.budgets.Fresh(bucket.BudgetRef{ID: p.b.ID}); b != nil {
			p.b = b
			return nil
		}
	}
	p.b, err = p.s.budgets.Reload(ctx, p.b.ID)
	return err
}

// isShort reports whether the operation's bucket had too little.
func isShort(o *deduct.Op) bool {
	return o.Step == deduct.StepDecided && o.Verdict == bucket.Short
}

// isFull reports whether the epoch of the operation's bucket cannot take the amount, however many
// units the bucket gets: the sum of what it has taken would be above the largest quantity, or the
// budget is unlimited and gives each epoch that quantity once.
func isFull(o *deduct.Op) bool {
	return isShort(o) && (o.Budget.Unlimited || o.Stored.Balance >= o.Row.Amount)
}

// lookFirst returns the operations that units may be found for, and marks the others as exhausted.
// It runs before the definition is read, because most calls after a sell-out end here.
func (p *supply) lookFirst(ctx context.Context) ([]*deduct.Op, error) {
	var short, left []*deduct.Op
	for _, o := range p.ops {
		if isShort(o) {
			short = append(short, o)
		} else {
			left = append(left, o)
		}
	}
	if len(short) > 0 {
		var err error
		if short, err = p.covered(ctx, short); err != nil {
			return p.ops, err
		}
	}
	return append(left, short...), nil
}

// handleLost pushes the buckets of operations whose epochs are not open, and ends epochs that were
// lost.
func (p *supply) handleLost(ctx context.Context) error {
	var ids []int64
	for _, o := range p.ops {
		if o.Step != deduct.StepDecided {
			ids = append(ids, o.Route.ID)
			continue
		}
		l := p.s.partitionOf(o.Route.Partition)
		if isShort(o) || l == nil {
			continue
		}
		m, err := l.memory(ctx)
		if err != nil {
			return err
		}
		push := pushing{l: l, m: m}
		if err := push.handleLost(ctx, o.Route.Ref(), o.Verdict); err != nil {
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
func (p *supply) rounds(ctx context.Context, ops []*deduct.Op) {
	const most = 8
	r := p.round(ops)
	var down error
	for range most {
		r.Asks = asks(ops)
		got, tasks, err := p.s.ledger.Supply(ctx, p.b.ID, r)
		if err != nil {
			end(ops, err)
			return
		}
		if !p.b.Unlimited && got.Units > 0 {
			p.s.observer.Moved("apply", got.Units)
		}
		begun, failed, err := p.s.pushPatiently(ctx, tasks, got.Keep)
		if err != nil {
			end(ops, err)
			return
		}
		if len(begun) > 0 {
			p.s.failed("store", p.s.push(ctx, begun, -1))
		}
		down = orFirst(down, p.without(&r, failed))
		ops = p.served(ops, &got, tasks, failed)
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
		if ops, err = p.covered(ctx, ops); err != nil || len(ops) == 0 {
			end(ops, err)
			return
		}
	}
	end(ops, down)
}

// sync tells SQL what the stores used, as far as they answer.
func (p *supply) sync(ctx context.Context) map[bucket.Partition]error {
	patience, cancel := p.s.patience(ctx)
	defer cancel()
	return p.s.syncBudget(ctx, patience, p.b, p.began)
}

// round returns what the stores said when they had too little.
func (p *supply) round(ops []*deduct.Op) books.Round {
	r := books.Round{Have: map[books.Position]int64{}, Full: map[books.Position]bool{},
		Rate: map[int64]float64{}, Away: map[int64]bool{}, Recent: ops[0].State.Recent.Usual()}
	for _, o := range ops {
		at := books.Position{Bucket: o.Route.ID, Epoch: o.Route.Epoch.Number}
		r.Rate[o.Route.ID] = p.s.rate(o.Route.ID)
		if isShort(o) {
			r.Have[at] = o.Stored.Balance // the last one is the latest
		}
		if isFull(o) {
			r.Full[at] = true
		}
	}
	return r
}

// asks returns what operations ask for, each id once.
func asks(ops []*deduct.Op) []books.Ask {
	seen := make(map[bucket.RecordID]bool, len(ops))
	out := make([]books.Ask, len(ops))
	for i, o := range ops {
		out[i] = books.Ask{Bucket: o.Route.ID, Amount: max(o.Row.Amount, 1)}
		if seen[recordID(o)] {
			out[i].Amount = 0
		}
		seen[recordID(o)] = true
	}
	return out
}

// without leaves the buckets of partitions that do not answer out of the following rounds, and
// returns one of their errors.
func (p *supply) without(r *books.Round, failed map[bucket.Partition]error) (err error) {
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
func (p *supply) served(ops []*deduct.Op, got *books.Supplied, tasks []store.Task,
	failed map[bucket.Partition]error) (left []*deduct.Op) {
	granted := map[int64]int64{}
	for i := range tasks {
		granted[tasks[i].Bucket] = tasks[i].Epoch
	}
	for i, o := range ops {
		if o.Granted = 0; got.Given[i] {
			o.Granted = granted[o.Route.ID]
		}
		away := failed[p.b.Bucket(o.Route.ID).Partition]
		switch {
		case got.Refused[o.Route.ID] != nil:
			end([]*deduct.Op{o}, got.Refused[o.Route.ID])
		case got.Given[i], away != nil:
			end([]*deduct.Op{o}, away)
		default:
			left = append(left, o)
		}
	}
	return left
}

// covered returns the operations whose amounts are not above the sum, and marks the others as
// exhausted. An unlimited budget covers every amount.
func (p *supply) covered(ctx context.Context, ops []*deduct.Op) (left []*deduct.Op, err error) {
	if p.b.Unlimited {
		return ops, nil
	}
	for _, exact := range []bool{false, true} {
		available, err := p.s.available.Availability(ctx, []int64{p.b.ID}, exact)
		if err != nil {
			return ops, err
		}
		c, known := available[p.b.ID]
		if !known {
			return ops, budget.Refuse(budget.BudgetNotFound, "deduct", "budget %s no longer exists",
				p.b.Name)
		}
		sum := &deduct.Sum{Availability: c}
		left = left[:0]
		for _, o := range ops {
			o.Sum = sum
			if o.Row.Amount <= c.Sum() {
				left = append(left, o)
			}
		}
		if len(left) == len(ops) {
			return ops, nil
		}
	}
	for _, o := range ops {
		if o.Row.Amount > o.Sum.Sum() {
			o.Step, o.Err = deduct.StepExhausted, nil
		}
	}
	return left, nil
}

// RollOver implements deduct.Home.
func (s *Service) RollOver(ctx context.Context, budgetID int64) error {
	const rounds = 6 // epochs may have been opened meanwhile
	for range rounds {
		rolled, err := s.ledger.RollOver(ctx, budgetID)
		if err != nil {
			return err
		}
		// The epochs of a partition that is down stay closing. Their units go where the rule says.
		s.failed("store", s.push(ctx, slices.Concat(rolled.Closing, rolled.Begun), -1))
		if len(rolled.Closing) == 0 {
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
		if e := r.s.RollOver(ctx, id); e != nil && err == nil {
			err = e
		}
	}
	return err
}
