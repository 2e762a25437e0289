// Package series derives a budget's history and projection from its samples. Its functions are
// pure.
//
// A sample is taken at the beginning of a minute, and only if something has changed since the
// previous one. A budget's figures at any instant are therefore those of its latest sample. Nothing
// is interpolated.
package series
