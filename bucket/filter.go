package bucket

import "context"

// Filter keeps requests that a bucket cannot cover, and contention, away from SQL in ledger mode.
// It has a fill and a balance per bucket, packed per partition. It may be wrong in any way: no
// content, loss, delay, repetition or reordering of its keys and calls changes a row or refuses a
// request (I9). Callers treat every error as "no answer". Implementations are safe for concurrent
// use.
type Filter interface {
	// Set updates contents. If Level.Added is above 0 and the content's fill is Level.Fill - 1, it
	// adds Level.Added to the balance and stores the new fill. Otherwise it writes {Fill, Outstanding}
	// if the content is missing or has a smaller fill than Level.Fill; so a level without Added
	// replaces a content that was found wrong. Otherwise it changes nothing. It first deletes content
	// that cannot be parsed.
	Set(ctx context.Context, partition Partition, levels []Level) error
	// Take subtracts amounts from balances. The answers are in the order of takes.
	Take(ctx context.Context, partition Partition, takes []Take) ([]Taken, error)
}

// Take is the request of one call for one bucket's content.
type Take struct {
	Bucket int64
	// Fill is the fill of SQL's row when this node last read it.
	Fill int64
	// Back is what this node took under Fill and did not commit, in minor units. It is added first.
	Back int64
	// Amounts are subtracted in order. One that does not fit is skipped.
	Amounts []int64
}

// Taken answers a Take.
type Taken struct {
	// Stale reports that the content is missing, cannot be parsed, or has a smaller fill than
	// Take.Fill. Then nothing was taken, and Back was not added.
	Stale bool
	// Fill is the content's; it may be above Take.Fill.
	Fill int64
	// Balance is what is left, in minor units.
	Balance int64
	// Fits reports for each amount whether it was taken.
	Fits []bool
}
