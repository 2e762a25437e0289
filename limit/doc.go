// Package limit decides how much one value of a dimension, such as one person, device or ad, may
// take in a window.
//
// A counter is a view of the ledger: counter(limit, value, window) is the sum of what is kept of
// the deductions that carry the value and were counted in the window. Rows only cache that sum. A
// refund therefore lowers only the window in which its deduction was counted, a row can be rebuilt
// from the ledger at any time, and a limit that changes what it counts starts from the true count.
//
// The caller holds the lock on the counter's row (Tally). Judge decides from values alone, without
// I/O or a clock. Instants are whole milliseconds since 1970, as in the tables.
package limit
