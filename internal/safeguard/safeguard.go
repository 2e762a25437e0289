package safeguard

// Name is a safeguard.
type Name string

// What decides whether a log may become rows of the ledger, and which (package ledger).
const (
	// LogMatch: the log holds the entry at drained_seq with drained_chain. Without it a store that
	// went back or forked is taken for the one that was drained (I4, I7).
	LogMatch Name = "log-match"
	// EntryChain: every entry's chain value is made from the one before it. Without it an entry that
	// was changed or put in by somebody else is committed (I2, I7).
	EntryChain Name = "entry-chain"
	// EndedEpoch: nothing of a closed or lost epoch is committed. Without it units that went back to
	// the total are used a second time (I1, I2).
	EndedEpoch Name = "ended-epoch"
	// FencedEpoch: nothing of a fenced epoch is committed. Without it what was found to disagree goes
	// on moving (I1).
	FencedEpoch Name = "fenced-epoch"
	// Outstanding: no more is deducted than was outstanding. Without it a store that shows too much
	// sells what does not exist (I2).
	Outstanding Name = "outstanding"
	// KnownIDs: an id that is in the ledger is a duplicate. Without it a repetition takes effect again
	// (I4).
	KnownIDs Name = "known-ids"
	// DuplicateUnits: what a duplicate took from its bucket goes to R. Without it those units are gone
	// (I1).
	DuplicateUnits Name = "duplicate-units"
	// PeriodEnd: an entry committed after the end of its period does not count. Without it a budget is
	// used after its end, however late the entry drains (I8).
	PeriodEnd Name = "period-end"
	// PeriodInStore: in store mode a store deducts nothing of a period that is over by its clock. Without it
	// a late message spends units of a closed period (I8).
	PeriodInStore Name = "period-in-store"
	// PeriodOver: nothing is granted of a period that is over. Without it units of a closed period can be
	// handed out before the roll-over (I8).
	PeriodOver Name = "period-over"
	// PeriodOfReturns: what comes back from an epoch of an older period goes where the rule says. Without it
	// the open period can spend it (I8).
	PeriodOfReturns Name = "period-of-returns"
	// HoldExpiry: a hold is confirmed only before its time is up, by SQL's clock. Without it a confirm goes
	// through that its caller was promised would not, for units that others count on (I2).
	HoldExpiry Name = "hold-expiry"
	// StillHeld: only what is held is confirmed. Without it units that were given back are used (I2, I5).
	StillHeld Name = "still-held"
	// WholeGroup: a group of holds is confirmed as a whole or not at all. Without it a part of it is used
	// though another has expired (I6).
	WholeGroup Name = "whole-group"
	// ClosedGroup: a group that was confirmed or rolled back takes no other hold. Without it a late member
	// is held beside a group that its caller has settled (I6).
	ClosedGroup Name = "closed-group"
	// CloseAmount: SQL's own O decides what a closing epoch gives back. Without it the store's figure
	// is trusted (I1, I2).
	CloseAmount Name = "close-amount"
	// RollbackBound: no more is given back than is left of a deduction (I5).
	RollbackBound Name = "rollback-bound"
)

