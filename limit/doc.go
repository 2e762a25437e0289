// Package limit decides what one value of a dimension may take in a window: one person, device or
// ad.
//
// A counter is a view of the ledger: counter(limit, value, window) = Σ of what is kept of the
// deductions that carry the value and were counted in the window. Rows only keep that sum at hand.
// So a refund lowers the window in which its deduction was counted and no other, a row can be made
// again from the ledger at any time, and a limit that counts something else from now on starts from
// the true count.
//
// Who judges holds the counter's row locked (Tally); the decision is Judge's and needs nothing but
// values: no I/O and no clock. Instants are whole milliseconds since 1970, as the tables keep them.
package limit
