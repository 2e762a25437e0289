// Package replay sends a recorded log of web requests to a budget, one deduction per line, and
// gives every so many of them back: a trial of a budget with traffic that really happened.
//
// The request id of a line is derived from its number, so replaying the same file again, or going
// on after an interruption, deducts nothing twice.
package replay
