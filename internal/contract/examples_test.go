package contract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/pb33f/libopenapi/orderedmap"
)

// scenario are all examples in the order in which they are sent. A line with spaces is sent between
// them and is no example.
var scenario = []string{
	"health.up", "readiness.ready", "whoami.admin",
	"createBudget.promo", "createBudget.again", "createBudget.daily", "createBudget.limits",
	"createBudget.store", "createBudget.dry-run", "listBudgets.page", "viewBudget.promo",
	"changeBudget.pause", "changeBudget.resume", "changeBudget.end", "changeBudget.limits",
	"adjustBudget.append", "adjustBudget.shrink", "setThresholds.some",
	`POST /v1/budgets {"name":"sprnig-sale","unit":"count","type":"promo","total_quantity":1000,"bucket_quantity":2}`,
	"deleteBudget.mistyped",
	"readThresholds.own",
	"deduct.plain", "deduct.again", "deduct.full", "deduct.hold", "deduct.group", "deduct.dry-run",
	"deduct.limited", "deduct.period", "deduct.store",
	"deduct.exhausted", "deduct.conflict", "deduct.over-limit",
	"findDeduction.held", "extend.hold", "extend.group", "confirm.part", "confirm.group",
	`POST /v1/budgets/spring-sale/deduct {"request_id":"call-1","amount":5,"hold_ttl":"15m","above":"available"}`,
	"confirm.above", `POST /v1/budgets/spring-sale/rollback {"request_id":"call-1"}`,
	`POST /v1/budgets/spring-sale/deduct {"request_id":"stream-1","amount":50,"hold_ttl":"30s"}`,
	"renew.step", `POST /v1/budgets/spring-sale/rollback {"request_id":"stream-1"}`,
	`POST /v1/budgets/spring-sale/deduct {"request_id":"cart-3","amount":1,"hold_ttl":"15m","group":"basket-10"}`,
	"listHolds.open", "rollback.part", "rollback.whole", "rollback.group", "rollback.store", "cancel.void",
	"deductBatch.two", "check.ads", "usage.user", "nearestValues.limited",
	"listOverrides.limited", "setOverrides.limited", "setOverrides.limited-several", "removeOverride.limited", "readLedger.first",
	"readLedger.tail", "readLedger.since", "listRemaining.two", "listRefusals.sale", "series.now", "audit.ok",
	"listBuckets.two", "takeOffline.empty", "takeOnline.empty", "applyBucket.empty",
	"resume.empty", "recycle.empty",
	"listRecycles.page", "listQuarantine.none", "releaseQuarantine.none",
	"listInstances.two", "listNodes.one", "drain.empty", "undrain.empty", "recover.empty", "giveUp.empty",
	"rebalance.dry-run",
	"rebalance.empty",
	`POST /v1/budgets {"name":"vouchers","unit":"count","type":"promo","total_quantity":10,"bucket_quantity":1}`,
	`POST /v1/budgets/vouchers/deduct {"request_id":"voucher-1","amount":8}`,
	"listAlerts.firing",
	"deductSet.two", "deductSet.refused", "deductSet.sources", "findSet.held", "extendSet.hold", "confirmSet.part", "rollbackSet.part",
	"cancelSet.void",
	"createWebhook.shop", "listWebhooks.one", "changeWebhook.types", "readWebhook.types", "testWebhook.sent",
	"listDeliveries.delivered", "resendDelivery.again", "deleteWebhook.types",
	"createKey.till", "listKeys.page", "rotateKey.hour", "revokeKey.empty", "readAuditLog.page", "readAuditLog.newest",
	"giveUp.lost", "releaseQuarantine.counted",
	`POST /v1/budgets {"name":"org","unit":"count","type":"promo","total_quantity":100,"bucket_quantity":1}`,
	`POST /v1/budgets {"name":"team-1","parent":"org","unit":"count","type":"promo","total_quantity":20,"bucket_quantity":1}`,
	`POST /v1/budgets/team-1/deduct {"request_id":"task-1","amount":5}`,
	"closeBudget.child", "changeMany.pause",
}

