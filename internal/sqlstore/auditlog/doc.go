// Package auditlog stores the audit log in SQL. Append runs inside the transaction whose effect it
// records, as its last statements. They lock the head of the chain until the commit, so rows of
// several nodes are chained in commit order, and a row exists if and only if its effect does. A
// server computes the link itself, in SQL.
package auditlog
