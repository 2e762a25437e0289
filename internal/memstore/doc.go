// Package memstore is a store in memory: the filter of ledger mode and the counters of store mode.
// It is the specification of package redisstore's scripts in plain Go; a differential test compares
// the two. Tests of services use its faults: calls that are lost, delayed, repeated or answered at
// random, and memory that is wiped or rolled back to an earlier state.
package memstore
