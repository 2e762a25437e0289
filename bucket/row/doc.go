// Package row deducts in ledger mode: a deduction is accepted when its row is committed (I7).
//
// A successful operation returns to its wave (package deduct) once:
//
//	caller   begin: definition, period, dimensions of limits, ring
//	flight   Commit, for all operations that waited when it began
//	caller   answer, with figures at most one second old
//
// All other results return an operation to its wave, which decides where it goes next:
//
//	Short               -> seek units elsewhere
//	units elsewhere     -> read the sum over all buckets, twice, and the row of the id, unless a
//	                       sum that is young enough covers the amount. If both sums are too
//	                       small, refuse (I3). Otherwise Bring, which may answer Exhausted
//	Gone, Outdated      -> reload the definition
//	Over                -> roll over, then reload the definition
//	refusal by state    -> read the row of the id: a repeat gets the recorded outcome
//	reply lost          -> commit the same row again until a commit tells the outcome
//
// Each queue runs one call at a time, which serves all operations that waited when it began.
package row
