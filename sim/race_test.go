//go:build race

package sim

// raced: this binary was built with the race detector.
const raced = true
