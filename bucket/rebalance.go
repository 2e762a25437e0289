package bucket

// Rebalance is what a rebalance moved, or, on a dry run, would move.
type Rebalance struct {
	DryRun bool
	// Budgets were looked at; Misplaced buckets are not where they belong, of which Moved have moved.
	Budgets, Misplaced, Moved int
	// Moves are some of them, at most MaxMovesShown, by budget and ordinal.
	Moves []BucketMove
	// Problem says what keeps buckets where they are; "" if nothing does.
	Problem string
}

// MaxMovesShown bounds Rebalance.Moves.
const MaxMovesShown = 1000

// BucketMove is a bucket that changes its lane.
type BucketMove struct {
	// Bucket is its key.
	Bucket   string
	From, To Lane
}
