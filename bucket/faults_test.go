package bucket_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
)

// chance makes faults: one in n calls, from a seeded source of its own.
type chance struct {
	mu   sync.Mutex
	rnd  *rand.Rand
	on   atomic.Bool
	made atomic.Int64
}

func newChance(seed uint64) *chance { return &chance{rnd: rand.New(rand.NewPCG(seed, 7))} }

func (c *chance) one(in int) bool {
	if !c.on.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rnd.IntN(in) != 0 {
		return false
	}
	c.made.Add(1)
	return true
}

func (c *chance) pick(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rnd.IntN(n)
}

// TestNothingIsLostUnderFaults: requests and replies of stores and SQL are lost, done twice or done
// later, stores lose their memory or go back to an old state. Callers repeat their ids until they
// have a certain answer. Afterwards what they were told is what the books say, to the unit, and
// nothing is left half done (I1, I2, I4, I5, I7).
func TestNothingIsLostUnderFaults(t *testing.T) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		for seed := range uint64(40) {
			t.Run(fmt.Sprint(durability, " seed ", seed), func(t *testing.T) { underFaults(t, durability, seed) })
		}
	}
}

func underFaults(t *testing.T, durability budget.Durability, seed uint64) {
	const total, callers, calls = 4000, 6, 60
	w := newWorld(t)
	w.durability = durability
	luck := newChance(seed)
	faults := []memstore.Fault{memstore.Refuse, memstore.DropRequest, memstore.DropReply, memstore.Duplicate, memstore.Postpone}
	for _, server := range w.servers {
		server.Hook = func(memstore.Call) memstore.Fault {
			if luck.one(40) {
				return faults[luck.pick(len(faults))]
			}
			return memstore.Proceed
		}
	}
	w.model.Hook = func(method string, before bool) error {
		if luck.one(60) {
			return fmt.Errorf("injected into %s, before %v", method, before)
		}
		return nil
	}
	set := quick
	set.Deadline, set.ReportWait = 300*time.Millisecond, 500*time.Millisecond
	nodes := []*bucket.Service{w.node(set), w.node(set)}
	ref := w.create(nodes[0], promo("faulty", total, 5))
	luck.on.Store(true)
	told := &toldBooks{amounts: map[string]int64{}, mayLose: durability == budget.Store}
	stop := make(chan struct{})
	var loser sync.WaitGroup
	// An older state under the same identity is what DEBUG RELOAD makes, which the ACL forbids. Ledger
	// mode survives it all the same.
	loser.Go(func() { w.loseMemories(luck, durability == budget.Ledger, stop) })
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(caller)))
			for i := range calls {
				id, amount := fmt.Sprintf("c%d-%d", caller, i), int64(1+rnd.IntN(30))
				told.call(t, nodes, i, ref, id, amount, rnd)
			}
		})
	}
	all.Wait()
	close(stop)
	loser.Wait()
	luck.on.Store(false)
	for _, server := range w.servers {
		server.Release() // what was postponed arrives now, too late
	}
	if t.Failed() {
		return
	}
	w.quiet(nodes[0], ref)
	told.forgetLost(t, w, nodes[0], ref)
	t.Logf("%d faults, %d accepted, %d refused, %d units used, %d lost", luck.made.Load(), len(told.amounts), told.refused,
		told.used, told.lost)
	w.settled(nodes[0], ref, told.used)
	for id, amount := range told.amounts {
		a, err := again(nodes[1], ref, id, amount)
		if err != nil || !a.Replayed {
			t.Errorf("accepted id %s: %+v, %v", id, a, err)
		}
	}
	for _, id := range told.no {
		if v, err := recorded(nodes[0], ref, id); !budget.Is(err, budget.DeductionNotFound) {
			t.Errorf("refused id %s: %+v, %v", id, v, err)
		}
	}
}

// again repeats a deduction, as soon as it can be answered.
func again(s *bucket.Service, ref bucket.BudgetRef, id string, amount int64) (a bucket.DeductAnswer, err error) {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		if a, err = deduct(s, ref, id, amount); !budget.Is(err, budget.Unavailable) &&
			!budget.Is(err, budget.OutcomeUnknown) {
			return a, err
		}
	}
	return a, err
}