// What the database's transactions keep (packages sqlstore and memstore).
const (
	// DrainedSeq: the compare-and-set on drained_seq. Without it two commits that read the same row
	// both advance it, and the entries between are counted twice (I4, I7).
	DrainedSeq Name = "drained-seq"
	// BytesKeys: request ids are bound as bytes. Without it SQLite takes the ids 7 and 007 for one (I4).
	BytesKeys Name = "bytes-keys"
	// RolledBack: a transaction that failed is rolled back before it is done again; after a lock wait
	// (1205) the server has only undone the statement. Without it the first half counts twice (I1).
	RolledBack Name = "rolled-back"
	// LostCommit: a connection lost at COMMIT proves nothing, and the transaction is done again.
	// Without it somebody is told "accepted" for what never happened (I7).
	LostCommit Name = "lost-commit"
	// Tombstone: cancel leaves a row for an id that has none. Without it a deduct that is late takes
	// effect after its cancel was answered (I4).
	Tombstone Name = "tombstone"
	// CollectAtOnce: the transaction that closes a donor grants its units to the target. Without it
	// another refill takes them away from the request that waits (I3).
	CollectAtOnce Name = "collect-at-once"
	// PendingShrink: what a shrink waits for is kept from apply and hand-out. Without it a shrink never
	// ends under load (I8).
	PendingShrink Name = "pending-shrink"
	// OpenForGrants: only an epoch that is open and not fenced gets grants. Without it units are given
	// to a bucket that can never use them (I1, I3).
	OpenForGrants Name = "open-for-grants"
	// Quarantine: units of a store that lost acknowledged deductions go to Q. Without it they are sold
	// again (I2).
	Quarantine Name = "quarantine"
	// UnheardNodes: an epoch is not settled before every node said how far it acknowledged. Without it
	// what a silent node had sold is sold again (I2).
	UnheardNodes Name = "unheard-nodes"
	// KnownEpochs: a tombstone is made only if no epoch began since the logs were drained. Without it
	// a deduction of the new epoch stands beside its own tombstone (I4).
	KnownEpochs Name = "known-epochs"
)

// What limits keep (packages limit and sqlstore; the model counts the ledger itself).
const (
	// CounterLock: a counter's row is made if it is missing, and locked, before it is judged. Without it
	// two commits both find room for the last one: the maximum is exceeded.
	CounterLock Name = "counter-lock"
	// CountedAhead: what was counted before it was judged is compared with the judgement. Without it a refused
	// deduction stays counted: the limit refuses while there is room.
	CountedAhead Name = "counted-ahead"
	// LimitsVersion: a change of limits is written on the epoch rows, whose locks order it with every
	// commit. Without it a commit goes on judging by limits that were changed (I8).
	LimitsVersion Name = "limits-version"
	// OlderWindow: a window that began before its limit was changed is loaded from the ledger. Without it a
	// limit that becomes monthly in mid-month starts from 0 (I8).
	OlderWindow Name = "older-window"
	// CountsReturned: what comes back of a deduction lowers the window in which it was counted. Without it
	// whoever was refunded stays refused.
	CountsReturned Name = "counts-returned"
)

