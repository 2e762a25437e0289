// Package front accepts the connections of an address and passes each request to the server that
// suits it: it answers a data call in its usual form itself, and leaves everything else to
// net/http.
//
// Half the cost of a small call is net/http's. A deduct arrives as one segment, with a handful of
// plain headers and a Content-Length, and its answer has a few hundred bytes. Package front parses
// such a request in the connection's buffer, lets a Handler append the answer to another buffer,
// and writes that. It allocates nothing per request.
//
//	          first bytes of a request
//	                    |
//	usual form, data call, complete?  -- no --> net/http reads the same bytes
//	                    | yes                             |
//	            Handler.Answer                    answers one request
//	                    |                                 |
//	                    +------- the next request --------+
//
// Each request is judged separately, so a kept-alive connection may mix both kinds. Between two
// requests the connection returns to package front: net/http got exactly the bytes of one request
// and has reported that it is idle.
//
// A connection never holds more of a request than maxRequest. A larger request goes to net/http,
// whose handler authenticates the caller before it reads the body. The body of a smaller one is
// awaited only for a caller whom the Handler admits by the head, so that callers without a key
// cost the same whatever they send.
//
// Package front refuses nothing and reports no errors. A request that it does not fully understand
// goes to net/http with every byte that was read: for example one with chunks, escapes in the path,
// a second Content-Length, an obsolete header form, or an incomplete body. So hostile input always
// gets the answer of net/http and its handler. The form that package front accepts is a strict
// subset of the one that net/http accepts, with the same meaning; tests compare both on random
// input. Once the end of a request is uncertain, the connection stays with net/http.
//
// With TLS, connections that negotiate HTTP/2 belong to net/http from the start.
package front
