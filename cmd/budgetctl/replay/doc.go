// Package replay tries out a budget with real traffic: it makes one deduction for each line of a
// recorded log of web requests, and rolls back some of them.
//
// The request id of a line is derived from its number. A repeated or resumed replay of the same
// file therefore deducts nothing twice.
package replay
