package row

import (
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket/deduct"
)

// state is what a node remembers of a budget beside its definition.
type state struct {
	deduct.State
	// soldOut is the smallest amount that was found not to be covered; 0: none was. It only says to
	// look at the sums before a bucket is asked, and never answers a request.
	soldOut atomic.Int64
}

// figuresAge is how old the figures in an answer may be.
const figuresAge = time.Second

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
