package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestDrainInstance drains one of four Redis with budgetctl while callers deduct through two nodes
// on MariaDB. No call may fail after the client's own retries, the audit must succeed, and every id
// must count once. The drained Redis is then killed, and ids from before the drain must be known.
// In ledger mode the budget then gets other numbers of buckets.
func TestDrainInstance(t *testing.T) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		t.Run(string(durability), func(t *testing.T) { drainInstance(t, durability) })
	}
}

func drainInstance(t *testing.T, durability budget.Durability) {
	c := newCluster(t)
	extra := testservers.Redis(t, testservers.AppendOnly("everysec"))
	c.redis = append(c.redis, extra)
	c.text += fmt.Sprintf("  - name: redis-3\n    driver: redis\n    addrs: [%q]\n", extra.Addr())
	c.config = writeConfig(t, c.text)
	nodes := []*node{c.start(t), c.start(t)}
	ctl := testservers.Program(t, "budgetctl")
	ctx := context.Background()
	api := nodes[0].client()
	if _, err := api.Create(ctx, client.CreateRequest{Name: "sale", Unit: budget.Count, Type: budget.Promo,
		Durability: durability, TotalQuantity: 1_000_000, BucketQuantity: 16}); err != nil {
		t.Fatal(err)
	}
	load := deductUntil(t, nodes)
	load.progresses(t, 200)
	out, err := exec.Command(ctl, "--server", "http://"+nodes[1].addr, "instances", "drain", "redis-1").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "done") || strings.Contains(string(out), "\r") {
		t.Fatalf("drain: %v\n%s", err, out)
	}
	load.progresses(t, 200)
	t.Logf("%s: drained; the slowest call took %s with its retries", durability, time.Duration(load.slowest.Load()))
	must(t, c.redis[1].Kill())
	load.progresses(t, 200)
	buckets, resizes := 16, []string{"32", "5"}
	if durability == budget.Store {
		resizes = nil
	} else {
		buckets = 5
	}
	for _, n := range resizes {
		out, err := exec.Command(ctl, "--server", "http://"+nodes[0].addr, "set", "sale", "--buckets", n).CombinedOutput()
		if err != nil {
			t.Fatalf("set: %v\n%s", err, out)
		}
		load.progresses(t, 100)
	}
	done := load.end()
	if n := load.failed.Load(); n > 0 {
		t.Errorf("%d of %d calls failed, such as: %v", n, done, load.first.Load())
	}
	eventually(t, 60*time.Second, "everything is counted", func() error {
		b, err := api.Budget(ctx, "sale")
		if err == nil && (b.Used != done || b.BucketQuantity != buckets) {
			err = fmt.Errorf("used %d, %d were accepted; %d buckets", b.Used, done, b.BucketQuantity)
		}
		return err
	})
	for w := range 4 { // the first id of each caller was deducted before the drain
		id := fmt.Sprintf("%d-0", w)
		if a, err := api.Deduct(ctx, "sale", client.DeductRequest{RequestID: id, Amount: 1}); err != nil || !a.Replayed {
			t.Errorf("repeat of %s: %+v, %v", id, a, err)
		}
	}
	audit, err := api.Audit(ctx, "sale")
	if err != nil || !audit.OK {
		t.Errorf("audit: %+v, %v", audit, err)
	}
	list, err := api.Instances(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list.Instances {
		if drained := i.Name == "redis-1"; i.Draining != drained || drained && *i.Partitions[0].Buckets > 0 {
			t.Errorf("%+v", i)
		}
	}
	t.Logf("%s: %d calls, %d failed, the slowest took %s with its retries", durability, done, load.failed.Load(),
		time.Duration(load.slowest.Load()))
}

// callers deduct one unit per id, with the client's own retries, and repeat every fifth id.
type callers struct {
	stop         chan struct{}
	all          sync.WaitGroup
	made, failed atomic.Int64
	first        atomic.Value
	// slowest is the longest call, the client's retries included, in nanoseconds.
	slowest atomic.Int64
}

// deductUntil starts callers, which deduct until end is called.
func deductUntil(t *testing.T, nodes []*node) *callers {
	l := &callers{stop: make(chan struct{})}
	for w := range 4 {
		c := nodes[w%len(nodes)].client()
		l.all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-l.stop:
					return
				default:
				}
				for again := 0; again <= i%5/4; again++ {
					began := time.Now()
					a, err := c.Deduct(context.Background(), "sale",
						client.DeductRequest{RequestID: fmt.Sprintf("%d-%d", w, i), Amount: 1})
					l.took(time.Since(began))
					if err == nil && a.Replayed != (again > 0) {
						err = fmt.Errorf("call %d of an id: replayed %v", again+1, a.Replayed)
					}
					if err != nil {
						l.failed.Add(1)
						l.first.CompareAndSwap(nil, err.Error())
					} else if again == 0 {
						l.made.Add(1)
					}
				}
			}
		})
	}
	t.Cleanup(func() { l.end() })
	return l
}

func (l *callers) took(d time.Duration) {
	for {
		longest := l.slowest.Load()
		if int64(d) <= longest || l.slowest.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}

// progresses waits until callers have made n more deductions.
func (l *callers) progresses(t *testing.T, n int64) {
	t.Helper()
	from := l.made.Load()
	eventually(t, 60*time.Second, "callers make progress", func() error {
		if got := l.made.Load() - from; got < n {
			return fmt.Errorf("%d more calls; %d failed, such as %v", got, l.failed.Load(), l.first.Load())
		}
		return nil
	})
}

func (l *callers) end() int64 {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.all.Wait()
	return l.made.Load()
}
