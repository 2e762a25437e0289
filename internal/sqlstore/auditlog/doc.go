// Package auditlog stores the audit log in SQL. Append runs inside the transaction whose effect it
// records, as its last statement. It locks the head of the chain until the commit, so rows of
// several nodes are chained in commit order, and a row exists if and only if its effect does.
//
// The statements are the same for SQLite, MySQL and MariaDB.
package auditlog
