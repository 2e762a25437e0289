// Package crashpoints kills a node at every step of every verb, and loses every reply. All its code
// is tests.
//
// A step is a request that a node sends to MariaDB or Redis. Steps are counted at the node's
// connections, so the product needs no hooks. At each step of a verb one of three faults happens:
//
//	dies before  the request is not sent, and the node does nothing more
//	dies after   the request is executed, its reply is lost, and the node does nothing more
//	reply lost   the request is executed, its reply is lost, and the node continues
//
// Then another node repeats the call with the same ids until it has an answer, and runs the
// background loops. In the end all answers must agree, package auditor must find every unit, no
// work may be half done, and the rest of the budget must be deductible.
package crashpoints
