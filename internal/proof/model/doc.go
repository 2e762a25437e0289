// Package model explores the protocol: model/ledger is ledger mode, model/store is store mode. Each
// enumerates every reachable state of small configurations, breadth first, so that the first
// violation of an invariant has a shortest trace. README.md says what they cover and what not.
//
// The tests of this package run the commands: runs.txt lists configurations without a violation,
// mutants.txt what is found when one safeguard is removed.
package model
