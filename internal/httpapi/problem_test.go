package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// problem is a problem document as read by a caller.
type problem struct {
	Type, Title, Detail, Code, Docs string
	Status                          int
	Errors                          []budget.FieldError
	Available                       *int64
	Limit, Dimension, Value         string
	Used, Max                       *int64
	ResetAt                         time.Time `json:"reset_at"`
	RetryAfter                      float64   `json:"retry_after"`
	Limits                          []map[string]any
	Never                           bool
	StartAt                         time.Time `json:"start_at"`
	Reason                          string
	Reasons                         []string
	CorrelationID                   string `json:"correlation_id"`
	Budget                          string
	RequestID                       string `json:"request_id"`
}

func problemIn(t *testing.T, body string) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(body), &p, json.MatchCaseInsensitiveNames(true), json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if p.Docs != "/docs/errors/"+p.Code {
		t.Errorf("its page is %q: %s", p.Docs, body)
	}
	p.Docs = ""
	return p
}

// wantStatus is API.md's table, and the codes that package budget adds to it.
var wantStatus = map[budget.Code]int{
	budget.Malformed: 400, budget.Invalid: 422, budget.TooLarge: 413, budget.UnsupportedMediaType: 415,
	budget.MethodNotAllowed: 405, budget.BudgetNotFound: 404, budget.DeductionNotFound: 404,
	budget.BucketNotFound: 404, budget.InstanceNotFound: 404, budget.RouteNotFound: 404,
	budget.BudgetExhausted: 409, budget.PeriodExhausted: 409, budget.BudgetNotEffective: 409, budget.BudgetPaused: 409,
	budget.BudgetExpired: 409, budget.BudgetNotOver: 409, budget.HasDeductions: 409, budget.InUse: 409, budget.LastBucket: 409, budget.LastInstance: 409,
	budget.BucketOffline: 409, budget.BucketHalted: 409, budget.InstanceAnswers: 409,
	budget.RequestConflict: 409, budget.RequestVoid: 409, budget.AlreadyRolledBack: 409,
	budget.NotHeld: 409, budget.HoldExpired: 409, budget.GroupClosed: 409, budget.StepConflict: 409,
	budget.AmountExceedsRemaining: 409, budget.LimitExceeded: 429, budget.LegRefused: 409, budget.NameTaken: 409, budget.VersionConflict: 412,
	budget.Unauthenticated: 401, budget.Forbidden: 403, budget.RateLimited: 429, budget.KeyNotFound: 404,
	budget.TooManyKeys: 409, budget.KeyNotLive: 409, budget.LedgerModeOnly: 409,
	budget.WebhookNotFound: 404, budget.DeliveryNotFound: 404, budget.TooManyWebhooks: 409,
	budget.Unavailable: 503, budget.OutcomeUnknown: 504, budget.Internal: 500,
}

// TestEveryCodeHasAStatus checks that every code that the source of package budget declares is sent
// with its status.
func TestEveryCodeHasAStatus(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../budget/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	service, server, _ := start(t)
	for _, code := range codesIn(file) {
		want, ok := wantStatus[code]
		if !ok {
			t.Errorf("code %s is not in the table of this test", code)
			continue
		}
		service.err = fmt.Errorf("wrapped: %w", &budget.Error{Code: code, Op: "deduct", Message: "why", Err: errors.New("a secret")})
		answer, body := ask(t, server, "POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":5}`)
		p := problemIn(t, body)
		if answer.StatusCode != want || p.Status != want || p.Code != string(code) || p.Detail != "why" || p.Title == "" ||
			p.Type != "urn:budgetd:problem:"+string(code) || p.CorrelationID != "corr-1" || strings.Contains(body, "secret") {
			t.Errorf("%s: %d, %s", code, answer.StatusCode, body)
		}
		if got := answer.Header.Get("Retry-After") != ""; got != (code == budget.Unavailable) {
			t.Errorf("%s: Retry-After %q", code, answer.Header.Get("Retry-After"))
		}
	}
}

func codesIn(file *ast.File) []budget.Code {
	var codes []budget.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "Code" {
			text, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			codes = append(codes, budget.Code(text))
		}
		return true
	})
	return codes
}

func TestProblemCarriesFigures(t *testing.T) {
	service, server, _ := start(t)
	left := int64(3)
	service.err = &budget.Error{Code: budget.BudgetExhausted, Op: "deduct", Message: "3 left", Available: &left,
		RetryAfter: 1500 * time.Millisecond, Fields: []budget.FieldError{{Field: "amount", Message: "is 5"}}}
	answer, body := ask(t, server, "POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":5}`)
	want := problem{Type: "urn:budgetd:problem:budget_exhausted", Title: "The budget does not cover the amount", Status: 409,
		Detail: "3 left", Code: "budget_exhausted", Available: &left, RetryAfter: 1.5, CorrelationID: "corr-1",
		Errors: []budget.FieldError{{Field: "amount", Message: "is 5"}}}
	if diff := cmp.Diff(want, problemIn(t, body)); diff != "" || answer.Header.Get("Retry-After") != "2" {
		t.Error(answer.Header, diff)
	}
}

