// Package series holds what a budget's figures over time say: pure functions of samples, asked by
// the service that keeps them. No clock, no I/O.
//
// A sample is taken once a minute, and only where something changed since the one before it. So a
// budget's figures at any instant are those of its latest sample then: nothing is interpolated.
package series
