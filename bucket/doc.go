// Package bucket is the contract between the parts of budgetd's core. It has the types of every
// call, the interfaces that a store implements (Counter and its companions), and the cache of
// definitions.
//
// # Who decides
//
// In ledger mode SQL decides: a deduction has happened when its transaction is committed. No store
// is used, and a bucket lives in its row. In store mode a Counter decides for its buckets, each of
// which lives in a partition of an instance, and SQL keeps sums of what it deducted.
//
// # Where a unit is
//
// Each unit of a budget's total T is in exactly one place: F (not yet released by its period), U
// (not in any bucket), O (in a bucket), H (held), S (used), R (returning: given back, not yet at
// its place), Q (quarantined) or X (expired or lost). Every transaction moves equal and opposite
// amounts, so T = F + U + O + H + S + R + Q + X holds at every commit (I1).
//
// # The life of a bucket
//
// A bucket is online or offline. Each time it goes online it begins an epoch, with a greater number
// and no units. Everything that was meant for an earlier epoch is refused. Apply moves units from U
// to the bucket's O; offline and recycle move what is left back to U.
//
// # Refusals
//
// BudgetExhausted says that the whole budget has less than the amount now (I3). If there are enough
// units but they cannot be collected before the deadline, the answer is Unavailable, which means
// that nothing was done. OutcomeUnknown means that the caller must repeat the request with the same
// id.
//
// The packages below this one implement the calls: deduct, transfer, manage, audit and sample for
// every budget, hold, feed and usage for those with rows, counter and store for those in stores.
package bucket
