// Package auditlog keeps the audit log in SQL. Append runs inside the transaction of the effect
// that it reports, as its last statement: it locks the head of the chain until the commit, so that
// rows of several nodes follow each other in the order of their commits, and no row is there
// without its effect or an effect without its row.
//
// The statements are the same for SQLite, MySQL and MariaDB.
package auditlog
