package bucket

import (
	"context"
	"sync"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

// bucketUse is what this node has seen of a bucket's use, by all nodes. Nothing depends on it but when
// the bucket applies, and for how much.
type bucketUse struct {
	mu      sync.Mutex
	ref     Ref // the epoch that the open window is of
	use     allocation.Use
	balance int64 // as of the latest reply
	seq     int64
	// next is when the bucket may apply in the background again, of Service.now.
	next time.Duration
}

// useOf returns what is known of a bucket's use.
func (s *Service) useOf(bucketID int64) *bucketUse {
	if u, ok := s.uses.Get(bucketID); ok {
		return u
	}
	u := &bucketUse{}
	if known, ok, _ := s.uses.PeekOrAdd(bucketID, u); ok {
		return known
	}
	return u
}

// saw notes a deduction's reply and returns the rate, in minor units a second.
func (u *bucketUse) saw(ref Ref, amount int64, r Reply, now time.Duration) float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ref != ref {
		u.ref, u.use, u.seq = ref, u.use.Anew(), 0
	}
	if r.Seq >= u.seq {
		u.balance, u.seq = r.Balance, r.Seq
	}
	u.use = u.use.Saw(allocation.Reading{At: now, Balance: r.Balance, Seq: r.Seq, Amount: amount})
	return u.use.Rate(now)
}

func (u *bucketUse) rate(now time.Duration) float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.use.Rate(now)
}

// refilled reports whether the epoch holds `low` by the latest reply, or is not the newest any more.
func (u *bucketUse) refilled(ref Ref, low int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ref != ref || u.balance >= low
}

// turn reports whether the bucket may apply in the background now, and if so, not again for a second.
func (u *bucketUse) turn(now time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !due(now, u.next, refillPause) {
		return false
	}
	u.next = now + refillPause
	return true
}

const (
	// refillPause lies between two background applies of a bucket on a node.
	refillPause = time.Second
	// quietFor is how long background applies of a budget pause after there was nothing to grant.
	quietFor = time.Second
)

// kickApply notes a deduction of `amount` and applies in the background when it left its bucket below the
// low-water mark: about once a second and bucket at most, over all nodes. Before it asks, a node waits for
// a moment and looks whether another one has been there.
func (s *Service) kickApply(entry *cached, bk *Bucket, amount int64, r Reply) {
	ref, use, now := bk.Ref(), s.useOf(bk.ID), s.now()
	rate := use.saw(ref, amount, r, now)
	low := allocation.LowWater(rate, amount)
	if r.Balance >= low {
		return
	}
	b := entry.value.Load()
	if until, ok := s.quiet.Get(b.ID); ok && !due(now, until, quietFor) {
		return
	}
	if _, busy := s.busy.LoadOrStore(bk.ID, struct{}{}); busy {
		return
	}
	if !use.turn(now) {
		s.busy.Delete(bk.ID)
		return
	}
	s.later("apply", func(ctx context.Context) {
		wait := allocation.Patience(r.Balance, rate)
		if wait > 0 && s.clock.Sleep(ctx, s.jitter(wait)) != nil || use.refilled(ref, low) {
			return
		}
		s.refill(ctx, entry, bk, low-r.Balance)
	}, func() { s.busy.Delete(bk.ID) })
}

// refill applies for a bucket that is `short` of its low-water mark. When there is nothing to grant, the
// budget's buckets do not ask for a second.
func (s *Service) refill(ctx context.Context, entry *cached, bk *Bucket, short int64) {
	c, err := s.cover(ctx, entry)
	if err != nil {
		return
	}
	b, got := entry.value.Load(), int64(0)
	if c.Undistributed > 0 {
		w := s.want(b, bk, short, c.Undistributed)
		w.Need = 1
		got, err = s.apply(ctx, b, bk, w)
	}
	if err == nil && got == 0 {
		s.quiet.Add(b.ID, s.now()+quietFor)
	}
}

// applyWish is a request that waits for an apply of its bucket, short of `need` minor units.
type applyWish struct {
	budget              *Budget
	bucket              *Bucket
	need, undistributed int64
}

// applyFor is one apply for all requests that wait for the same bucket: enough for all of them if it
// can be had, and for one at least. Each is told what was granted, and tries again.
func (s *Service) applyFor(_ int64, wishes []applyWish) []result[int64] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	first, least, sum := wishes[0], wishes[0].need, int64(0)
	for _, w := range wishes {
		least, sum = min(least, w.need), min(sum+w.need, budget.MaxAmount)
	}
	w := s.want(first.budget, first.bucket, sum, first.undistributed)
	w.Need = min(w.Need, least)
	got, err := int64(0), error(nil)
	if w.Need <= first.undistributed {
		got, err = s.apply(ctx, first.budget, first.bucket, w)
	}
	out := make([]result[int64], len(wishes))
	for i := range out {
		out[i] = result[int64]{answer: got, err: err}
	}
	return out
}

// want is what a bucket asks for when it is short of `need` minor units. Where adjust_cnt bounds how often
// it may apply, it asks for its even share: small steps would use the applies up, and then nobody could
// have the rest.
func (s *Service) want(b *Budget, bk *Bucket, need, undistributed int64) Want {
	if b.ShardingQuantity > 0 {
		need = min(need, b.ShardingQuantity)
	}
	w := Want{Ref: bk.Ref(), Need: need}
	if b.AdjustCnt > 0 {
		w.Units = allocation.Step(need, undistributed, len(b.Ring()), b.ShardingQuantity)
	} else {
		rate := s.useOf(bk.ID).rate(s.now())
		w.Units = allocation.Refill(need, rate, undistributed, len(b.Ring()), b.ShardingQuantity)
	}
	return w
}
