// Package wire has the documents of the HTTP interface: the bodies of requests, as package
// strictjson reads them, and answers and problems as JSON. It knows nothing of connections, headers
// and the service.
//
// Documents that are answered often write themselves; all others are left to the library.
package wire