// recorded reads what became of an id, as soon as that can be had.
func recorded(s *bucket.Service, ref bucket.BudgetRef, id string) (v bucket.DeductionView, err error) {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		if v, err = s.Deduction(context.Background(), ref, id); !budget.Is(err, budget.Unavailable) &&
			!budget.Is(err, budget.OutcomeUnknown) {
			return v, err
		}
	}
	return v, err
}

// loseMemories wipes a store or sends it back, now and then.
func (w *world) loseMemories(luck *chance, unnoticed bool, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		server := w.servers[fmt.Sprintf("m%d", luck.pick(3))]
		switch luck.pick(4) {
		case 0:
			server.Lose()
		case 1:
			image := server.Snapshot()
			time.Sleep(10 * time.Millisecond)
			server.Restore(image, luck.pick(2) == 0 && unnoticed)
		}
	}
}

// toldBooks is what the callers were told.
type toldBooks struct {
	mu      sync.Mutex
	amounts map[string]int64
	no      []string
	used    int64
	refused int
	// mayLose: in store mode a lost store may take accepted deductions with it; given holds what
	// rollbacks gave back.
	mayLose bool
	given   map[string]int64
	lost    int64
}

// forgetLost takes what the ledger does not have out of the books; it must be in quarantine, so that
// nothing of it can be sold twice (I2).
func (b *toldBooks) forgetLost(t *testing.T, w *world, s *bucket.Service, ref bucket.BudgetRef) {
	if !b.mayLose {
		return
	}
	for id, amount := range b.amounts {
		if _, err := recorded(s, ref, id); budget.Is(err, budget.DeductionNotFound) {
			b.lost += amount - b.given[id]
			b.used -= amount - b.given[id]
			delete(b.amounts, id)
		} else if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	v, err := s.View(context.Background(), ref)
	if err != nil || b.lost > v.Figures.Quarantined {
		t.Errorf("%d units lost, %d quarantined, %v", b.lost, v.Figures.Quarantined, err)
	}
}

// call repeats one request id until the answer is certain, sometimes through the other node, and
// sometimes gives the units back.
func (b *toldBooks) call(t *testing.T, nodes []*bucket.Service, turn int, ref bucket.BudgetRef, id string,
	amount int64, rnd *rand.Rand) {
	lost, began := false, time.Now()
	for try := 0; ; try++ {
		_, err := aloneOrTogether(nodes[(turn+try)%2], try%2 == 0, bucket.DeductRequest{Budget: ref, RequestID: id, Amount: amount})
		if err == nil {
			break
		}
		switch budget.CodeOf(err).Kind() {
		case budget.NotDone:
		case budget.MayBeDone:
			lost = true
		case budget.Refused:
			if lost && !cancelled(nodes, turn, ref, id) {
				t.Errorf("%s cannot be cancelled", id)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.refused++
			if !lost {
				b.no = append(b.no, id)
			}
			return
		default:
			t.Errorf("%s: %v", id, err)
			return
		}
		if time.Since(began) > time.Minute {
			t.Errorf("%s: still no answer: %v", id, err)
			return
		}
	}
	back := int64(0)
	if rnd.IntN(5) == 0 {
		back = amount
		for try := 0; ; try++ {
			_, err := nodes[try%2].Rollback(context.Background(), bucket.RollbackRequest{Budget: ref, RequestID: id})
			if err == nil {
				break
			}
			if b.mayLose && budget.Is(err, budget.DeductionNotFound) {
				back = 0 // lost with its store, or not yet known to be: the books decide at the end
				break
			}
			if time.Since(began) > time.Minute {
				t.Errorf("rollback of %s: %v", id, err)
				return
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.amounts[id] = amount
	b.used += amount - back
	if b.given == nil {
		b.given = map[string]int64{}
	}
	b.given[id] = back
}

func cancelled(nodes []*bucket.Service, turn int, ref bucket.BudgetRef, id string) bool {
	for try, began := 0, time.Now(); time.Since(began) < time.Minute; try++ {
		if _, err := nodes[(turn+try)%2].Cancel(context.Background(), ref, id); err == nil {
			return true
		}
	}
	return false
}