// TestPeriodExhausted checks that the refusal by an exhausted period says how much is left and when
// to retry.
func TestPeriodExhausted(t *testing.T) {
	_, server, _ := start(t)
	answer, body := ask(t, server, "POST", "/v1/budgets/coupons/deduct", `{"request_id":"o1","amount":201}`)
	left := int64(200)
	want := problem{Type: "urn:budgetd:problem:period_exhausted", Title: "The period does not cover the amount; a later one may",
		Status: 409, Detail: "this period has 200 left", Code: "period_exhausted", Available: &left, RetryAfter: 7200.001,
		CorrelationID: "corr-1"}
	if diff := cmp.Diff(want, problemIn(t, body)); diff != "" || answer.StatusCode != 409 ||
		answer.Header.Get("Retry-After") != "7201" {
		t.Error(answer.StatusCode, answer.Header, diff)
	}
}

// TestLimitExceeded checks that the refusal by a limit says which limit and value it was, how much
// is used, and when to retry.
func TestLimitExceeded(t *testing.T) {
	_, server, _ := start(t)
	five := int64(5)
	want := problem{Type: "urn:budgetd:problem:limit_exceeded", Title: "A limit would be exceeded", Status: 429,
		Detail: "limit per-user: 5 of 5 are used", Code: "limit_exceeded", Limit: "per-user", Dimension: "user", Value: "u1",
		Used: &five, Max: &five, ResetAt: at.UTC(), RetryAfter: 5400.3, CorrelationID: "corr-1"}
	for _, body := range []string{`{"request_id":"o1","amount":6}`, `{"request_id":"o1","amount":6,"dry_run":true}`} {
		answer, text := ask(t, server, "POST", "/v1/budgets/capped/deduct", body)
		if diff := cmp.Diff(want, problemIn(t, text)); diff != "" || answer.StatusCode != 429 ||
			answer.Header.Get("Retry-After") != "5401" {
			t.Error(body, answer.StatusCode, answer.Header, diff)
		}
	}
	_, text := ask(t, server, "POST", "/v1/checks", `{"checks":[{"budget":"capped","amount":6}]}`)
	want.CorrelationID, want.Docs = "", "/docs/errors/limit_exceeded"
	want.Budget = "capped"
	var got struct{ Results []problem }
	if err := json.Unmarshal([]byte(text), &got, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]problem{want}, got.Results); diff != "" {
		t.Error(diff)
	}
}

// TestNothingIsDoneByAsking checks that a dry run or a query of usage that fails is reported as
// unavailable, because it changed nothing.
func TestNothingIsDoneByAsking(t *testing.T) {
	service, server, _ := start(t)
	service.err = context.DeadlineExceeded
	for path, body := range map[string]string{"/v1/budgets/sale/deduct": `{"request_id":"a","amount":1,"dry_run":true}`,
		"/v1/budgets/sale/usage?user=u1": ""} {
		method := "POST"
		if body == "" {
			method = "GET"
		}
		answer, text := ask(t, server, method, path, body)
		if p := problemIn(t, text); answer.StatusCode != 503 || p.Code != "unavailable" {
			t.Errorf("%s: %d %s", path, answer.StatusCode, text)
		}
	}
}

