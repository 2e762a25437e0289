package auditor

import (
	"fmt"
	"sync"
	"time"
)

// maxFaults bounds what is kept: the first fault is the one that matters.
const maxFaults = 20

// Auditor collects what is wrong. Safe for concurrent use.
type Auditor struct {
	// Row reads the ledger's row of a request id as it is now.
	Row func(budget int64, id string) (Row, bool)
	// RecordWindow is how long a store in store mode remembers request ids at least.
	RecordWindow time.Duration

	mu      sync.Mutex
	budgets map[int64]*books
	faults  []string
	// Refusals counts the answers budget_exhausted that were looked into, Writes the commits.
	refusals, writes int
	// limitRefusals counts the answers limit_exceeded, holdEnds the confirms and expiries.
	limitRefusals, holdEnds int
	settled                 bool
	promised                int
}

// books are the running figures of a budget.
type books struct {
	quarantined int64
	available   int64
	asking      map[*Call]struct{}
	told        map[string]*told
	// paused is since when every node must refuse; zero: not paused, or not certainly.
	paused time.Time
	// adjusted is the sum of the adjustments told done, creation included; unsure those whose outcome
	// is unknown.
	adjusted int64
	unsure   map[string]int64
	done     map[string]bool
	// store: the budget is in store mode; promises are what its callers were told before the ledger
	// had it, by request id.
	store    bool
	promises map[string]*promise
	pooled   bool // an operator has released units
	limits   limits
	groups   map[string]bool // that were to be confirmed or rolled back
}

// New returns an auditor without any budget.
func New(row func(int64, string) (Row, bool), recordWindow time.Duration) *Auditor {
	return &Auditor{Row: row, RecordWindow: recordWindow, budgets: map[int64]*books{}}
}

// Faults returns what was found wrong, in order.
func (a *Auditor) Faults() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.faults...)
}

// Counts returns how many commits and how many refusals were looked into.
func (a *Auditor) Counts() (writes, refusals int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes, a.refusals
}

// Limits returns how many refusals by limits and ends of holds were looked into.
func (a *Auditor) Limits() (refusals, holdEnds int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limitRefusals, a.holdEnds
}

// Wrong notes something that was found elsewhere.
func (a *Auditor) Wrong(what string) { a.fault("%s", what) }

func text(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// fault notes that something is wrong. a.mu is not needed: see note.
func (a *Auditor) fault(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(format, args...)
}

// note is fault with a.mu held.
func (a *Auditor) note(format string, args ...any) {
	if len(a.faults) < maxFaults {
		a.faults = append(a.faults, text(format, args...))
	}
}

func (a *Auditor) same(of int64, what string, recorded, counted int64) {
	if recorded != counted {
		a.fault("%s %d is recorded as %d, counted %d", what, of, recorded, counted)
	}
}

// of returns a budget's books. a.mu is held.
func (a *Auditor) of(budget int64) *books {
	b := a.budgets[budget]
	if b == nil {
		b = &books{asking: map[*Call]struct{}{}, told: map[string]*told{}, unsure: map[string]int64{},
			done: map[string]bool{}, promises: map[string]*promise{}, groups: map[string]bool{}, limits: newLimits()}
		a.budgets[budget] = b
	}
	return b
}

// Written takes the columns of a budget after a commit: conservation, and nothing negative (I1, I2).
func (a *Auditor) Written(c Columns) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes++
	sum, available := c.Undistributed+c.Quarantined, c.releasable()
	least := min(c.Total, c.Undistributed, c.PendingShrink, c.Quarantined)
	for e := range c.Epochs {
		sum += e.Outstanding + e.Held + e.Used + e.Returning
		available += e.Outstanding + e.Returning
		least = min(least, e.Outstanding, e.Held, e.Used, e.Returning)
	}
	if sum != c.Total {
		a.note("I1: budget %d: its parts sum up to %d of a total of %d", c.Budget, sum, c.Total)
	}
	if least < 0 {
		a.note("I1: budget %d: a figure of %d", c.Budget, least)
	}
	b := a.of(c.Budget)
	b.store = c.StoreMode
	a.kept(b, &c)
	a.fresh(b, &c)
	b.quarantined = c.Quarantined
	b.available = available // what can still be handed to somebody, without regard to shrinks
	for call := range b.asking {
		call.least = min(call.least, b.available)
	}
}

// Settled notes that no message is under way any more: from now on a refusal says that earlier
// attempts have not happened either.
func (a *Auditor) Settled() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settled = true
}

// Available is what a budget can still hand to somebody.
func (a *Auditor) Available(budget int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of(budget).available
}

// Quarantined is what a budget has in quarantine.
func (a *Auditor) Quarantined(budget int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of(budget).quarantined
}

// Created notes that a budget was made, with its total.
func (a *Auditor) Created(budget, total int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(budget).adjusted = total
}
