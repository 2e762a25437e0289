package contract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
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
	"deduct.plain", "deduct.again", "deduct.full", "deduct.hold", "deduct.group", "deduct.dry-run",
	"deduct.limited", "deduct.period", "deduct.store",
	"deduct.exhausted", "deduct.conflict", "deduct.over-limit",
	"findDeduction.held", "extend.hold", "extend.group", "confirm.part", "confirm.group",
	`POST /v1/budgets/spring-sale/deduct {"request_id":"cart-3","amount":1,"hold_ttl":"15m","group":"basket-10"}`,
	"listHolds.open", "rollback.part", "rollback.whole", "rollback.group", "rollback.store", "cancel.void",
	"deductBatch.two", "check.ads", "usage.user", "readLedger.first",
	"readLedger.tail", "readLedger.since", "listRefusals.sale", "series.now", "audit.ok",
	"listBuckets.two", "takeOffline.empty", "takeOnline.empty", "applyBucket.empty",
	"unfence.empty", "recycle.empty",
	"listRecycles.page", "listQuarantine.none", "releaseQuarantine.none",
	"listInstances.two", "listNodes.one", "drain.empty", "undrain.empty", "recover.empty", "giveUp.empty",
	"rebalance.dry-run",
	"rebalance.empty",
	"createKey.till", "listKeys.page", "rotateKey.hour", "revokeKey.empty", "readAuditLog.page",
}

// varying are members whose values are never the same twice. Those of budget_remaining and
// period_remaining may be a second old.
var varying = []string{"created_at", "updated_at", "effective_at", "counted_at", "hold_until", "at",
	"from", "to", "began_at", "ended_at", "reset_at", "next_reset_at", "start", "end", "start_at",
	"receipt", "token", "id", "key_id", "head", "removed", "hash", "seq", "correlation_id", "source",
	"next", "next_page_token", "number", "retry_after", "rate_per_s", "last_used_at", "detail",
	"before", "after", "run", "expires_at",
	"revoked_at", "target", "keys", "held_at", "address", "version", "seen_at",
	"started_at", "budget_remaining", "period_remaining"}

// TestExamples sends every example of the document to a server, which answers as documented.
func TestExamples(t *testing.T) {
	d := theDocument(t)
	n := start(t)
	examples, sent := d.examples(), map[string]bool{}
	recorded := map[string][]byte{}
	n.showsItself(t)
	var key string // the id of the last key that was made
	for _, name := range scenario {
		if method, rest, raw := strings.Cut(name, " "); raw {
			path, body, _ := strings.Cut(rest, " ")
			if e := n.ask(t, method, path, body); e.answer.StatusCode != 200 {
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
		target := strings.Replace(one.target, keyExample, key, 1)
		e := n.ask(t, one.method, target, one.body)
		for _, fault := range append(d.judgeRequest(e), d.judgeAnswer(e)...) {
			t.Errorf("%s: %s\n%s", name, fault, e.received)
		}
		var got any
		if err := json.Unmarshal(e.received, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if members, ok := got.(map[string]any); ok && members["token"] != nil {
			key, _ = members["id"].(string)
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

// showsItself waits until the node is in the list of nodes, which it writes every two seconds.
func (n *node) showsItself(t *testing.T) {
	t.Helper()
	for range 500 {
		if e := n.ask(t, "GET", "/v1/nodes", ""); bytes.Contains(e.received, []byte("seen_at")) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the node is not in the list of nodes within 10 s")
}

const keyExample = "4t7kq2ab9c3x"

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
			query.Set(p.Name, fmt.Sprint(value))
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

// write replaces examples of answers in openapi.yaml; the name of a new one stands there already.
func write(t *testing.T, recorded map[string][]byte) {
	const file = "../../openapi.yaml"
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range recorded {
		at := regexp.MustCompile(`(?m)^    ` + regexp.QuoteMeta(name) + `:\n      value:\n(        .*\n)+`)
		source = at.ReplaceAllLiteral(source,
			fmt.Appendf(nil, "    %s:\n      value:\n%s\n", name, wrapped(bytes.TrimSpace(text), 8, 98)))
	}
	if err := os.WriteFile(file, source, 0o644); err != nil {
		t.Fatal(err)
	}
}

// wrapped breaks JSON into lines after commas outside of strings.
func wrapped(text []byte, indent, width int) string {
	var lines []string
	line, quoted := "", false
	var part []byte
	flush := func() {
		if line != "" && indent+len(line)+len(part) > width {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
		line += string(part)
		part = part[:0]
	}
	for i, c := range text {
		part = append(part, c)
		switch {
		case c == '"' && (i == 0 || text[i-1] != '\\'):
			quoted = !quoted
		case quoted:
		case c == ':':
			part = append(part, ' ')
		case c == ',':
			part = append(part, ' ')
			flush()
		}
	}
	flush()
	lines = append(lines, line)
	pad := strings.Repeat(" ", indent)
	return pad + strings.Join(lines, "\n"+pad)
}
