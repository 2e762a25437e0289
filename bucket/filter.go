package bucket

import "context"

// Filter is what ledger mode asks of a store: it keeps hopeless and contending work away from SQL.
// It holds a fill and a balance per bucket, packed per lane, and may be wrong in any way: no
// content, loss, delay, repetition or reordering of its keys and calls changes a row or refuses a
// request (I9). Every error stands for "no answer". Safe for concurrent use.
type Filter interface {
	// Set adds Level.Added, where that is above 0, to the balance of a content whose fill is
	// Level.Fill - 1, and notes the new fill. Otherwise it writes {Fill, Outstanding} where the
	// content is missing or has a smaller fill than Level.Fill. Otherwise it changes nothing. So a
	// level without Added replaces a content that was found wrong. It deletes content that cannot
	// be read as one first.
	Set(ctx context.Context, lane Lane, levels []Level) error
	// Take subtracts amounts from balances. The answers are in the order of takes.
	Take(ctx context.Context, lane Lane, takes []Take) ([]Taken, error)
}

// Take is what one call asks of one bucket's content.
type Take struct {
	Bucket int64
	// Fill is the number that SQL's row had when this node read it last.
	Fill int64
	// Back is what this node took under Fill and did not commit, in minor units. It is added first.
	Back int64
	// Amounts are subtracted in order; one that does not fit is passed over.
	Amounts []int64
}

// Taken answers a Take.
type Taken struct {
	// Stale reports that the content is missing, cannot be read, or has a smaller fill than
	// Take.Fill. Nothing was taken, and Back was not added.
	Stale bool
	// Fill is the content's; it may be above Take.Fill.
	Fill int64
	// Balance is what is left, in minor units.
	Balance int64
	// Fits says of each amount whether it was taken.
	Fits []bool
}
