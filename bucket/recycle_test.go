package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// sellFrom deducts units one call at a time through keys of a bucket until so many are sold there.
func (w *world) sellFrom(s *bucket.Service, ref bucket.BudgetRef, key string, calls int, amount int64) {
	w.t.Helper()
	for i := range calls {
		_, err := s.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, Amount: amount,
			RequestID: fmt.Sprintf("%s-%d", key, i), Key: key})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) budget(ref bucket.BudgetRef) bucket.Budget {
	w.t.Helper()
	b, err := w.sql.Budget(context.Background(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func TestRecycle(t *testing.T) { everywhere(t, recycle) }

// recycle: every bucket gets a new epoch, what it holds follows what it sold, and no unit is lost.
func recycle(t *testing.T, w *world) {
	s := w.node(quick)
	ref := w.create(s, promo("skewed", 8000, 8))
	const calls, amount = 20, 40
	w.sellFrom(s, ref, "hot", calls, amount)
	w.settled(s, ref, calls*amount)
	before := w.budget(ref)
	report, err := s.Recycle(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	const left = 8000 - calls*amount
	if report.EndedAt.IsZero() || report.Done != 8 || len(report.Plan) != 8 || report.Skipped != 0 ||
		report.Cause != bucket.OnDemand || report.Moved < left/2 || report.Moved > left ||
		report.Before.Units != left || report.After.Units != left || report.Before.Stranded == 0 ||
		report.After.Stranded != 0 {
		t.Errorf("report %+v", report)
	}
	w.settled(s, ref, calls*amount)
	after := w.budget(ref)
	var hottest, sum int64
	for i := range after.Buckets {
		now, was := &after.Buckets[i], &before.Buckets[i]
		if now.Epoch.Number <= was.Epoch.Number || now.Epoch.Status != ledger.Open || now.OutCnt > 1 {
			t.Errorf("bucket %s: epoch %d %s after %d, out_cnt %d", now.Key, now.Epoch.Number, now.Epoch.Status,
				was.Epoch.Number, now.OutCnt)
		}
		sum += now.Epoch.Outstanding
		if was.Epoch.Used > 0 {
			hottest = now.Epoch.Outstanding
		}
	}
	if sum != left || hottest < left*2/3 {
		t.Errorf("%d of %d are in buckets, %d in the one that sells", sum, int64(left), hottest)
	}
	list, err := s.Recycles(context.Background(), ref, 0, 10)
	if err != nil || len(list) != 1 || list[0].Number != report.Number {
		t.Errorf("history %+v, %v", list, err)
	}
	w.sellFrom(s, ref, "later", 1, left) // all of it can still be had at once
	w.settled(s, ref, 8000)
}

// zipf makes keys of which the k-th is chosen in proportion to k^-1.2.
func zipf(seed uint64) func() string {
	const skew, keys = 1.2, 10_000
	z := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), skew, 1, keys)
	return func() string { return fmt.Sprint("key-", z.Uint64()) }
}

// buyers are callers that ask until the budget is exhausted.
type buyers struct {
	sold, refused atomic.Int64
	first         atomic.Int64 // what was left at the first refusal, plus 1
	wrong         atomic.Pointer[error]
}

// buy lets callers ask for one unit at a time, with skewed keys, until each is refused.
func (b *buyers) buy(nodes []*bucket.Service, ref bucket.BudgetRef, callers int) {
	var all sync.WaitGroup
	for caller := range callers {
		key := zipf(uint64(caller))
		all.Go(func() {
			for i := 0; b.wrong.Load() == nil; i++ {
				_, err := nodes[(caller+i)%len(nodes)].Deduct(context.Background(), bucket.DeductRequest{Budget: ref,
					RequestID: fmt.Sprintf("c%d-%d", caller, i), Key: key(), Amount: 1})
				var e *budget.Error
				switch {
				case err == nil:
					b.sold.Add(1)
					continue
				case errors.As(err, &e) && e.Code == budget.BudgetExhausted:
					b.refused.Add(1)
					b.first.CompareAndSwap(0, *e.Available+1)
				default:
					b.wrong.CompareAndSwap(nil, &err)
				}
				return
			}
		})
	}
	all.Wait()
}

// judge says whether nothing but accepted was answered until the end.
func (b *buyers) judge(t testing.TB, total int64) {
	t.Helper()
	if err := b.wrong.Load(); err != nil {
		t.Errorf("answered before the end: %v", *err)
	}
	if b.sold.Load() != total || b.first.Load() != 1 {
		t.Errorf("sold %d of %d, %d left at the first refusal", b.sold.Load(), total, b.first.Load()-1)
	}
}

// recycling recycles a budget over and over until it is stopped; it returns how often.
func recycling(t testing.TB, s *bucket.Service, ref bucket.BudgetRef) (stop func() int) {
	t.Helper()
	over, ended := make(chan struct{}), make(chan int)
	go func() {
		runs := 0
		for {
			select {
			case <-over:
				ended <- runs
				return
			default:
			}
			r, err := s.Recycle(context.Background(), ref)
			if budget.Is(err, budget.RecycleRunning) {
				time.Sleep(time.Millisecond)
				continue
			}
			if err != nil {
				t.Errorf("recycle: %v", err)
			}
			if r.Skipped > 0 {
				t.Errorf("buckets were skipped: %+v", r)
			}
			runs++
		}
	}()
	return func() int { close(over); return <-ended }
}

func TestRecycleUnderTraffic(t *testing.T) { everywhere(t, recycleUnderTraffic) }

// recycleUnderTraffic: while a budget is recycled over and over, from both nodes, nobody is told anything
// but "accepted" until the last unit is sold.
func recycleUnderTraffic(t *testing.T, w *world) {
	const total = 400
	nodes := []*bucket.Service{w.node(quick), w.node(quick)}
	ref := w.create(nodes[0], promo("sold", total, 8))
	stops := []func() int{recycling(t, nodes[0], ref), recycling(t, nodes[1], ref)}
	var b buyers
	began := time.Now()
	b.buy(nodes, ref, 24)
	took := time.Since(began)
	runs := stops[0]() + stops[1]()
	b.judge(t, total)
	if runs == 0 {
		t.Error("nothing was recycled")
	}
	t.Logf("%d units in %v, recycled %d times", b.sold.Load(), took.Round(time.Millisecond), runs)
	w.settled(nodes[0], ref, total)
}

// TestRecycleRunning: one recycle of a budget at a time, over all nodes; the second is refused.
func TestRecycleRunning(t *testing.T) {
	w := newWorld(t)
	nodes := []*bucket.Service{w.node(quick), w.node(quick)}
	ref := w.create(nodes[0], promo("b", 80, 4))
	order := bucket.RecycleOrder{Budget: ref.ID, Cause: bucket.OnSchedule, Holder: "a node that is slow"}
	if _, err := w.sql.BeginRecycle(context.Background(), order); err != nil {
		t.Fatal(err)
	}
	for _, s := range nodes {
		if _, err := s.Recycle(context.Background(), ref); !budget.Is(err, budget.RecycleRunning) {
			t.Errorf("%v, want recycle_running", err)
		}
	}
	if _, err := nodes[0].Recycle(context.Background(), bucket.BudgetRef{ID: 99}); !budget.Is(err, budget.BudgetNotFound) {
		t.Error(err)
	}
}

// causes lists the recycles of a budget, the newest first, that have ended.
func (w *world) causes(ref bucket.BudgetRef) (out []bucket.RecycleCause) {
	w.t.Helper()
	list, err := w.sql.RecycleHistory(context.Background(), ref.ID, 0, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range list {
		if !r.EndedAt.IsZero() {
			out = append(out, r.Cause)
		}
	}
	return out
}

// TestRecycleOfAPeriod: what is a fragment goes by what the open period got, not by the total: buckets of a
// daily budget that are sold from evenly stay, each with its share.
func TestRecycleOfAPeriod(t *testing.T) { everywhere(t, recycleOfAPeriod) }

func recycleOfAPeriod(t *testing.T, w *world) {
	s := w.node(quick)
	d := promo("daily", 8_000_000, 8)
	d.Type, d.Rule = budget.Daily, &budget.Rule{Kind: budget.Calendar, Every: budget.Month, Quantity: 8000}
	ref := w.create(s, d)
	w.settled(s, ref, 0)
	report, err := s.Recycle(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if report.Before.Units != 8000 || report.Before.Stranded != 0 || report.After.Stranded != 0 {
		t.Errorf("report %+v", report)
	}
	w.settled(s, ref, 0)
	after := w.budget(ref)
	for i := range after.Buckets {
		if b := &after.Buckets[i]; !b.Online || b.Epoch.Status != ledger.Open || b.Epoch.Outstanding < 500 {
			t.Errorf("bucket %s: online %t, %s with %d", b.Key, b.Online, b.Epoch.Status, b.Epoch.Outstanding)
		}
	}
	a, err := s.Series(context.Background(), bucket.SeriesRequest{Budget: ref})
	if now := a.Now; err != nil || now.Stranded != 0 || now.Undistributed != 7_992_000 || now.Released() != 8000 {
		t.Errorf("now %+v, %v", now, err)
	}
}

// TestRecycleBySchedule: when its time has come every effective budget is recycled, by one of the nodes,
// once; a paused one is not.
func TestRecycleBySchedule(t *testing.T) {
	w := newWorld(t)
	due := time.Now().Add(300 * time.Millisecond)
	set := quick
	set.RecycleAt = func(after time.Time) time.Time {
		if after.Before(due) {
			return due
		}
		return after.Add(time.Hour)
	}
	nodes := []*bucket.Service{w.node(set), w.node(set), w.node(set)}
	first, second, paused := w.create(nodes[0], promo("first", 80, 4)), w.create(nodes[1], promo("second", 80, 4)),
		w.create(nodes[1], promo("paused", 80, 4))
	yes := true
	if _, err := nodes[0].Change(context.Background(), paused, bucket.Change{Paused: &yes}); err != nil {
		t.Fatal(err)
	}
	w.until("both are recycled", func() bool { return len(w.causes(first)) > 0 && len(w.causes(second)) > 0 })
	time.Sleep(5 * quick.Chores) // time for those who would do it again
	for _, ref := range []bucket.BudgetRef{first, second} {
		if got := w.causes(ref); len(got) != 1 || got[0] != bucket.OnSchedule {
			t.Errorf("budget %d: %v", ref.ID, got)
		}
	}
	if got := w.causes(paused); len(got) != 0 {
		t.Errorf("the paused one: %v", got)
	}
}

// TestRecycleByItself: a budget of which too much is stranded is recycled once, one as it should be is not.
func TestRecycleByItself(t *testing.T) {
	w := newWorld(t)
	set := quick
	set.Chores, set.StrandedShare = 20*time.Millisecond, 0.2
	nodes := []*bucket.Service{w.node(set), w.node(set)}
	skewed, even := w.create(nodes[0], promo("skewed", 8000, 8)), w.create(nodes[0], promo("even", 8000, 8))
	for i := range 60 {
		w.sellFrom(nodes[i%2], skewed, "hot-"+fmt.Sprint(i%2), 1, 1) // the same ids again and again: replays
		_, err := nodes[i%2].Deduct(context.Background(), bucket.DeductRequest{Budget: even, Amount: 1,
			RequestID: fmt.Sprint("e", i)})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.sellFrom(nodes[0], skewed, "hot", 50, 10)
	w.until("it is recycled", func() bool { return len(w.causes(skewed)) > 0 })
	time.Sleep(25 * set.Chores)
	if got := w.causes(skewed); len(got) != 1 || got[0] != bucket.Automatic {
		t.Errorf("skewed: %v", got)
	}
	w.settled(nodes[0], skewed, 502)
}

// TestRecycleYields: while a collect is open no further bucket is recycled; then it goes on.
func TestRecycleYields(t *testing.T) {
	w := newWorld(t)
	s := w.node(quick)
	ref := w.create(s, promo("b", 80, 4))
	target := w.budget(ref).Buckets[0].Ref()
	run, err := w.sql.BeginRun(context.Background(), bucket.Run{Budget: ref.ID, Target: target, Units: 5})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bucket.Recycle)
	go func() {
		r, err := s.Recycle(context.Background(), ref)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	w.until("it waits", func() bool {
		list, err := w.sql.RecycleHistory(context.Background(), ref.ID, 0, 1)
		return err == nil && len(list) == 1 && list[0].TouchedAt.Sub(list[0].BeganAt) > 50*time.Millisecond
	})
	b := w.budget(ref)
	for i := range b.Buckets {
		if b.Buckets[i].Epoch.Number != 1 {
			t.Errorf("%s was recycled although a collect is open", b.Buckets[i].Key)
		}
	}
	if err := w.sql.EndRun(context.Background(), ref.ID, run.Number, 0); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.Done != 4 || r.EndedAt.IsZero() {
		t.Errorf("%+v", r)
	}
}

// TestRecycleTakenOver: a recycle whose node stopped after one bucket is finished by another node.
func TestRecycleTakenOver(t *testing.T) {
	w := newWorld(t)
	set := quick
	set.StepTimeout = 200 * time.Millisecond
	s := w.node(set)
	ref := w.create(s, promo("b", 80, 4))
	b := w.budget(ref)
	order := bucket.RecycleOrder{Budget: ref.ID, Cause: bucket.OnSchedule, Holder: "stopped"}
	for i := range b.Buckets {
		order.Plan = append(order.Plan, bucket.Planned{Bucket: b.Buckets[i].ID, Epoch: 1})
	}
	if _, err := w.sql.BeginRecycle(context.Background(), order); err != nil {
		t.Fatal(err)
	}
	if _, err := w.sql.Ending(context.Background(), ref.ID, b.Buckets[0].Ref(), bucket.ByService, true); err != nil {
		t.Fatal(err)
	}
	w.until("it is finished", func() bool { return len(w.causes(ref)) == 1 })
	after := w.budget(ref)
	for i := range after.Buckets {
		if after.Buckets[i].Epoch.Number < 2 {
			t.Errorf("%s was left out", after.Buckets[i].Key)
		}
	}
	w.settled(s, ref, 0)
}
