package allocation

import (
	"math"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Bounds of a refill. Between two applies of a steadily used bucket lies StepTime, so it asks SQL
// about every three seconds, and it never holds more than LowTime + StepTime of its use (and one
// request).
const (
	// LowTime is how long what is left must last: a bucket that holds less of its use applies.
	// Twice the second that may lie between two applies, so that the next grant is there before it
	// runs dry.
	LowTime = 2 * time.Second
	// StepTime is how long what a bucket applies for is to last.
	StepTime = 3 * time.Second
	// useWindow is the least time over which use is measured: two replies a microsecond apart say
	// nothing.
	useWindow = 100 * time.Millisecond
	// useMemory is the time constant of the average: what was used so long ago weighs 1/e.
	useMemory = 2 * time.Second
	// firstDivisor makes the first step: a tenth of the even share.
	firstDivisor = 10
)

// Reading is what one reply of a store shows of a bucket after a deduction: the bucket's own
// balance and log position, which all nodes move, and the one amount of this node.
type Reading struct {
	// At is an instant of any clock that does not step back.
	At time.Duration
	// Balance is in minor units; Seq is the position of the deduction's entry.
	Balance, Seq int64
	// Amount was deducted, in minor units.
	Amount int64
}

// Use measures how fast a bucket is used by all nodes together, in minor units a second, as
//
//	Σ used·e^(−age/2 s)  ÷  Σ length·e^(−age/2 s)
//
// over windows of 100 ms at least. What was used in a window is how far the balance fell, which
// shows every node's deductions; where the balance did not fall, because a grant arrived, it is
// this node's own deductions times the log's other entries per one of them. A grant that was used
// up within its window hides as much use: that happens where sharding_quantity is small, which
// bounds what is asked for then. The zero value has measured nothing.
//
// It only decides how much is asked for and when; units are never counted by it.
type Use struct {
	units, seconds float64 // the two sums, as of at
	at             time.Duration
	begun          bool
	first          Reading // the open window began with it
	own, calls     int64   // this node's deductions in the open window
}

// Saw returns the measurement with one reply more. Replies that come out of order are left out.
func (u Use) Saw(r Reading) Use {
	switch {
	case !u.begun || r.At < u.first.At:
		return u.from(r)
	case r.Seq <= u.first.Seq:
		return u
	}
	u.own, u.calls = u.own+r.Amount, u.calls+1
	length := r.At - u.first.At
	if length < useWindow {
		return u
	}
	fell := u.first.Balance - r.Balance
	used := float64(max(fell, u.own))
	if fell <= 0 { // one of the entries at least is a grant
		used = float64(u.own) * float64(max(r.Seq-u.first.Seq-1, u.calls)) / float64(u.calls)
	}
	old := decay(length)
	u.units, u.seconds = u.units*old+used, u.seconds*old+length.Seconds()
	u.at = r.At
	return u.from(r)
}

func (u Use) from(r Reading) Use {
	u.begun, u.first, u.own, u.calls = true, r, 0, 0
	return u
}

// Rate is the use as of an instant, in minor units a second: 0 before two windows' ends. Time
// without a reply counts as time without use.
func (u Use) Rate(now time.Duration) float64 {
	if u.seconds == 0 {
		return 0
	}
	idle := max(now-u.at, 0)
	old := decay(idle)
	// The open window is no idleness: it is measured when it ends.
	return u.units * old / (u.seconds*old + max(idle-useWindow, 0).Seconds())
}

func decay(age time.Duration) float64 { return math.Exp(-age.Seconds() / useMemory.Seconds()) }

// LowWater is the balance below which a bucket applies in the background: what it uses in LowTime
// at `rate` units a second, and at least one more request like the last one. LowWater(10, 5) is 20,
// LowWater(0, 5) is 5.
func LowWater(rate float64, request int64) int64 { return max(lasting(rate, LowTime), request, 1) }

// Refill is how many units a bucket applies for that is short of `need` and uses `rate` units a
// second: what it needs and StepTime of its use, but beside the need no more than its even share of
// what is undistributed, and never more than `bound` (sharding_quantity; 0: no bound). A bucket
// that is hardly used gets what it needs and no more. Refill(5, 100, 1000, 10, 0) is 105, Refill(5,
// 100, 1000, 10, 50) is 50.
func Refill(need int64, rate float64, undistributed int64, buckets int, bound int64) int64 {
	more := min(lasting(rate, StepTime), undistributed/int64(max(buckets, 1)))
	step := min(max(need, 1)+more, budget.MaxAmount)
	if bound > 0 {
		step = min(step, bound)
	}
	return step
}

// Patience is how long a node may wait before it applies for a bucket, so that several nodes that
// see the same low balance do not all apply: a tenth of what is left at this rate, 100 ms at most.
func Patience(balance int64, rate float64) time.Duration {
	const most = 100 * time.Millisecond
	if balance <= 0 {
		return 0
	}
	return time.Duration(min(float64(balance)/rate/10*float64(time.Second), float64(most)))
}

// lasting is what is used within d, rounded up to whole units.
func lasting(rate float64, d time.Duration) int64 {
	units := math.Ceil(rate * d.Seconds())
	if units >= float64(budget.MaxAmount) {
		return budget.MaxAmount
	}
	return int64(units)
}

// FirstStep is what each of n buckets gets at first under a rule that hands out in steps (daily,
// free): before anything is used there is no rate, so it is a tenth of the even share, at least 1
// while there are units, and never more than `bound` (sharding_quantity; 0: no bound).
// FirstStep(1000, 4, 0) is 25, 25, 25, 25; FirstStep(3, 4, 0) is 1, 1, 1, 0. n below 1 gives nil.
// The shares never add up to more than units.
func FirstStep(units int64, n int, bound int64) []int64 {
	shares := Spread(units, n)
	for i, share := range shares {
		if share == 0 {
			continue
		}
		shares[i] = max(share/firstDivisor, 1)
		if bound > 0 {
			shares[i] = min(shares[i], bound)
		}
	}
	return shares
}