// TestErrorsWithoutACode checks that an error without a code has an unknown outcome if the call
// changes something. A read fails as internal or unavailable. No answer shows the cause.
func TestErrorsWithoutACode(t *testing.T) {
	service, server, _ := start(t)
	for _, c := range []struct {
		method, path, body string
		err                error
		status             int
	}{
		{"POST", "/v1/budgets", `{"name":"a","unit":"count","type":"promo","total_quantity":1}`, errors.New("a secret"), 504},
		{"PATCH", "/v1/budgets/sale", `{"status":"paused"}`, errors.New("a secret"), 504},
		{"POST", "/v1/budgets/sale/append", `{"request_id":"a","quantity":1}`, errors.New("a secret"), 504},
		{"POST", "/v1/budgets/sale/deduct", `{"request_id":"a","amount":1}`, context.DeadlineExceeded, 504},
		{"POST", "/v1/budgets/sale/rollback", `{"request_id":"a"}`, errors.New("a secret"), 504},
		{"POST", "/v1/budgets/sale/cancel", `{"request_id":"a"}`, context.Canceled, 504},
		{"POST", "/v1/budgets/sale/buckets/x/offline", "", errors.New("a secret"), 504},
		{"GET", "/v1/budgets/sale", "", errors.New("a secret"), 500},
		{"GET", "/v1/budgets/sale", "", context.DeadlineExceeded, 503},
		{"GET", "/v1/budgets", "", errors.New("a secret"), 500},
		{"GET", "/v1/budgets/sale/buckets", "", errors.New("a secret"), 500},
		{"GET", "/v1/budgets/sale/audit", "", errors.New("a secret"), 500},
		{"GET", "/v1/budgets/sale/deductions?request_id=a", "", errors.New("a secret"), 500},
		{"GET", "/v1/instances", "", errors.New("a secret"), 500},
	} {
		service.err = c.err
		answer, body := ask(t, server, c.method, c.path, c.body)
		p := problemIn(t, body)
		if answer.StatusCode != c.status || strings.Contains(body, "secret") || p.Code == "" || strings.Contains(body, "deadline") {
			t.Errorf("%s %s: %d %s", c.method, c.path, answer.StatusCode, body)
		}
		if len(service.taken()) != 1 {
			t.Errorf("%s %s did not reach the service", c.method, c.path)
		}
	}
}

// TestLogsOnce checks that a failure is logged once, with its cause and the ids of the caller, and
// that a refusal is not logged.
func TestLogsOnce(t *testing.T) {
	var out strings.Builder
	service, server, _ := start(t, func(c *httpapi.Config) {
		c.Log = slog.New(httpapi.LogHandler(slog.NewTextHandler(&out, nil)))
	})
	deduct := func() { ask(t, server, "POST", "/v1/budgets/sale/deduct", `{"request_id":"o1","amount":5}`) }
	service.err = &budget.Error{Code: budget.BudgetExhausted}
	deduct()
	service.err = errors.New("the cause")
	deduct()
	service.err, service.panics = nil, true
	answer, body := ask(t, server, "GET", "/v1/budgets/sale", "", "Traceparent", traceparent)
	if p := problemIn(t, body); answer.StatusCode != 500 || p.Code != "internal" || strings.Contains(body, "secret") {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	answer, body = ask(t, server, "POST", "/v1/deductions:batch", `{"deductions":[{"budget":"a","request_id":"o","amount":1}]}`)
	if answer.StatusCode != 200 || !strings.Contains(body, `"code":"internal"`) || strings.Contains(body, "secret") {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for i, want := range [][]string{
		{"level=WARN", "op=deduct", "code=outcome_unknown", "the cause", "correlation_id=corr-1"},
		{"level=ERROR", "op=view", "code=internal", "a secret detail", "fake_test.go", "trace_id=0af7651916cd43dd8448eb211c80319c"},
		{"level=ERROR", "op=deduct", "a secret detail"},
	} {
		for _, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("line %d lacks %q: %s", i, part, lines[i])
			}
		}
	}
}

