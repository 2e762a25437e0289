// Package workload has what the programs share that put load on budgetd: an engine that sends
// HTTP/1.1 requests and measures the answers, bounded concurrent calls, and latencies.
//
// The engine often shares a machine with the server that it measures, so it is cheap: a request
// is one write of prepared bytes, an answer is read into a reused buffer, and a call allocates
// nothing.
//
// There are two loops:
//
//	closed  Every connection sends its next call when the last one is answered. It finds the
//	        highest throughput; its latency is that of a server that is always busy.
//	open    Calls are due at a fixed rate. Latency counts from the instant at which a call was
//	        due, even if all connections were busy and it was sent late. A slow answer therefore
//	        shows in the latency of all calls that it delays (no coordinated omission).
package workload
