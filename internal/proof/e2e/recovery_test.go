package e2e

import (
	"context"
	"fmt"
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
