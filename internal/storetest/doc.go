// Package storetest is the conformance suite of stores. Run checks the filter of ledger mode and
// the counters of store mode, as specified in package bucket. Differential compares two stores
// under random calls.
package storetest
