// Package wire has the documents of the HTTP interface: the bodies of requests, which package
// strictjson reads, and the JSON of answers and problems. It does not depend on connections,
// headers or the service.
//
// Frequent documents encode themselves. The JSON library encodes all others.
package wire
