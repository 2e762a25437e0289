package bucket

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
	"github.com/budgetd/budgetd/ledger"
)

// findUnits looks for units after asked did not cover the amount (nil: no bucket was asked) and
// sets the target that the next round tries (DESIGN 5.7 and 5.8): apply for the bucket asked; else
// the next online bucket that covers it, while the one asked goes offline if it holds only a
// fragment; else a collect.
func (a *attempt) findUnits(ctx context.Context, b *Budget, asked *Bucket, balance int64) error {
	shared := int64(0)
	if asked != nil {
		c, err := a.s.cover(ctx, a.entry)
		if err != nil {
			return err
		}
		shared = b.shared(c)
		if c.Undistributed > 0 {
			wish := applyWish{budget: b, bucket: asked, need: a.amount - balance, undistributed: c.Undistributed}
			got, err := a.s.applying.do(ctx, asked.ID, wish)
			if err != nil {
				return err
			}
			if got > 0 && balance+got >= a.amount {
				a.target = asked.ID
				return nil
			}
		}
	}
	if next, err := a.next(ctx, b); err != nil || next != 0 {
		a.target = next
		if asked != nil && err == nil && fragment.Is(balance, shared, len(b.Ring())) {
			a.s.retire(b, asked, next, shared)
		}
		return err
	}
	got, err := a.s.collects.do(ctx, b.ID, collectWish{entry: a.entry, amount: a.amount, preferred: a.preferred(b)})
	switch {
	case errors.Is(err, errFull):
		return err
	case err != nil:
		return nil // units are on their way, or SQL failed just now: look again until the deadline
	case got.moved == 0 && got.outOfReach > 0 && got.inReach < a.amount:
		return unavailable("deduct", fmt.Errorf("%d units cannot be reached: their store is down or their bucket is fenced", got.outOfReach))
	}
	a.reread(ctx)
	if got.moved > 0 {
		a.target = got.target.Bucket
	}
	return nil
}

// shared is what the even share of a bucket is of: the total, and of a daily budget what its open period
// still has.
func (b *Budget) shared(c Cover) int64 {
	if b.Type == budget.Daily {
		return c.Sum()
	}
	return b.TotalQuantity
}

// next returns the next online bucket clockwise that covers the amount by the ledger, 0 if none.
func (a *attempt) next(ctx context.Context, b *Budget) (int64, error) {
	refs := make([]Ref, 0, len(b.Buckets))
	for i := range b.Buckets {
		if bk := &b.Buckets[i]; bk.Online && bk.Epoch.Status == ledger.Open && !a.dry[bk.ID] {
			refs = append(refs, bk.Ref())
		}
	}
	if len(refs) == 0 {
		return 0, nil
	}
	rows, err := a.s.sql.Epochs(ctx, refs)
	if err != nil {
		return 0, err
	}
	i := a.s.ringOf(len(b.Ring())).LocateIndex(a.key, func(i int) bool {
		bk := &b.Buckets[i]
		row, ok := rows[bk.Ref()]
		l := a.s.lanes[bk.Lane]
		return !ok || a.dry[bk.ID] || row.Status != ledger.Open || row.Fenced != "" || row.Outstanding < a.amount ||
			l == nil || !a.s.usable(l, row.Activation)
	})
	if i < 0 {
		return 0, nil
	}
	return b.Buckets[i].ID, nil
}

// preferred is the bucket a collect brings units to: where the key belongs.
func (a *attempt) preferred(b *Budget) int64 {
	a.dry = nil
	if bk := a.pick(b); bk != nil {
		return bk.ID
	}
	return 0
}

// retire takes a bucket that holds only a fragment of its share of `shared` offline, in the background;
// what it holds goes to the bucket that is asked next. A bucket whose units are on their way to it is none,
// whatever its store has by now.
func (s *Service) retire(b *Budget, bk *Bucket, next, shared int64) {
	id, lane, ref := b.ID, bk.Lane, bk.Ref()
	var target *Target
	for i := range b.Buckets {
		if b.Buckets[i].ID == next {
			target = &Target{Lane: b.Buckets[i].Lane, Ref: b.Buckets[i].Ref()}
		}
	}
	if _, busy := s.busy.LoadOrStore(bk.ID, struct{}{}); busy {
		return
	}
	s.later("retire", func(ctx context.Context) {
		rows, err := s.sql.Epochs(ctx, []Ref{ref})
		if err != nil {
			s.failed("sql", err)
			return
		}
		if !fragment.Is(rows[ref].Outstanding, shared, len(b.Ring())) {
			return
		}
		err = s.endEpoch(ctx, id, lane, ref, ByService, false, target)
		if err != nil && !budget.Is(err, budget.LastBucket) {
			s.log.Warn("bucket not taken offline", "bucket", ref.Bucket, "error", err)
		}
	}, func() { s.busy.Delete(bk.ID) })
}

