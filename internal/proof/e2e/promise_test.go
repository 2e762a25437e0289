package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// create creates a promo budget of counted units.
func create(t *testing.T, c *client.Client, name string, total int64, buckets int) {
	t.Helper()
	createBudget(t, c, client.CreateRequest{Name: name, Unit: budget.Count, Type: budget.Promo,
		TotalQuantity: total, BucketQuantity: buckets})
}

// createBudget creates a budget, and repeats the call while its outcome is unknown.
func createBudget(t *testing.T, c *client.Client, request client.CreateRequest) {
	t.Helper()
	eventually(t, time.Minute, "the budget is made", func() error {
		_, err := c.Create(context.Background(), request)
		if kind := client.KindOf(err); err != nil && kind != budget.NotDone && kind != budget.MayBeDone {
			t.Fatal(err)
		}
		return err
	})
}

// books are the outcomes that callers were told.
type books struct {
	mu       sync.Mutex
	accepted map[string]int64 // request id -> amount
	returned map[string]int64
}

func newBooks() *books { return &books{accepted: map[string]int64{}, returned: map[string]int64{}} }

func (b *books) accept(id string, amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accepted[id] = amount
}

func (b *books) giveBack(id string, amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returned[id] = amount
}

func (b *books) used() (used int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.accepted {
		used += n
	}
	for _, n := range b.returned {
		used -= n
	}
	return used
}

