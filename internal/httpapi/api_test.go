package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestCorrelationAndTrace(t *testing.T) {
	_, server, _ := start(t)
	for given, want := range map[string]string{
		"": "corr-1", "order-7/a.b_c": "order-7/a.b_c", "a b": "corr-1", "a\"b": "corr-1", "ä": "corr-1",
		strings.Repeat("x", 128): strings.Repeat("x", 128), strings.Repeat("x", 129): "corr-1",
	} {
		answer, _ := ask(t, server, "GET", "/v1/budgets/sale", "", "X-Correlation-Id", given)
		if got := answer.Header.Get("X-Correlation-Id"); got != want {
			t.Errorf("%q was answered as %q", given, got)
		}
	}
	for given, kept := range map[string]bool{
		"": false, traceparent: true, "01" + traceparent[2:]: true, "cc" + traceparent[2:] + "-what-will-be": true,
		traceparent + "-x": false, "ff" + traceparent[2:]: false, strings.ToUpper(traceparent): false, traceparent[:54]: false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
		"00-0af7651916cd43dd8448eb211c80319z-b7ad6b7169203331-01": false,
	} {
		answer, _ := ask(t, server, "GET", "/healthz", "", "Traceparent", given)
		got := answer.Header.Get("Traceparent")
		if !kept && got != "" || kept && (len(got) != 55 || got[:36] != traceparent[:36] || got[36:52] == traceparent[36:52] || got[52:] != "-01") {
			t.Errorf("%q was answered as %q", given, got)
		}
	}
	answer, _ := ask(t, server, "GET", "/healthz", "", "Traceparent", traceparent, "Traceparent", traceparent)
	if got := answer.Header.Get("Traceparent"); got != "" {
		t.Errorf("two of them were answered as %q", got)
	}
}

func TestContentTypes(t *testing.T) {
	service, server, _ := start(t)
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8",
		"Application/JSON", `application/json; charset="utf-8"`, "application/json; v=1",
		"application/json;odata=verbose; charset=utf-8"} {
		r, _ := http.NewRequest("POST", server.URL+"/v1/budgets/sale/deduct", strings.NewReader(`{"request_id":"o1","amount":5}`))
		r.Header.Set("Content-Type", contentType)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 200 || len(service.taken()) != 1 {
			t.Errorf("%s: %d", contentType, answer.StatusCode)
		}
	}
}

