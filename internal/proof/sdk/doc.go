// Package sdk runs the tests of the clients in other languages: against the vectors, and against a
// real budgetd.
package sdk
