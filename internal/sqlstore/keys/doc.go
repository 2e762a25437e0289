// Package keys stores API keys in SQL (see package access). Every change increments one version, so
// a node reads one row to learn whether to read the keys again (Follower).
//
// The statements are the same for SQLite, MySQL and MariaDB. Changes run in a transaction of the
// caller, which also appends the row of the audit log.
package keys
