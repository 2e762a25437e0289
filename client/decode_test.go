package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/google/go-cmp/cmp"
)

func TestProblemIsDecoded(t *testing.T) {
	server := newScripted(t,
		answer(422, `{"type":"about:blank","status":422,"code":"invalid","title":"Invalid","detail":"two fields",
			"errors":[{"field":"name","message":"is missing"},{"field":"end_at","message":"must be after start_at"}],
			"unheard_of":1}`),
		answer(409, `{"status":409,"code":"budget_exhausted","detail":"d","available":3}`, "Retry-After", "7"))
	c, _ := impatient(t, server.URL)
	_, err := c.Create(t.Context(), client.CreateRequest{})
	want := `create: invalid: two fields; name: is missing; end_at: must be after start_at [correlation id corr-1]`
	if err == nil || err.Error() != want {
		t.Errorf("message\n%v\nwant\n%s", err, want)
	}
	_, err = c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != 409 || p.Available == nil || *p.Available != 3 ||
		p.RetryAfter != 7*time.Second || p.CorrelationID != "corr-1" {
		t.Errorf("problem %#v", p)
	}
	if want := "deduct: budget_exhausted: d (available: 3) (retry after 7s) [correlation id corr-1]"; err.Error() != want {
		t.Errorf("message\n%v\nwant\n%s", err, want)
	}
}

func TestReadyzReturnsTheReasons(t *testing.T) {
	server := newScripted(t, answer(503, `{"status":503,"reasons":["database: connection refused"]}`))
	c, _ := impatient(t, server.URL)
	err := c.Readyz(t.Context())
	if err == nil || !strings.Contains(err.Error(), "HTTP status 503: database: connection refused") {
		t.Errorf("message %v", err)
	}
}

func TestTheViewIsDecoded(t *testing.T) {
	server := newScripted(t, answer(200, `{"id":7,"tenant":"default","name":"b","unit":"count","durability":"ledger",
		"type":"promo","bucket_quantity":2,"status":"effective","version":3,"created_at":"2026-01-02T03:04:05Z",
		"total_quantity":9007199254740991,"out_quantity":90,"undistributed":10,"remaining":60,"in_buckets":50,"held":1,"used":30,
		"in_transit":9,"quarantined":2,"forfeited":3,"period":{"start":"2026-01-02T00:00:00Z","total":100,"used":30},
		"buckets":{"online":2,"offline":1},"a_later_field":{}}`))
	c, _ := impatient(t, server.URL)
	got, err := c.Budget(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	want := &client.Budget{ID: 7, Tenant: "default", Name: "b", Unit: "count", Durability: "ledger", Type: "promo",
		BucketQuantity: 2, Status: "effective", Version: 3, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		TotalQuantity: units(budget.MaxAmount), OutQuantity: units(90), Undistributed: units(10), Remaining: units(60), InBuckets: units(50), Held: 1, Used: 30,
		InTransit: 9, Quarantined: 2, Forfeited: 3,
		Period:  &client.Period{Start: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Total: 100, Used: 30},
		Buckets: client.BucketCount{Online: 2, Offline: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
}

func TestTheViewOfADailyBudgetIsDecoded(t *testing.T) {
	server := newScripted(t, answer(200, `{"id":7,"name":"b","type":"daily","type_rule":{"kind":"windows","unused":"spread",
		"windows":[{"from":"00:00","to":"06:00","quantity":10}]},"timezone":"UTC","late_refund":"total",
		"total_quantity":100,"undistributed":90,"not_funded":80,"used":3,
		"period":{"number":12,"start":"2026-01-02T00:00:00Z","end":"2026-01-02T06:00:00Z","total":10,"used":3}}`))
	c, _ := impatient(t, server.URL)
	got, err := c.Budget(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	want := &client.Budget{ID: 7, Name: "b", Type: budget.Daily, Timezone: "UTC", LateRefund: budget.ToTotal,
		TypeRule: &budget.Rule{Kind: budget.Windows, Unused: budget.Spread,
			Windows: []budget.Window{{From: "00:00", To: "06:00", Quantity: 10}}},
		TotalQuantity: units(100), Undistributed: units(90), NotFunded: units(80), Used: 3,
		Period: &client.Period{Number: 12, Start: day, End: day.Add(6 * time.Hour), Total: 10, Used: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
}

func TestBudgetsGoesThroughAllPages(t *testing.T) {
	server := newScripted(t,
		answer(200, `{"budgets":[{"name":"a"},{"name":"b"}],"next_page_token":"p2"}`),
		answer(200, `{"budgets":[{"name":"c"}]}`))
	c, _ := impatient(t, server.URL)
	var names []string
	for b, err := range c.Budgets(t.Context(), client.Filter{PageSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, b.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := server.log()[1].uri; got != "/v1/budgets?page_size=2&page_token=p2" {
		t.Errorf("second page asked for as %s", got)
	}
}

// TestBudgetsGoesThroughARanking checks that pages without tokens are read to the total, and that a
// page may have fewer budgets than asked for.
func TestBudgetsGoesThroughARanking(t *testing.T) {
	first := answer(200, `{"budgets":[{"name":"a","refusals":7},{"name":"b","refusals":0}],"total":4}`)
	second := answer(200, `{"budgets":[{"name":"c","exhausted_at":"2026-12-31T00:00:00Z"}],"total":4}`)
	server := newScripted(t, first, second, first, second)
	c, _ := impatient(t, server.URL)
	all := c.Budgets(t.Context(), client.Filter{PageSize: 2, Sort: "-refusals"})
	for range 2 { // an iterator begins again at the first page
		var found []client.Budget
		for b, err := range all {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, b)
		}
		seven, none := 7, 0
		if diff := cmp.Diff([]client.Budget{{Name: "a", Refusals: &seven}, {Name: "b", Refusals: &none},
			{Name: "c", ExhaustedAt: time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)}}, found); diff != "" {
			t.Fatalf("budgets (-want +got):\n%s", diff)
		}
	}
	var uris []string
	for _, call := range server.log() {
		uris = append(uris, call.uri)
	}
	want := []string{"/v1/budgets?page_size=2&sort=-refusals", "/v1/budgets?page_size=2&skip=2&sort=-refusals"}
	if diff := cmp.Diff(append(want, want...), uris); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

func TestBudgetsDoesNotLoop(t *testing.T) {
	again := answer(200, `{"budgets":[{"name":"a"}],"next_page_token":"p2"}`)
	server := newScripted(t, again, again, again, again)
	c, _ := impatient(t, server.URL)
	var last error
	for _, err := range c.Budgets(t.Context(), client.Filter{}) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), `repeats page token "p2"`) || len(server.log()) != 2 {
		t.Errorf("%d pages: %v", len(server.log()), last)
	}
}

func TestAnAnswerWithoutEndIsCutOff(t *testing.T) {
	var wrote atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, 1<<20)
		for {
			n, err := w.Write(chunk)
			wrote.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.WithRetry(client.Retry{Attempts: 1, AttemptTimeout: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Budget(t.Context(), "b")
	if err == nil || !strings.Contains(err.Error(), "answer is longer than") {
		t.Errorf("error %v", err)
	}
	server.CloseClientConnections()
	if n := wrote.Load(); n > 256<<20 {
		t.Errorf("%d bytes were read from the server", n)
	}
}

func units(n int64) *int64 { return &n }
