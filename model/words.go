package main

// The most of everything that a State has room for; Bounds say how much of it is used.
const (
	maxIDs, maxBuckets, maxEpochs, maxGrants, maxLog, maxNodes = 3, 2, 3, 3, 8, 2
)

// status is where an epoch stands.
type status int8

const (
	none status = iota
	opening
	open
	closing
	closed
	lost
)

// state is what became of a request id in the ledger.
type state int8

const (
	absent state = iota
	used
	held
	rolledBack
	expired // a hold whose time was up
	void    // the tombstone of a cancel
)

// effective reports whether an id took effect, whatever became of it since.
func (s state) effective() bool { return s != absent && s != void }

// The entries of a log: entryGrant + number, entryDeduct + 4*id + nonce, entryClose + 8*grants that
// arrived + balance. tampered is added to a deduction whose amount somebody changed in the store;
// its chain value then continues nothing.
const (
	entryOpen   uint8 = 1
	entryGrant  uint8 = 8
	entryDeduct uint8 = 16
	entryClose  uint8 = 32
	tampered    uint8 = 128
)

func isGrant(v uint8) bool  { return v >= entryGrant && v < entryDeduct }
func isDeduct(v uint8) bool { return v&^tampered >= entryDeduct && v&^tampered < entryClose }
func isClose(v uint8) bool  { return v >= entryClose && v < tampered }

func deductEntry(id, nonce int8) uint8 { return entryDeduct + uint8(4*id+nonce) }
func idOf(v uint8) int8                { return int8((v&^tampered - entryDeduct) / 4) }
func nonceOf(v uint8) int8             { return int8(v&^tampered-entryDeduct) % 4 }

// Log is one epoch's part of a bucket's log. The balance is a function of it and of bent.
type Log struct {
	at [maxLog]uint8
	n  int8
}

func (l *Log) append(v uint8) { l.at[l.n] = v; l.n++ }
func (l *Log) cut(n int8)     { clear(l.at[n:]); l.n = n }
func (l *Log) closed() bool   { return l.n > 0 && isClose(l.at[l.n-1]) }

// begins reports whether a log begins with another one: what comparing chain values says, as a
// value is made from all entries up to it.
func (l *Log) begins(with *Log) bool {
	if l.n < with.n {
		return false
	}
	for i := range with.n {
		if l.at[i] != with.at[i] {
			return false
		}
	}
	return true
}

// find returns the position of an id's first deduction, -1 if there is none.
func (l *Log) find(id int8) int8 {
	for i, v := range l.at[:l.n] {
		if isDeduct(v) && idOf(v) == id {
			return int8(i)
		}
	}
	return -1
}

// Epoch is a row of bucket_epoch, with what stores hold of it.
type Epoch struct {
	status     status
	activation int8
	fenced     bool
	O, H, S, R int8
	period     int8            // its number: 0 for the one that ends, 1 for the next one
	late       int8            // the part of R that was used when its period was over
	grant      [maxGrants]int8 // grant_log: amounts by number, from 0
	nextGrant  int8
	// drained is what is in the ledger. Its length stands for drained_seq, it all for drained_chain.
	drained Log
	// log is what the running store holds; old what it held before its last fault: a committer may
	// have read it before, and while zombie is set it is a master that still serves.
	log, old Log
	zombie   bool
	// bent and oldBent are how far somebody moved the balance, in the running and in the old store.
	bent, oldBent int8

	// The rest is store mode's.

	// voids and oldVoids are the ids with a void record, in the running store and in the old one.
	voids, oldVoids uint8
	// sent are the ids that a look-up after the epoch was opened may have shown as absent.
	sent uint8
	// acked is the highest position that each node acknowledged; heard are the nodes that have said
	// so and acknowledge nothing of this epoch any more.
	acked [maxNodes]int8
	heard uint8
	Q     int8 // quarantined when the epoch was lost
}

