package adversarial

import (
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// headers returns cases of headers that are too many, too large, or malformed.
func headers(target Target) []Case {
	const start = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
	path := "/v1/budgets/" + target.Budget
	plain := func(name, raw string, statuses ...int) Case {
		return Case{Name: name, Raw: raw, Statuses: statuses}
	}
	return []Case{
		{Name: "10,000 short headers", Raw: "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" +
			strings.Repeat("a: b\r\n", 10_000) + "\r\n", Statuses: []int{431},
			Codes: []budget.Code{budget.TooLarge}},
		plain("10,000 headers", start+strings.Repeat("X-Header: value\r\n", 10_000)+"\r\n", 431),
		plain("a header of 1 MiB", start+"X-Big: "+strings.Repeat("x", 1<<20)+"\r\n\r\n", 431),
		plain("a request line of 1 MiB", "GET /"+strings.Repeat("x", 1<<20)+
			" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431, 414),
		plain("no Host", "GET "+path+" HTTP/1.1\r\n\r\n", 400),
		plain("two Hosts", "GET "+path+" HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
		plain("a bad Host", "GET "+path+" HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
		plain("a header with NUL", start+"X-Nul: a\x00b\r\n\r\n", 400),
		plain("a header without a colon", start+"nonsense\r\n\r\n", 400),
		plain("a bad Content-Length",
			"POST "+path+"/deduct HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
		plain("two Content-Lengths",
			"POST "+path+"/deduct HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
			400),
		plain("no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
	}
}

// slow returns cases of requests that never arrive completely.
func slow(target Target) []Case {
	deduct := "POST /v1/budgets/" + target.Budget +
		"/deduct HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	return []Case{
		{Name: "headers without end", Raw: "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow:"},
		malformed(Case{Name: "a body shorter than announced",
			Raw: deduct + "Content-Length: 100\r\n\r\n{\"request_id\":"}),
		malformed(Case{Name: "chunks without end",
			Raw: deduct + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"req\r\n"}),
		malformed(Case{Name: "a sound body without its last byte", Raw: deduct +
			"Content-Length: 36\r\n\r\n" + `{"request_id":"hostile","amount":1}`}),
		malformed(Case{Name: "almost all of a large body, then silence",
			Raw: "POST /v1/deductions:batch HTTP/1.1\r\nHost: localhost\r\n" +
				"Content-Type: application/json\r\nContent-Length: " +
				strconv.FormatInt(target.BatchBytes, 10) + "\r\n\r\n" +
				strings.Repeat(" ", int(target.BatchBytes)-100)}),
		malformed(Case{Name: "an invalid chunk",
			Raw: deduct + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"}),
	}
}
