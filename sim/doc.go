// Package sim runs whole services with faults in virtual time, from a seed: one to three nodes over
// the model of the database and the stores in memory, clients that retry, roll back, cancel and
// change budgets, and a network and machines that fail. Package auditor, which shares no code with
// the system, counts along and says what is wrong.
//
// # One seed, one schedule
//
// A run lives in a bubble of testing/synctest, whose clock moves only when every goroutine waits. Every
// call of a store or of the database, every Clock.Sleep and every turn (bucket.Turns) of a service
// waits for an instant of its own, a nanosecond that nobody else has. So one goroutine goes on at a
// time, until it waits again: neither Go's scheduler nor the machine has a say in the order. The
// instant and the fault of a call are a hash of the seed, the present instant and what the call is,
// not of the order in which goroutines ask.
//
// Where two goroutines ask for the same thing at the same instant, the schedule would depend on the
// scheduler after all: that is counted (Report.Ambiguous) and a test wants none.
//
// # Both modes
//
// Of five seeds three have budgets in store mode, half of their budgets. There callers are told before
// the ledger has it: the auditor holds such promises until they are counted, and at every commit what is
// outstanding in their epoch, or in quarantine once it has ended, must cover them. One seed in three of
// these has a lull of half a minute, in which nodes that crashed are found silent. Left out there is what
// docs/adr/0009 does not claim to bear: a store that goes back and remains who it was, a stepping clock.
// At the end an operator releases what nobody was told accepted, and that is sold as well.
//
// # Limits and holds
//
// Half of the budgets carry dimensions of few values and limits of all kinds of windows, which clients change;
// some of ledger mode get their first limits later. One request in five is a hold, half of those in a group,
// and clients confirm, extend and roll them back or let them expire. The auditor follows the ledger's rows as they
// are written and counts windows by itself: with no deduction is anybody above a maximum in a true window, in
// store mode by limits that were in force within the last 20 seconds, because a node may have heard of no
// newer ones. A limit refuses only what had no room at some moment of the call: in ledger mode by the rows (a
// sliding window in its slots), in store mode by all that its store may have counted (docs/adr/0016). A hold ends
// once, in one way, confirmed before its time and expired after it; of a group none is held once it is closed.
//
// # What a run must show
//
// At every commit: conservation, nothing negative (I1, I2). At every answer: accepted is in the
// ledger (I7; in store mode it comes there, or is lost and in quarantine), once (I4); exhausted only if it was so at some moment of the call (I3); a refusal has
// changed nothing (I6). At the end, when the faults are over and everything is quiet: what callers
// were told is what the ledger has, per id and unit, nothing is pending, and every unit can be sold.
package sim
