//go:build !race

package e2e

// buildFlags build the programs without the race detector, as the tests are.
var buildFlags []string
