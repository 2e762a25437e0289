// Package client calls budgetd over HTTP. It holds the wire types of the API and one method per
// call, and it does what every careful caller would otherwise write itself:
//
//   - Calls that carry an idempotency key (deduct, rollback, cancel, append, create) are repeated
//     with the same key when the answer was lost or the service was unavailable, with exponential
//     backoff and full jitter, bounded by the attempts of Retry and by the context.
//   - A refusal that follows an unanswered attempt of a deduction is made certain by cancelling the
//     request id: a refusal says only that its own attempt did nothing.
//   - What stays unknown is said to be unknown (UnknownOutcome), never guessed; WithCancelUnknown
//     has it cancelled.
//   - Concurrent deductions share calls where WithCoalescing asks for it, each with its own answer,
//     repeats and context.
//   - Every attempt of a call carries one W3C trace: the caller's (ContextWithTrace, WithTrace), or
//     one of its own.
//
// # Errors
//
// KindOf tells what an error means, whatever its type; CodeOf gives the service's code:
//
//	budget.Faulty     the request is wrong, or names something that does not exist
//	budget.Refused    understood, and the answer is no; nothing was changed
//	budget.Conflict   contradicts what is recorded; nothing was changed
//	budget.NotDone    it certainly did not happen: not reachable, unavailable, a failed read
//	budget.MayBeDone  it may have happened: repeat the same request id, or cancel it
//
// The types are *Problem (the service answered), *TransportError (it did not) and *UnknownOutcome
// (all attempts together leave the question open).
//
// A Client is safe for concurrent use and reuses its connections; make one per server.
package client
