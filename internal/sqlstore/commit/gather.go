package commit

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

// Gather brings units of a budget into one of its buckets, and commits the operations that wait for
// them there, in one transaction. It takes no more units than needed: first those that came back
// and U, then those of other buckets, the fullest first. Under its locks it sees everything that
// the open period may get, so an operation that does not fit is Exhausted (I3). An operation is
// Short if more epochs hold units than one transaction locks, if a rule forbids the bucket to
// apply, or if units are halted. All operations are Over if a rollover is due.
//
// A repetition is harmless, as with Commit. Errors: BudgetNotFound, Unavailable, OutcomeUnknown,
// Internal. Keeps I1, I2, I3, I4, I6, I7.
func (p *Part) Gather(ctx context.Context, budgetID, bucketID int64, ops []bucket.Operation) (
	[]bucket.Outcome, error) {
	out := make([]bucket.Outcome, len(ops))
	for i, f := range split(ops, out) {
		if err := p.gather(ctx, f, budgetID, bucketID); err != nil {
			if i > 0 && budget.Is(err, budget.Unavailable) {
				err = engine.MaybeDone("gather", err)
			}
			return nil, err
		}
		p.learn(f)
	}
	return out, nil
}

// gather serves a flight in as many steps as it needs to see all epochs. Each step that does not
// suffice brings the units of the epochs that it locked into the target.
func (p *Part) gather(ctx context.Context, f *flight, budgetID, bucketID int64) error {
	const steps = budget.MaxBuckets/(maxBuckets-1) + 2
	for left, step := f, 0; ; step++ {
		var g *gathering
		err := p.redone(ctx, step > 0, func(t *engine.Tx, _ bool) (err error) {
			clear(left.out)
			g, err = gather(t, left, budgetID, bucketID)
			return err
		})
		if err != nil {
			return err
		}
		f.take(left)
		if !g.partial || step == steps {
			return nil
		}
		if left = f.rest(bucket.Short); left == nil {
			return nil
		}
	}
}

// gathering is a trial that also holds the budget's own rows.
type gathering struct {
	trial
	tx     *engine.Tx
	budget *rows.Budget
	// list holds the budget's buckets. target is one of them; donors are others, the fullest first.
	list   []rows.Bucket
	target *rows.Bucket
	donors []*rows.Bucket
	// back lists the epochs whose R moves to U.
	back []*rows.Epoch
	// partial reports that epochs that are not locked may hold units.
	partial bool
	// free is what the target may take of the units that came back, bound what it may take of all
	// of U. potential is the most that it can hold.
	free, bound, potential int64
}

// gather carries out one step.
func gather(t *engine.Tx, f *flight, budgetID, bucketID int64) (*gathering, error) {
	b, err := rows.LockBudget(t, "gather", budgetID)
	if err != nil {
		return nil, err
	}
	g := &gathering{trial: trial{flight: f, nowMS: engine.ToMS(t.Now)}, tx: t, budget: b}
	if b.Due(t.Now) || b.IsOver == 0 && b.PeriodNow().OverAt(t.Now) {
		for i := range f.out {
			f.out[i].Verdict = bucket.Over
		}
		return g, nil
	}
	if g.known, err = rows.LockDeductions(t, f.ids(all)); err != nil {
		return nil, err
	}
	if err := g.trial.lock(t); err != nil {
		return nil, err
	}
	if err := g.lockAll(bucketID); err != nil {
		return nil, err
	}
	if err := g.lookAt(); err != nil {
		return nil, err
	}
	g.judgeAll()
	if err := g.lookAgain(); err != nil {
		return nil, err
	}
	return g, g.move()
}

// lookAgain confirms that operations are Exhausted. It reads the sum once more with locks, because
// the first read may have missed units that came back just before (I3). Each refusal states what
// the operations before it left, as if they had run one after the other.
func (g *gathering) lookAgain() error {
	if g.count(bucket.Exhausted) == 0 {
		return nil
	}
	found, err := covers(&g.tx.Reader, []int64{g.budget.ID}, true)
	if err != nil {
		return err
	}
	cover := found[g.budget.ID]
	for i := range g.out {
		switch o, amount := &g.out[i], g.ops[i].Request.Amount; {
		case o.Verdict == bucket.Accepted:
			spend(&cover, amount)
		case o.Verdict != bucket.Exhausted:
		case amount > cover.Sum():
			o.Cover = cover
		default:
			*o = bucket.Outcome{Verdict: bucket.Short}
		}
	}
	return nil
}

const selectUnits = `SELECT e.bucket_id, e.epoch,
	e.outstanding_quantity + e.returning_quantity AS units
	FROM bucket_epoch e /*by bucket_epoch_units*/ WHERE e.budget_id = ? AND e.has_units = 1`

// holding is an epoch and the units that it holds.
type holding struct {
	Bucket int64 `db:"bucket_id"`
	Epoch  int64 `db:"epoch"`
	Units  int64 `db:"units"`
}