// collectWish is one waiting request's part in a collect.
type collectWish struct {
	entry     *cached
	amount    int64
	preferred int64
}

// collected is what a collect did.
type collected struct {
	target Ref
	moved  int64
	// inReach is what the budget covers (I3's sum) less outOfReach: units in buckets whose lane is
	// down or that are fenced.
	inReach, outOfReach int64
	// releasable says that some bucket may apply for what is undistributed.
	releasable bool
}

// errNoTarget says that no lane of this node can be used.
var errNoTarget = errors.New("no store can be reached")

// collectFor is one collect for all requests of a budget that wait on this node. One run goes on per
// budget across all nodes: whoever finds another one helps to finish that.
func (s *Service) collectFor(budgetID int64, wishes []collectWish) []result[collected] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	got, err := s.collect(ctx, budgetID, wishes)
	if err != nil {
		return failAll[collected](len(wishes), err)
	}
	out := make([]result[collected], len(wishes))
	for i := range out {
		out[i].answer = got
	}
	return out
}

func (s *Service) collect(ctx context.Context, budgetID int64, wishes []collectWish) (collected, error) {
	entry := wishes[0].entry
	if err := s.budgets.reload(ctx, entry); err != nil {
		return collected{}, err
	}
	b := entry.value.Load()
	chosen := s.collectTarget(b, wishes[0].preferred)
	units := int64(0)
	for _, w := range wishes {
		// Where requests do not move, what is brought to one bucket is of no use to those of another.
		if !b.inStoreMode() || w.preferred == wishes[0].preferred {
			units = min(units+w.amount, budget.MaxAmount)
		}
	}
	if chosen == nil { // every lane is down, or every epoch is changing
		s.settleBudgets(ctx, []int64{b.ID})
		got := collected{}
		_, err := s.reach(ctx, b, &got)
		return got, err
	}
	run, err := s.sql.BeginRun(ctx, Run{Budget: budgetID, Target: chosen.Ref(), Units: units})
	if err != nil {
		return collected{}, err
	}
	// Another node's run, or one that was left open, decides where the units go; how many are needed
	// is what waits here and now.
	run.Units = units
	got, err := s.runCollect(ctx, b, run)
	if err != nil {
		return collected{}, err // the run stays open: whoever comes next finishes it
	}
	if err := s.sql.EndRun(ctx, budgetID, run.Number, got.moved); err != nil {
		return collected{}, err
	}
	s.observer.Moved("collect", got.moved)
	return got, nil
}

// collectTarget is the preferred bucket if it can take units, else any that can.
func (s *Service) collectTarget(b *Budget, preferred int64) *Bucket {
	var any *Bucket
	only := b.inStoreMode() // there requests do not move, so only their own bucket helps
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		l := s.lanes[bk.Lane]
		if !bk.Online || bk.Epoch.Status != ledger.Open || bk.Epoch.Fenced != "" || l == nil ||
			!s.usable(l, bk.Epoch.Activation) {
			continue
		}
		if bk.ID == preferred {
			return bk
		}
		if any == nil && !only {
			any = bk
		}
	}
	return any
}

// runCollect brings units to the run's target until it holds what the run asks for: what is on its
// way back (R), what is undistributed, then the largest donors, each of which goes offline and
// gives all it holds in the transaction that closes it, or a part (collectFrom).
func (s *Service) runCollect(ctx context.Context, b *Budget, run Run) (collected, error) {
	got := collected{target: run.Target}
	var target *Target
	for i := range b.Buckets {
		if b.Buckets[i].Ref() == run.Target {
			target = &Target{Lane: b.Buckets[i].Lane, Ref: run.Target}
		}
	}
	swept, err := s.sql.Sweep(ctx, b.ID)
	if err != nil {
		return got, err
	}
	rows, err := s.reach(ctx, b, &got)
	if err != nil {
		return got, err
	}
	row := rows[run.Target]
	if target == nil || row.Status != ledger.Open || row.Fenced != "" || !s.reachable(target.Lane, target.Ref) {
		return got, nil // its target is gone: end it, the next one chooses another
	}
	need := run.Units - row.Outstanding
	// What the ledger shows as outstanding may be deducted already and not committed yet: the store's
	// balance is what counts for the waiting requests.
	if balance, ok := s.balanceOf(ctx, target); ok {
		need = run.Units - balance
	}
	ask := need
	if !got.releasable {
		ask = min(need, swept) // no bucket may apply for the rest
	}
	if ask > 0 {
		order, err := s.sql.Apply(ctx, b.ID, Want{Ref: run.Target, Need: 1, Units: ask, Unbounded: true})
		if err != nil {
			return got, err
		}
		if order != nil {
			s.sendGrants(ctx, target.Lane, []GrantOrder{*order})
			need, got.moved = need-order.Amount, got.moved+order.Amount
		}
	} else if need <= 0 {
		got.moved = row.Outstanding // it holds enough already: worth asking
	}
	given, err := s.collectFrom(ctx, b, rows, target, need)
	got.moved += given
	return got, err
}

