// Package deduct is the one path of deductions, whichever home the buckets of a budget have: SQL or
// the partitions of stores.
//
// A call with one deduction and a call with many work the same way. The caller's goroutine runs a
// call, which holds its operations. It sends each [Op] to a queue through its outbox, sleeps, and
// decides what follows for each one that returns. Behind a queue a [Decider] decides all operations
// that waited for one home: a transaction of SQL, or a script of a partition. A successful
// operation returns once:
//
//	caller   begin: definition, period, dimensions of limits, ring
//	queue    Decide, for all operations that waited when it began
//	caller   answer, with figures at most one second old
//
// All other results return an operation to its call, which decides where it goes next:
//
//	Short               -> seek units for the bucket
//	Gone, Outdated      -> reload the definition
//	Over                -> roll over, then reload the definition
//	refusal by state    -> find the id: a repeat gets the recorded outcome
//	reply lost          -> decide the same id and nonce again until the outcome is known
//
// Units are sought by Home.Supply, for all operations of a budget that wait. SQL first reads the
// sum over all buckets, twice, and the row of the id, unless a sum that is young enough covers the
// amount. If both sums are too small, it refuses (I3). Otherwise it commits the operations in one
// bucket, into which it brings units. For stores the units move to the buckets, because an id
// always meets its own record.
//
// A watch ends waits whose deadline has passed. An operation that was not sent yet is withdrawn and
// answered with Unavailable. One that was sent gets a grace period, and then OutcomeUnknown.
package deduct
