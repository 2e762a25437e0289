package daemon

import (
	"runtime/debug"
	"slices"
	"strings"
)

// gcPercent is how much the heap may grow between two collections. What a node keeps is small beside what
// it allocates for requests, so Go's default of 100 collects many times a second and took a quarter of the
// CPU at full rate; 400 costs memory of at most about five times what is live.
const gcPercent = 400

// spareCollector sets gcPercent for the process, unless the environment has a word on memory of its own.
func spareCollector(environ []string) {
	own := func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return (name == "GOGC" || name == "GOMEMLIMIT") && value != ""
	}
	if !slices.ContainsFunc(environ, own) {
		debug.SetGCPercent(gcPercent)
	}
}
