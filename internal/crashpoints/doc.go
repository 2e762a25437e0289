// Package crashpoints stops a node at every step of every verb, and loses every reply. It has tests
// only.
//
// A step is a request that a node sends to MariaDB or Redis, counted at its connections, so the
// product has no hooks for it. At each step of a verb one of three things happens:
//
//	dies before  the request is not sent, and the node does nothing more, ever
//	dies after   the request is carried out, its reply is lost, and the node does nothing more
//	reply lost   the request is carried out, its reply is lost, and the node goes on
//
// Then another node repeats the call with the same ids until it has an answer, and runs the loops
// of the background. In the end nobody was told two different outcomes, package auditor finds every
// unit, nothing is half done, and all that is left of the budget can be deducted.
package crashpoints
