package bucket

// Rebalance is what a rebalance moved or, in a dry run, would move.
type Rebalance struct {
	DryRun bool
	// Budgets counts the budgets that were checked, Misplaced the buckets that are on the wrong
	// partition, and Moved those of them that were moved.
	Budgets, Misplaced, Moved int
	// Moves lists some of them, at most MaxMovesShown, by budget and ordinal.
	Moves []BucketMove
	// Problem says what keeps buckets where they are. It is empty if nothing does.
	Problem string
}

// MaxMovesShown bounds Rebalance.Moves.
const MaxMovesShown = 1000

// BucketMove is a bucket that changes its partition.
type BucketMove struct {
	// Bucket is its key.
	Bucket   string
	From, To Partition
}
