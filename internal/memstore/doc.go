// Package memstore is a store in memory: the filter of ledger mode and the counters of store
// mode. It says in plain Go what the scripts of package redisstore do; a differential test drives
// both. Tests of services use it for its faults: calls that are lost, held back, repeated or
// answered at random, and memory that is
// wiped or goes back to an older state.
package memstore
