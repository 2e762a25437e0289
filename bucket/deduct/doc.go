// Package deduct is the part of a deduction that both modes share.
//
// A call with one deduction and a call with many work the same way. The caller's goroutine runs a
// [Wave], which holds the operations of the call. It sends each [Op] to a queue through its
// [Outbox], sleeps, and decides what follows for each one that returns. [Steps] are the parts that
// differ between the modes; packages row and counter implement them.
//
// A watch ends waits that are overdue. An operation that was not sent yet is withdrawn and answered
// with Unavailable. One that was sent gets a grace period, and then OutcomeUnknown.
package deduct