// What a store's script decides (memory, SQL rows, Lua).
const (
	// GrantNumbers: a grant that has arrived is not added again. Without it a repeated message makes
	// units (I2).
	GrantNumbers Name = "grant-numbers"
	// GrantOrder: a grant whose predecessor has not arrived is refused. Without it the predecessor, when
	// it comes, passes for one that has arrived, and its units are gone (I1).
	GrantOrder Name = "grant-order"
	// Balance: a bucket deducts no more than it holds. Without it the filter admits everything, and what
	// store mode answers then is sold twice (I2).
	Balance Name = "balance"
	// SmallestSeq: a store behind what the caller knows answers WentBack. Without it a bucket that lost
	// its latest entries goes on selling (I2, I4).
	SmallestSeq Name = "smallest-seq"
	// Activation: a message of another activation than its epoch's changes nothing. Without it a late
	// message for an epoch that was lost is taken for one of the present (I2).
	Activation Name = "activation"
	// LaneActivation: a node serves the activation that it was prepared for and no other: scripts carry
	// its number. Without it one that was fenced goes on writing to a memory that was given away (I2).
	LaneActivation Name = "lane-activation"
	// ClosedInStore: a closed epoch takes nothing more. Without it a late grant gives units to it
	// (I1).
	ClosedInStore Name = "closed-in-store"
	// LateOpen: an epoch is not made once the log holds it or a later one. Without it a late message
	// brings an old epoch back to life (I1).
	LateOpen Name = "late-open"
	// RecordsFirst: in store mode the id is looked up before the balance and the state. Without it a
	// repetition of an accepted id is told "exhausted" or "closed" (I4).
	RecordsFirst Name = "records-first"
	// WindowCeiling: in store mode a bucket deducts no further than the window beyond the ledger.
	// Without it a lost store puts any number of units in doubt (I2).
	WindowCeiling Name = "window-ceiling"
	// LimitInStore: in store mode a store admits nothing above a limit's maximum. Without it one person takes
	// any number (I6, I8).
	LimitInStore Name = "limit-in-store"
	// LoadedCounters: a counter that a store may not know whole is loaded from the ledger, never taken for 0.
	// Without it a bucket that moved gives everybody the maximum again (I8).
	LoadedCounters Name = "loaded-counters"
	// LoadedFor: what was loaded for a counter is sent for no other. Without it a limit that changed, or a store
	// that was lost, in between takes it for what it is not, and somebody gets more than the maximum (I8).
	LoadedFor Name = "loaded-for"
	// OlderLimits: whoever knows older limits than its bucket has heard of is told so. Without it what a node takes,
	// that has not heard of a new limit yet, is missing from that limit's counters.
	OlderLimits Name = "older-limits"
	// RoutedAlways: in store mode the routing dimension's value picks the bucket with limits and without. Without it
	// the first limit makes an id go past its record, and it is accepted twice (I4).
	RoutedAlways Name = "routed-always"
	// KeptVoids: in store mode a void record stays as long as its epoch. Without it a deduct of a
	// cancelled id is told "accepted" once the record window has passed, and never counted (I4, I7).
	KeptVoids Name = "kept-voids"
	// AppendFirst: the log entry is a script's first write, the only one that can be refused. Without
	// it a refused call has taken units already (I1, I6).
	AppendFirst Name = "append-first"
	// NoExpiry: balance and log never expire. Without it a bucket that is idle loses its units (I1).
	NoExpiry Name = "no-expiry"
	// ReplicationID: in store mode the script compares the replication id. Without it a fail-over
	// behind an open connection is not noticed, and nobody else would notice it (I2).
	ReplicationID Name = "replication-id"
)

// What the driver of a Redis must and must not do (package redisstore).
const (
	// RedisRetries: go-redis does not repeat a command by itself. Without that an operation whose
	// reply was lost is executed again, unseen (I1, I4).
	RedisRetries Name = "redis-retries"
	// ConnectionIdentity: every new connection meets the identity that SQL verified. Without it a
	// server that restarted with its data and scripts is taken for the memory that was known (I2).
	ConnectionIdentity Name = "connection-identity"
)

