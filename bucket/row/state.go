package row

import (
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket/deduct"
)

// state is what a node caches about a budget besides its definition.
type state struct {
	deduct.State
	// soldOut is the smallest amount that the budget was found not to cover, or 0. It only causes
	// the sums to be read before a bucket is asked. It never answers a request.
	soldOut atomic.Int64
	recent  deduct.Recent
}

// figuresAge bounds the age of the figures in an answer.
const figuresAge = time.Second

// believed returns what the budget covers as far as this node knows: the last sum that is young
// enough, less what was deducted here since then. It is 0 without such a sum.
func (st *state) believed(now time.Time) int64 {
	read := st.Fresh(now, figuresAge)
	if read == nil {
		return 0
	}
	return read.Sum() - (st.Spent.Load() - read.Spent)
}

// isSoldOut reports whether this amount or a smaller one was found not to be covered.
func (st *state) isSoldOut(amount int64) bool {
	sold := st.soldOut.Load()
	return sold != 0 && amount >= sold
}

// noteSoldOut records that an amount was not covered.
func (st *state) noteSoldOut(amount int64) {
	for {
		old := st.soldOut.Load()
		if old != 0 && old <= amount || st.soldOut.CompareAndSwap(old, amount) {
			return
		}
	}
}
