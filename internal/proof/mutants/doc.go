// Package mutants removes safeguards from the code, one at a time, and checks that a named test
// fails without each of them.
//
// A mutant is a block of text in one of the lists beside this file, between empty lines:
//
//	# what is wrong in the mutant
//	@ file, from the root of the module
//	$ package, and the pattern of the tests that must fail
//	-the old text, one or more lines
//	+the new text, any number of lines
//
// A mutant may change several files. The old text must occur exactly once in its file. Spaces at
// the beginning of a line are ignored.
//
// The short form of the test checks that every mutant still applies and that its tests exist. The
// long form (-mutants.run, with a pattern of names) runs the tests of each mutant by `go test
// -overlay`, so the files in the tree do not change.
package mutants
