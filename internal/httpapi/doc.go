// Package httpapi answers HTTP: strict requests in, JSON or problem documents (RFC 9457) out.
//
// A request goes through these steps, and whatever a step refuses never reaches the service:
//
//	ServeHTTP   correlation id, trace, panics, number of headers, path, requests in flight
//	routes.go   which call it is; all of them on one screen
//	call        query, path and body of one request, read strictly (package strictjson)
//	<noun>.go   the call itself: one method of the service
//	problem.go  what an error is answered with; the one table code -> status is there
//
// Errors keep their kind on the way out: refused and conflict (4xx) and unavailable (503) say that
// nothing was changed; outcome_unknown (504) and internal (500) that it may have been. An error of
// the service that carries no code is therefore outcome_unknown for calls that change something.
package httpapi
