// Package guard lets HTTP requests in: it finds out who makes a request (a key, a client
// certificate, a session of the console), keeps the rate limit, and says which calls and budgets
// the principal may reach. It decides nothing by itself; package access does.
//
// A request is admitted before its body is read, by its role. Its target is judged once the handler
// knows it: the names in a body, or the name of a budget that was given by its id.
package guard
