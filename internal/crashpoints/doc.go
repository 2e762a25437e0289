// Package crashpoints stops a node at every step of every operation and lets every call fail, over
// the memory model. It has no code of its own.
//
// An operation is run to its end once, and each call that it makes of a store or of SQL is noted: the
// steps. Then, for every step and in every way, the operation is run again until there, and the
// node never does anything again. A new node starts, finishes what was left half done, and the books
// are counted anew: I1 to I7. What the caller was told must be so, what was not answered must be
// either done or not done and stay so, repeating it must answer right, and everything must be sold
// to the last unit and not one more. The recovery's own steps are noted too, and the node that
// recovers is stopped at each of them, before a third one finishes.
//
// The same steps are then made to fail, one at a time, in every way in which a store or SQL can,
// while the node goes on.
//
// Everything runs in virtual time (testing/synctest), one goroutine at a time: each call waits for an
// instant of its own, which depends on what the call is and not on who was scheduled first.
package crashpoints
