// The model of ledger mode.
//
// SQL is lossless. Every transaction is one step, because it locks its rows first. A transaction
// whose COMMIT got no reply is pending: it keeps its row locks, readers do not see it, and it
// commits or aborts later. The redo waits for the same locks, so it runs after that.
//
// Nodes have no state. A call may commit in any bucket at any time, so crashes, pauses and retries
// through another node are all included.
package main

import (
	"flag"
	"strings"
)

const (
	K = 4 // request ids
	A = 2 // calls of an id
	N = 3 // buckets: 0 and 1 belong to budget 0; 2 to budget 1 (legs) or budget 0 (three)
	E = 4 // epochs of a bucket; the last ones are kept for completion
)

const ( // status of an epoch row
	none int8 = iota
	open
	closed
)

const ( // state of a deduction row
	absent int8 = iota
	used
	held
	returned // rolled back or expired
	void     // tombstone of a cancel
)

type Epoch struct{ status, O, H, S, R, period int8 }

// Bucket has its epoch rows. entry is a column of the newest row and continues from row to row.
type Bucket struct {
	cur, entry int8
	applied    int8 // applications for units that were never handed out
	epoch      [E]Epoch
}

type Budget struct {
	T, F, U, X       int8
	period           int8 // the funded one
	fresh            int8 // units of U that were never handed out
	late             int8 // units of an older period that the sweeper moved into this one
	appended, shrunk int8
}

type Row struct {
	state, b, e, left int8 // left: units not rolled back
	call, times       int8 // call + 1; how often the id took effect
	window            int8
	entry             int8    // feed number of the deduction
	back              [2]int8 // by rollback id: feed number of the rollback, or 1
	confirmed         bool
}

type Call struct {
	refused bool // told a refusal or `unavailable`
}

// Tx is a transaction, Op any move, as the trace prints it.
type Tx struct{ kind, a, b, c, d int8 }

type Op struct {
	name       string
	a, b, c, d int8
}

type Pending struct {
	op                Tx
	clock, max, entry int8
	paused            bool
}

type State struct {
	bud    [2]Budget
	b      [N]Bucket
	row    [2][K]Row
	call   [K][A]Call
	count  [2]int8 // limit rows by window
	max    int8    // of the limit
	clock  int8    // 1: the end of period 0, or of window 0, has passed
	paused bool
	pend   Pending
	faults int8
	cursor [N]int8  // feed
	seen   [K]uint8 // events the reader has: 1 deduction, 2 and 4 rollbacks
	bad    int8
	told   [K]uint8 // answers: 1 cancelled, 2 accepted
	// State of mutants: what a node remembers.
	looked         [K]bool
	peekU, peekMin int8
	peekCount      int8
	// Used with lag.
	look, view, delta, rows int8
}

const ( // transactions
	flight int8 = iota + 1
	rollback
	confirm
	cancel
	apply
	online
	offline
	recycle
	rollover
	sweep
	shrink
	appendT
	bring // it is judged like a flight, but locks everything of its budget
)

var problems = []string{
	"",
	"period: a deduction was committed in an epoch whose period is over",
	"limit: counted above the maximum that SQL holds",
	"I4: a repeat of an accepted id was refused",
	"I3: budget_exhausted although the sum was never below the amount",
	"I8: a deduction was committed after the pause",
	"limit: refused from memory although the rows have room",
	"model: a lock is missing, the pending transaction cannot commit",
	"I3: a bring refused although the period could still get the amount",
}

var (
	with     = flag.String("with", "", "features, see README.md")
	ids      = flag.Int("ids", 2, "request ids")
	calls    = flag.Int("calls", 1, "calls per id")
	amounts  = flag.String("amounts", "2111", "their amounts")
	epochs   = flag.Int("epochs", 2, "epochs per bucket")
	maxFault = flag.Int("faults", 1, "commit replies lost")
	undo     = flag.String("undo", "0", "ids that may be rolled back or cancelled")
	mutant   = flag.String("mut", "", "take this safeguard out")
)

var feature = map[string]bool{}

func mut(m string) bool    { return *mutant == m }
func amount(k int8) int8   { return int8((*amounts)[k] - '0') }
func undoable(k int8) bool { return strings.ContainsRune(*undo, rune('0'+k)) }
func limited(k int8) bool  { return feature["limit"] && k < 2 }

func budgetOf(b int8) int8 {
	if b == 2 && feature["legs"] {
		return 1
	}
	return 0
}

func exists(b int8) bool {
	return b == 0 || b == 1 && !feature["one"] || b == 2 && (feature["legs"] || feature["three"])
}

// legs reports which budgets the request names.
func legs(k int8) (bool, bool) {
	if !feature["legs"] {
		return true, false
	}
	return k != 1, k != 0
}

func (o Tx) op(how string) Op { return Op{how + transactions[o.kind].name, o.a, o.b, o.c, o.d} }

func (s *State) newest(b int8) *Epoch { return &s.b[b].epoch[s.b[b].cur] }
