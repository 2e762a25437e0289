// Package front accepts the connections of one address and gives each request to the server that
// suits it: a data call in its usual form is answered right here, everything else by net/http.
//
// Half the cost of a small call is net/http's. A deduct arrives as one segment, with a handful of
// plain headers and a Content-Length, and is answered with a few hundred bytes. Package front reads
// such a request from the connection's buffer, lets a Handler append the answer to another buffer,
// and writes that. It allocates nothing of its own per request.
//
//	          first bytes of a request
//	                    |
//	usual form, data call, complete?  -- no --> net/http reads the same bytes
//	                    | yes                             |
//	            Handler.Answer                    answers one request
//	                    |                                 |
//	                    +------- the next request --------+
//
// Each request is judged by itself, so a connection that is kept alive may mix calls of both kinds.
// Between two requests the connection returns to package front: it gave net/http exactly the bytes
// of one request, and net/http has said that it is idle.
//
// Package front refuses nothing and reports no errors. Whatever it does not understand completely,
// such as chunks, escapes in the path, a second Content-Length, a header of obsolete form, or a
// body that breaks off, goes to net/http with every byte that was read. Hostile input therefore
// gets one answer, that of net/http and its handler. The form that package front accepts is a
// strict subset of what net/http accepts, with the same meaning (tested with random input). Once
// the end of a request is not certain, the connection stays with net/http.
//
// With TLS, connections that negotiate HTTP/2 belong to net/http from the start.
package front
