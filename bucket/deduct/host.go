package deduct

import (
	crand "crypto/rand"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Host is what all waves of a service share. Call Ready before use. It is safe for concurrent use.
type Host struct {
	Budgets *bucket.Budgets
	// Clock measures waits; nil means the system clock. Now returns SQL's time as this node knows it.
	Clock bucket.Clock
	Now   func() time.Time
	// Rand fills a slice with random bytes; nil means crypto/rand.
	Rand func([]byte)
	// Deadline is how long a request may wait for units. Grace is how much longer it waits for a call
	// that may have deducted.
	Deadline, Grace time.Duration
	// Truth names, in error messages, what decides whether units were deducted.
	Truth string

	watch *batch.Watch
}

// sweep is the interval at which the deadlines of waiting requests are checked.
const sweep = 10 * time.Millisecond

// Ready sets the fields that were left out.
func (h *Host) Ready() {
	h.watch = batch.NewWatch(sweep)
	if h.Clock == nil {
		h.Clock = bucket.SystemClock{}
	}
	if h.Now == nil {
		h.Now = h.Clock.Now
	}
	if h.Rand == nil {
		h.Rand = func(b []byte) { _, _ = crand.Read(b) } // it never fails
	}
}

// Default sets a setting that is not positive.
func Default[T int | time.Duration](setting *T, value T) {
	if *setting <= 0 {
		*setting = value
	}
}

// State is what a node caches about a budget besides its definition. The states of both modes embed
// it.
type State struct {
	// Spent is what this node has deducted since it created the state, in minor units.
	Spent atomic.Int64
	sum   atomic.Pointer[Sum]
}

// Sum is I3's sum as read at an instant.
type Sum struct {
	ledger.Cover
	At time.Time
	// Spent is the part of State.Spent that the sum includes for certain.
	Spent int64
}

// Note stores a sum unless a newer one is stored.
func (st *State) Note(read *Sum) {
	for {
		old := st.sum.Load()
		if old != nil && old.At.After(read.At) || st.sum.CompareAndSwap(old, read) {
			return
		}
	}
}

// Fresh returns the sum if it is younger than most, and nil otherwise.
func (st *State) Fresh(now time.Time, most time.Duration) *Sum {
	read := st.sum.Load()
	if read == nil {
		return nil
	}
	if age := now.Sub(read.At); age < 0 || age >= most {
		return nil
	}
	return read
}

// StateOf returns the state of a budget and creates it if necessary.
func StateOf[S any](states *lru.Cache[int64, *S], budgetID int64) *S {
	if st, known := states.Get(budgetID); known {
		return st
	}
	st := new(S)
	if known, was, _ := states.PeekOrAdd(budgetID, st); was {
		return known
	}
	return st
}

// Figures sets what the budget and the period still cover. It subtracts what this node has deducted
// since the sum was read, this deduction included. The bucket's own remaining units are a lower
// bound. So no figure contradicts the deduction.
func (o *Op) Figures(read *Sum) {
	a := &o.Result.Answer
	a.FiguresUnknown = false
	units := max(read.Sum()-max(o.Spent-read.Spent, 0), a.BucketRemaining, 0)
	a.BudgetRemaining = min(units, budget.MaxAmount-read.Later) + read.Later
	if o.Budget.Type == budget.Daily {
		a.PeriodRemaining = &units
	}
}
