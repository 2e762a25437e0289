package edge

import (
	"net"
	"net/http"
	"strings"
)

// Values of headers that are the same in every answer; nobody changes them.
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

// SecureAnswer adds what keeps a browser from keeping an answer of the API, guessing its type, or
// showing it as a page. It allocates nothing.
func SecureAnswer(h http.Header, encrypted bool) {
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	h["Content-Security-Policy"] = noContent
	if encrypted {
		h["Strict-Transport-Security"] = oneYear
	}
}

// SecurePage adds what a page of the console needs: it loads only from its own server, runs no
// script in its text, and is shown in no frame.
func SecurePage(h http.Header, encrypted bool) {
	SecureAnswer(h, encrypted)
	h["Content-Security-Policy"] = ownContent
	h["Referrer-Policy"] = noReferrer
	h["X-Frame-Options"] = deny
	h["Cross-Origin-Opener-Policy"] = sameOrigin
	h["Cross-Origin-Resource-Policy"] = sameOrigin
}

// SameOrigin refuses requests that change something and that a page of another site makes in a
// browser. Callers other than browsers are not concerned. trusted are origins that may, such as
// https://ops.example. It fails for what is no origin.
func SameOrigin(next, refused http.Handler, trusted ...string) (http.Handler, error) {
	protection := http.NewCrossOriginProtection()
	for _, origin := range trusted {
		if err := protection.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	protection.SetDenyHandler(refused)
	return protection.Handler(next), nil
}

// ToLoopback reports whether a request's Host names this machine. On a server without
// authentication another name means that a page of another site has given its name the address
// 127.0.0.1 (DNS rebinding), and reads answers as if they were its own.
func ToLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback() || strings.EqualFold(name, "localhost")
}
