// Package limit decides how much one value of a dimension, such as one person, device or ad, may
// take in a window.
//
// A counter is derived from the ledger: counter(limit, value, window) is the sum of the deductions
// that have the value and were counted in the window, less their refunds. Rows only cache that sum.
// A refund therefore lowers only the window in which its deduction was counted, a row can be
// rebuilt from the ledger at any time, and a limit that changes what it counts starts from the true
// count.
//
// The functions are pure. A caller that changes a count holds the lock on the counter's row
// (Usage). Instants are whole milliseconds since 1970, as in the tables.
package limit
