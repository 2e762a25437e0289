// Package house has the tests of the project itself: its imports, its sizes, its documents and the
// words of both.
package house
