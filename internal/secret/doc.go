// Package secret holds secrets that never print themselves, and reads them from files that may be
// replaced while the process runs.
//
// A Text shows "(secret)" in every format of fmt, in JSON, in YAML and in slog; only Reveal returns
// the secret. A Source is a value of the configuration or a file. Read the Source when making a
// connection, so that the next connection uses a rotated secret.
package secret
