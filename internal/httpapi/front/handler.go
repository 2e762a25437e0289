package front

import (
	"crypto/tls"
	"net"
	"strconv"
	"time"
)

// Handler answers data calls. It is safe for concurrent use.
type Handler interface {
	// Find returns the data call of a POST to a path, and the largest body that it may have.
	Find(path []byte) (call int, maxBody int, ok bool)
	// Admits reports whether the caller of a call that Find returned may send a body. It is asked
	// if the body does not arrive with the head, and gets a request without one. It changes
	// nothing. If it says no, net/http refuses the request.
	Admits(call int, r *Request) bool
	// Answer answers a call that Find returned. It keeps nothing of the request, returns within a
	// bounded time, and does not panic.
	Answer(call int, r *Request, a *Answer)
}

// Request is a data call. Its texts are valid until Answer returns.
type Request struct {
	// Path and Query consist of letters, digits and - _ : / = &, without escapes.
	Path, Query []byte
	// Body has the announced length. Its media type is JSON.
	Body []byte
	// Host, Correlation, Traceparent and Authorization are headers; nil means absent.
	Host, Correlation, Traceparent, Authorization []byte
	// Began is when the request was read.
	Began time.Time
	// TLS is the state of the connection, nil without TLS. Remote is its other end.
	TLS    *tls.ConnectionState
	Remote net.Addr
}

// Answer is the answer to a Request.
type Answer struct {
	Status int
	// ContentType, Correlation and Traceparent are headers; "" means absent.
	ContentType, Correlation, Traceparent string
	// RetryAfter is in seconds; 0 means absent.
	RetryAfter int64
	// Encrypted means that the connection has TLS, Authenticate that the caller must authenticate.
	Encrypted, Authenticate bool
	// Body is the document; append to it.
	Body []byte
}

// appendTo appends the answer in the form of HTTP/1.1.
func (a *Answer) appendTo(out []byte, date string, last bool) []byte {
	out = append(out, statusLine(a.Status)...)
	out = append(out, "Cache-Control: no-store\r\nContent-Security-Policy: "+
		"default-src 'none'; frame-ancestors 'none'\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(len(a.Body)), 10)
	out = append(out, "\r\nContent-Type: "...)
	out = append(out, a.ContentType...)
	if a.RetryAfter != 0 {
		out = append(out, "\r\nRetry-After: "...)
		out = strconv.AppendInt(out, a.RetryAfter, 10)
	}
	if a.Encrypted {
		out = append(out, "\r\nStrict-Transport-Security: max-age=31536000"...)
	}
	if a.Authenticate {
		out = append(out, "\r\nWWW-Authenticate: Bearer"...)
	}
	if a.Traceparent != "" {
		out = append(out, "\r\nTraceparent: "...)
		out = append(out, a.Traceparent...)
	}
	out = append(out, "\r\nX-Content-Type-Options: nosniff\r\nX-Correlation-Id: "...)
	out = append(out, a.Correlation...)
	out = append(out, "\r\nDate: "...)
	out = append(out, date...)
	if last {
		out = append(out, "\r\nConnection: close"...)
	}
	out = append(out, "\r\n\r\n"...)
	return append(out, a.Body...)
}
