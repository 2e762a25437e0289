package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/httpapi"
)

// shown is what a node knows of budgets.
type shown map[bucket.BudgetRef]*bucket.Gauge

func (s shown) Gauges(to []*bucket.Gauge, tenant string, names []string) []*bucket.Gauge {
	for _, name := range names {
		to = append(to, s[bucket.BudgetRef{Tenant: tenant, Name: name}])
	}
	return to
}

// TestRemaining checks that foreign and unknown names are answered alike, that the answer may be kept
// for a second, and that a caller who has it is answered 304, also when it was only read again.
func TestRemaining(t *testing.T) {
	left, at := int64(7), time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	gauges := shown{
		{Tenant: "acme", Name: "sale"}:  {Remaining: &left, Serving: bucket.ServesFully, AsOf: at},
		{Tenant: "acme", Name: "views"}: {Serving: bucket.ServesPartly, AsOf: at},
		{Tenant: "shop", Name: "sale"}:  {Remaining: &left, Serving: bucket.ServesFully, AsOf: at},
	}
	_, server, ring, _ := locked(t, func(c *httpapi.Config) { c.Gauges = gauges })
	get := func(who, query string, header ...string) (*http.Response, string) {
		t.Helper()
		return ask(t, server, "GET", "/v1/remaining?"+query, "", append(header, "Authorization", "Bearer "+ring.tokens[who])...)
	}
	const sale = `{"remaining":7,"serving":"full","as_of":"2026-11-28T09:00:00Z"}`
	for who, want := range map[string]string{
		"read": `{"budgets":{"none":null,"sale":` + sale + `,"views":{"remaining":null,"serving":"partly","as_of":"2026-11-28T09:00:00Z"}}}`,
		"some": `{"budgets":{"none":null,"sale":` + sale + `,"views":null}}`,
	} {
		answer, text := get(who, "tenant=acme&budget=views&budget=sale&budget=none&budget=sale")
		if answer.StatusCode != 200 || strings.TrimSpace(text) != want {
			t.Errorf("%s: %d %s, want %s", who, answer.StatusCode, text, want)
		}
	}
	if answer, text := get("shop", "tenant=acme&budget=sale"); answer.StatusCode != 403 {
		t.Errorf("another tenant: %d %s", answer.StatusCode, text)
	}

	first, _ := get("read", "tenant=acme&budget=sale")
	tag := first.Header.Get("ETag")
	if kept := first.Header.Get("Cache-Control"); kept != "max-age=1" || !strings.HasPrefix(tag, `W/"`) {
		t.Errorf("Cache-Control %q, ETag %q", kept, tag)
	}
	gauges[bucket.BudgetRef{Tenant: "acme", Name: "sale"}].AsOf = at.Add(time.Second)
	again, text := get("read", "tenant=acme&budget=sale", "If-None-Match", tag)
	if again.StatusCode != 304 || text != "" || again.Header.Get("ETag") != tag {
		t.Errorf("not changed: %d %q %q", again.StatusCode, text, again.Header.Get("ETag"))
	}
	left = 6
	if again, _ = get("read", "tenant=acme&budget=sale", "If-None-Match", tag); again.StatusCode != 200 {
		t.Errorf("changed: %d", again.StatusCode)
	}
	if again, _ = get("read", "tenant=acme&budget=views", "If-None-Match", tag); again.StatusCode != 200 {
		t.Errorf("another name: %d", again.StatusCode)
	}

	for query, want := range map[string]string{
		"tenant=acme":                       "1 to 500 times",
		strings.Repeat("budget=sale&", 501): "1 to 500 times",
		"budget=UPPER":                      "UPPER",
		"budget=sale&tenant=a&tenant=b":     "appears 2 times",
		"budget=sale&budgets=x":             "not a parameter",
	} {
		answer, text := get("read", strings.TrimRight(query, "&"))
		if answer.StatusCode < 400 || answer.StatusCode > 422 || !strings.Contains(text, want) {
			t.Errorf("%.40s: %d %s", query, answer.StatusCode, text)
		}
	}
}
