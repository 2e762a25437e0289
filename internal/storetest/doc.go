// Package storetest is the conformance suite of stores. Run checks what package bucket
// specifies.
// Differential compares two stores under random calls. The suite makes one call at a time and loses
// none: concurrent use and the errors of lost calls need tests of the store's own package.
package storetest
