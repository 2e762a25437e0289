package deduct

import (
	"math"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

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
