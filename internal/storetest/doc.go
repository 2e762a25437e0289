// Package storetest is the conformance suite of stores. Run checks the filter of ledger mode and
// the counters of store mode, as specified in package bucket; RunFilter checks the filter alone.
// Differential compares two stores under random calls. The suite makes one call at a time and loses
// none: concurrent use and the errors of lost calls need tests of the store's own package.
package storetest
