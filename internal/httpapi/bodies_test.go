package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/metrics"
)

// FuzzBodies sends any body to any call of the API. The call succeeds, or it is refused with a
// problem and does not reach the service.
func FuzzBodies(f *testing.F) {
	service := new(fake)
	api := httpapi.New(httpapi.Config{Service: service, Limits: limits, Observer: metrics.New("test")})
	var calls []access.Call
	for _, call := range access.Calls() {
		if served(call) && call.Method != "GET" {
			f.Add(len(calls), bodies[call.Op])
			calls = append(calls, call)
		}
	}
	f.Add(0, `{"name":"\ud800","limits":[{"window":{"length":"9999999d"}}],"type_rule":{"windows":[{}]}}`)
	f.Add(1, strings.Repeat(`{"a":[`, 200))
	path := strings.NewReplacer("{budget}", "sale", "{key}", "sale:bucket-0", "{name}", "redis-a", "{id}", "0123456789")
	f.Fuzz(func(t *testing.T, at int, body string) {
		if at < 0 || at >= len(calls) {
			return
		}
		r := httptest.NewRequest(calls[at].Method, path.Replace(calls[at].Pattern), strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%s %q: %d %s", calls[at].Op, body, w.Code, w.Body)
		}
		asked := service.taken()
		if w.Code >= 400 && (len(asked) > 0 || w.Header().Get("Content-Type") != "application/problem+json") {
			t.Errorf("%s %q: %d %v, asked %q", calls[at].Op, body, w.Code, w.Header(), asked)
		}
	})
}
