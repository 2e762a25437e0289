// Package keys issues, ends and reads API keys in SQL (see package access). Every change increments
// one version, so a node reads one row to learn whether to read the keys again, and appends a row
// of the audit log. The statements are the same for SQLite, MySQL and MariaDB.
package keys
