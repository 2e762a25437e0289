package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// load is a group of callers that deduct single units through the nodes until end is called. A call
// whose outcome is unknown is repeated with the same id.
type load struct {
	stop   chan struct{}
	all    sync.WaitGroup
	told   *books
	served atomic.Int64
}

func (w *cluster) load(t *testing.T, nodes []*node, name string, callers int) *load {
	t.Helper()
	l := &load{stop: make(chan struct{}), told: newBooks()}
	for caller := range callers {
		c := nodes[caller%len(nodes)].clientWith(client.Retry{Attempts: 1})
		l.all.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%s-%d-%d", name, caller, i)
				for {
					select {
					case <-l.stop:
						return
					default:
					}
					_, err := c.Deduct(context.Background(), name, client.DeductRequest{RequestID: id, Amount: 1, Key: id})
					if err == nil {
						l.told.accept(id, 1)
						l.served.Add(1)
						break
					}
					switch client.CodeOf(err) {
					case budget.Unavailable, budget.OutcomeUnknown, "":
						time.Sleep(10 * time.Millisecond)
					default:
						t.Errorf("deduct %s: %v", id, err)
						return
					}
				}
			}
		})
	}
	return l
}

// end stops the callers and waits for them.
func (l *load) end() {
	close(l.stop)
	l.all.Wait()
}

// settle reads the last id of each caller, whose outcome is unknown, and completes the books.
func (l *load) settle(t *testing.T, c *client.Client, name string, callers int) {
	t.Helper()
	for caller := range callers {
		for i := 0; ; i++ {
			id := fmt.Sprintf("%s-%d-%d", name, caller, i)
			if _, accepted := l.told.accepted[id]; accepted {
				continue
			}
			if d, err := c.Deduction(context.Background(), name, id); err == nil && d.State == "used" {
				l.told.accept(id, 1)
			}
			break // a caller uses its next id only after this one was accepted
		}
	}
}

// instance reads one instance.
func instance(t *testing.T, c *client.Client, name string) client.Instance {
	t.Helper()
	list, err := c.Instances(context.Background())
	must(t, err)
	for _, i := range list.Instances {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("no instance %s in %+v", name, list)
	return client.Instance{}
}

// units returns how many units a budget's buckets on an instance hold in open epochs, and the
// number of these buckets.
func units(t *testing.T, c *client.Client, name, instance string) (units int64, open int) {
	t.Helper()
	list, err := c.Buckets(context.Background(), name)
	must(t, err)
	for _, b := range list.Buckets {
		if b.Home.Instance == instance && b.EpochStatus == "open" {
			units += b.Remaining
			open++
		}
	}
	return units, open
}

// TestRedisRestartsEmptyUnderLoad kills a Redis, which comes back without data. No unit may be lost
// or sold twice, and the Redis must serve again without an operator.
func TestRedisRestartsEmptyUnderLoad(t *testing.T) {
	const total, callers, name = 1_000_000, 8, "emptied"
	world := newCluster(t)
	nodes := []*node{world.start(t), world.start(t)}
	c := nodes[0].client()
	create(t, c, name, total, 9)
	l := world.load(t, nodes, name, callers)
	time.Sleep(500 * time.Millisecond)
	must(t, world.redis[0].Kill())
	for _, kept := range []string{"appendonlydir", "appendonly.aof"} {
		must(t, os.RemoveAll(filepath.Join(world.redis[0].Dir(), kept)))
	}
	time.Sleep(500 * time.Millisecond)
	must(t, world.redis[0].Restart())
	back := time.Now()
	eventually(t, 60*time.Second, "the instance has its share again", func() error {
		if n, open := units(t, c, name, "redis-0"); open == 0 || n == 0 {
			return fmt.Errorf("%d open buckets with %d units", open, n)
		}
		if i := instance(t, c, "redis-0"); i.Health != "up" {
			return fmt.Errorf("%+v", i)
		}
		return nil
	})
	t.Logf("it served again %s after its restart", time.Since(back).Round(time.Millisecond))
	before := l.served.Load()
	eventually(t, 60*time.Second, "callers are served", func() error {
		if n := l.served.Load(); n < before+200 {
			return fmt.Errorf("%d more", n-before)
		}
		return nil
	})
	l.end()
	l.settle(t, c, name, callers)
	checkBooks(t, c, name, total, l.told.used())
}

// TestRedisGoneForGood checks that the units of a Redis that does not come back are sold elsewhere,
// to the last unit, and that the used units are those that callers were told.
func TestRedisGoneForGood(t *testing.T) {
	const total, callers, name = 3000, 8, "gone"
	world := newCluster(t)
	nodes := []*node{world.start(t), world.start(t)}
	clients := []*client.Client{nodes[0].client(), nodes[1].client()}
	create(t, clients[0], name, total, 9)
	l := world.load(t, nodes, name, callers)
	time.Sleep(100 * time.Millisecond)
	l.end()
	must(t, world.redis[1].Kill())
	left, _ := units(t, clients[0], name, "redis-1")
	if left == 0 {
		t.Fatal("no units are on the instance")
	}
	died := time.Now()
	l.settle(t, clients[0], name, callers)
	told := l.told
	for i := 0; ; i++ { // one by one, until nothing is left anywhere
		id := fmt.Sprintf("rest of seven-%d", i)
		err := errors.New("not asked")
		for err != nil && client.CodeOf(err) != budget.BudgetExhausted {
			if time.Since(died) > 60*time.Second {
				t.Fatalf("%s: %v", id, err)
			}
			_, err = clients[i%2].Deduct(context.Background(), name, client.DeductRequest{RequestID: id, Amount: 7})
		}
		if err != nil {
			break
		}
		told.accept(id, 7)
	}
	drainRest(t, clients, name, told)
	t.Logf("all units were sold %s after its death; it had %d of them", time.Since(died).Round(time.Millisecond), left)
	if told.used() != total {
		t.Errorf("sold %d of %d", told.used(), total)
	}
	checkBooks(t, clients[1], name, total, told.used())
	checkSoldOut(t, clients, name, told)
}

// TestRedisStoppedAndContinued pauses a Redis, which later executes what it was sent meanwhile.
// Callers must be served all the time, and the books must stay exact.
func TestRedisStoppedAndContinued(t *testing.T) {
	const total, callers, name = 100_000, 8, "stopped"
	world := newCluster(t)
	nodes := []*node{world.start(t), world.start(t)}
	c := nodes[0].client()
	create(t, c, name, total, 9)
	l := world.load(t, nodes, name, callers)
	l.more(t, 100)
	must(t, world.redis[2].Pause())
	l.more(t, 300)
	must(t, world.redis[2].Resume())
	l.more(t, 300)
	eventually(t, 60*time.Second, "it is in use again", func() error {
		if i := instance(t, c, "redis-2"); i.Health != "up" {
			return fmt.Errorf("%+v", i)
		}
		return nil
	})
	l.end()
	l.settle(t, c, name, callers)
	checkBooks(t, c, name, total, l.told.used())
}
