// Package memstore is a store in memory.
// It specifies in plain Go what the scripts of package redisstore do; a differential test compares
// the two. Tests of services inject its faults: calls that are lost, delayed, repeated or answered
// at random, and memory that is wiped or reset to an earlier state.
package memstore
