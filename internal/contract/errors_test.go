package contract_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// failure is what the document says of a code.
type failure struct {
	Status       int
	Kind, Title  string
	General      bool
	Has          []string
	Happened, Do string
}

// failures returns the table of codes.
func (d *contractOf) failures() (all map[string]failure) {
	node, _ := d.model.Extensions.Get("x-errors")
	if err := node.Decode(&all); err != nil {
		panic(err)
	}
	return all
}

// general are members of every problem.
var general = []string{"type", "title", "status", "detail", "code", "docs", "correlation_id"}

// judgeProblem returns what a problem has that the document does not have for its code and its call.
func (d *contractOf) judgeProblem(e *exchange) (faults []string) {
	if e.answer.Header.Get("Content-Type") != "application/problem+json" {
		return nil
	}
	var members map[string]any
	if err := json.Unmarshal(e.received, &members); err != nil {
		return []string{err.Error()}
	}
	code, _ := members["code"].(string)
	known, ok := d.failures()[code]
	if !ok {
		return []string{"code " + code + " is not documented"}
	}
	if members["docs"] != "/docs/errors/"+code {
		faults = append(faults, fmt.Sprintf("docs is %v", members["docs"]))
	}
	for name := range members {
		if !slices.Contains(general, name) && !slices.Contains(known.Has, name) {
			faults = append(faults, code+" is documented without "+name)
		}
	}
	if status := e.answer.StatusCode; status != known.Status && status != 431 {
		faults = append(faults, fmt.Sprintf("%s has status %d, documented %d", code, status, known.Status))
	}
	operation := d.operationOf(e.request)
	if !known.General && (operation == nil ||
		!slices.Contains(extension[[]string](operation, "x-codes"), code)) {
		faults = append(faults, fmt.Sprintf("%s %s is documented without %s", e.request.Method,
			e.request.URL.Path, code))
	}
	return faults
}

// judgeAll returns everything that is wrong with an exchange. What the server accepts must be what
// the document lets in.
func (d *contractOf) judgeAll(e *exchange) (faults []string) {
	if e.answer.StatusCode < 300 {
		faults = d.judgeRequest(e)
	}
	if d.operationOf(e.request) == nil { // a problem is the same everywhere
		other := *e
		other.request, _ = http.NewRequest("POST", "http://localhost/v1/budgets/x/deduct", nil)
		return append(faults, append(d.judgeAnswer(&other), d.judgeProblem(e)...)...)
	}
	return append(faults, append(d.judgeAnswer(e), d.judgeProblem(e)...)...)
}

// provocation makes a server answer with a code.
type provocation struct {
	code                 budget.Code
	method, target, body string
	header               []string
}

const (
	deduct  = "/v1/budgets/sale/deduct"
	confirm = "/v1/budgets/sale/confirm"
)

// prepared are sent before the provocations, and succeed.
var prepared = [][3]string{
	{"POST", "/v1/budgets", `{"name":"sale","unit":"count","type":"promo","total_quantity":100,"bucket_quantity":2,
		"limits":[{"name":"l","dimension":"user","window":{"kind":"calendar","every":"year"},"max":2,"optional":true},
		{"name":"m","dimension":"user","window":{"kind":"lifetime"},"max":1,"optional":true}]}`},
	{"POST", "/v1/budgets", `{"name":"one","unit":"count","type":"promo","total_quantity":100,"bucket_quantity":1}`},
	{"POST", "/v1/budgets/one/deduct", `{"request_id":"used","amount":2}`},
	{"POST", "/v1/budgets", `{"name":"daily","unit":"count","type":"daily","total_quantity":36500,"bucket_quantity":1,
		"type_rule":{"kind":"calendar","every":"day","quantity":100,"partial":"whole"}}`},
	{"POST", "/v1/budgets", `{"name":"future","unit":"count","type":"promo","total_quantity":1,"start_at":"2090-01-01T00:00:00Z"}`},
	{"POST", "/v1/budgets", `{"name":"past","unit":"count","type":"promo","total_quantity":1,"end_at":"2020-01-01T00:00:00Z","allow_past":true}`},
	{"POST", "/v1/budgets", `{"name":"still","unit":"count","type":"promo","total_quantity":1}`},
	{"PATCH", "/v1/budgets/still", `{"status":"paused"}`},
	{"POST", "/v1/budgets", `{"name":"flash","unit":"count","type":"promo","durability":"store","total_quantity":100,"bucket_quantity":1}`},
	{"POST", "/v1/budgets", `{"name":"idle","unit":"count","type":"promo","durability":"store","total_quantity":100,"bucket_quantity":1}`},
	{"POST", deduct, `{"request_id":"used","amount":2}`},
	{"POST", deduct, `{"request_id":"back","amount":2}`},
	{"POST", "/v1/budgets/sale/rollback", `{"request_id":"back"}`},
	{"POST", deduct, `{"request_id":"stream","amount":1,"hold_ttl":"1h"}`},
	{"POST", deduct, `{"request_id":"brief","amount":1,"hold_ttl":"1ms"}`},
	{"POST", deduct, `{"request_id":"member","amount":1,"hold_ttl":"1h","group":"closed"}`},
	{"POST", confirm, `{"group":"closed"}`},
	{"POST", "/v1/budgets/sale/cancel", `{"request_id":"void"}`},
	{"POST", "/v1/budgets/daily/deduct", `{"request_id":"d1","amount":60}`},
	{"POST", "/v1/budgets/sale/buckets/sale:bucket-1/offline", ""},
	{"POST", "/v1/instances/redis-a/drain", ""},
	{"POST", "/v1/keys", `{"principal":"two","role":"read"}`},
	{"POST", "/v1/keys", `{"principal":"two","role":"read"}`},
}

