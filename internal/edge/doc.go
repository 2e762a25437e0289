// Package edge keeps callers of the HTTP server within bounds: how many requests one key may make,
// how many connections there may be, which pages of other sites may call, and what browsers may do
// with an answer. It knows nothing of budgets.
package edge
