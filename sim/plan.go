package sim

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// fault is a kind of thing that goes wrong.
type fault int

// The faults of a call, of which one has to happen often enough over the seeds, and of machines.
const (
	noFault fault = iota
	faultRefused
	faultLostRequest
	faultLostReply
	faultLate
	faultDelay
	faultDuplicate
	faultSQLBefore
	faultSQLAfter
	faultUnreachable
	faultCrash
	faultRestart
	faultEmpty
	faultStale
	faultForked
	faultClockAhead
	faultClockBack
	faultSilent
	faults
)

var faultNames = [faults]string{"none", "refused", "lost request", "lost reply", "late", "delay", "duplicate",
	"sql fails before", "sql fails after", "unreachable", "crash", "restart", "empty store", "stale store",
	"stale store, same identity", "clock ahead", "clock back", "silent"}

func (f fault) String() string { return faultNames[f] }

// plan is what a seed makes of a run.
type plan struct {
	nodes, stores, lanes int
	clients, operations  int
	settings             bucket.Settings
	// storeMode: some budgets are in store mode.
	storeMode bool
	// lull: once, all clients wait for longer than a node may be silent.
	lull bool
	// perMillion is how many of a million calls a fault befalls.
	perMillion [faults]uint64
	// weather is how long it takes until something happens to a machine, about.
	weather time.Duration
	events  []fault
	shapes  []budget.Definition
}

// newPlan makes a plan from a seed.
func newPlan(seed uint64, operations int) plan {
	draw := func(what string, n uint64) uint64 { return mix(mix(seed)^name(what)) % n }
	p := plan{nodes: int(1 + draw("nodes", 3)), stores: int(1 + draw("stores", 3)),
		lanes:   int(1 + draw("lanes", 2)),
		clients: int(8 + draw("clients", 9)), operations: operations}
	p.settings = bucket.Settings{Committers: int(1 + draw("committers", 3)),
		BatchSize: int(2 + draw("batch", 30)),
		Points:    20, Audit: time.Second, AuditRows: int(50 + 450*(draw("audit", 4)/3))}
	base := [faults]uint64{faultRefused: 2000, faultLostRequest: 1500, faultLostReply: 3000, faultLate: 2000,
		faultDelay: 2000, faultDuplicate: 4000, faultSQLBefore: 2000, faultSQLAfter: 2000}
	strength := []uint64{0, 1, 2, 6}
	for f := range base {
		p.perMillion[f] = base[f] * strength[draw(fmt.Sprint("strength ", f), 4)] / 2
	}
	p.weather = time.Duration(150+draw("weather", 1000)) * time.Millisecond
	p.drawStoreMode(draw)
	for f := faultUnreachable; f < faultSilent; f++ {
		if p.storeMode && ledgerOnly(f) {
			continue
		}
		if f != faultRestart && draw(fmt.Sprint("event ", int(f)), 3) > 0 {
			p.events = append(p.events, f)
		}
	}
	for i := range 9 {
		durability := budget.Ledger
		if p.storeMode && draw(fmt.Sprint("durability ", i), 2) == 1 {
			durability = budget.Store
		}
		d := shape(i, durability, draw)
		if draw(fmt.Sprint("limits ", i), 2) == 0 {
			limited(&d, func(what string, n uint64) uint64 { return draw(fmt.Sprint(what, " of limits ", i), n) })
		}
		p.shapes = append(p.shapes, d)
	}
	return p
}

// drawStoreMode draws what only matters with budgets in store mode. The other draws are the same with and
// without, so a seed without keeps its schedule.
func (p *plan) drawStoreMode(draw func(string, uint64) uint64) {
	if p.storeMode = draw("store mode", 5) >= 2; !p.storeMode {
		return
	}
	p.lull = draw("lull", 3) == 0
	windows := []time.Duration{time.Second, 4 * time.Second, 20 * time.Second, 10 * time.Minute}
	p.settings.RecordWindow = windows[draw("window", 4)]
	p.settings.WindowUnits = []int64{20, 500, 0}[draw("ahead", 3)]
	p.settings.ReportWait = []time.Duration{time.Second, 5 * time.Second}[draw("reports", 2)]
}

// ledgerOnly reports faults that store mode does not claim to bear (docs/adr/0009): a store that goes
// back and remains who it was, which the documented ACL forbids; and a clock that steps, as the right to
// acknowledge is counted on a machine's steady one, and here a node has one clock for both.
func ledgerOnly(f fault) bool {
	return f == faultForked || f == faultClockAhead || f == faultClockBack
}

// shape is the definition of the i-th budget: from one that sells out at once to one that never does.
func shape(i int, durability budget.Durability, draw func(string, uint64) uint64) budget.Definition {
	buckets := []int{1, 3, 12, 3, 12, 1, 3, 12, 5}[i]
	totals := []int64{40, 90, 300, 1_000, 4_000, 10_000, 100_000, 1_000_000, 700}
	d := budget.Definition{Tenant: budget.DefaultTenant, Name: fmt.Sprintf("budget-%d", i), Unit: budget.Count,
		Durability: durability, Type: budget.Promo, BucketQuantity: buckets,
		TotalQuantity: totals[i] + int64(draw(fmt.Sprint("total ", i), uint64(totals[i])))}
	switch draw(fmt.Sprint("bounds ", i), 4) {
	case 0:
		d.ShardingQuantity = max(d.TotalQuantity/int64(4*buckets), 1)
	case 1:
		d.AdjustCnt = 2 + int(draw(fmt.Sprint("adjust ", i), 6))
	}
	return d
}

// fault chooses what befalls a call; chance is as good as random.
func (p *plan) fault(v verb, chance uint64) fault {
	chance %= 1_000_000
	kinds := []fault{faultRefused, faultLostRequest, faultLostReply, faultLate, faultDelay, faultDuplicate}
	if v.sql {
		kinds = []fault{faultSQLBefore, faultSQLAfter, faultLate, faultDelay}
	}
	for _, f := range kinds {
		if chance < p.perMillion[f] {
			if !v.write && (f == faultLate || f == faultDuplicate) {
				return noFault // reading late or twice is nothing
			}
			return f
		}
		chance -= p.perMillion[f]
	}
	return noFault
}
