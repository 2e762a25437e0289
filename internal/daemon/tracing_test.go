package daemon_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// spans is a collector that stores the spans it receives as OTLP over HTTP.
type spans struct {
	t   *testing.T
	mu  sync.Mutex
	all []*otlp.Span
}

func (s *spans) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		s.t.Errorf("%s: %v", r.URL.Path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range request.ResourceSpans {
		if !strings.Contains(of.Resource.String(), "service.name") {
			s.t.Errorf("spans without service.name: %s", of.Resource)
		}
		for _, scope := range of.ScopeSpans {
			s.all = append(s.all, scope.Spans...)
		}
	}
}

// named returns the spans with a name in a trace; "" means any trace.
func (s *spans) named(name, trace string) (out []*otlp.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.Name == name && (trace == "" || hex.EncodeToString(one.TraceId) == trace) {
			out = append(out, one)
		}
	}
	return out
}

// first returns the first span with a name in a trace.
func (s *spans) first(name, trace string) *otlp.Span {
	s.t.Helper()
	found := s.named(name, trace)
	if len(found) == 0 {
		s.t.Fatalf("no span %q in trace %q", name, trace)
	}
	return found[0]
}

// links reports whether a span links to another one.
func links(from, to *otlp.Span) bool {
	return slices.ContainsFunc(from.Links, func(l *otlp.Span_Link) bool { return string(l.SpanId) == string(to.SpanId) })
}

// below reports whether the parent of a span is another one.
func below(span, parent *otlp.Span) bool { return string(span.ParentSpanId) == string(parent.SpanId) }

// traced makes a call as part of a trace, repeats it while it is unavailable, and returns the
// traceparent of the answer.
func (p *process) traced(path, body, traceparent string) string {
	p.t.Helper()
	for {
		r, err := http.NewRequest("POST", p.url+path, strings.NewReader(body))
		if err != nil {
			p.t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Traceparent", traceparent)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		switch answer.StatusCode {
		case 200, 409:
			return answer.Header.Get("Traceparent")
		case 503: // a busy machine
		default:
			p.t.Fatalf("%d %s", answer.StatusCode, text)
		}
	}
}

// Traces of callers. The caller does not record unsaidTrace.
const (
	ledgerTrace  = "0af7651916cd43dd8448eb211c80319c"
	storeTrace   = "1af7651916cd43dd8448eb211c80319c"
	unsaidTrace  = "2af7651916cd43dd8448eb211c80319c"
	refusedTrace = "3af7651916cd43dd8448eb211c80319c"
	parentSpan   = "b7ad6b7169203331"
)

