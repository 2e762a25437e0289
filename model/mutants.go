package main

// mutant is a safeguard taken out.
type mutant int8

const (
	intact mutant = iota
	noMatch
	lastEntry
	noContinue
	noEpoch
	noNumber
	noCompare
	noOutstanding
	commitLost
	noPrimaryKey
	duplicateKeeps
	noNonce
	noTombstone
	limitOutside
	oldSnapshot
	twoStatements
	shrinkSubtracted
	refusedWhileOut
	collectSplit
	storeTrusted
	noMissing
	applyClosed
	ackEarly
	noLeft
	noRollbackID
	noAdjustmentID
	shrinkUncovered
	noActivation
	noQuarantine
	noHearing
	ackUncounted
	ackLate
	noVoidRecord
	noVoidDrain
	noReopened
	noLookup
	confirmOutside
	confirmLate
	confirmAgain
	confirmUndrained
	restKept
	expireUnlooked
	expireEarly
	countKept
	commitOver
	returnsToOpen
	lateUnmarked
	sweepBefore
	sweepByClock
	oldNumber
	periodAlone
	turnUnclosed
	noUntil
	collectAcross
	lateOpen
)

// mutation describes a mutant: the design's section of the safeguard, and the bounds that show what
// happens without it.
type mutation struct {
	mutant     mutant
	name, mode string
	section    string
	without    string
	bounds     func(*Bounds)
}

func asTested(*Bounds) {}

// within are the bounds that catch the mutant.
func (mut mutation) within() Bounds {
	b := defaultBounds(mut.mode)
	mut.bounds(&b)
	return b
}

