// Package budget holds the words of the domain: amounts, identifiers, the definition of a budget,
// its status, and the one error type with its codes. It knows no I/O and no clock.
package budget
