// Command model looks at every state that the protocol of budgetd can reach within bounds, and
// says which invariant breaks, with the shortest way there in words.
//
//	go run ./model -mode ledger|store [bounds] [-mutant NAME]
//	go run ./model -list
//
// It exits with 0 and "no violation", or with 1 and a trace. Names are those of bucket, ledger
// and internal/sqlstore. One file per part:
//
//	words.go     the state: budget, buckets, epochs, logs, ledger rows (DESIGN 4)
//	store.go     the scripts: OPEN, GRANT, DEDUCT, CLOSE, VOID; answering in store mode (5.4, 5.6, 6)
//	commit.go    log match, ledger.Drain, CloseEpoch, collect (5.5, 5.8, 6 offline)
//	sql.go       apply, online, ending, sweep, rollback, cancel, append, shrink, fence, recover,
//	             lose, release (6)
//	holds.go     confirm, extend, expire; store mode: what they do not find (6, ADR 15)
//	periods.go   the roll-over, where units of a period that is over go, I3's sum of a period (7,
//	             ADR 13)
//	answer.go    budget_exhausted and what callers are told (2 I3, 5.6, 5.8)
//	fault.go     restart, flush, split, down, tamper (9)
//	steps.go     which step may come next: each of the above, at any time its own conditions hold
//	check.go     the invariants, in every state (2, 3)
//	complete.go  completion: from every state the chores alone bring it to an end
//	mutants.go   safeguards that can be taken out
//
// # The adversary
//
// Nothing that was sent is kept: a command may run as soon as the SQL row that justifies sending
// it is written, at any later time, any number of times, on the running store or on the old
// master of a split. A committer may work from the log as it is, from any beginning of it, or
// from the log as it was before the last fault. An attempt that was told a refusal is the
// exception: the service refuses only when every command of the attempt was answered, so none is
// left to run.
//
// SQL's clock reaches a hold's deadline and the end of the period at any time. A transaction about
// a hold may have read the clock before the deadline, and get its locks at any time after it. With
// -lag, a commit, a sweep, a rollback and the end of a hold may go by a clock from before the
// period's end at any time after it: the transaction has waited, or its node's clock is slow.
//
// # The invariants
//
// In every state: T = F + U + X + Σ(O + H + S + R + Q), nothing below zero; S and H are what the
// rows give; O is what was granted less what was drained; where a log match passes, all that is
// drained is in the ledger; an id takes effect once; a cancelled id and a refused attempt never; a
// rollback gives back what was asked for, and never more than was deducted; the limit; not
// oversold; budget_exhausted only where I3's sum was below the amount; no bucket is fenced unless
// something failed. Told "accepted": in the ledger; in store mode in the ledger, outstanding, or
// covered by Q.
//
// Of holds (-hold): one end each; confirmed only by a clock before the deadline and expired only by
// one after it; never more confirmed than was held; told "confirmed" is used, as much as was told,
// until it is rolled back; in store mode, what was accepted before a confirm or a rollback is found
// by it, unless its epoch was lost.
//
// Of periods (-turn): what a period got is in its epochs, left it, or is in U while it is open, so
// none spends another's units; F and X are what the periods give; units that were not used went
// where `unused` says and late refunds where `late_refund` says; nothing is counted (ledger mode)
// or admitted (store mode) by a clock after the end of its epoch's period; no epoch of a period
// that is over is open; period_exhausted only where what the open period got, less what was used of
// it, is below the amount, and budget_exhausted only where T less X and all that was used is, as
// long as a period follows.
//
// From every state, when faults and requests stop: every epoch ends, every unit is in F, U, X, S, H
// or Q, no shrink is pending, no hold is due and no roll-over, and every id without an outcome can
// get one in a new epoch.
//
// # Reading the state
//
// A chain value is the hash of a prefix of the log, so here the drained prefix itself stands for
// drained_chain. Each bucket has a lane of its own. Ended epochs keep S, H and R only, as every
// transaction looks at the status first; one that has Q keeps everything. States that behave alike
// are one: buckets exchanged (ledger mode), nodes exchanged, activations renumbered. That requests
// skip the buckets of a sold-out budget is no step of its own, as an attempt may be refused
// without having asked a bucket.
//
// # What is not modelled
//
// Groups of holds; more than one end of a period, one after which no period follows, a rule that is
// changed within a period, adjustments beside a turn; the lanes' clocks, which agree with SQL's;
// limits but one (lifetime, judged in the commit, ledger mode); store mode's limits; expiry of
// store mode's request records (those of cancelled ids have none); a released Q by an operator; a
// changed number of buckets; rows in the ledger's own database (Direct); several lanes per
// instance; ledger rows' entries and the feed; trimming of logs; the smallest position that a
// caller knows (WentBack), which late commands do not help; a lane's old master becoming its master
// again; fingerprints. SQL is taken as lossless, its transactions as serial: lock order and
// isolation are internal/storetest's. FLUSHALL and DEBUG RELOAD, and changed keys, are faults of
// ledger mode only: store mode forbids them (9).
//
// # What was looked at
//
// Without a violation, beside what go test does (states, then seconds on two busy cores):
//
//	-mode ledger                                                               1.5 million   20
//	-mode ledger -ids 3 -amounts 221 -limit -kinds restart,down                0.6 million    8
//	-mode ledger -epochs 2 -log 4 -append -shrink -faults 0                    0.9 million   20
//	-mode ledger -buckets 1 -ids 1 -amounts 1 -attempts 2 -log 6               0.5 million    6
//	-mode ledger -buckets 1 -log 5 -faults 2                                   0.4 million   10
//	-mode store                                                                4.8 million   80
//	-mode store -buckets 2 -epochs 1 -log 4 -nodes 1                           1.3 million   35
//	-mode ledger -hold 01 -log 4                                               2.0 million   17
//	-mode ledger -hold 01 -undo 01 -limit -attempts 2 -buckets 1 -kinds restart,down
//	                                                                           0.5 million    5
//	-mode store -hold 0 -log 4 -grants 1                                       2.6 million   43
//	-mode ledger -turn -lag -hold 0 -epochs 2 -log 4 -grants 1 -faults 0       0.1 million    1
//	-mode ledger -turn -epochs 2 -log 4 -grants 1 -kinds restart               1.1 million   42
//	-mode ledger -turn -lag -hold 0 -buckets 1 -epochs 2 -log 4                0.6 million    9
//	-mode store -turn -buckets 2 -log 4 -grants 1 -nodes 1 -faults 0           0.3 million    6
//
// and, with every -unused and every -late (the nine together):
//
//	-mode ledger -turn -lag -hold 0 -buckets 1 -epochs 2 -log 4 -kinds restart   1.6 million    6
//	-mode store -turn -lag -hold 0 -ids 1 -amounts 2 -log 4 -grants 1 -kinds restart
//	                                                                           8.2 million   31
//
// # What it found
//
// sweep-by-clock was the protocol as built: a rollback by a clock after the end marks its units as late, a
// sweep by a clock from before it finds no roll-over due and takes them into U of the ending
// period, and so they go where unused units go. The sum stays right. It took two nodes whose clocks
// differ, or a sweep that waited for the budget's row across the end.
//
// # Safeguards
//
// What happens without one, as go test shows (steps of the shortest trace):
//
//	ledger   no-match 7, last-entry 9, no-continue 5, no-epoch 8, no-number 5, no-compare 6,
//	         no-outstanding 6, commit-lost 6, no-primary-key 5, duplicate-keeps 5, no-nonce 8,
//	         no-tombstone 5, limit-outside 11, old-snapshot 7, two-statements 4, shrink-subtracted 7,
//	         refused-while-out 14, collect-split 7, store-trusted 2, no-missing 4, apply-closed 3,
//	         ack-early 4, no-left 7, no-rollback-id 7, no-adjustment-id 2, shrink-uncovered 1,
//	         confirm-outside 8, confirm-late 7, confirm-again 7, rest-kept 6, expire-unlooked 9,
//	         expire-early 6, count-kept 6, commit-over 6, returns-to-open 6, late-unmarked 7,
//	         sweep-before 8, sweep-by-clock 8, old-number 1, period-alone 6
//	store    no-activation 7, no-quarantine 6, no-hearing 6, ack-uncounted 9, ack-late 9,
//	         store-no-number 6, no-void-record 6, no-void-drain 6, no-reopened 12, no-lookup 12,
//	         confirm-undrained 6, turn-unclosed 6, no-until 5, collect-across 13, late-open 4
//
// Two, taken out by hand, broke nothing alone: a grant that creates the balance hash (its OPEN
// entry is the same, so the chain stands) and, in ledger mode, scripts without activation (the log
// match finds what they do). A third is not in the model at all: units are handed out while a
// roll-over is due, which the code refuses; they end with the period.
package main
