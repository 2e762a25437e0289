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

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestDrainInstance drains one of four Redis with budgetctl while callers deduct through two nodes
// on MariaDB from a budget in store mode. No call may fail after the client's own retries, the audit
// must succeed, and every id must count once. The drained Redis is then killed, and ids from before
// the drain must be known.
func TestDrainInstance(t *testing.T) {
	c := newCluster(t)
	extra := testservers.Redis(t, testservers.AppendOnly("everysec"))
	c.redis = append(c.redis, extra)
	c.text += fmt.Sprintf("  - name: redis-3\n    driver: redis\n    addrs: [%q]\n", extra.Addr())
	c.config = writeConfig(t, c.text)
	nodes := []*node{c.start(t), c.start(t)}
	ctl := testservers.Program(t, "budgetctl")
	api := nodes[0].client()
	createStore(t, api, "sale", 1_000_000, 16)
	load := deductUntil(t, nodes)
	load.progresses(t, 200)
	out, err := exec.Command(ctl, "--server", "http://"+nodes[1].addr, "instances", "drain", "redis-1").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "done") || strings.Contains(string(out), "\r") {
		t.Fatalf("drain: %v\n%s", err, out)
	}
	load.progresses(t, 200)
	must(t, c.redis[1].Kill())
	load.progresses(t, 200)
	load.check(t, api, 16)
	list, err := api.Instances(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list.Instances {
		if drained := i.Name == "redis-1"; i.Draining != drained || drained && *i.Partitions[0].Buckets > 0 {
			t.Errorf("%+v", i)
		}
	}
}

// TestOtherNumbersOfBuckets changes the number of buckets of a budget in ledger mode while callers
// deduct through two nodes on MariaDB without a Redis. No call may fail, and every id counts once.
func TestOtherNumbersOfBuckets(t *testing.T) {
	c := &cluster{text: fmt.Sprintf("database:\n  driver: mysql\n  dsn: %q\n",
		testservers.SharedMariaDB(t).NewDatabase(t))}
	c.config = writeConfig(t, c.text)
	nodes := []*node{c.start(t), c.start(t)}
	ctl := testservers.Program(t, "budgetctl")
	api := nodes[0].client()
	create(t, api, "sale", 1_000_000, 16)
	load := deductUntil(t, nodes)
	load.progresses(t, 200)
	for _, n := range []string{"32", "5"} {
		out, err := exec.Command(ctl, "--server", "http://"+nodes[0].addr, "set", "sale", "--buckets", n).CombinedOutput()
		if err != nil {
			t.Fatalf("set: %v\n%s", err, out)
		}
		load.progresses(t, 100)
	}
	load.check(t, api, 5)
}

// check ends the callers. It checks that no call failed, that the budget has a number of buckets and
// every deduction once, that the first ids are known, and that the audit succeeds.
func (l *callers) check(t *testing.T, api *client.Client, buckets int) {
	t.Helper()
	ctx, done := context.Background(), l.end()
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d of %d calls failed, such as: %v", n, done, l.first.Load())
	}
	eventually(t, 60*time.Second, "everything is counted", func() error {
		b, err := api.Budget(ctx, "sale")
		if err == nil && (b.Used != done || b.BucketQuantity != buckets) {
			err = fmt.Errorf("used %d, %d were accepted; %d buckets", b.Used, done, b.BucketQuantity)
		}
		return err
	})
	for w := range 4 {
		id := fmt.Sprintf("%d-0", w)
		if a, err := api.Deduct(ctx, "sale", client.DeductRequest{RequestID: id, Amount: 1}); err != nil || !a.Replayed {
			t.Errorf("repeat of %s: %+v, %v", id, a, err)
		}
	}
	if audit, err := api.Audit(ctx, "sale"); err != nil || !audit.OK {
		t.Errorf("audit: %+v, %v", audit, err)
	}
	t.Logf("%d calls, the slowest took %s with its retries", done, time.Duration(l.slowest.Load()))
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
