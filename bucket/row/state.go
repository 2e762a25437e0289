package row

import (
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// state is what a node remembers of a budget beside its definition.
type state struct {
	// soldOut is the smallest amount that was found not to be covered; 0: none was. It only says to
	// look at the sums before a bucket is asked, and never answers a request.
	soldOut atomic.Int64
	// spent is what this node has deducted, in minor units, since it remembers the budget.
	spent atomic.Int64
	sum   atomic.Pointer[sum]
}

// sum is I3's sum as read at an instant.
type sum struct {
	bucket.Cover
	at time.Time
	// spent is state.spent before the read began: what came later may not be in the sum.
	spent int64
}

// figuresAge is how old the figures in an answer may be.
const figuresAge = time.Second

func (s *Service) stateOf(budgetID int64) *state {
	if st, known := s.states.Get(budgetID); known {
		return st
	}
	st := &state{}
	if known, was, _ := s.states.PeekOrAdd(budgetID, st); was {
		return known
	}
	return st
}

// note keeps a sum if it is the newest.
func (st *state) note(read *sum) {
	for {
		old := st.sum.Load()
		if old != nil && old.at.After(read.at) || st.sum.CompareAndSwap(old, read) {
			return
		}
	}
}

// fresh returns the sum if it is young enough for an answer; nil: it has to be read.
func (st *state) fresh(now time.Time) *sum {
	read := st.sum.Load()
	if read == nil {
		return nil
	}
	if age := now.Sub(read.at); age < 0 || age >= figuresAge {
		return nil
	}
	return read
}

// isSoldOut reports whether an amount was found not to be covered.
func (st *state) isSoldOut(amount int64) bool {
	sold := st.soldOut.Load()
	return sold != 0 && amount >= sold
}

// noteSoldOut remembers that an amount was not covered.
func (st *state) noteSoldOut(amount int64) {
	for {
		old := st.soldOut.Load()
		if old != 0 && old <= amount || st.soldOut.CompareAndSwap(old, amount) {
			return
		}
	}
}
