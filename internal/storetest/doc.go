// Package storetest is the suite that every store passes: the filter of ledger mode and the
// counters of
// store mode, as package bucket states them. Differential compares two stores under random calls.
package storetest