var provocations = []provocation{
	{budget.Malformed, "POST", deduct, `{"request_id":`, nil},
	{budget.Invalid, "POST", deduct, `{"request_id":"x","amount":0}`, nil},
	{budget.TooLarge, "POST", "/v1/deductions:batch", `{"deductions":[` +
		strings.Repeat(`{"budget":"sale","request_id":"x","amount":1},`, 1000) +
		`{"budget":"sale","request_id":"x","amount":1}]}`, nil},
	{budget.UnsupportedMediaType, "POST", deduct, `{}`, []string{"Content-Type", "text/plain"}},
	{budget.MethodNotAllowed, "PUT", "/v1/budgets/sale", "", nil},
	{budget.RouteNotFound, "GET", "/v1/nothing", "", nil},
	{budget.RouteNotFound, "GET", "/docs/errors/nothing", "", nil},
	{budget.BudgetNotFound, "GET", "/v1/budgets/none", "", nil},
	{budget.DeductionNotFound, "GET", "/v1/budgets/sale/deductions?request_id=none", "", nil},
	{budget.DeductionNotFound, "GET", "/v1/deductions?request_id=none", "", nil},
	{budget.LegRefused, "POST", "/v1/deductions", `{"request_id":"set","legs":[{"budget":"sale","amount":9007199254740991}]}`, nil},
	{budget.DeductionNotFound, "POST", "/v1/budgets/sale/rollback", `{"request_id":"none"}`, nil},
	{budget.BucketNotFound, "POST", "/v1/budgets/sale/buckets/none/online", "", nil},
	{budget.InstanceNotFound, "POST", "/v1/instances/none/drain", "", nil},
	{budget.WebhookNotFound, "GET", "/v1/webhooks/999", "", nil},
	{budget.KeyNotFound, "POST", "/v1/keys/none/revoke", "", nil},
	{budget.Unauthenticated, "GET", "/v1/whoami", "", []string{"Authorization", ""}},
	{budget.Forbidden, "POST", "/v1/budgets/sale/append", `{"request_id":"a","quantity":1}`, []string{"Authorization", "READER"}},
	{budget.BudgetExhausted, "POST", deduct, `{"request_id":"x","amount":5000}`, nil},
	{budget.PeriodExhausted, "POST", "/v1/budgets/daily/deduct", `{"request_id":"d2","amount":60}`, nil},
	{budget.BudgetNotEffective, "POST", "/v1/budgets/future/deduct", `{"request_id":"x","amount":1}`, nil},
	{budget.BudgetPaused, "POST", "/v1/budgets/still/deduct", `{"request_id":"x","amount":1}`, nil},
	{budget.BudgetExpired, "POST", "/v1/budgets/past/deduct", `{"request_id":"x","amount":1}`, nil},
	{budget.LimitExceeded, "POST", deduct, `{"request_id":"x","amount":1,"dimensions":{"user":"u"},"counts":{"l":3,"m":2}}`, nil},
	{budget.LastBucket, "POST", "/v1/budgets/one/buckets/one:bucket-0/offline", "", nil},
	{budget.BucketOffline, "POST", "/v1/budgets/sale/buckets/sale:bucket-1/apply", "", nil},
	{budget.LastInstance, "POST", "/v1/instances/redis-b/drain", "", nil},
	{budget.InstanceAnswers, "POST", "/v1/instances/redis-b/give-up", "", nil},
	{budget.RequestConflict, "POST", deduct, `{"request_id":"used","amount":3}`, nil},
	{budget.RequestVoid, "POST", deduct, `{"request_id":"void","amount":3}`, nil},
	{budget.AlreadyRolledBack, "POST", "/v1/budgets/sale/rollback", `{"request_id":"back","rollback_id":"again"}`, nil},
	{budget.AmountExceedsRemaining, "POST", "/v1/budgets/sale/rollback", `{"request_id":"used","amount":3}`, nil},
	{budget.AmountExceedsRemaining, "POST", "/v1/budgets/sale/append", `{"request_id":"s","quantity":-99}`, nil},
	{budget.NotHeld, "POST", confirm, `{"request_id":"used"}`, nil},
	{budget.HoldExpired, "POST", confirm, `{"request_id":"brief"}`, nil},
	{budget.StepConflict, "POST", "/v1/budgets/sale/renew",
		`{"request_id":"stream","step":3,"used":0,"hold":1,"hold_ttl":"1h"}`, nil},
	{budget.GroupClosed, "POST", deduct, `{"request_id":"late","amount":1,"hold_ttl":"1h","group":"closed"}`, nil},
	{budget.BudgetNotOver, "PATCH", "/v1/budgets/sale", `{"archived":true}`, nil},
	{budget.HasDeductions, "DELETE", "/v1/budgets/sale", "", nil},
	{budget.InUse, "DELETE", "/v1/budgets/idle", "", nil},
	{budget.NameTaken, "POST", "/v1/budgets", `{"name":"sale","unit":"amount","type":"promo","total_quantity":7}`, nil},
	{budget.VersionConflict, "PATCH", "/v1/budgets/sale", `{"status":"paused"}`, []string{"If-Match", `"99"`}},
	{budget.LedgerModeOnly, "POST", "/v1/budgets/flash/deduct", `{"request_id":"h","amount":1,"key":"k","hold_ttl":"1h"}`, nil},
	{budget.LedgerModeOnly, "GET", "/v1/budgets/flash/ledger", "", nil},
	{budget.LedgerModeOnly, "GET", "/v1/budgets/flash/usage?user=u", "", nil},
	{budget.LedgerModeOnly, "GET", "/v1/budgets/flash/limits/per-user/nearest", "", nil},
	{budget.TooManyKeys, "POST", "/v1/keys", `{"principal":"two","role":"read"}`, nil},
	{budget.KeyNotLive, "POST", "/v1/keys/REVOKED/rotate", "", nil},
}

