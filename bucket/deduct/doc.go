// Package deduct has what a deduction needs in either mode.
//
// A call with one deduction and a call with many take the same way. The caller's goroutine has a
// [Wave], the operations of the call. It hands each [Op] to a queue through its [Outbox], sleeps,
// and decides about those that come back. What a mode does with an operation are its [Steps]:
// packages row and counter.
//
// A watch ends the waits whose time is over: an operation that nothing was sent for is withdrawn
// and answered with Unavailable; one that a call has gets a grace, and then OutcomeUnknown.
package deduct
