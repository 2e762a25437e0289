package ratelimit

import (
	"net"
	"net/http"
	"strings"
)

// All answers share these header values, so they must not be changed.
var (
	noSniff    = []string{"nosniff"}
	noStore    = []string{"no-store"}
	noReferrer = []string{"no-referrer"}
	deny       = []string{"DENY"}
	noContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
	ownContent = []string{"default-src 'self'; img-src 'self' data:; object-src 'none'; " +
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"}
	oneYear    = []string{"max-age=31536000"}
	sameOrigin = []string{"same-origin"}
)

// SecureAnswer adds headers that keep a browser from caching an API answer, guessing its type, or
// showing it as a page. It allocates nothing.
func SecureAnswer(h http.Header, encrypted bool) {
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	h["Content-Security-Policy"] = noContent
	if encrypted {
		h["Strict-Transport-Security"] = oneYear
	}
}

// SecurePage adds the headers of a console page: it loads only from its own server, runs no inline
// script, and is not shown in a frame.
func SecurePage(h http.Header, encrypted bool) {
	SecureAnswer(h, encrypted)
	h["Content-Security-Policy"] = ownContent
	h["Referrer-Policy"] = noReferrer
	h["X-Frame-Options"] = deny
	h["Cross-Origin-Opener-Policy"] = sameOrigin
	h["Cross-Origin-Resource-Policy"] = sameOrigin
}

// ToLoopback reports whether a request's Host names this machine. On a server without
// authentication any other name means that a foreign page has pointed its own name at 127.0.0.1
// (DNS rebinding) and would read answers as its own.
func ToLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback() || strings.EqualFold(name, "localhost")
}
