// Package counter is store mode: the truth is the counters of the stores, and SQL follows.
//
// A deduction is one step of a script in the store of its bucket (bucket.Counter). The bucket is
// the ring's first choice over all buckets of the budget, so an id always meets its own record
// (I4). Requests never move between buckets; units do. They move through SQL, which is the only
// place where they are added up (I1):
//
//	apply    U -> O of the epoch, a numbered grant that is pending until the store has it
//	close    the epoch is closing in SQL, then closed in the store; what it still had goes to U
//	sync     what a store took and gave back moves between O and S
//	loss     O of an epoch whose memory is gone goes to Q, or to U under on_loss: assume_unused
//
// An epoch is opening -> open -> closing -> closed, or lost from any of the first three. SQL writes
// the intention, the store is told, and SQL notes that it was. Any node goes on from the status,
// and every step may be done twice.
//
// A lane's memory is named by an activation, which SQL hands out and the store's marker repeats.
// The identity of the store is compared at each verification and at each sync. When it is another
// one, or the marker is missing, or counters are below SQL's, SQL gets the next activation; every
// epoch of an older one is lost from that commit on.
package counter
