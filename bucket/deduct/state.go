package deduct

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// State is what a node caches about a budget besides its definition.
type State struct {
	// Spent is what this node has deducted since it created the state, in minor units.
	Spent atomic.Int64
	// InSQL is the part of Spent that SQL has for certain, while stores decide: what it was when the
	// last sync began. Marked is what it was when the present one began.
	InSQL, Marked atomic.Int64
	Recent        Recent
	// Empty is until when no bucket in a store applies in advance, because the total has no units
	// that were not handed out, in unix nanoseconds.
	Empty atomic.Int64
	Terms atomic.Pointer[Terms]

	sum atomic.Pointer[Sum]
	// left is what a transaction of this node found under its lock that the budget has left as a
	// source of deductions.
	left atomic.Pointer[leftover]
	// alone is the bucket that a transaction of this node found or left as the only one that serves.
	alone atomic.Pointer[alone]
	// soldOut is the smallest amount that the budget was found not to cover, or 0. It only causes
	// the sums to be read before a bucket is asked. It never answers a request.
	soldOut atomic.Int64
}

// alone is a bucket that serves alone, while the list of buckets that is cached has a version that
// does not say so.
type alone struct{ list, bucket int64 }

// leftover is what a budget had left at an instant, under a version of its definition.
type leftover struct {
	version, units int64
	at             time.Time
}

// Terms are those of a budget in a store under one definition, and the instant until which its
// calendar windows last.
type Terms struct {
	bucket.Terms
	Of      *bucket.Budget
	UntilMS int64
}

// States are the states of the budgets that were used last. They are safe for concurrent use.
type States struct{ lru *lru.Cache[int64, *State] }

// NewStates returns a cache of at most size states; 10,000 if that is not positive.
func NewStates(size int) *States {
	Default(&size, 10_000)
	states, _ := lru.New[int64, *State](size) // fails for a size below 1 only
	return &States{states}
}

// Of returns the state of a budget and creates it if necessary.
func (s *States) Of(budgetID int64) *State {
	if st, known := s.lru.Get(budgetID); known {
		return st
	}
	st := new(State)
	if known, was, _ := s.lru.PeekOrAdd(budgetID, st); was {
		return known
	}
	return st
}

// Returned notes that units of a budget came back on this node, which a deduction from sources must
// not pass over.
func (s *States) Returned(budgetID int64) {
	if st, known := s.lru.Peek(budgetID); known {
		st.left.Store(nil)
	}
}

// All returns all states.
func (s *States) All() []*State { return s.lru.Values() }

// Sum is I3's sum as read at an instant.
type Sum struct {
	ledger.Availability
	At time.Time
	// Spent is the part of State.Spent that the sum includes for certain.
	Spent int64
}

// figuresAge bounds the age of the sum in an answer. SQL follows stores in half a second.
const (
	figuresAge      = time.Second
	storeFiguresAge = figuresAge / 2
)

// counted returns the part of Spent that sums in SQL include for certain.
func (st *State) counted(inStore bool) int64 {
	if inStore {
		return st.InSQL.Load()
	}
	return st.Spent.Load()
}

// note stores a sum unless a newer one is stored.
func (st *State) note(read *Sum) {
	for {
		old := st.sum.Load()
		if old != nil && old.At.After(read.At) || st.sum.CompareAndSwap(old, read) {
			return
		}
	}
}

// fresh returns the sum if it is younger than most, and nil otherwise.
func (st *State) fresh(now time.Time, most time.Duration) *Sum {
	read := st.sum.Load()
	if read == nil {
		return nil
	}
	if age := now.Sub(read.At); age < 0 || age >= most {
		return nil
	}
	return read
}

// believed returns what the budget covers as far as this node knows: the last sum that is young
// enough, less what was deducted here since then. It is 0 without such a sum.
func (st *State) believed(now time.Time) int64 {
	read := st.fresh(now, figuresAge)
	if read == nil {
		return 0
	}
	return read.Sum() - (st.Spent.Load() - read.Spent)
}

// isSoldOut reports whether this amount or a smaller one was found not to be covered.
func (st *State) isSoldOut(amount int64) bool {
	sold := st.soldOut.Load()
	return sold != 0 && amount >= sold
}

