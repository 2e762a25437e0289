// Package access has what nodes share about access: the API keys in SQL (see the package access of
// the rules), and which nodes use the database. Every change of a key increments one version, so a
// node reads one row to learn whether to read the keys again, and appends a row of the audit log.
// The statements are the same for SQLite, MySQL and MariaDB.
package access
