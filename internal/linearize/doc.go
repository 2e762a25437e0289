// Package linearize checks that the real service looks like one thing that does one call after the
// other, whatever fails meanwhile (I2-I6).
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
// deduction may be lost (not chaos.Fault.Forgets), on Redis that flush before they answer. The
// ledger is behind the answers there, and so these are judged otherwise:
//
//	views            may show more as remaining than is left, never less
//	budget_exhausted may name more than is left, and less than the amount
//	a replay         may show as used what was given back, where the fault is one of MariaDB or the
//	                 call ran into the service's deadline: a store's record answers repetitions
//	                 while the ledger cannot be asked, or does not answer in time
//
// Whatever else is answered, and the rows at the end, is judged as in ledger mode.
//
// By hand, from the repository's root; -linearize.kinds is main, all, or the name of one kind,
// -linearize.durability ledger, store or both:
//
//	go test -race -timeout 0 ./internal/linearize -run '^TestLinearizable$' -v -linearize.kinds all \
//		-linearize.histories 200
//
// A history that fits no order is kept beside the logs of all processes: as text, with the longest
// order found, what does not fit behind it and what was left out, and as porcupine's picture.
package linearize