// What the service tells callers, and when (package bucket).
const (
	// Nonce: the outcome at a log position is an attempt's own only if its nonce says so. Without it
	// somebody is told another's outcome after a store went back (I4, I7).
	Nonce Name = "nonce"
	// Fingerprint: an id that is known with another payload is a conflict. Without it the caller is
	// told "accepted" for what was never deducted (I4).
	Fingerprint Name = "fingerprint"
	// SoldOutSnapshot: "exhausted" is answered from one statement read now. Without it the remembered
	// sell-out answers, after an append and for accepted ids too (I3, I4).
	SoldOutSnapshot Name = "sold-out-snapshot"
	// SecondLook: a sum that does not cover an amount is read again, by a statement that begins after the first has ended.
	// Without it a statement that shows a commit without one made before it refuses what exists (I3).
	SecondLook Name = "second-look"
	// UnansweredStep: nobody is told "not done" while a step of the attempt was not answered. Without
	// it a call that hangs takes effect after it was refused (I6).
	UnansweredStep Name = "unanswered-step"
	// AnswerAfterCommit: in ledger mode "accepted" is said after the commit. Without it a lost store
	// takes accepted deductions with it (I7).
	AnswerAfterCommit Name = "answer-after-commit"
	// VoidRecord: in store mode cancel leaves a void record in every live epoch. Without it a deduct of
	// the id is accepted after its cancel was answered (I4).
	VoidRecord Name = "void-record"
	// OlderVoids: in store mode a node knows what was cancelled before an epoch began. Without it a deduct
	// of a cancelled id is told "accepted" in an epoch that is no longer young, and never counted (I4, I7).
	OlderVoids Name = "older-voids"
	// DrainedTombstone: in store mode the logs are drained before the tombstone is made. Without it an
	// accepted deduction becomes void, and its caller was told "accepted" (I4, I7).
	DrainedTombstone Name = "drained-tombstone"
	// AcknowledgedFirst: a node notes how far its word reaches before it gives it. Without it units
	// that were sold return to the total when their store is lost (I2).
	AcknowledgedFirst Name = "acknowledged-first"
	// ReportApart: a node keeps what it acknowledged under an activation until SQL has the report of that one. Without
	// it units that were sold are released when reports overtake each other (I2).
	ReportApart Name = "report-apart"
	// DrainedAgain: an epoch of which more was acknowledged than drained is drained once more when every node has
	// reported. Without it what a node accepted after the drain is quarantined and never counted (I7).
	DrainedAgain Name = "drained-again"
	// UseLease: a node acknowledges only while SQL has heard of it lately. Without it one that was paused
	// says "accepted" for what others have counted as never acknowledged (I2).
	UseLease Name = "use-lease"
	// ResizeEndsAll: in store mode all of a budget's epochs end before it gets another number of buckets.
	// Without it a node that knows the old number accepts an id in another bucket than one that knows the
	// new one (I4).
	ResizeEndsAll Name = "resize-ends-all"
	// DepartedUses: what a store keeps of a bucket that left its lane is removed only when no node
	// acknowledges any more under the activations of that time. Without it a late message brings an ended
	// epoch back to life, and somebody is told "accepted" on its word (I2, I7).
	DepartedUses Name = "departed-uses"
	// YoungEpochs: in store mode an epoch younger than the record window looks ids up in the ledger.
	// Without it a repetition is told "accepted" as if it were new (I4).
	YoungEpochs Name = "young-epochs"
	// WholeCancel: in store mode a void record without a tombstone is not answered as one that lasts.
	WholeCancel Name = "whole-cancel"
	// FeedCursor: a reader's cursor of the feed has a place in each bucket, not one for all.
	FeedCursor Name = "feed-cursor"
)

// Names lists all safeguards.
func Names() []Name {
	return []Name{LogMatch, EntryChain, EndedEpoch, FencedEpoch, Outstanding, KnownIDs,
		DuplicateUnits, PeriodEnd, PeriodInStore, PeriodOver, PeriodOfReturns, CloseAmount, HoldExpiry, StillHeld, WholeGroup, ClosedGroup, RollbackBound, DrainedSeq, BytesKeys, RolledBack,
		LostCommit, Tombstone, CollectAtOnce, PendingShrink, OpenForGrants, Quarantine,
		UnheardNodes, KnownEpochs, CounterLock, CountedAhead, LimitsVersion, OlderWindow, CountsReturned, GrantNumbers, GrantOrder, Balance, SmallestSeq, Activation,
		LaneActivation, ClosedInStore, LateOpen, RecordsFirst, WindowCeiling, KeptVoids,
		LimitInStore, LoadedCounters, LoadedFor, OlderLimits, RoutedAlways,
		AppendFirst,
		NoExpiry, ReplicationID, RedisRetries, ConnectionIdentity, Nonce, Fingerprint,
		SoldOutSnapshot, SecondLook, UnansweredStep, AnswerAfterCommit, VoidRecord, DrainedTombstone,
		AcknowledgedFirst, ReportApart, DrainedAgain, UseLease, ResizeEndsAll, DepartedUses, YoungEpochs, OlderVoids, WholeCancel, FeedCursor}
}
