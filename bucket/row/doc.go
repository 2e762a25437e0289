// Package row deducts in ledger mode: a deduction is accepted when its row is committed (I7).
//
// An operation that goes well comes back to its wave (package deduct) once:
//
//	caller   begin: definition, period, limits' dimensions, ring
//	lane     Take for all that waited for the lane; what the filter gives units to goes on
//	slot     Commit for all that waited for the slot
//	caller   answer, with figures that are at most a second old
//
// Buckets without a filter, and lanes that did not answer, go straight to the slot. Everything else
// sends an operation back to its wave, which hands it on:
//
//	filter refuses      -> O of the bucket; enough: to the slot without it, else units elsewhere
//	filter has nothing  -> O of the bucket and Set, then the filter once more
//	Short               -> units elsewhere
//	units elsewhere     -> the sum of all, without locks. Too small: the sum with locks, then the
//	                       row of the id, then the refusal (I3). Otherwise Gather, which may
//	                       answer Exhausted
//	Gone, Outdated      -> the definition again
//	Over                -> the rollover, then the definition again
//	refusal by state    -> the row of the id: a repeat gets its outcome
//	reply lost          -> the same row again, until a commit says what became of it
//
// Nothing that a filter says refuses a request or changes a row (I9). A wrong content is replaced
// by raising its fill in SQL.
//
// Each queue makes one call at a time, which serves all that waited when it began.
package row
