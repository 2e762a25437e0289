// Package auth admits HTTP requests: it authenticates the caller (by a key, a client certificate
// or a console session), applies the rate limit, and enforces which calls and budgets the principal
// may reach. Package access makes the decisions.
//
// The role is checked before the body is read. The target is checked once the handler knows it: the
// names in a body, or the name of a budget given by id.
package auth
