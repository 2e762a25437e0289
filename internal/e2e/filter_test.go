package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestGarbageInFilters checks I9 with real processes: while callers deduct, the keys of every Redis
// are wiped, replaced by other types and filled with random fills and balances. No call may be
// refused while units are left, and every unit must be sold once.
func TestGarbageInFilters(t *testing.T) {
	const total, callers, name = 3000, 8, "garbage"
	world := newCluster(t)
	nodes := []*node{world.start(t), world.start(t)}
	c := nodes[0].client()
	create(t, c, name, total, 9)
	stop, kinds := make(chan struct{}), make([]int, 6)
	var vandal sync.WaitGroup
	vandal.Go(func() {
		chance := rand.New(rand.NewPCG(5, 5))
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(15 * time.Millisecond):
			}
			kind := chance.IntN(len(kinds))
			if spoil(t, world.redis[i%len(world.redis)], kind, chance) {
				kinds[kind]++
			}
		}
	})
	sold := sellOut(t, nodes, name, callers, total)
	close(stop)
	vandal.Wait()
	t.Logf("garbage by kind: %v", kinds)
	for kind, n := range kinds {
		if n == 0 {
			t.Errorf("no garbage of kind %d was written", kind)
		}
	}
	if sold != total {
		t.Errorf("sold %d of %d", sold, total)
	}
	checkBooks(t, c, name, total, sold)
}

// spoil overwrites data of a Redis with garbage of one of six kinds, and reports whether it had any
// data.
func spoil(t *testing.T, r *testservers.RedisServer, kind int, chance *rand.Rand) bool {
	t.Helper()
	run := func(args ...string) string {
		answer, err := r.Command(args...)
		if err != nil && !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%v: %v", args, err)
		}
		return answer
	}
	if kind == 0 {
		run("FLUSHALL")
		return true
	}
	key := run("RANDOMKEY")
	if key == "" {
		return false
	}
	switch kind {
	case 1:
		run("SET", key, "garbage")
		return true
	case 2:
		run("EVAL", `redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], 'a', 'list')`, "1", key)
		return true
	}
	// All fields are overwritten, so that the test does not depend on how a filter packs them.
	value := fmt.Sprint(chance.Int64N(1 << 40))
	if kind == 4 {
		value = fmt.Sprintf("%d:%d", chance.Int64N(1<<33), chance.Int64N(1<<53))
	}
	const fields = `if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 0 end
		local n = 0
		for _, f in ipairs(redis.call('HKEYS', KEYS[1])) do
			local v = redis.call('HGET', KEYS[1], f)
			if ARGV[1] == 'shift' then
				v = string.gsub(v, '%d', function(d) return tostring((tonumber(d) + ARGV[2]) % 10) end)
			else
				v = ARGV[2]
			end
			redis.call('HSET', KEYS[1], f, v)
			n = n + 1
		end
		return n`
	how, by := "set", value
	if kind == 5 { // still well formed, and wrong
		how, by = "shift", fmt.Sprint(1+chance.IntN(9))
	}
	return run("EVAL", fields, "1", key, how, by) != "0"
}

// TestNearSellOut sells a budget with many buckets out through four nodes. Every unit must be sold
// exactly once, and no call refused while the budget covers it (I3).
func TestNearSellOut(t *testing.T) {
	const total, buckets, name = 2500, 64, "last"
	world := newCluster(t)
	var nodes []*node
	for range 4 {
		nodes = append(nodes, world.start(t))
	}
	create(t, nodes[0].client(), name, total, buckets)
	sold := sellOut(t, nodes, name, 24, total)
	if sold != total {
		t.Errorf("sold %d of %d", sold, total)
	}
	checkBooks(t, nodes[3].client(), name, total, sold)
}

// sellOut deducts amounts of 1 to 5 through all nodes until nothing is left, and returns what was
// sold. It reports a refusal as wrong if, when it arrives, the total covers the refused amount in
// addition to all that was sold or is being asked for. Nothing is given back meanwhile, so the
// total also covered it when the refusal was decided.
func sellOut(t *testing.T, nodes []*node, name string, callers int, total int64) int64 {
	t.Helper()
	var sold, asked, slowest atomic.Int64
	var all sync.WaitGroup
	for caller := range callers {
		c := nodes[caller%len(nodes)].client()
		all.Go(func() {
			for i, most := 0, int64(5); ; i++ {
				amount := min(1+int64(i%5), most)
				id, began := fmt.Sprintf("%d-%d", caller, i), time.Now()
				asked.Add(amount)
				_, err := c.Deduct(context.Background(), name,
					client.DeductRequest{RequestID: id, Amount: amount})
				for took := int64(time.Since(began)); took > slowest.Load(); {
					slowest.Store(took)
				}
				if err == nil {
					sold.Add(amount)
					continue
				}
				p := problem(err)
				if left := total - asked.Add(-amount); left >= amount {
					t.Errorf("%s of %d units is refused while at least %d are left: %v", id, amount, left, err)
				}
				if client.CodeOf(err) != budget.BudgetExhausted || p.Available == nil ||
					*p.Available >= amount {
					t.Errorf("%s of %d units, %d sold: %v", id, amount, sold.Load(), err)
					return
				}
				if most = amount - 1; most == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d sold; the slowest call took %s", sold.Load(), total,
		time.Duration(slowest.Load()).Round(time.Millisecond))
	return sold.Load()
}
