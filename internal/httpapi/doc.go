// Package httpapi answers HTTP: strict requests in, JSON or problem documents (RFC 9457) out.
//
// A request goes through these steps, and whatever a step refuses never reaches the service:
//
//	front       who answers it: data calls in their usual form go to Answer, all others to net/http
//	Answer      (server.go) ids, requests in flight, panics
//	ServeHTTP   (api.go) the same, and number of headers, path, route
//	routes.go   which call it is; all of them on one screen
//	data, call  query, path and body of one request, read strictly (package strictjson); a call is a
//	            data that net/http has read
//	<noun>.go   the call itself: one method of the service
//	wire        what bodies and answers look like, and what an error is answered with
//
// Data calls (deduct, batch, check, confirm, extend, rollback, cancel) have handlers that take a
// *data. They do not know which server is in front of them. What data calls ask of the service is
// DataPath.
//
// Errors keep their kind on the way out: refused and conflict (4xx) and unavailable (503) say that
// nothing was changed; outcome_unknown (504) and internal (500) that it may have been. An error of
// the service that carries no code is therefore outcome_unknown for calls that change something.
package httpapi