// TestSpans checks which calls have spans, their children, the links between requests and flights,
// and that metrics have the trace as their exemplar.
func TestSpans(t *testing.T) {
	got := &spans{t: t}
	server := httptest.NewServer(got)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("instances: [{name: redis-a, driver: redis, addrs: [%q]}]\n", testservers.SharedRedis(t).Addr())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50") // milliseconds
	const deduct, body = "/v1/budgets/%s/deduct", `{"request_id":%q,"amount":1}`
	p := start(t, []string{"--config", file}, "BUDGETD_TRACING_ENDPOINT="+server.URL, "BUDGETD_DATABASE_DRIVER=mysql",
		"BUDGETD_DATABASE_DSN="+testservers.SharedMariaDB(t).NewDatabase(t))
	p.create("sale")
	const tickets = `{"name":"tickets","unit":"count","type":"promo","total_quantity":100,"durability":"store"}`
	for status := 0; status != 201; time.Sleep(50 * time.Millisecond) { // until the partition is verified
		if status, text = p.ask("POST", "/v1/budgets", tickets); status != 201 && status != 503 {
			t.Fatalf("create: %d %s", status, text)
		}
	}
	p.ask("POST", fmt.Sprintf(deduct, "sale"), fmt.Sprintf(body, "untraced"))
	p.traced(fmt.Sprintf(deduct, "sale"), fmt.Sprintf(body, "not recorded"), "00-"+unsaidTrace+"-"+parentSpan+"-00")
	for line := range strings.Lines(openMetrics(t, p.url)) {
		if strings.Contains(line, unsaidTrace) {
			t.Errorf("a trace that is not sampled is an exemplar: %s", line)
		}
	}
	const data = "POST /v1/budgets/{budget}/deduct"
	ledgerTrace := fmt.Sprintf("%032x", 1)
	answered := p.traced(fmt.Sprintf(deduct, "sale"), fmt.Sprintf(body, ledgerTrace), "00-"+ledgerTrace+"-"+parentSpan+"-01")
	for len(got.named(data, ledgerTrace)) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	p.traced("/v1/deductions:batch", `{"deductions":[{"budget":"tickets","request_id":"a","amount":1},`+
		`{"budget":"tickets","request_id":"b","amount":1}]}`, "00-"+storeTrace+"-"+parentSpan+"-01")
	p.traced(fmt.Sprintf(deduct, "sale"), `{"request_id":"too much","amount":1000000}`,
		"00-"+refusedTrace+"-"+parentSpan+"-01")
	exemplars(t, p.url, ledgerTrace)
	p.signal()
	p.ended() // after it has sent the remaining spans

	if created := got.named("POST /v1/budgets", "")[0]; len(created.ParentSpanId) != 0 ||
		!below(got.first("sql create", hex.EncodeToString(created.TraceId)), created) {
		t.Errorf("administrative calls: %v", created)
	}
	for _, one := range got.named(data, "") {
		if hex.EncodeToString(one.ParentSpanId) != parentSpan || hex.EncodeToString(one.TraceId) == unsaidTrace {
			t.Errorf("a data call without a recorded trace has a span: %v", one)
		}
	}
	request, flight := got.first(data, ledgerTrace), got.first("flight", ledgerTrace)
	if hex.EncodeToString(request.ParentSpanId) != parentSpan || answered != "00-"+ledgerTrace+"-"+hex.EncodeToString(request.SpanId)+"-01" {
		t.Errorf("the answer has traceparent %s: %v", answered, request)
	}
	if !below(flight, request) || !links(flight, request) || !links(request, flight) {
		t.Errorf("flight and request are not linked: %v %v", flight, request)
	}
	if packet := got.first("sql packet", ledgerTrace); !below(packet, flight) {
		t.Errorf("the packet is not below the flight: %v", packet)
	}
	batch := got.first("POST /v1/deductions:batch", storeTrace)
	stored := got.first("flight", storeTrace)
	if len(stored.Links) != 1 || !links(stored, batch) || !below(got.first("redis deduct", storeTrace), stored) {
		t.Errorf("store mode: %v", stored)
	}
}

// openMetrics returns the metrics in the format that has exemplars.
func openMetrics(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequest("GET", url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exemplars checks that histograms have the trace of a deduct as an exemplar, and counters the trace
// of the last deduct with their outcome, if it was sampled.
func exemplars(t *testing.T, url, ledgerTrace string) {
	t.Helper()
	found, last := map[string]bool{}, map[string]string{}
	for line := range strings.Lines(openMetrics(t, url)) {
		if name, _, is := strings.Cut(line, "_bucket{"); is && (strings.Contains(line, ledgerTrace) || strings.Contains(line, storeTrace)) {
			found[name] = true
		}
		if series, at, is := strings.Cut(line, ` # {trace_id="`); is && strings.HasPrefix(series, "budgetd_deductions_total{") {
			name, _, _ := strings.Cut(series, "} ")
			last[name+"}"], _, _ = strings.Cut(at, `"`)
		}
	}
	accepted := last[`budgetd_deductions_total{code="",outcome="accepted"}`]
	refused := last[`budgetd_deductions_total{code="budget_exhausted",outcome="refused"}`]
	if accepted != ledgerTrace && accepted != storeTrace || refused != refusedTrace {
		t.Errorf("exemplars of counters: %q", last)
	}
	for _, name := range []string{"budgetd_http_request_duration_seconds", "budgetd_commit_duration_seconds",
		"budgetd_partition_call_duration_seconds"} {
		if !found[name] {
			t.Errorf("%s has no exemplar", name)
		}
	}
}
