// Package row deducts in ledger mode: a deduction is accepted when its row is committed (I7).
//
// A successful operation returns to its wave (package deduct) once:
//
//	caller   begin: definition, period, dimensions of limits, ring
//	partition     Take, for all operations that waited for the partition; those with units continue
//	slot     Commit, for all operations that waited for the slot
//	caller   answer, with figures at most one second old
//
// Operations of buckets without a filter, and of partitions that do not answer, go directly to the
// slot. All other results return an operation to its wave, which decides where it goes next:
//
//	filter refuses      -> read O of the bucket; if it is enough, to the slot without the
//	                       filter, else seek units elsewhere
//	filter has nothing  -> read O of the bucket, Set, and ask the filter once more
//	Short               -> seek units elsewhere
//	units elsewhere     -> read the sum over all buckets without locks. If it is too small,
//	                       read it with locks, then the row of the id, then refuse (I3).
//	                       Otherwise Gather, which may answer Exhausted
//	Gone, Outdated      -> reload the definition
//	Over                -> roll over, then reload the definition
//	refusal by state    -> read the row of the id: a repeat gets the recorded outcome
//	reply lost          -> commit the same row again until a commit tells the outcome
//
// A filter's answer never refuses a request or changes a row (I9). A wrong content is replaced by
// raising its fill in SQL.
//
// Each queue runs one call at a time, which serves all operations that waited when it began.
package row
