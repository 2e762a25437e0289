// Package counter is store mode: the counters of the stores decide, and SQL follows them.
//
// A deduction is one step of a script in the store of its bucket (bucket.Counter). The bucket is
// the ring's first choice over all buckets of the budget, so an id always meets its own record
// (I4). Requests never move between buckets; units do. They move through SQL, which is the only
// place where they are added up (I1):
//
//	apply    U -> O of the epoch: a numbered grant, pending until the store has it
//	close    the epoch is closing in SQL, then closed in the store; its balance goes to U
//	sync     what a store took and gave back moves between O and S
//	loss     O of an epoch whose memory is gone goes to Q, or to U under on_loss: assume_unused
//
// The status of an epoch goes opening -> open -> closing -> closed, and to lost from any of the
// first three. SQL records the intent, then the store is changed, and then SQL records that it was.
// Any node can continue from a status, and every step may be repeated.
//
// An incarnation numbers the memory of a partition. SQL assigns it, and the store's marker repeats
// it. Each verification and each sync compares the identity of the store. If the identity differs,
// the marker is missing or counters are below SQL's, SQL begins the next incarnation. From that
// commit on, every epoch of an older incarnation is lost.
package counter
