// Package keys keeps API keys in SQL: package access says what they are. Every change counts up one
// version, so that a node sees by reading one row that it must read the keys again (Follower).
//
// The statements are the same for SQLite, MySQL and MariaDB. Changes run in a transaction of the
// caller, which also appends the row of the audit log.
package keys
