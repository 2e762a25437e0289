// Package chaos breaks a whole installation of real processes while callers use it, and then looks
// whether what they were told, the ledger and what is used are the same, to the unit and per
// request id (I1-I7). It is made of tests only.
//
// A world is MariaDB, three Redis and some budgetd, built with the race detector where the tests
// are. Every connection passes a proxy (testservers.Proxy), so that requests and replies can be
// cut, slowed and swallowed. Callers deduct on a hot budget that sells out, on one that cannot run
// out, on one whose total changes and on one with a limit per user and minute, repeat ids through
// any node, send them through two nodes at once, send another amount under a known id, give back
// parts and wholes, and cancel; an operator takes buckets offline and online meanwhile.
//
// A round is some strikes (Faults, alone or two together) under that load with little time to
// recover between them. After it:
//
//  1. everything works again; a caller with an open outcome repeats the id or cancels it;
//  2. within a minute nothing is half done: no epoch opening or closing, no pending grant or
//     shrink, nothing returning, fenced or behind its log, every lane verified by every node;
//  3. package auditor finds every unit where the accounts say it is; every accepted id is in the
//     ledger with its amount and what was given back, every cancelled one has no effect, every
//     other one is not there, and nothing else is; the total is what the appends and shrinks that
//     were done make of it; the audit agrees through every node;
//  4. no user has more in any minute than the limit allows, and in ledger mode each counter is what
//     the ledger's rows of its user and minute sum up to;
//  5. the hot budget can be sold out to its last unit, through any node, and not one unit more.
//
// In store mode deductions have no rows: what is used is what callers were told, to the unit. Once
// a memory was lost, what was accepted may be lost with it, but no more than is quarantined.
//
// # Linearizability
//
// TestLinearizable checks that the service looks like one thing that does one call after the other,
// whatever fails meanwhile (I2-I6).
//
// Many small budgets are used side by side while one kind of fault strikes real processes. What
// each call asked, what it was answered and when becomes a history per budget, which porcupine
// (github.com/anishathalye/porcupine) must be able to put in one order that respects time and that
// the model accepts:
//
//	state       total, remaining units, and of every id what became of it
//	deduct      accepted: the id is new and covered; replayed: it is known; budget_exhausted: it is
//	            new, and remaining is below the amount and is the figure that the answer names
//	rollback    never more than is left; a repetition changes nothing
//	cancel      gives back what is left, or leaves a tombstone
//	append      once per id; a shrink only of what remains
//	views       what they show is the state at one instant within the call; units on their way back
//	            count as remaining
//	unavailable changes nothing
//	unknown     takes effect at any instant after its call, or never: its return is after the end
//
// The last operation of each history is the ledger's rows once all is quiet.
//
// This is done in both durabilities; in store mode with the kinds of faults after which no accepted
// deduction may be lost (not Fault.Forgets), on Redis that flush before they answer. The
// ledger is behind the answers there, and so these are judged otherwise:
//
//	views            may show more as remaining than is left. They show less only by units of
//	                 rollbacks under way: a store can use these before the ledger has them
//	budget_exhausted may name more than is left, and less than the amount; less as views do
//	a replay         may show as used what was given back, where the fault is one of MariaDB or the
//	                 call ran into the service's deadline: a store's record answers repetitions
//	                 while the ledger cannot be asked, or does not answer in time
//	a rollback       may be the first and yet be shown as replayed: the service cannot tell whose
//	                 effect it finds when it repeats a call whose reply it lost
//
// Whatever else is answered, and the rows at the end, is judged as in ledger mode.
//
// A history that fits no order is kept beside the logs of all processes: as text, with the longest
// order found, what does not fit behind it and what was left out, and as porcupine's picture.
//
// # By hand
//
// From the repository's root:
//
//	go test -race -timeout 0 ./internal/chaos -run '^TestChaos$' -v -chaos.duration 10m
//	go test -race -timeout 0 ./internal/chaos -run '^TestChaos$' -v -chaos.duration -1s
//	go test -race -timeout 0 ./internal/chaos -run '^TestKills$' -v -chaos.kills 100
//	go test -race -timeout 0 ./internal/chaos -run '^TestLinearizable$' -v -linearize.kinds all \
//		-linearize.histories 200
//
// A duration of -1s runs the whole schedule. Each prints the line that repeats it, with its seed,
// and a table of what took place. The seed orders faults and calls; when they meet is up to the
// machine.
package chaos