// lockAll locks the target's newest epoch and the epochs that hold units of the budget: at most 64,
// those with the most units.
func (g *gathering) lockAll(bucketID int64) error {
	var err error
	if g.list, err = rows.Buckets(&g.tx.Reader, g.budget.ID); err != nil {
		return err
	}
	for i := range g.list {
		if row := &g.list[i]; row.Epoch.Bucket == bucketID {
			g.target = row
		}
	}
	var found []holding
	if err := g.tx.List(&found, selectUnits, g.budget.ID); err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b holding) int {
		return cmp.Or(cmp.Compare(b.Units, a.Units), cmp.Compare(a.Bucket, b.Bucket),
			cmp.Compare(a.Epoch, b.Epoch))
	})
	positions := make([]rows.Position, 0, maxBuckets)
	if g.target != nil {
		positions = append(positions, g.target.Position())
	}
	for _, e := range found {
		p := rows.Position{Bucket: e.Bucket, Epoch: e.Epoch}
		if slices.Contains(positions, p) {
			continue
		}
		if g.partial = len(positions) == maxBuckets; g.partial {
			break
		}
		positions = append(positions, p)
	}
	locked, err := rows.LockEpochs(g.tx, positions)
	if err != nil {
		return err
	}
	return g.place(locked)
}

// place assigns the locked epochs to their roles: target, donors, and epochs whose R moves to U.
func (g *gathering) place(locked map[rows.Position]*rows.Epoch) error {
	nowMS, err := clockUnder(g.tx, locked)
	if err != nil {
		return err
	}
	for i := range g.list {
		row := &g.list[i]
		if e := locked[row.Position()]; e != nil {
			row.Epoch = *e
			locked[row.Position()] = &row.Epoch
			if row != g.target && row.MayGrow() && row.Period == g.budget.Period &&
				row.Outstanding > 0 {
				g.donors = append(g.donors, row)
			}
		}
	}
	slices.SortFunc(g.donors, func(a, b *rows.Bucket) int {
		return cmp.Or(cmp.Compare(b.Outstanding, a.Outstanding),
			a.Epoch.Position().Compare(b.Epoch.Position()))
	})
	for _, p := range slices.SortedFunc(maps.Keys(locked), rows.Position.Compare) {
		if e := locked[p]; e.Returning > 0 && e.Halted == "" {
			g.back = append(g.back, e)
		}
	}
	g.epochs = map[int64]*bucketState{}
	if g.target == nil {
		return nil
	}
	if row := g.target; row.OfflineBy == string(bucket.ByService) && !row.Live() &&
		g.budget.IsOver == 0 {
		if err := moves.Begin(g.tx, "gather", g.budget, row); err != nil {
			return err
		}
	}
	if g.target.Period == g.budget.Period {
		g.epochs[g.target.Epoch.Bucket] = &bucketState{epoch: g.target.Epoch, nowMS: nowMS,
			unlimited: g.budget.Unlimited == 1, left: g.target.Outstanding}
	}
	return nil
}

// lookAt adds up what the target can get and what the open period may still get in total.
func (g *gathering) lookAt() error {
	if g.target == nil {
		return nil
	}
	s := g.epochs[g.target.Epoch.Bucket]
	if s == nil || !s.epoch.MayGrow() || g.budget.Unlimited == 1 {
		return nil
	}
	found, err := covers(&g.tx.Reader, []int64{g.budget.ID}, false)
	if err != nil {
		return err
	}
	if g.queue = g.partial; !g.partial {
		cover := found[g.budget.ID]
		g.cover = &cover
	}
	if _, err := moves.Sweep(g.tx, g.budget, g.back...); err != nil {
		return err
	}
	g.free, g.bound = g.budget.Undistributed, g.budget.Releasable(g.tx.Now)
	if g.budget.AdjustCnt > 0 {
		if g.free, err = g.cameBack(); err != nil {
			return err
		}
		if g.target.OutCnt >= g.budget.AdjustCnt {
			g.bound = min(g.bound, g.free)
		}
	}
	s.epoch = g.target.Epoch
	s.left = g.target.Outstanding + g.bound
	for _, donor := range g.donors {
		s.left += donor.Outstanding
	}
	g.potential = s.left
	return nil
}

const selectNeverApplied = `SELECT (` + cameBack + `) - (` + applied + `)
	FROM budget_management_bucket u WHERE u.id = ?`

// cameBack returns how much of U came back from buckets: U without what the period got and no
// bucket has applied for.
func (g *gathering) cameBack() (int64, error) {
	var never int64
	if _, err := g.tx.Get(&never, selectNeverApplied, g.budget.ID); err != nil {
		return 0, err
	}
	return max(g.budget.Undistributed-max(never, 0), 0), nil
}

// move brings the units that the accepted operations need into the target, and writes the
// operations.
func (g *gathering) move() error {
	if g.target == nil {
		return nil
	}
	s := g.epochs[g.target.Epoch.Bucket]
	if s == nil {
		return nil
	}
	taken, before := s.used+s.held, g.target.Outstanding
	need := taken - before
	if g.partial && g.count(bucket.Short) > 0 {
		need = g.potential - before // the next step locks the other epochs
	}
	if !s.unlimited && need > 0 {
		if err := g.supply(need, taken); err != nil {
			return err
		}
	}
	s.epoch = g.target.Epoch
	if s.left = g.target.Outstanding; !s.unlimited {
		s.left -= taken
	}
	g.remaining()
	return g.write(g.tx)
}
