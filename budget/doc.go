// Package budget defines the terms of the domain: amounts, identifiers, the definition of a budget,
// its status, and the one error type with its codes. It does no I/O and reads no clock.
//
// An error has a Code, which is stable and part of the API, and a code has a Kind, which says what
// the caller may conclude: Faulty, Refused, Conflict, NotDone or MayBeDone. Compare errors by code
// with Is, and branch on Code.Kind when the code does not matter.
//
// Amounts are whole minor units (pieces or the smallest coin) of at most MaxAmount.
package budget
