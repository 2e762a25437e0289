// Package load sends HTTP/1.1 requests and measures the answers. It shares its machine with the
// server that it measures, so it is made to be cheap: a request is one write of prepared bytes, an
// answer is read into a buffer that is used again, and nothing is allocated per call.
//
// Two loops:
//
//	closed  every connection sends its next call when the last one is answered. It finds the
//	        highest throughput; its latency is that of a server which is always busy.
//	open    calls are sent at a fixed rate, each at an instant known beforehand, and latency counts
//	        from that instant, also when every connection was busy and the call went out late. A
//	        slow answer so shows in the latency of all the calls that it held up (no coordinated
//	        omission).
package load
