// Package batch groups requests into calls. Requests that arrive during a call go into the next
// one. There is no timer: without a running call a request is sent at once and alone. A queue is
// bounded, and fair between owners: an owner with many waiting requests takes neither the calls nor
// the room of the others.
//
// [Queue] makes one call at a time. [Group] has a queue per key and runs a bounded number of them
// concurrently. [Watch] ends overdue waits, with one goroutine for all of them.
package batch