// checkBooks compares what callers were told with the budget and the audit.
func checkBooks(t *testing.T, c *client.Client, name string, total, used int64) {
	t.Helper()
	ctx := context.Background()
	report, err := c.Audit(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK || len(report.Discrepancies) > 0 {
		t.Errorf("audit of %s: %+v", name, report.Discrepancies)
	}
	if report.Used != used {
		t.Errorf("%s: used %d, callers were told %d", name, report.Used, used)
	}
	sum := *report.Undistributed + *report.NotFunded + report.InTransit + *report.InBuckets + report.Held + report.Used +
		report.Quarantined + report.Forfeited
	if *report.Total != total || sum != total {
		t.Errorf("%s: total %d, parts add up to %d, want %d", name, *report.Total, sum, total)
	}
}

// TestHotBudgetThroughTwoNodes checks on one hot budget that every request id takes effect once
// (I1-I5): 64 callers deduct through two nodes, repeat every call with the same id through the
// other node, and roll 10 % back.
func TestHotBudgetThroughTwoNodes(t *testing.T) {
	const total, callers, name = 100_000, 64, "hot"
	world := newCluster(t)
	nodes := []*node{world.start(t), world.start(t)}
	clients := []*client.Client{nodes[0].client(), nodes[1].client()}
	create(t, clients[0], name, total, 16)
	told := newBooks()
	var refused, replays atomic.Int64
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(caller)))
			for i := 0; ; i++ {
				id := fmt.Sprintf("order-%d-%d", caller, i)
				amount := int64(1 + rnd.IntN(50))
				if !deductTwice(t, clients, caller+i, name, id, amount, told, &replays) {
					refused.Add(1)
					return
				}
				if rnd.IntN(10) == 0 {
					rollBack(t, clients[(caller+i)%2], name, id, amount, told)
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	t.Logf("accepted %d, replayed %d, returned %d, callers refused %d", len(told.accepted), replays.Load(),
		len(told.returned), refused.Load())
	if int(replays.Load()) != len(told.accepted) {
		t.Errorf("%d of %d repeats were answered as replays", replays.Load(), len(told.accepted))
	}
	drainRest(t, clients, name, told)
	checkBooks(t, clients[0], name, total, told.used())
	if told.used() != total {
		t.Errorf("%d of %d are used after the sell-out", told.used(), total)
	}
	checkSoldOut(t, clients, name, told)
}

// deductTwice deducts through one node and repeats the call through the other. It returns false
// when the budget was exhausted.
func deductTwice(t *testing.T, clients []*client.Client, turn int, name, id string, amount int64,
	told *books, replays *atomic.Int64) bool {
	ctx := context.Background()
	request := client.DeductRequest{RequestID: id, Amount: amount, Key: id}
	_, err := clients[turn%2].Deduct(ctx, name, request)
	if err != nil {
		if client.CodeOf(err) != budget.BudgetExhausted {
			t.Errorf("deduct %s: %v", id, err)
		}
		return false
	}
	told.accept(id, amount)
	again, err := clients[(turn+1)%2].Deduct(ctx, name, request)
	if err != nil || again.Amount != amount {
		t.Errorf("repeat %s: %+v, %v", id, again, err)
		return false
	}
	if again.Replayed {
		replays.Add(1)
	}
	return true
}

func rollBack(t *testing.T, c *client.Client, name, id string, amount int64, told *books) {
	d, err := c.Rollback(context.Background(), name, client.RollbackRequest{RequestID: id})
	if err != nil || d.RolledBack != amount {
		t.Errorf("rollback %s: %+v, %v", id, d, err)
		return
	}
	told.giveBack(id, amount)
}

// drainRest sells the remaining units one by one. They are fewer than the callers asked for.
func drainRest(t *testing.T, clients []*client.Client, name string, told *books) {
	t.Helper()
	for i := 0; ; i++ {
		id := fmt.Sprintf("rest-%d", i)
		_, err := clients[i%2].Deduct(context.Background(), name, client.DeductRequest{RequestID: id, Amount: 1})
		if client.CodeOf(err) == budget.BudgetExhausted {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		told.accept(id, 1)
	}
}

// checkSoldOut checks that every further call is refused, and that repeats of accepted ids are
// answered as replays.
func checkSoldOut(t *testing.T, clients []*client.Client, name string, told *books) {
	t.Helper()
	ctx := context.Background()
	for i := range 200 {
		_, err := clients[i%2].Deduct(ctx, name, client.DeductRequest{RequestID: fmt.Sprintf("late-%d", i), Amount: 1})
		if client.CodeOf(err) != budget.BudgetExhausted {
			t.Errorf("call %d after the sell-out: %v", i, err)
		}
	}
	checked := 0
	for id, amount := range told.accepted {
		key := id
		if id[:4] == "rest" {
			key = ""
		}
		answer, err := clients[checked%2].Deduct(ctx, name, client.DeductRequest{RequestID: id, Amount: amount, Key: key})
		if told.returned[id] == amount {
			if client.CodeOf(err) != budget.AlreadyRolledBack {
				t.Errorf("repeat of %s, which was rolled back: %+v, %v", id, answer, err)
			}
		} else if err != nil || !answer.Replayed || answer.Amount != amount {
			t.Errorf("repeat of %s after the sell-out: %+v, %v", id, answer, err)
		}
		if checked++; checked == 500 {
			break
		}
	}
}

// TestLastUnit deducts amounts of 7. When the first caller is refused, fewer than 7 units must be
// left in total (I3).
func TestLastUnit(t *testing.T) {
	kinds(t, func(t *testing.T, n *node) {
		const total, callers, name = 10_000, 16, "sevens"
		c := n.client()
		create(t, c, name, total, 16)
		var sold atomic.Int64
		var leftAtFirstRefusal atomic.Int64
		leftAtFirstRefusal.Store(-1)
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("c%d-%d", caller, i)
					_, err := c.Deduct(context.Background(), name, client.DeductRequest{RequestID: id, Amount: 7})
					if client.CodeOf(err) == budget.BudgetExhausted {
						if p := problem(err); p.Available != nil {
							leftAtFirstRefusal.CompareAndSwap(-1, *p.Available)
						}
						return
					}
					if err != nil {
						t.Errorf("deduct %s: %v", id, err)
						return
					}
					sold.Add(7)
				}
			})
		}
		all.Wait()
		if left := leftAtFirstRefusal.Load(); left < 0 || left >= 7 {
			t.Errorf("%d units were left at the first refusal", left)
		}
		if want := int64(total / 7 * 7); sold.Load() != want {
			t.Errorf("sold %d, want %d", sold.Load(), want)
		}
		checkBooks(t, c, name, total, sold.Load())
	})
}