// noteSoldOut records that an amount was not covered.
func (st *State) noteSoldOut(amount int64) {
	for {
		old := st.soldOut.Load()
		if old != 0 && old <= amount || st.soldOut.CompareAndSwap(old, amount) {
			return
		}
	}
}

// figures sets what the budget and the period still cover. It subtracts what this node has deducted
// since the sum was read, this deduction included. The bucket's own remaining units are a lower
// bound. So no figure contradicts the deduction.
func (l *Leg) figures(a *bucket.DeductAnswer, read *Sum) {
	a.FiguresUnknown = false
	units := max(read.Sum()-max(l.Spent-read.Spent, 0), a.BucketRemaining, 0)
	a.BudgetRemaining = min(units, budget.MaxAmount-read.Later) + read.Later
	if l.Budget.Type == budget.Daily {
		a.PeriodRemaining = &units
	}
}

// Recent holds the amounts of the last deductions of a budget that were accepted on this node. It
// is safe for concurrent use.
type Recent struct {
	mu   sync.Mutex
	last [16]int64
	sum  int64 // of last: 16 amounts of at most budget.MaxAmount
	n    int
}

// Add records an accepted deduction. It returns the mean of the amounts, rounded up.
func (r *Recent) Add(amount int64) (mean int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.n % len(r.last)
	r.sum += amount - r.last[at]
	r.last[at] = amount
	r.n++
	return (r.sum-1)/int64(min(r.n, len(r.last))) + 1
}

// Usual returns the second largest of the amounts, so that one large deduction does not decide; 0
// if there are fewer than two.
func (r *Recent) Usual() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, second := int64(0), int64(0)
	for _, amount := range r.last[:min(r.n, len(r.last))] {
		switch {
		case amount > first:
			first, second = amount, first
		case amount > second:
			second = amount
		}
	}
	return second
}

// usedUp remembers limits that refused a deduction, so that the next one of the same value joins no
// flight. It is only a hint: a request is refused after the counter rows
// were read. It is safe for concurrent use.
type usedUp struct {
	limits *lru.Cache[countedValue, refusedUntil]
	// any says that something was ever remembered. It spares most services the lookup.
	any atomic.Bool
}

// countedValue names the counter of one value under one limit of a budget.
type countedValue struct {
	budget     int64
	limit, key string
}

// refusedUntil says that an amount of asked or more does not fit before until, in unix
// milliseconds.
type refusedUntil struct{ asked, until int64 }

// usedUpSize bounds the remembered counters.
const usedUpSize = 1 << 16

func newUsedUp() (*usedUp, error) {
	limits, err := lru.New[countedValue, refusedUntil](usedUpSize)
	return &usedUp{limits: limits}, err
}

func nameOf(budgetID int64, t *limit.Charge) countedValue {
	return countedValue{budgetID, t.Limit.Name, t.Key}
}

// note remembers the limits that refused an operation.
func (u *usedUp) note(o *Op, refused []budget.LimitState) {
	for i := range o.Charges {
		for j := range refused {
			if s := &refused[j]; s.Limit == o.Charges[i].Limit.Name {
				until := int64(math.MaxInt64)
				if !s.ResetAt.IsZero() {
					until = s.ResetAt.UnixMilli()
				}
				u.limits.Add(nameOf(o.Budget.ID, &o.Charges[i]), refusedUntil{s.Asked, until})
				u.any.Store(true)
			}
		}
	}
}

// refuses reports whether a remembered limit would refuse the operation.
func (u *usedUp) refuses(o *Op, now time.Time) bool {
	if !u.any.Load() {
		return false
	}
	for i := range o.Charges {
		t := &o.Charges[i]
		known, ok := u.limits.Peek(nameOf(o.Budget.ID, t))
		if ok && t.Counts >= known.asked && now.UnixMilli() < known.until {
			return true
		}
	}
	return false
}

// forget removes the operation's limits, which were found to have room.
func (u *usedUp) forget(o *Op) {
	for i := range o.Charges {
		u.limits.Remove(nameOf(o.Budget.ID, &o.Charges[i]))
	}
}
