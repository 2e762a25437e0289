// Package e2e tests the product as users run it: the real binaries as processes, real MariaDB and
// Redis, and the Go client. All its code is tests.
package e2e