func TestLogIsBounded(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1000, 0)
	service, server, _ := start(t, func(c *httpapi.Config) {
		c.Log = slog.New(slog.NewTextHandler(&out, nil))
		c.Now = func() time.Time { return now }
	})
	service.err = errors.New("down")
	view := func() { ask(t, server, "GET", "/v1/budgets/sale", "") }
	for range 80 {
		view()
	}
	now = now.Add(time.Second)
	view()
	if lines := strings.Count(out.String(), "\n"); lines != 51 || !strings.Contains(out.String(), "suppressed=30") {
		t.Errorf("%d lines; the last must say how many were left out", lines)
	}
}

// TestRepeatedLinesAreCounted checks that a failure that repeats is logged every 10 s for each
// reason, with the number of suppressed lines.
func TestRepeatedLinesAreCounted(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1000, 0)
	service, server, _ := start(t, func(c *httpapi.Config) {
		c.Log = slog.New(slog.NewTextHandler(&out, nil))
		c.Now = func() time.Time { return now }
	})
	for second := range 50 {
		now = time.Unix(int64(1000+second), 0)
		for _, reason := range []budget.Reason{budget.ReasonStoreDown, budget.ReasonOverloaded} {
			e := budget.Refuse(budget.Unavailable, "deduct", "request %d found it down", second)
			e.Reason = reason
			service.err = e
			for range 20 {
				ask(t, server, "GET", "/v1/budgets/sale", "")
			}
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 10 ||
		strings.Count(out.String(), "suppressed=199") != 8 {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
}

// TestAllFaultsOfARule checks that all faults of a rule are listed in one answer with those of the
// other fields, each once.
func TestAllFaultsOfARule(t *testing.T) {
	service, server, _ := start(t)
	for _, c := range []struct{ body, want string }{
		{`{"name":"A","unit":"count","type":"daily","total_quantity":1,"late_refund":"never","timezone":"Mars/Olympus","type_rule":
			{"kind":"windows","every":"day","unused":"total","windows":[{"from":"06:00","to":"05:00","quantity":0},
			{"from":"6","quantity":1},{"to":7,"from":"08:00","quantity":1}],"x":1}}`,
			"malformed: type_rule.windows[2].to type_rule.x timezone type_rule.windows[0].quantity type_rule.windows[1].to name" +
				" late_refund type_rule.every type_rule.unused type_rule.windows[0].to type_rule.windows[1].from"},
		{`{"name":"a","unit":"count","type":"daily","total_quantity":1,"type_rule":{"kind":"calendar","every":"day","quantity":1.5}}`,
			"malformed: type_rule.quantity"}, // and not end_at, as if there were no quantity
		{`{"name":"a","unit":"count","type":"daily","total_quantity":1,"type_rule":7}`, "malformed: type_rule"},
		{`{"name":"a","unit":"count","type":"daily","total_quantity":1}`, "invalid: type_rule"},
	} {
		_, body := ask(t, server, "POST", "/v1/budgets", c.body)
		p := problemIn(t, body)
		got := p.Code + ":"
		for _, fault := range p.Errors {
			got += " " + fault.Field
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	_, body := ask(t, server, "PATCH", "/v1/budgets/sale", `{"type_rule":{"kind":"calendar","quantity":0},"late_refund":"x"}`)
	var fields []string
	for _, fault := range problemIn(t, body).Errors {
		fields = append(fields, fault.Field)
	}
	if diff := cmp.Diff([]string{"type_rule.quantity", "late_refund", "type_rule.every"}, fields); diff != "" {
		t.Error(diff)
	}
	if calls := service.taken(); len(calls) > 0 {
		t.Error(calls)
	}
}