var mutations = []mutation{
	{noMatch, "no-match", ledgerMode, "5.5", "no log match", asTested},
	{lastEntry, "last-entry", ledgerMode, "5.5", "the log match compares the last drained entry only",
		func(b *Bounds) { b.IDs, b.Amounts, b.Buckets, b.Length = 3, "111", 1, 6 }},
	{noContinue, "no-continue", ledgerMode, "ADR 3",
		"a drained entry need not continue the chain", asTested},
	{noEpoch, "no-epoch", ledgerMode, "1, 6", "messages of an earlier epoch reach the present one",
		func(b *Bounds) { b.Epochs = 2 }},
	{noNumber, "no-number", ledgerMode, "6 apply", "a grant that arrived is added again", asTested},
	{noCompare, "no-compare", ledgerMode, "5.5", "no compare-and-set on drained_seq", asTested},
	{noOutstanding, "no-outstanding", ledgerMode, "5.5", "a commit may take more than O", asTested},
	{commitLost, "commit-lost", ledgerMode, "5.5",
		"a commit looks neither at the status nor at O", asTested},
	{noPrimaryKey, "no-primary-key", ledgerMode, "4", "an id may have two rows", asTested},
	{duplicateKeeps, "duplicate-keeps", ledgerMode, "5.5",
		"a duplicate's units do not go to R", asTested},
	{noNonce, "no-nonce", ledgerMode, "5.6",
		"an entry is answered by the row at its position, whoever's", asTested},
	{noTombstone, "no-tombstone", ledgerMode, "6 cancel",
		"a cancel of an absent id leaves nothing", asTested},
	{limitOutside, "limit-outside", ledgerMode, "8",
		"the limit's counter is read before the transaction",
		func(b *Bounds) { b.Limit, b.Faults = true, 0 }},
	{oldSnapshot, "old-snapshot", ledgerMode, "5.8",
		"budget_exhausted is answered from a snapshot kept", asTested},
	{twoStatements, "two-statements", ledgerMode, "2 I3",
		"I3's sum is read by two statements", asTested},
	{shrinkSubtracted, "shrink-subtracted", ledgerMode, "2 I3",
		"pending shrinks are subtracted from I3's sum",
		func(b *Bounds) { b.Shrink = true }},
	{refusedWhileOut, "refused-while-out", ledgerMode, "5.6", "a refusal while a command is out",
		func(b *Bounds) { b.Amounts, b.Faults = "22", 0 }},
	{collectSplit, "collect-split", ledgerMode, "5.8", "a collect in two transactions", asTested},
	{storeTrusted, "store-trusted", ledgerMode, "6 offline",
		"the store's amount is trusted at close", asTested},
	{noMissing, "no-missing", ledgerMode, "6 offline",
		"grants that never arrived are forgotten at close", asTested},
	{applyClosed, "apply-closed", ledgerMode, "6 apply",
		"a grant to an epoch that is not open", asTested},
	{ackEarly, "ack-early", ledgerMode, "5.5", "accepted before the commit", asTested},
	{noLeft, "no-left", ledgerMode, "6 rollback",
		"a rollback does not look at what is left", asTested},
	{noRollbackID, "no-rollback-id", ledgerMode, "6 rollback",
		"a repeated rollback id gives back again", asTested},
	{noAdjustmentID, "no-adjustment-id", ledgerMode, "4", "a repeated append appends again",
		func(b *Bounds) { b.Append = true }},
	{shrinkUncovered, "shrink-uncovered", ledgerMode, "6 shrink",
		"a shrink is done although U does not cover it",
		func(b *Bounds) { b.Shrink = true }},
	{noActivation, "no-activation", storeMode, "9",
		"scripts that do not carry the activation", asTested},
	{noQuarantine, "no-quarantine", storeMode, "6 recover", "a lost epoch's O goes to U", asTested},
	{noHearing, "no-hearing", storeMode, "6 recover", "proven before every node was heard", asTested},
	{ackUncounted, "ack-uncounted", storeMode, "6 recover",
		"what a node acknowledged does not count in its highest position", asTested},
	{ackLate, "ack-late", storeMode, "6 recover",
		"a node acknowledges after it was heard", asTested},
	{noNumber, "store-no-number", storeMode, "6 apply",
		"a grant that arrived is added again", asTested},
	{noVoidRecord, "no-void-record", storeMode, "6 cancel", "a cancel without void record", asTested},
	{noVoidDrain, "no-void-drain", storeMode, "6 cancel",
		"a tombstone before the log is drained", asTested},
	{noReopened, "no-reopened", storeMode, "6 cancel",
		"a tombstone although an epoch was opened since",
		func(b *Bounds) { b.Faults, b.Nodes, b.Amounts = 0, 1, "11" }},
	{noLookup, "no-lookup", storeMode, "5.7", "no look-up in the ledger in a young epoch",
		func(b *Bounds) { b.Faults, b.Nodes, b.Amounts = 0, 1, "11" }},

	{confirmOutside, "confirm-outside", ledgerMode, "6 hold",
		"a confirm judges state and deadline before its transaction", aHold},
	{confirmLate, "confirm-late", ledgerMode, "6 hold", "a confirm does not look at the deadline",
		aHold},
	{confirmAgain, "confirm-again", ledgerMode, "6 hold", "a repeated confirm confirms again", aHold},
	{restKept, "rest-kept", ledgerMode, "6 hold",
		"the rest of what was confirmed in part does not return", aHold},
	{expireUnlooked, "expire-unlooked", ledgerMode, "6 hold",
		"a sweeper does not look at the hold under its lock", aHold},
	{expireEarly, "expire-early", ledgerMode, "6 hold", "a hold expires before its deadline", aHold},
	{countKept, "count-kept", ledgerMode, "8", "an expired hold stays in the limit's counter",
		func(b *Bounds) { aHold(b); b.Limit = true }},
	{confirmUndrained, "confirm-undrained", storeMode, "6 hold",
		"a confirm before what was accepted is in the ledger", aHold},

	{commitOver, "commit-over", ledgerMode, "7", "a commit does not look at the period's end", aTurn},
	{returnsToOpen, "returns-to-open", ledgerMode, "ADR 13",
		"what comes back goes to U, whichever period it is of",
		func(b *Bounds) { aTurn(b); b.Unused = toForfeit }},
	{lateUnmarked, "late-unmarked", ledgerMode, "6 rollback",
		"a late refund goes where unused units go",
		func(b *Bounds) { aTurn(b); b.Unused = toForfeit }},
	{sweepBefore, "sweep-before", ledgerMode, "6 rollback",
		"a late refund is swept while the roll-over is due",
		func(b *Bounds) { aTurn(b); b.Unused = toForfeit }},
	{sweepByClock, "sweep-by-clock", ledgerMode, "6 rollback",
		"late refunds wait only where the sweeper's clock says that a roll-over is due",
		func(b *Bounds) { aTurn(b); b.Unused, b.Lag = toForfeit, true }},
	{oldNumber, "old-number", ledgerMode, "ADR 13",
		"an epoch begins under the number of the period that is over", aTurn},
	{periodAlone, "period-alone", ledgerMode, "2 I3",
		"budget_exhausted by the open period alone", aTurn},
	{turnUnclosed, "turn-unclosed", storeMode, "7",
		"a roll-over ends epochs without closing their stores", aTurn},
	{noUntil, "no-until", storeMode, "7", "operations do not carry the end of their period", aTurn},
	{collectAcross, "collect-across", storeMode, "ADR 13",
		"a collect takes an ended period's units into the open one",
		func(b *Bounds) { aTurn(b); b.Buckets, b.Amounts = 2, "11" }},
	{lateOpen, "late-open", storeMode, "ADR 13",
		"an epoch that was still opening at the roll-over becomes open", aTurn},
}

// aHold and aTurn are bounds without faults.
func aHold(b *Bounds) { b.Hold, b.Undo, b.Faults, b.Buckets = "0", "", 0, 1 }
func aTurn(b *Bounds) { b.Turn, b.Faults, b.Buckets, b.Epochs = true, 0, 1, 2 }

func mutationOf(name string) (mutation, bool) {
	for _, mut := range mutations {
		if mut.name == name {
			return mut, true
		}
	}
	return mutation{}, false
}
