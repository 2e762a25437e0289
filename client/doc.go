// Package client calls budgetd over HTTP. It has one method per call and the types of the API. It
// also does what every careful caller would have to do:
//
//   - It repeats calls with an idempotency key (deduct, rollback, cancel, append, create) with the
//     same key if the answer was lost or the service was unavailable, with exponential backoff and
//     full jitter. Retry and the context bound the attempts.
//   - If a deduction is refused after an unanswered attempt, it cancels the request id. The refusal
//     alone says only that its own attempt did nothing.
//   - It never guesses an unknown outcome: it returns UnknownOutcome or, with WithCancelUnknown,
//     cancels the request id.
//   - With WithCoalescing, concurrent deductions share calls, but each has its own answer, retries
//     and context.
//   - Every attempt of a call carries one W3C trace: the caller's (ContextWithTrace, WithTrace), or
//     a new one.
//
// # Before the first release
//
// The modules budgetd/client and budgetd/budget are not published yet. A program outside of the
// repository uses them from a checkout, with two lines in its go.mod:
//
//	replace github.com/budgetd/budgetd/client => ../budgetd/client
//	replace github.com/budgetd/budgetd/budget => ../budgetd/budget
//
// # Errors
//
// KindOf returns what any error means; CodeOf returns the service's code:
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