// varying are members whose values are never the same twice. Those of budget_remaining and
// period_remaining may be a second old.
var varying = []string{"created_at", "updated_at", "effective_at", "counted_at", "hold_until", "at", "expires_in",
	"from", "to", "began_at", "ended_at", "reset_at", "next_reset_at", "start", "end", "start_at", "end_at",
	"receipt", "token", "id", "key_id", "head", "removed", "hash", "seq", "correlation_id", "source",
	"next", "next_page_token", "number", "retry_after", "rate_per_s", "last_used_at", "detail",
	"before", "after", "run", "expires_at", "took_ms", "next_attempt_at",
	"revoked_at", "target", "keys", "held_at", "address", "version", "seen_at",
	"started_at", "began_at", "at_risk", "fired_at", "budget_remaining", "period_remaining",
	"as_of", "points"} // one more if a minute ends meanwhile

// TestExamples sends every example of the document to a server, which answers as documented.
func TestExamples(t *testing.T) {
	d := theDocument(t)
	secrets, receiver := receives(t)
	n := start(t, "webhooks: {secrets_dir: "+secrets+", allow: [127.0.0.0/8]}\n")
	examples, sent := d.examples(), map[string]bool{}
	recorded := map[string][]byte{}
	n.await(t, "GET", "/v1/nodes", "seen_at") // which it writes every two seconds
	known := names{"https://shop.example.com/budgetd": receiver}
	for _, name := range scenario {
		if method, rest, raw := strings.Cut(name, " "); raw {
			path, body, _ := strings.Cut(rest, " ")
			if e := n.ask(t, method, path, body); e.answer.StatusCode >= 300 {
				t.Fatalf("%s: %d %s", name, e.answer.StatusCode, e.received)
			}
			continue
		}
		one, ok := examples[name]
		if !ok {
			t.Errorf("openapi.yaml has no example %s", name)
			continue
		}
		sent[name] = true
		n.prepare(t, name, one)
		e := n.ask(t, one.method, known.here(one.target), known.here(one.body))
		for _, fault := range append(d.judgeRequest(e), d.judgeAnswer(e)...) {
			t.Errorf("%s: %s\n%s", name, fault, e.received)
		}
		known.learn(e.received)
		e.received = known.inDocument(e.received)
		var got any
		if err := json.Unmarshal(e.received, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "testWebhook.sent" {
			n.await(t, "GET", known.here("/v1/webhooks/"+hookExample+"/deliveries"), `"delivered"`)
		}
		why := differs("", one.want, got)
		if why == "" && fmt.Sprint(e.answer.StatusCode) != one.status {
			why = fmt.Sprintf("status %d, documented %s", e.answer.StatusCode, one.status)
		}
		if why == "" {
			continue
		}
		recorded[name] = issued.ReplaceAll(e.received, []byte("bdg_…"))
		if !*update {
			t.Errorf("%s: %s\n%s", name, why, e.received)
		}
	}
	for name := range examples {
		if !sent[name] {
			t.Errorf("the example %s is not sent: add it to the scenario", name)
		}
	}
	if *update {
		write(t, recorded)
	}
}

// prepare waits for what an example shows and no call makes: the alert of a deduction, and a store
// that is lost.
func (n *node) prepare(t *testing.T, name string, one sample) {
	t.Helper()
	switch name {
	case "listRemaining.two":
		n.await(t, "GET", one.target, `"remaining":991`) // what the calls before have left
	case "listAlerts.firing":
		n.await(t, "GET", one.target, `"threshold"`)
	case "giveUp.lost": // of the store that has all buckets
		n.await(t, "POST", "/v1/instances/redis-a/drain", `"done":true`)
		n.await(t, "POST", "/v1/instances/redis-a/undrain", `"redis-a"`)
		if err := n.stores[1].Kill(); err != nil {
			t.Fatal(err)
		}
	}
}

// await asks until an answer contains a text.
func (n *node) await(t *testing.T, method, target, text string) {
	t.Helper()
	for range 3000 {
		if e := n.ask(t, method, target, ""); bytes.Contains(e.received, []byte(text)) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s %s does not answer %s within a minute", method, target, text)
}

// exampleless are answers without an example.
var exampleless = map[string]string{
	"openapi 200": "it is the document",
}

// TestExamplesAreThere checks that every request with a body and every successful JSON answer has
// an example, except those in exampleless.
func TestExamplesAreThere(t *testing.T) {
	none := map[string]bool{}
	for _, operation := range theDocument(t).operations {
		if operation.RequestBody != nil {
			for _, content := range operation.RequestBody.Content.FromOldest() {
				none[operation.OperationId] = content.Examples == nil || content.Examples.Len() == 0
			}
		}
		for status, answer := range operation.Responses.Codes.FromOldest() {
			if answer.Content == nil || status >= "300" {
				continue
			}
			if content, ok := answer.Content.Get("application/json"); ok {
				none[operation.OperationId+" "+status] = content.Examples == nil || content.Examples.Len() == 0
			}
		}
	}
	for name, missing := range none {
		if _, excepted := exampleless[name]; missing != excepted {
			t.Errorf("%s: without an example: %v, excepted: %v", name, missing, excepted)
		}
	}
	if len(none) < 60 {
		t.Errorf("only %d bodies were found", len(none))
	}
}

// issued is what an answer has once, and no file.
var issued = regexp.MustCompile(`bdg_\w+`)

// sample is an example of a request and its answer.
type sample struct {
	method, target, body, status string
	want                         any
}

// examples returns the examples of answers by the names of their operations and theirs.
func (d *contractOf) examples() map[string]sample {
	all := map[string]sample{}
	for at, operation := range d.operations {
		for status, answer := range operation.Responses.Codes.FromOldest() {
			for _, content := range answer.Content.FromOldest() {
				for name, e := range content.Examples.FromOldest() {
					one := sample{method: at[0], target: target(at[1], operation, name), status: status}
					if e.Value != nil {
						_ = e.Value.Decode(&one.want)
						one.want = plain(one.want)
					}
					if operation.RequestBody != nil {
						sent := operation.RequestBody.Content.First().Value().Examples
						if value, ok := sent.Get(name); ok {
							one.body = text(value)
						}
					}
					all[operation.OperationId+"."+name] = one
				}
			}
		}
	}
	return all
}

// plain is a value as JSON has it: YAML tells integers from others.
func plain(value any) (out any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	_ = json.Unmarshal(text, &out)
	return out
}

// text is the value of an example as JSON.
func text(e *base.Example) string {
	var value any
	if err := e.Value.Decode(&value); err != nil {
		panic(err)
	}
	out, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// target fills the path and the query of an example: from the parameters' examples of its name, or
// from the one that a required parameter has.
func target(path string, operation *v3.Operation, name string) string {
	query := url.Values{}
	for _, p := range operation.Parameters {
		var value any
		e, ok := get(p.Examples, name)
		if !ok {
			e, ok = get(p.Examples, "usual")
		}
		if ok {
			_ = e.Value.Decode(&value)
		} else if p.Example != nil && p.Required != nil && *p.Required {
			_ = p.Example.Decode(&value)
		}
		members, several := value.(map[string]any)
		switch {
		case value == nil:
		case p.In == "path":
			path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(fmt.Sprint(value)), 1)
		case several:
			for name, one := range members {
				query.Set(name, fmt.Sprint(one))
			}
		case p.In == "query":
			list, several := value.([]any)
			if !several {
				list = []any{value}
			}
			for _, one := range list {
				query.Add(p.Name, fmt.Sprint(one))
			}
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

func get(examples *orderedmap.Map[string, *base.Example], name string) (*base.Example, bool) {
	if examples == nil {
		return nil, false
	}
	return examples.Get(name)
}

// differs says where an answer differs from the documented one, "" if nowhere. Of members that vary
// only the type counts.
func differs(at string, want, got any) string {
	name := at[strings.LastIndexByte(at, '.')+1:]
	if _, list := want.([]any); list && slices.Contains(varying, name) {
		return "" // whose members are in no order
	}
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return at + " is no object"
		}
		if w, g := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)); !slices.Equal(w, g) {
			return fmt.Sprintf("%s has %q, documented %q", at, g, w)
		}
		for name := range want {
			if why := differs(at+"."+name, want[name], got[name]); why != "" {
				return why
			}
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return at + " is no array of that length"
		}
		for i := range want {
			if why := differs(at, want[i], got[i]); why != "" {
				return why
			}
		}
	default:
		same := want == got
		if slices.Contains(varying, name) {
			same = fmt.Sprintf("%T", want) == fmt.Sprintf("%T", got)
		}
		if !same {
			return fmt.Sprintf("%s is %v, documented %v", at, got, want)
		}
	}
	return ""
}