func (x *Epoch) live() bool {
	return x.status == opening || x.status == open || x.status == closing
}

// granted is the sum of grant_log from a number on.
func (x *Epoch) granted(from int8) (sum int8) {
	for _, n := range x.grant[from:x.nextGrant] {
		sum += n
	}
	return sum
}

// Bucket sits alone on its lane, so the lane's fields are here too.
type Bucket struct {
	activation int8
	scripts    uint8 // the running store's script cache: one bit per activation
	verified   bool  // the identity that SQL knows is the running store's
	current    int8  // the newest epoch
	epoch      [maxEpochs]Epoch
}

func (c *Bucket) newest() *Epoch { return &c.epoch[c.current] }

// Row is what the ledger holds of a request id, and what its callers were told.
type Row struct {
	state                        state
	bucket, epoch, nonce, amount int8
	rolled                       int8  // rolled back units
	rollbacks                    uint8 // rollback ids that are in rollback_log
	hold                         Hold
	counted                      int8 // how often the id was counted as used
	toldVoid, toldAccepted       bool
	refused                      uint8 // nonces that were told a refusal
	lostIn                       int8  // store mode: 1 + the lost epoch whose Q covers toldAccepted
	// voidIn is 1 + the epoch for which a cancel's void record was answered, voidAt how far that
	// epoch must be drained before the tombstone.
	voidIn, voidAt int8
}

// Hold is the rest of what the ledger holds of a deduction that is a hold.
type Hold struct {
	// due: SQL's clock has reached its deadline. begun: a transaction that read the clock before that
	// is still under way. Once it was confirmed, due says that it was by a clock beyond the deadline.
	due, begun bool
	// confirmed is what was confirmed, returned what its end gave back, told what a caller was told
	// as confirmed, in units; ends are its rows in hold_log.
	confirmed, returned, told, ends int8
	listed                          bool // set by a mutant only: see expire
}

// State is one budget: its row, its buckets, its ledger.
type State struct {
	T, U     int8
	books    Books
	appended int8
	shrink   adjustment
	bucket   [maxBuckets]Bucket
	row      [maxIDs]Row
	count    int8 // the limit's counter row
	faults   int8

	// The rest is set by mutants only.

	hand       int8 // collect: units between two transactions
	peek       int8 // limit, statements: 1 + what was read before
	least      int8 // statements: I3's smallest sum since then
	remembered int8 // snapshot: a refusal of this amount, remembered
	broke      broke
}

// broke is what a step did that no state shows.
type broke int8

const (
	falseNo     broke = 1 + iota // a refusal that no moment justifies
	countedLate                  // ledger mode: counted, by a clock beyond the end of its period
	tookLate                     // store mode: admitted beyond the end of its period
	notFound                     // store mode: accepted, and a confirm or a rollback did not find it
)

// Books are what a budget's row and its periods' rows have beside T and U.
type Books struct {
	F, X   int8
	over   bool // SQL's clock has reached the end of period 0
	period int8 // the number of the open period
	// returned, passed and forfeited left period 0 once it was over: to F, to period 1, to X. funded
	// is what period 1 got of F.
	returned, passed, forfeited, funded int8
	// lateBack is what was given back of period 0 after its end, kept where late refunds go elsewhere
	// than unused units.
	lateBack int8
}

// due reports whether a roll-over is.
func (s *State) due() bool { return s.books.over && s.books.period == 0 }

// adjustment is the state of the one shrink.
type adjustment int8

const (
	notAsked adjustment = iota
	pending
	done
	refused
)

func (s *State) newest(b int8) *Epoch { return s.bucket[b].newest() }

// pendingShrink is what apply and hand-out may not take.
func (s *State) pendingShrink() int8 {
	if s.shrink == pending {
		return shrinkUnits
	}
	return 0
}

func (s *State) releasable() int8 { return max(s.U-s.pendingShrink(), 0) }