// TestErrorCodes provokes every code on real servers; each answer is as documented.
func TestErrorCodes(t *testing.T) {
	secrets, receiver := receives(t)
	d, n := theDocument(t), start(t, "webhooks: {secrets_dir: "+secrets+", allow: [127.0.0.0/8]}\n")
	seen := map[budget.Code]bool{}
	for _, one := range prepared {
		e := n.ask(t, one[0], one[1], one[2])
		if e.answer.StatusCode >= 300 {
			t.Fatalf("%s: %d %s", one, e.answer.StatusCode, e.received)
		}
		for _, fault := range d.judgeAll(e) {
			t.Errorf("%s: %s", one, fault)
		}
	}
	issue := func(principal string) (id, token string) {
		var key struct{ ID, Token string }
		e := n.ask(t, "POST", "/v1/keys", `{"principal":"`+principal+`","role":"read"}`)
		if err := json.Unmarshal(e.received, &key); err != nil {
			t.Fatal(err)
		}
		return key.ID, key.Token
	}
	_, reader := issue("reader")
	revoked, _ := issue("revoked")
	n.ask(t, "POST", "/v1/keys/"+revoked+"/revoke", "")
	// The reader's key is known, and the hold is over, soon.
	bearer := []string{"Authorization", "Bearer " + reader}
	for n.ask(t, "GET", "/v1/whoami", "", bearer...).answer.StatusCode != http.StatusOK ||
		codeOf(n.ask(t, "POST", confirm, `{"request_id":"brief"}`)) != string(budget.HoldExpired) {
		time.Sleep(20 * time.Millisecond)
	}
	for _, p := range provocations {
		header := slices.Clone(p.header)
		for i := range header {
			header[i] = strings.Replace(header[i], "READER", "Bearer "+reader, 1)
		}
		p.target, p.header = strings.Replace(p.target, "REVOKED", revoked, 1), header
		n.provoke(t, d, p, seen)
	}
	webhooks(t, d, n, receiver, seen)
	unanswered(t, d, n, seen)
	found(t, d, n, seen)
	overloaded(t, d, seen)
	for _, code := range codes(t) {
		if !seen[code] {
			t.Errorf("%s is not provoked", code)
		}
	}
}

// overloaded provokes what a server answers to too many requests, all of them and those of a key.
func overloaded(t *testing.T, d *contractOf, seen map[budget.Code]bool) {
	for code, setting := range map[budget.Code]string{
		budget.Unavailable: "http: {max_in_flight: 1}\n", budget.RateLimited: "keys: {rate: 1, burst: 40}\n",
	} {
		n := start(t, setting)
		n.ask(t, "POST", "/v1/budgets", `{"name":"sale","unit":"count","type":"promo","total_quantity":1}`)
		for tries := 0; !seen[code] && tries < 50; tries++ {
			answers := make(chan *exchange, 10)
			for range cap(answers) {
				go func() { answers <- n.ask(t, "GET", "/v1/budgets/sale/ledger?wait=100ms", "") }()
			}
			for range cap(answers) {
				e := <-answers
				for _, fault := range d.judgeAll(e) {
					t.Errorf("%s: %s: %s", code, fault, e.received)
				}
				seen[budget.Code(codeOf(e))] = true
			}
		}
	}
}
