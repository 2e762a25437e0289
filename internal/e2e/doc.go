// Package e2e tests the product as users run it: the real binaries as processes, real MariaDB and
// Redis, and the Go client. It has no code of its own.
package e2e