// reach reads the newest epochs of a budget and says how much of what it covers can be had.
func (s *Service) reach(ctx context.Context, b *Budget, got *collected) (map[Ref]ledger.Epoch, error) {
	refs := make([]Ref, len(b.Buckets))
	for i := range b.Buckets {
		refs[i] = b.Buckets[i].Ref()
	}
	rows, err := s.sql.Epochs(ctx, refs)
	if err != nil {
		return nil, err
	}
	j, err := s.sql.Judge(ctx, b.ID, nil)
	if err != nil {
		return nil, err
	}
	down := 0
	for i := range b.Buckets {
		row, isDown := rows[refs[i]], s.isDown(b.Buckets[i].Lane)
		if by := b.Buckets[i].OfflineBy; isDown || by == ByOperator || by == ByResize {
			down++
		}
		older := row.Period != j.Period.Number && allocation.Unused(b.Definition) != budget.Next && !allocation.IsWhole(b.Definition)
		if row.Status.Live() && (row.Fenced != "" || isDown) && !older { // the open period gets nothing of what is older
			got.outOfReach += row.Outstanding
		}
	}
	if down == len(b.Buckets) {
		got.outOfReach = j.Cover.Sum() // nor is there a bucket that the rest may be brought to
	}
	got.inReach, got.releasable = j.Cover.Sum()-got.outOfReach, j.Cover.Undistributed > 0
	return rows, nil
}

// balanceOf reads what a bucket holds in its store.
func (s *Service) balanceOf(ctx context.Context, t *Target) (int64, bool) {
	l, err := s.laneOf(t.Lane)
	if err != nil {
		return 0, false
	}
	balances, err := l.instance.Balances(ctx, t.Lane, []Ref{t.Ref})
	if err != nil || balances[0].Verdict != OK {
		return 0, false
	}
	return balances[0].Balance, true
}

// collectFrom ends donors' epochs, and those that are closing already, into the target. In store mode one donor
// that has more than enough gives a part and keeps the rest, in its next epoch, because its requests stay with it; but
// not under adjust_cnt, because what it keeps passes through the total, from where applications are counted.
func (s *Service) collectFrom(ctx context.Context, b *Budget, rows map[Ref]ledger.Epoch, target *Target, need int64) (int64, error) {
	var donors []fragment.Donor
	lanes := map[int64]*Bucket{}
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		row, ok := rows[bk.Ref()]
		l := s.lanes[bk.Lane]
		if !ok || bk.Ref() == target.Ref || row.Fenced != "" || l == nil || !s.usable(l, row.Activation) {
			continue
		}
		if row.Status == ledger.Open || row.Status == ledger.Closing {
			donors = append(donors, fragment.Donor{Bucket: bk.ID, Units: row.Outstanding})
			lanes[bk.ID] = bk
		}
	}
	var all sync.WaitGroup
	errs := make(chan error, len(donors))
	slots := make(chan struct{}, 8)
	var moved atomic.Int64
	chosen := fragment.Donors(donors, need)
	rest := int64(0)
	if b.inStoreMode() && b.AdjustCnt == 0 && len(chosen) == 1 && s.takesBuckets(s.lanes[lanes[chosen[0].Bucket].Lane]) {
		d := &chosen[0]
		part := fragment.Part(d.Units, need)
		if rest = d.Units - part; rest > 0 {
			target.AtMost, d.Units = part, part
		}
	}
	for _, d := range chosen {
		bk := lanes[d.Bucket]
		slots <- struct{}{}
		place := s.turns.take()
		all.Go(func() {
			defer func() { <-slots }()
			s.turns.wait(place)
			err := s.endEpoch(ctx, b.ID, bk.Lane, bk.Ref(), ByService, rest > 0, target)
			if err == nil {
				moved.Add(d.Units)
			}
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil && !budget.Is(err, budget.LastBucket) {
			return moved.Load(), err
		}
	}
	if rest > 0 {
		donor := lanes[chosen[0].Bucket].Ref()
		step, cancel := s.bounded(context.WithoutCancel(ctx))
		defer cancel()
		if err := s.renew(step, Renewal{Budget: b.ID, Ref: donor, Units: rest}); err != nil {
			s.log.Warn("donor not reopened; its next request or the chores do that", "bucket", donor.Bucket, "error", err)
		}
	}
	return moved.Load(), nil
}
