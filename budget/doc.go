// Package budget defines the terms of the domain: amounts, identifiers, the definition of a budget,
// its status, and the one error type with its codes. It does no I/O and reads no clock.
package budget
