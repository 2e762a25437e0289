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
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { underFaults(t, seed) })
	}
}

func underFaults(t *testing.T, seed uint64) {
	const total, callers, calls = 4000, 6, 60
	w := newWorld(t)
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
	set.Deadline = 300 * time.Millisecond
	nodes := []*bucket.Service{w.node(set), w.node(set)}
	ref := w.create(nodes[0], promo("faulty", total, 5))
	luck.on.Store(true)
	told := &toldBooks{amounts: map[string]int64{}}
	stop := make(chan struct{})
	var loser sync.WaitGroup
	loser.Go(func() { w.loseMemories(luck, stop) })
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
	t.Logf("%d faults, %d accepted, %d refused, %d units used", luck.made.Load(), len(told.amounts), told.refused, told.used)
	w.settled(nodes[0], ref, told.used)
	for id, amount := range told.amounts {
		a, err := deduct(nodes[1], ref, id, amount)
		if err != nil || !a.Replayed {
			t.Errorf("accepted id %s: %+v, %v", id, a, err)
		}
	}
	for _, id := range told.no {
		if v, err := nodes[0].Deduction(context.Background(), ref, id); !budget.Is(err, budget.DeductionNotFound) {
			t.Errorf("refused id %s: %+v, %v", id, v, err)
		}
	}
}

// loseMemories wipes a store or sends it back, now and then.
func (w *world) loseMemories(luck *chance, stop chan struct{}) {
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
			server.Restore(image, luck.pick(2) == 0)
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
}

// call repeats one request id until the answer is certain, sometimes through the other node, and
// sometimes gives the units back.
func (b *toldBooks) call(t *testing.T, nodes []*bucket.Service, turn int, ref bucket.BudgetRef, id string,
	amount int64, rnd *rand.Rand) {
	lost, began := false, time.Now()
	for try := 0; ; try++ {
		_, err := deduct(nodes[(turn+try)%2], ref, id, amount)
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
		if time.Since(began) > 20*time.Second {
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
			if try > 300 {
				t.Errorf("rollback of %s: %v", id, err)
				return
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.amounts[id] = amount
	b.used += amount - back
}

func cancelled(nodes []*bucket.Service, turn int, ref bucket.BudgetRef, id string) bool {
	for try := range 300 {
		if _, err := nodes[(turn+try)%2].Cancel(context.Background(), ref, id); err == nil {
			return true
		}
	}
	return false
}
