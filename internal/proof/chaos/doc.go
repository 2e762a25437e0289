// Package chaos injects faults into a whole installation of real processes while callers use it.
// Afterwards it checks that the callers' answers, the ledger and the used units agree, to the unit
// and per request id (I1-I7). All its code is tests.
//
// A world is MariaDB, three Redis and some budgetd, built with the race detector if the tests are.
// Every connection goes through a proxy (testservers.Proxy), which can cut, delay and swallow
// requests and replies. Callers use four budgets: a hot one that sells out, one that cannot run
// out, one whose total changes, and one with a limit per user and minute. They deduct, repeat ids
// through any node, send an id through two nodes at once, send another amount under a known id,
// roll back parts and wholes, and cancel. Meanwhile an operator takes buckets offline and online.
//
// A round is some strikes (one or two Faults at a time) under that load, with little time to
// recover between them. After a round:
//
//  1. Everything works again. A caller with an unknown outcome repeats or cancels the id.
//  2. Within a minute no work is half done: no epoch is opening or closing, no grant or shrink is
//     pending, no unit is returning, no bucket is halted, and every node has verified every
//     partition.
//  3. Package auditor finds every unit where the columns say it is. Every accepted id is in the
//     ledger with its amount and its refunds, every cancelled id has no effect, and there are no
//     other ids. The total follows from the appends and shrinks that took effect. The service's
//     audit agrees through every node.
//  4. No user has more in any minute than the limit allows. In ledger mode each counter is the sum
//     of the ledger's rows of its user and minute.
//  5. Exactly the rest of the hot budget can be sold, through any node.
//
// In store mode deductions have no rows, so the used units are compared with the callers' answers.
// If a memory was lost, accepted units may be lost with it, but no more than are quarantined.
//
// # Linearizability
//
// TestLinearizable checks that under any fault the answers are those of a service that executes one
// call after the other (I2-I6).
//
// Many small budgets are used concurrently while one kind of fault strikes real processes. The
// calls of a budget, with their answers and times, are a history. porcupine
// (github.com/anishathalye/porcupine) must find an order of the history that respects time and that
// the model accepts:
//
//	state       total, remaining units, and the state of every id
//	deduct      accepted: the id is new and covered; replayed: it is known; budget_exhausted: it is
//	            new, and remaining is below the amount and is the figure that the answer names
//	rollback    never more than is left; a repeat changes nothing
//	cancel      gives back what is left, or leaves a tombstone
//	append      once per id; a shrink only of what remains
//	views       show the state at one instant within the call; returning units count as remaining
//	unavailable changes nothing
//	unknown     takes effect at any instant after its call, or never: its return is after the end
//
// The last operation of each history is the content of the ledger's rows once all is quiet.
//
// Both durabilities are tested. In store mode only faults after which no accepted deduction may be
// lost are injected (not Fault.Forgets), on Redis that flush before they answer. There the ledger
// lags behind the answers, so the model accepts more:
//
//	views            may show more remaining units than are left. They show fewer only by units of
//	                 rollbacks in progress, which a store can use before the ledger has them
//	budget_exhausted may name more than is left, but less than the amount; or less, as views do
//	a replay         may show units that were given back as used, if the fault is one of MariaDB or
//	                 the call ran into the service's deadline: the store's record answers repeats
//	                 while the ledger cannot be asked, or does not answer in time
//	a rollback       may be the first and be shown as replayed: the service cannot tell whose effect
//	                 it finds when it repeats a call whose reply it lost
//
// The model judges all other answers, and the rows at the end, as in ledger mode.
//
// A history without a valid order is stored with the logs of all processes: as text, with the
// longest order found, the operations that do not fit after it and those that were pruned, and as
// porcupine's picture.
//
// # Running it
//
// From the repository's root:
//
//	go test -race -timeout 0 ./internal/proof/chaos -run '^TestChaos$' -v -chaos.duration 10m
//	go test -race -timeout 0 ./internal/proof/chaos -run '^TestChaos$' -v -chaos.duration -1s
//	go test -race -timeout 0 ./internal/proof/chaos -run '^TestKills$' -v -chaos.kills 100
//	go test -race -timeout 0 ./internal/proof/chaos -run '^TestLinearizable$' -v \
//		-linearize.kinds all -linearize.histories 200
//
// A duration of -1s runs the whole schedule. Each test prints the command that repeats it, with its
// seed, and a table of faults and answers. The seed determines the order of faults and calls, but
// not their timing.
package chaos
