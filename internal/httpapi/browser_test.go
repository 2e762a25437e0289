package httpapi_test

import (
	"strings"
	"testing"

	"github.com/budgetd/budgetd/internal/auth"
	"github.com/budgetd/budgetd/internal/httpapi"
)

// TestPagesOfOtherSites checks that a page of another site cannot read an answer, because there is
// no CORS, and that every answer has the headers against framing and content sniffing. Such a page
// cannot change anything even on a server that authenticates nobody. This includes calls without a
// body, which a browser sends without a preflight request.
func TestPagesOfOtherSites(t *testing.T) {
	service, server, _ := start(t, func(c *httpapi.Config) { c.Auth = &auth.Service{Open: true, Loopback: true} })
	for _, test := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/healthz", "", 200}, {"GET", "/v1/budgets/sale", "", 200}, {"GET", "/nowhere", "", 404}, {"GET", "/metrics", "", 200},
		{"GET", "/docs", "", 200}, {"POST", "/v1/budgets/sale/deduct", bodies["deduct"], 403}, {"POST", "/v1/budgets/sale/recycle", "", 403},
		{"POST", "/v1/instances/redis-a/drain", "", 403}, {"PATCH", "/v1/budgets/sale", bodies["change"], 403},
		{"POST", "/v1/budgets/sale/append", bodies["append"], 403}, {"OPTIONS", "/v1/budgets/sale/deduct", "", 405},
	} {
		service.taken()
		answer, text := ask(t, server, test.method, test.path, test.body, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site",
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
		if asked := service.taken(); answer.StatusCode != test.want || test.want >= 400 && len(asked) > 0 {
			t.Errorf("%s %s: %d %s, asked %q", test.method, test.path, answer.StatusCode, text, asked)
		}
		for name := range answer.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s %s: %s is %q", test.method, test.path, name, answer.Header[name])
			}
		}
		if answer.Header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(answer.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s %s: %v", test.method, test.path, answer.Header)
		}
	}
	if answer, text := ask(t, server, "POST", "/v1/budgets/sale/recycle", ""); answer.StatusCode != 200 {
		t.Errorf("a caller other than a browser: %d %s", answer.StatusCode, text)
	}
}
