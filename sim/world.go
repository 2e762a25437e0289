package sim

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/sim/auditor"
)

// Options say how a seed is run.
type Options struct {
	Seed uint64
	// Operations is how many calls clients make before the end; retries and the end come on top.
	Operations int
	// Trace gets a line for every call of a store and of the database and for every answer; nil: none.
	Trace io.Writer
	// Whole makes the digest that of the whole trace, arguments and answers included; otherwise it is
	// that of who called what, when, and with which kind of outcome.
	Whole bool
	// Checked has the model recount the books after every write, besides the auditor.
	Checked bool
}

// Report is what a run showed.
type Report struct {
	Faults     [faults]int
	Violations []string
	Digest     uint64
	// Ambiguous counts the moments at which Go's scheduler had a say in the schedule.
	Ambiguous int
	// Calls of stores and of the database; Operations of clients, Answers of them by outcome.
	Calls, Operations int
	Answers           map[string]int
	// Writes are the commits that the auditor looked at, Refusals the answers budget_exhausted.
	Writes, Refusals int
	// LimitRefusals are the answers limit_exceeded, HoldEnds the confirms and expiries that it looked into.
	LimitRefusals, HoldEnds int
	Took                    time.Duration // of virtual time
	StoreMode               StoreMode
}

// StoreMode is what a run showed of budgets in store mode.
type StoreMode struct {
	// Seeds is 1 if the run had such budgets; Accepted counts the answers before the ledger had it.
	Seeds, Accepted int
	// Quarantined and Released are what the database moved there and back by itself, Lost is what was
	// accepted and came to no log in the end, ByOperator what was released then; minor units.
	Quarantined, Released, Lost, ByOperator int64
}

// world is everything of one run.
type world struct {
	seed     uint64
	options  Options
	plan     plan
	instants *instants
	model    *memstore.SQL
	audit    *auditor.Auditor
	stores   []*store
	machines []*machine
	lives    atomic.Int64
	late     sync.WaitGroup
	calm     atomic.Bool // no more faults
	budgetOf sync.Map    // by bucket

	mu      sync.Mutex
	digest  uint64
	calls   int
	faults  [faults]int
	answers map[string]int
	budgets []*known
	asked   int // operations of clients
	// lulled are the clients that have had their lull.
	lulled map[int]bool
	store  StoreMode
}

// known is a budget as clients know it, with the requests they sent.
type known struct {
	ref      bucket.BudgetRef
	name     string
	buckets  int
	total    int64
	unsure   bool // a change of its definition may still come into force
	requests []*request
	// cancelled are those of them whose cancel was answered.
	cancelled []*request
	// limited: its requests carry dimensions, and its limits change; counting: one of them is always firstLimit.
	limited, counting, inStore bool
	holds                      []*request
	members                    int // of groups, which are numbered by it
	groupOps                   []*groupOp
}

// newWorld makes the parts of a run. Call it in a bubble.
func newWorld(o Options) *world {
	w := &world{seed: o.Seed, options: o, plan: newPlan(o.Seed, o.Operations), instants: newInstants(o.Seed),
		answers: map[string]int{}, lulled: map[int]bool{}}
	w.model = memstore.NewSQL(time.Now)
	w.model.Unchecked = !o.Checked
	w.audit = auditor.New(w.row, recordWindow(w.plan.settings))
	w.model.Watch = watching(w.audit)
	for i := range w.plan.stores {
		s := &store{name: fmt.Sprintf("m%d", i)}
		s.server = memstore.NewServer(s.name, w.plan.lanes)
		s.server.Now, s.server.RecordWindow = time.Now, w.plan.settings.RecordWindow
		w.stores = append(w.stores, s)
	}
	for i := range w.plan.nodes {
		w.machines = append(w.machines, &machine{number: i + 1, cut: make([]atomic.Int64, len(w.stores)+1)})
	}
	return w
}

// Run runs a seed to its end. Call it in a bubble of testing/synctest.
func Run(o Options) Report {
	began := time.Now()
	w := newWorld(o)
	w.calm.Store(true)
	for _, m := range w.machines {
		w.boot(m)
	}
	w.createAll()
	w.calm.Store(false)
	var clients, weather sync.WaitGroup
	over := make(chan struct{})
	weather.Go(func() { w.weather(over) })
	for i := range w.plan.clients {
		c := w.newClient(i)
		clients.Go(c.run)
	}
	clients.Wait()
	close(over)
	weather.Wait()
	w.end()
	report := Report{Faults: w.faults, Violations: w.audit.Faults(), Digest: w.digest,
		Ambiguous: w.instants.ambiguous, Calls: w.calls, Operations: w.asked, Answers: w.answers,
		Took: time.Since(began)}
	report.Writes, report.Refusals = w.audit.Counts()
	report.LimitRefusals, report.HoldEnds = w.audit.Limits()
	report.StoreMode = w.store
	report.StoreMode.Accepted = w.audit.Promised()
	if w.plan.storeMode {
		report.StoreMode.Seeds = 1
	}
	return report
}

// recordWindow is how long stores remember request ids at least.
func recordWindow(s bucket.Settings) time.Duration {
	if s.RecordWindow == 0 {
		return 10 * time.Minute
	}
	return s.RecordWindow
}

// noted adds to the figures of store mode.
func (w *world) noted(note func(*StoreMode)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	note(&w.store)
}

// count notes that a fault happened.
func (w *world) count(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[f]++
}

// fault chooses what befalls a call.
func (w *world) fault(v verb, chance uint64) fault {
	if w.calm.Load() {
		return noFault
	}
	return w.plan.fault(v, chance)
}

// codeOf is the outcome of a call as the auditor names it: "" for done.
func codeOf(err error) string { return string(budget.CodeOf(err)) }

// wrong notes a violation that is not the auditor's business.
func (w *world) wrong(format string, args ...any) { w.audit.Wrong(fmt.Sprintf(format, args...)) }
