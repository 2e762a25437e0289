// Package ratelimit protects the HTTP server from its callers: it limits requests per key and
// connections, refuses pages of other sites, and restricts what browsers do with an answer. It does
// not depend on budgets.
package ratelimit
