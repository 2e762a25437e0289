// Package secret holds secrets that never print themselves, and reads them from files that are
// exchanged while the process runs.
//
// A Text shows "(secret)" in every format of fmt, in JSON, in YAML and in slog; only Reveal returns
// what it holds. A Source is a value of the configuration or a file. The side that makes a
// connection reads the Source then, so that a rotated secret holds for the next connection; a Watch
// tells those who keep something that depends on it.
package secret
