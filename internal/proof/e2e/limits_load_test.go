package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// The load on limits: callers, identities per dimension, and the maximum of each identity.
const limitCallers, identities, perIdentity = 64, 200, 5

var loadDimensions = []string{"user", "device", "phone"}

// limitLoad is a budget with a limit per dimension, its callers, and the outcomes of their calls.
type limitLoad struct {
	*testing.T
	world *cluster
	nodes []atomic.Pointer[client.Client]
	ids   atomic.Int64

	mu sync.Mutex
	// counted is what was accepted, by dimension and value.
	counted map[string]int
	// told counts the outcomes.
	told map[string]int
}

func newLimitLoad(t *testing.T) (*limitLoad, []*node) {
	t.Helper()
	l := &limitLoad{T: t, world: newCluster(t), nodes: make([]atomic.Pointer[client.Client], 2), counted: map[string]int{},
		told: map[string]int{}}
	nodes := []*node{l.world.start(t), l.world.start(t)}
	for i, n := range nodes {
		l.nodes[i].Store(n.client())
	}
	request := client.CreateRequest{Name: "quota", Unit: budget.Count, Type: budget.Promo, TotalQuantity: 100_000, BucketQuantity: 6}
	for _, dimension := range loadDimensions {
		request.Limits = append(request.Limits, ever(dimension, dimension, perIdentity))
	}
	if _, err := l.nodes[0].Load().Create(context.Background(), request); err != nil {
		t.Fatal(err)
	}
	return l, nodes
}

// deduct deducts 1, through alternating nodes, and repeats until the outcome is known.
func (l *limitLoad) deduct(dimensions map[string]string) string {
	id := fmt.Sprintf("r%d", l.ids.Add(1))
	deadline := time.Now().Add(2 * time.Minute)
	for turn := int(l.ids.Load()); ; turn++ {
		_, err := l.nodes[turn%2].Load().Deduct(context.Background(), "quota",
			client.DeductRequest{RequestID: id, Amount: 1, Dimensions: dimensions})
		outcome := "accepted"
		var p *client.Problem
		var unknown *client.UnknownOutcome
		switch {
		case err == nil:
		case !errors.As(err, &unknown) && errors.As(err, &p) && p.Limit != nil:
			outcome = p.Limit.Dimension
		case time.Now().Before(deadline) && (client.KindOf(err) == budget.MayBeDone || client.KindOf(err) == budget.NotDone):
			time.Sleep(20 * time.Millisecond)
			continue
		default:
			l.Errorf("%s: %v", id, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.told[outcome]++; outcome == "accepted" {
			for name, value := range dimensions {
				l.counted[name+" "+value]++
			}
		}
		return outcome
	}
}

// run lets all callers deduct for random identities. It calls middle after a third and after two
// thirds of the calls.
func (l *limitLoad) run(each int, middle func(part int)) {
	var all sync.WaitGroup
	var done atomic.Int64
	parts := make(chan int, 2)
	for caller := range limitCallers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(caller)))
			for range each {
				dimensions := map[string]string{}
				for _, name := range loadDimensions {
					dimensions[name] = fmt.Sprint(random.IntN(identities))
				}
				l.deduct(dimensions)
				switch done.Add(1) {
				case int64(limitCallers * each / 3):
					parts <- 1
				case int64(limitCallers * each * 2 / 3):
					parts <- 2
				}
			}
		})
	}
	go func() {
		all.Wait()
		close(parts)
	}()
	for part := range parts {
		middle(part)
	}
}

// check checks that no identity exceeds the maximum, that a user below it gets exactly the rest,
// and that the service counted what callers were told.
func (l *limitLoad) check() {
	l.Helper()
	l.Logf("told: %v", l.told)
	if l.told["accepted"] == 0 || l.told["user"]+l.told["device"]+l.told["phone"] == 0 {
		l.Fatal("the limits were never reached")
	}
	for identity, n := range l.counted {
		if n > perIdentity {
			l.Errorf("%s: %d accepted", identity, n)
		}
	}
	for i := range identities / 4 {
		user := fmt.Sprint(i)
		for n := l.counted["user "+user]; n <= perIdentity; n++ {
			fresh := fmt.Sprintf("fresh %d-%d", i, n)
			want := "accepted"
			if n == perIdentity {
				want = "user"
			}
			if got := l.deduct(map[string]string{"user": user, "device": fresh, "phone": fresh}); got != want {
				l.Errorf("user %s, with %d: %s, want %s", user, n, got, want)
			}
		}
		usage, err := l.nodes[0].Load().Usage(context.Background(), "quota", client.UsageRequest{Dimensions: map[string]string{"user": user}})
		if err != nil || usage.Calls != perIdentity || usage.RolledBack != 0 {
			l.Errorf("user %s: %+v, %v", user, usage, err)
		}
	}
	checkBooks(l.T, l.nodes[0].Load(), "quota", 100_000, int64(l.told["accepted"]))
}

// TestQuotasUnderLoad runs 64 callers for 200 identities in each of three dimensions, on two nodes
// and three Redis.
func TestQuotasUnderLoad(t *testing.T) {
	l, _ := newLimitLoad(t)
	l.run(20, func(int) {})
	l.check()
}

// TestQuotasSurviveFaults runs the same load while a Redis is killed and comes back empty, and
// while a node is killed.
func TestQuotasSurviveFaults(t *testing.T) {
	l, nodes := newLimitLoad(t)
	l.run(20, func(part int) {
		if part == 1 {
			must(t, l.world.redis[0].Kill())
			for _, kept := range []string{"appendonlydir", "appendonly.aof"} {
				must(t, os.RemoveAll(filepath.Join(l.world.redis[0].Dir(), kept)))
			}
			must(t, l.world.redis[0].Restart())
			return
		}
		nodes[1].kill()
		l.nodes[1].Store(l.world.start(t).client())
	})
	l.check()
}
