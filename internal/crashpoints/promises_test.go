package crashpoints

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/memstore"
)

// How soon something is promised to happen, with the settings of a new installation. The clock is the
// bubble's, in which the node's own work takes no time: what is measured is what it waits for.
const (
	// backWithin: a lane serves again after its instance is back.
	backWithin = 5 * time.Second
	// elsewhereWithin: what lies on a lane is sold on others, down_after and so long after its instance left.
	elsewhereWithin = 2 * time.Second
	// fencedWithin: a bucket is fenced of which one unit is too many.
	fencedWithin = 2 * time.Second
)

// shipped is the configuration of a new installation.
func shipped(t *testing.T) config.Config {
	t.Helper()
	c, err := config.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// promise is a world with the settings of a new installation, in ledger mode.
type promise struct {
	*world
	asked int
	// timeout is how long a call waits for an instance that does not answer, which it does until an instant.
	timeout time.Duration
	mute    map[string]time.Time
	muted   sync.Mutex
}

// shippedWorld has a budget of three buckets on three instances. configure changes what its node is made of.
func shippedWorld(t *testing.T, c *config.Config, configure func(*promise, *bucket.Config)) *promise {
	in := wide
	in.durability = budget.Ledger
	const total = 90_000
	p := &promise{world: newWorld(t, in, total), timeout: c.Instances[0].Timeout, mute: map[string]time.Time{}}
	p.budget = bucket.BudgetRef{Tenant: budget.DefaultTenant, Name: name}
	for instance, server := range p.servers {
		server.Hook = func(call memstore.Call) memstore.Fault {
			if !call.After && p.silent(instance) {
				time.Sleep(p.timeout)
				return memstore.DropRequest
			}
			return p.trace.store(call)
		}
	}
	p.configure = func(node *bucket.Config) {
		node.Settings = bucket.Settings{Deadline: c.Deduct.Deadline, StepTimeout: c.Deduct.StepTimeout,
			Committers: c.Deduct.Committers, Queue: c.Deduct.Queue, BatchSize: c.Deduct.BatchSize,
			Refresh: c.Background.Refresh, Chores: c.Background.Chores, KeepSeries: c.Series.Keep,
			DownAfter: c.DownAfter, Audit: c.Audit.Interval, AuditRows: c.Audit.Rows,
			StrandedShare: c.Recycle.StrandedShare, CachedBudgets: c.Cache.Budgets, CachedIDs: c.Cache.RequestIDs,
			Points: points}
		if configure != nil {
			configure(p, node)
		}
	}
	p.start()
	p.must(create())
	return p
}

// over ends the world and tells what was wrong.
func (p *promise) over(t *testing.T) {
	p.leave()
	for _, f := range p.faults {
		t.Error(f)
	}
}

// silent says whether an instance answers nothing now.
func (p *promise) silent(instance string) bool {
	p.muted.Lock()
	defer p.muted.Unlock()
	return time.Now().Before(p.mute[instance])
}

// absence is how an instance is away.
type absence struct {
	// lasts is how long; hangs: it does not answer, instead of refusing.
	lasts time.Duration
	hangs bool
	// all instances are away, not one of them.
	all bool
	// what becomes of its memory.
	memory string
}

func (a absence) String() string {
	text := fmt.Sprintf("%s, away %s", a.memory, a.lasts)
	if a.hangs {
		text += ", hangs"
	}
	if a.all {
		text += ", all"
	}
	return text
}

// absences are what TestLaneIsBackInTime tries: shorter and longer than down_after, in every way for a memory
// that is gone.
func absences() (out []absence) {
	for _, lasts := range []time.Duration{0, 2 * time.Second, 9 * time.Second} {
		for _, memory := range []string{"empty", "older", "restarted", "unnoticed"} {
			out = append(out, absence{lasts: lasts, memory: memory})
		}
		out = append(out, absence{lasts: lasts, memory: "empty", all: true})
		if lasts > 0 {
			out = append(out, absence{lasts: lasts, memory: "empty", hangs: true},
				absence{lasts: lasts, memory: "empty", hangs: true, all: true})
		}
	}
	return out
}

// goes makes instances go away and come back with another memory; it returns when they are back.
func (p *promise) goes(a absence, older map[string]*memstore.Image) (back time.Time) {
	back = time.Now().Add(a.lasts)
	for instance, server := range p.servers {
		if instance != "m0" && !a.all {
			continue
		}
		switch a.memory {
		case "empty":
			server.Lose()
		case "older":
			server.Restore(older[instance], false)
		case "restarted":
			server.Restore(server.Snapshot(), false)
		case "unnoticed":
			server.Restore(older[instance], true)
		}
		if a.hangs {
			p.muted.Lock()
			p.mute[instance] = back
			p.muted.Unlock()
		} else {
			p.trace.leaves(instance, a.lasts)
		}
	}
	return back
}

// serves returns since when a bucket serves all that asks for it first: the first of so many deductions in a
// row, of which one is made every 20 ms while all lanes are in use. anybody: others may, as a bucket
// that is opened when all units were handed out is not needed.
func (p *promise) serves(ordinal int, anybody bool, bound time.Duration) (since time.Time) {
	const pause, enough = 20 * time.Millisecond, 20
	row := 0
	for began := time.Now(); row < enough; time.Sleep(pause) {
		if time.Since(began) > bound {
			p.fault("bucket %d does not serve after %s: %v", ordinal, bound, p.pending())
			return time.Now()
		}
		p.asked++
		a, err := p.deduct(context.Background(), p.node, fmt.Sprint("asked ", p.asked), 1, p.key(ordinal))
		if err != nil || !p.reachable() || !anybody && a.Bucket != fmt.Sprintf("%s:bucket-%d", name, ordinal) {
			row = 0
			continue
		}
		if row++; row == 1 {
			since = time.Now()
		}
	}
	return since
}

// reachable reports whether the node uses all of its lanes.
func (p *promise) reachable() bool {
	lanes, err := p.node.Lanes(context.Background())
	return err == nil && !slices.ContainsFunc(lanes, func(l bucket.LaneView) bool { return !l.Reachable })
}

// used deducts through every bucket for some time, and returns what the stores had in the beginning.
func (p *promise) used(phase int) map[string]*memstore.Image {
	older := map[string]*memstore.Image{}
	for instance, server := range p.servers {
		older[instance] = server.Snapshot()
	}
	for ordinal := range p.buckets {
		p.serves(ordinal, false, time.Minute)
	}
	const settled, apart = 3 * time.Second, 610 * time.Millisecond
	time.Sleep(settled + time.Duration(phase)*apart)
	return older
}

// phases are at how many moments of the background's loops something happens: spread over half a second, over
// a second, and over more than is promised.
const phases = 5

// TestLaneIsBackInTime: a lane whose memory was lost, or went back, is in service again in time after its
// instance is back, however that was away, with traffic or without.
func TestLaneIsBackInTime(t *testing.T) {
	c := shipped(t)
	longest := map[string]time.Duration{}
	for _, a := range absences() {
		for i := range 2 * phases {
			synctest.Test(t, func(t *testing.T) {
				p := shippedWorld(t, &c, nil)
				defer p.over(t)
				back, idle := p.goes(a, p.used(i/2)), i%2 == 1
				for !idle && time.Now().Before(back) {
					p.asked++
					_, _ = p.deduct(t.Context(), p.node, fmt.Sprint("asked ", p.asked), 1, p.key(p.asked))
					time.Sleep(100 * time.Millisecond)
				}
				if idle { // the first one who asks is served
					time.Sleep(time.Until(back.Add(backWithin)))
					back = time.Now()
				}
				ordinal, anybody := p.onServer("m0"), a.all || a.lasts > c.DownAfter
				took := p.serves(ordinal, anybody, a.lasts+time.Minute).Sub(back)
				if anybody { // its units may be in other buckets: it serves as soon as it has some
					p.must(adjusting("more", p.total))
					began := time.Now()
					took = max(took, p.serves(ordinal, false, time.Minute).Sub(began))
				}
				promised := backWithin
				if idle {
					promised = p.timeout
				}
				if longest[a.memory] = max(longest[a.memory], took); took > promised {
					t.Errorf("%s, idle %v, phase %d: in service after %s, promised %s", a, idle, i/2, took, promised)
				}
			})
		}
	}
	t.Logf("in service again at the latest after: %v", longest)
}

// TestUnitsOfALaneThatStaysAway: what lies on a lane whose instance does not come back is sold on the others
// in time.
func TestUnitsOfALaneThatStaysAway(t *testing.T) {
	c := shipped(t)
	longest := time.Duration(0)
	for _, hangs := range []bool{false, true} {
		for phase := range phases {
			synctest.Test(t, func(t *testing.T) {
				p := shippedWorld(t, &c, nil)
				defer p.over(t)
				older := p.used(phase)
				left, ordinal := p.total, p.onServer("m0")
				for _, b := range p.row().Buckets {
					left -= b.Newest().Used
				}
				const forEver = 1000 * time.Hour
				began := time.Now()
				p.goes(absence{lasts: forEver, hangs: hangs, memory: "restarted"}, older)
				_, err := p.deduct(t.Context(), p.node, "all that is left", left, p.key(ordinal))
				for ; err != nil && time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
					_, err = p.deduct(t.Context(), p.node, "all that is left", left, p.key(ordinal))
				}
				took := time.Since(began)
				if longest = max(longest, took); err != nil || took > c.DownAfter+elsewhereWithin {
					t.Errorf("hangs %v, phase %d: sold elsewhere after %s, promised %s: %v", hangs, phase, took,
						c.DownAfter+elsewhereWithin, err)
				}
			})
		}
	}
	t.Logf("sold elsewhere at the latest after %s", longest)
}