// TestABodyWhereNoneIsRead checks that a call without a body refuses one, with its length or in
// chunks.
func TestABodyWhereNoneIsRead(t *testing.T) {
	service, server, _ := start(t)
	for name, body := range map[string]io.Reader{
		"with its length": strings.NewReader(`{}`), "in chunks": io.MultiReader(strings.NewReader(`{}`)),
	} {
		r, _ := http.NewRequest("GET", server.URL+"/v1/budgets/sale", body)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 400 || len(service.taken()) != 0 {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
}

func TestReadiness(t *testing.T) {
	service, server, api := start(t)
	service.reasons = []string{"the database is not reachable"}
	answer, body := ask(t, server, "GET", "/readyz", "")
	p := problemIn(t, body)
	if answer.StatusCode != 503 || p.Code != "unavailable" || !slices.Equal(p.Reasons, service.reasons) {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	service.reasons = nil
	api.Leave()
	if answer, body := ask(t, server, "GET", "/readyz", ""); answer.StatusCode != 503 || !strings.Contains(body, "stopping") {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	if answer, _ := ask(t, server, "GET", "/healthz", ""); answer.StatusCode != 200 {
		t.Errorf("healthz %d while stopping", answer.StatusCode)
	}
	if answer, _ := ask(t, server, "GET", "/v1/budgets/sale", ""); answer.StatusCode != 200 {
		t.Errorf("view %d while stopping", answer.StatusCode)
	}
}

// TestTooManyInFlight checks that requests beyond the limit are told to retry, and that probes are
// still answered.
func TestTooManyInFlight(t *testing.T) {
	var o observed
	service, server, _ := start(t, func(c *httpapi.Config) { c.Limits.InFlight, c.Observer = 2, &o })
	release, arrived := make(chan struct{}), make(chan struct{}, 2)
	service.before = func(context.Context, string) {
		arrived <- struct{}{}
		<-release
	}
	var waiting sync.WaitGroup
	for i := range 2 {
		waiting.Go(func() {
			ask(t, server, "POST", "/v1/budgets/sale/deduct", fmt.Sprintf(`{"request_id":"o%d","amount":5}`, i))
		})
		<-arrived
	}
	answer, body := ask(t, server, "GET", "/v1/budgets/sale", "")
	if answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "1" || problemIn(t, body).Code != "unavailable" {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	ask(t, server, "POST", "/v1/budgets/sale/deduct", `{"request_id":"more","amount":5}`)
	if o.mu.Lock(); !slices.Contains(o.lines, `deduction "unavailable" false`) {
		t.Errorf("the observer got %q", o.lines)
	}
	o.mu.Unlock()
	if answer, _ := ask(t, server, "GET", "/readyz", ""); answer.StatusCode != 200 {
		t.Errorf("readyz %d", answer.StatusCode)
	}
	close(release)
	waiting.Wait()
	if answer, _ := ask(t, server, "GET", "/v1/budgets/sale", ""); answer.StatusCode != 200 {
		t.Errorf("status %d after the other calls ended", answer.StatusCode)
	}
}

func TestRequestTimeout(t *testing.T) {
	service, server, _ := start(t, func(c *httpapi.Config) { c.Limits.RequestTimeout = 50 * time.Millisecond })
	service.before = func(ctx context.Context, _ string) {
		<-ctx.Done()
		service.err = ctx.Err()
	}
	answer, body := ask(t, server, "POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":5}`)
	if answer.StatusCode != 504 || problemIn(t, body).Code != "outcome_unknown" {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
}

func TestObserver(t *testing.T) {
	var o observed
	_, server, _ := start(t, func(c *httpapi.Config) { c.Observer = &o })
	ask(t, server, "GET", "/v1/budgets/some-name", "")
	ask(t, server, "GET", "/no/such/call", "")
	ask(t, server, "POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":5}`)
	ask(t, server, "POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":0}`)
	ask(t, server, "POST", "/v1/deductions:batch", `{"deductions":[{"budget":"A","request_id":"o","amount":1}]}`)
	want := []string{
		"GET /v1/budgets/{budget} 200", " 404",
		`deduction "" false`, "POST /v1/budgets/{budget}/deduct 200",
		`deduction "invalid" false`, "POST /v1/budgets/{budget}/deduct 422",
		`deduction "budget_not_found" false`, "POST /v1/deductions:batch 200",
	}
	if !slices.Equal(o.lines, want) {
		t.Errorf("%q", o.lines)
	}
}

// TestBatchOrder checks that the service gets the items in their order, and that each result has
// the position of its item.
func TestBatchOrder(t *testing.T) {
	service, server, _ := start(t)
	var items []string
	for i := range 300 {
		items = append(items, fmt.Sprintf(`{"budget":"%s","request_id":"o%d","amount":%d}`, []string{"sale", "7"}[i%2], i%100, i+1))
	}
	items[7] = `{"budget":"sale","request_id":"o7","amount":0}`
	items[9] = `{"budget":"No Name","request_id":"o9","amount":10}`
	_, body := ask(t, server, "POST", "/v1/deductions:batch", `{"deductions":[`+strings.Join(items, ",")+`]}`)
	var got struct {
		Results []struct {
			Amount int
			Code   string
		}
	}
	if err := json.Unmarshal([]byte(body), &got, json.MatchCaseInsensitiveNames(true)); err != nil || len(got.Results) != 300 {
		t.Fatal(err, len(got.Results))
	}
	faulty := map[int]string{7: "invalid", 9: "budget_not_found"}
	for i, result := range got.Results {
		if result.Code != faulty[i] || result.Code == "" && result.Amount != i+1 {
			t.Errorf("result %d is %+v", i, result)
		}
	}
	before := 0
	for _, call := range service.taken() {
		var amount int
		_, rest, _ := strings.Cut(call, "Amount:")
		_, _ = fmt.Sscanf(rest, "%d", &amount)
		if amount <= before {
			t.Errorf("amount %d came after amount %d", amount, before)
		}
		before = amount
	}
}

// TestBatchWithDryRuns checks that a dry run is executed after the deductions with its id that
// precede it, and before those that follow it.
func TestBatchWithDryRuns(t *testing.T) {
	service, server, _ := start(t)
	items := []struct {
		id     string
		amount int
		dry    bool
	}{
		{"a", 1, true}, {"a", 11, false}, {"b", 12, false}, {"a", 2, true}, {"a", 3, true}, {"a", 13, false},
		{"b", 14, false}, {"b", 4, true}, {"c", 5, true},
	}
	var texts []string
	for _, item := range items {
		texts = append(texts, fmt.Sprintf(`{"budget":"sale","request_id":"%s","amount":%d,"dry_run":%t}`, item.id, item.amount, item.dry))
	}
	_, body := ask(t, server, "POST", "/v1/deductions:batch", `{"deductions":[`+strings.Join(texts, ",")+`]}`)
	var got struct {
		Results []struct {
			Amount  int
			Outcome string
		}
	}
	if err := json.Unmarshal([]byte(body), &got, json.MatchCaseInsensitiveNames(true)); err != nil || len(got.Results) != len(items) {
		t.Fatal(err, body)
	}
	calls := service.taken()
	made := func(amount int) int {
		return slices.IndexFunc(calls, func(call string) bool {
			return strings.Contains(call, fmt.Sprintf("Amount:%d ", amount))
		})
	}
	for i, item := range items {
		if result := got.Results[i]; result.Amount != item.amount || (result.Outcome == "would_be_accepted") != item.dry {
			t.Errorf("result %d is %+v", i, result)
		}
		if made(item.amount) < 0 {
			t.Errorf("item %d was not executed", i)
		}
		for _, earlier := range items[:i] {
			if earlier.id == item.id && made(earlier.amount) > made(item.amount) {
				t.Errorf("%+v was executed before %+v", item, earlier)
			}
		}
	}
}

// TestBatchOfAThousand checks that a full batch is executed, and that a malformed item fails alone.
func TestBatchOfAThousand(t *testing.T) {
	service, server, _ := start(t)
	items := make([]string, 1000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"budget":"sale","request_id":"o%d","amount":1}`, i)
	}
	items[500] = `{"budget":"sale","request_id":"o500","amount":"1"}`
	answer, body := ask(t, server, "POST", "/v1/deductions:batch", `{"deductions":[`+strings.Join(items, ",")+`]}`)
	var got struct{ Results []jsontext.Value }
	if err := json.Unmarshal([]byte(body), &got, json.MatchCaseInsensitiveNames(true)); err != nil || answer.StatusCode != 200 {
		t.Fatal(answer.StatusCode, err)
	}
	if len(got.Results) != 1000 || len(service.taken()) != 999 || problemIn(t, string(got.Results[500])).Code != "malformed" {
		t.Errorf("%d results, %s", len(got.Results), got.Results[500])
	}
}

// TestConnectionsAreReused checks that a connection serves further requests after a refused body.
func TestConnectionsAreReused(t *testing.T) {
	_, server, _ := start(t)
	connection, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	for range 3 {
		fmt.Fprint(connection, "POST /v1/budgets/sale/deduct HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 30\r\n\r\n"+
			strings.Repeat("x", 30))
	}
	fmt.Fprint(connection, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	all, err := io.ReadAll(connection)
	if err != nil || strings.Count(string(all), "HTTP/1.1 415") != 3 || strings.Count(string(all), "HTTP/1.1 200") != 1 {
		t.Errorf("%v\n%s", err, all)
	}
}

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
