//go:build race

package e2e

// buildFlags build the programs with the race detector, as the tests are.
var buildFlags = []string{"-race"}
