// Package batch groups requests into calls. Requests that arrive while a call is under way go into
// the next one; there is no timer, so a request that finds nothing under way is sent at once and
// alone. A queue is bounded, and fair between owners: an owner that has much waiting takes neither
// the calls nor the room of the others.
//
// [Queue] makes one call at a time. [Group] has a queue per key, of which a bounded number run side
// by side. [Watch] ends waits whose time is over, with one goroutine for all of them.
package batch