// TestOneCallOverAllBuckets checks that the units of 16 buckets are collected for one call.
func TestOneCallOverAllBuckets(t *testing.T) {
	kinds(t, func(t *testing.T, n *node) {
		c := n.client()
		create(t, c, "wide", 1600, 16)
		answer, err := c.Deduct(context.Background(), "wide", client.DeductRequest{RequestID: "all", Amount: 1599})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Amount != 1599 || answer.State != "used" {
			t.Errorf("answer %+v", answer)
		}
		_, err = c.Deduct(context.Background(), "wide", client.DeductRequest{RequestID: "two", Amount: 2})
		if client.CodeOf(err) != budget.BudgetExhausted {
			t.Errorf("2 of 1 left: %v", err)
		}
		if _, err = c.Deduct(context.Background(), "wide", client.DeductRequest{RequestID: "one", Amount: 1}); err != nil {
			t.Errorf("the last unit: %v", err)
		}
		checkBooks(t, c, "wide", 1600, 1600)
		if _, err := c.Append(context.Background(), "wide", client.AppendRequest{RequestID: "more", Quantity: 320}); err != nil {
			t.Fatal(err)
		}
		if _, err = c.Deduct(context.Background(), "wide", client.DeductRequest{RequestID: "after", Amount: 300}); err != nil {
			t.Errorf("after the append: %v", err)
		}
		checkBooks(t, c, "wide", 1920, 1900)
	})
}

// TestKilledUnderLoad kills the only budgetd 20 times under load. After each restart every accepted
// id must be answered as a replay, and no unit may be lost or counted twice (I4, I7).
func TestKilledUnderLoad(t *testing.T) {
	const kills, callers, total, name = 20, 8, 1_000_000, "killed"
	dir := t.TempDir()
	n := start(t, dir)
	create(t, n.client(), name, total, 4)
	told := newBooks()
	unanswered := map[string]int64{}
	var mu sync.Mutex
	for round := range kills {
		c := n.clientWith(client.Retry{Attempts: 1})
		stop := make(chan struct{})
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					id, amount := fmt.Sprintf("k%d-%d-%d", round, caller, i), int64(1+i%9)
					_, err := c.Deduct(context.Background(), name, client.DeductRequest{RequestID: id, Amount: amount})
					if err == nil {
						told.accept(id, amount)
						continue
					}
					mu.Lock()
					unanswered[id] = amount
					mu.Unlock()
					return
				}
			})
		}
		time.Sleep(150*time.Millisecond + time.Duration(round*17%100)*time.Millisecond)
		n.kill()
		close(stop)
		all.Wait()
		n = start(t, dir)
		replayAll(t, n.client(), name, told, round)
	}
	c := n.client()
	for id, amount := range unanswered { // a caller without an answer repeats the id
		if _, err := c.Deduct(context.Background(), name, client.DeductRequest{RequestID: id, Amount: amount}); err != nil {
			t.Fatalf("repeat of %s: %v", id, err)
		}
		told.accept(id, amount)
	}
	if len(told.accepted) < kills*10 {
		t.Errorf("only %d calls were accepted", len(told.accepted))
	}
	t.Logf("accepted %d, unanswered at first %d", len(told.accepted), len(unanswered))
	checkBooks(t, c, name, total, told.used())
	if code := n.stop(); code != 0 {
		t.Errorf("exit status %d after SIGTERM", code)
	}
}

// replayAll repeats all ids that were accepted in this round, and a sample of earlier ones.
func replayAll(t *testing.T, c *client.Client, name string, told *books, round int) {
	t.Helper()
	prefix, sample := fmt.Sprintf("k%d-", round), 0
	told.mu.Lock()
	defer told.mu.Unlock()
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for id, amount := range told.accepted {
		if id[:len(prefix)] != prefix {
			if sample++; sample > 100 {
				continue
			}
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			answer, err := c.Deduct(context.Background(), name, client.DeductRequest{RequestID: id, Amount: amount})
			if err != nil || !answer.Replayed || answer.Amount != amount {
				t.Errorf("round %d: accepted id %s: %+v, %v", round, id, answer, err)
			}
		})
	}
	all.Wait()
}
