package daemon

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/budgetd/budgetd/access"
)

// TestTwoLiveKeys rotates the key of a principal. The old key works until its last millisecond
// beside the new one, a third key is refused, and changes in SQL apply once the node reads them.
func TestTwoLiveKeys(t *testing.T) {
	o := newSecuredNode(t)
	o.done(o.root, "POST", "/v1/budgets", `{"name":"sale","tenant":"shop","unit":"count","type":"promo","total_quantity":100}`, nil)
	old, next := o.issue(`{"principal":"till","role":"deduct","tenant":"shop"}`), issued{}
	o.done(o.root, "POST", "/v1/keys/"+old.ID+"/rotate", `{"overlap":"10m"}`, &next)
	requests := 0
	check := func(when, wantOld, wantNext string) {
		t.Helper()
		for _, one := range []struct{ name, token, want string }{{"old", old.Token, wantOld}, {"new", next.Token, wantNext}} {
			requests++
			got := o.ask(one.token, "POST", "/v1/budgets/sale/deduct", fmt.Sprintf(`{"request_id":"%s-%d","amount":1}`, one.name, requests))
			if accepted := one.want == ""; accepted != (got.status == 200) || !accepted && (got.status != 401 || !strings.Contains(got.text, one.want)) {
				t.Errorf("%s: the %s key is answered %d %s; want %q", when, one.name, got.status, got.text, one.want)
			}
		}
	}
	check("before the node has read the new key", "", "the key is not known")
	o.follow()
	check("both live", "", "")
	o.done(next.Token, "POST", "/v1/budgets/sale/rollback", `{"request_id":"old-1"}`, nil) // the principal's own
	for path, body := range map[string]string{"/v1/keys/" + next.ID + "/rotate": "", "/v1/keys": `{"principal":"till","role":"read","tenant":"shop"}`} {
		if got := o.ask(o.root, "POST", path, body); !strings.Contains(got.text, `"too_many_keys"`) {
			t.Errorf("a third live key, %s: %d %s", path, got.status, got.text)
		}
	}
	var who issued
	o.done(old.Token, "GET", "/v1/whoami", "", &who)
	o.now = who.ExpiresAt.Add(-time.Millisecond)
	check("in the last millisecond of the old key", "", "")
	o.now = who.ExpiresAt
	check("at the end of the old key", "the key is expired", "")
	o.done(o.root, "POST", "/v1/keys/"+next.ID+"/revoke", "", nil)
	check("revoked in SQL, not read by the node", "the key is expired", "")
	o.follow()
	check("revoked", "the key is expired", "the key is revoked")
	o.now = time.Now()
	old, next = o.issue(`{"principal":"keys","role":"deduct","tenant":"shop"}`), issued{}
	o.done(o.root, "POST", "/v1/keys/"+old.ID+"/rotate", "", &next)
	o.follow()
	check("keys of another principal", "", "")
	o.done(o.root, "POST", "/v1/keys/"+old.ID+"/revoke", "", nil)
	o.follow()
	check("the old key revoked before its end", "the key is revoked", "")
	for _, loop := range o.security.work {
		if longest := loop.every * 3 / 2; loop.name == "keys" && longest > 900*time.Millisecond {
			t.Errorf("a change of keys is read only after %s", longest)
		}
	}
}

// callBodies are valid bodies of the calls that need one.
var callBodies = map[string]string{
	"set overrides": `{"value":"u1","max":5}`,
	"deduct":        `{"request_id":"o1","amount":5}`, "rollback": `{"request_id":"o1"}`, "cancel": `{"request_id":"o1"}`,
	"confirm": `{"request_id":"o1"}`, "extend": `{"request_id":"o1","hold_ttl":"5m"}`, "append": `{"request_id":"a1","quantity":5}`,
	"renew":  `{"request_id":"o1","step":1,"used":0,"hold":5,"hold_ttl":"5m"}`,
	"change": `{"status":"paused"}`, "release": `{"request_id":"q","reason":"r"}`, "set thresholds": `{"thresholds":[]}`,
	"change webhook": `{"enabled":false}`,
}

// TestForeignIsLikeMissing checks that every call answers the key of one tenant, even an
// administrator's, about another tenant's objects exactly as about missing ones. The database
// executes the same steps and statements for both, so the time of an answer reveals nothing either.
// The node has just served the other tenant.
func TestForeignIsLikeMissing(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { newSecuredNode(t).foreignIsLikeMissing(t) })
	t.Run("MariaDB", func(t *testing.T) { newLoggedNode(t).foreignIsLikeMissing(t) })
}

func (o *securedNode) foreignIsLikeMissing(t *testing.T) {
	create := func(name, tenant string) (made struct{ ID int64 }) {
		o.done(o.root, "POST", "/v1/budgets", fmt.Sprintf(`{"name":%q,"tenant":%q,"unit":"count","type":"promo","total_quantity":100}`,
			name, tenant), &made)
		return made
	}
	hidden, mine := create("hidden", "shop"), create("mine", "other")
	till := o.issue(`{"principal":"till","role":"deduct","tenant":"shop"}`)
	boss := o.issue(`{"principal":"boss","role":"admin","tenant":"other"}`)
	var hook struct{ ID string }
	o.done(o.root, "POST", "/v1/webhooks", `{"url":"https://shop.example/","secret":"hooks","tenant":"shop"}`, &hook)
	o.done(till.Token, "POST", "/v1/budgets/hidden/deduct", `{"request_id":"before","amount":5}`, nil)
	o.halt()                          // statements are compared: there must be no others
	other := func(id string) string { // of the same form
		return id[:len(id)-1] + string("01"[strings.Count(id[len(id)-1:], "0")])
	}
	id := func(n int64) string { return strconv.FormatInt(n, 10) }
	shown := regexp.MustCompile(`"correlation_id":"\w+"|budget \d+|"budget":"\d+"|hidden|absent|` + till.ID + "|" + other(till.ID) + "|" + hook.ID + "|" + other(hook.ID))
	same := func(method, foreign, missing, body string) {
		t.Helper()
		a, b := o.ask(boss.Token, method, foreign, body), o.ask(boss.Token, method, missing, body)
		a.text, b.text = shown.ReplaceAllString(a.text, "X"), shown.ReplaceAllString(b.text, "X")
		a.correlation, b.correlation = "", ""
		if diff := cmp.Diff(b, a, cmp.AllowUnexported(reply{})); diff != "" || a.status != 404 {
			t.Errorf("%s %s is answered %d; it differs from %s:\n%s", method, foreign, a.status, missing, diff)
		}
	}
	for _, call := range access.Calls() {
		query, pairs := map[string]string{"deduction": "request_id=o1", "usage": "user=u1",
			"remove override": "value=u1"}[call.Op], [][2]string{}
		path := strings.NewReplacer("{key}", "hidden:bucket-0", "{message}", "msg_1").Replace(call.Pattern)
		switch {
		case strings.Contains(path, "{budget}"):
			for _, tenant := range []string{"", "&tenant=other", "&tenant=shop"} {
				pairs = append(pairs, [2]string{"hidden?" + query + tenant, "absent?" + query + tenant},
					[2]string{id(hidden.ID) + "?" + query + tenant, id(hidden.ID+1000) + "?" + query + tenant})
			}
		case strings.Contains(path, "/keys/{id}"):
			pairs = append(pairs, [2]string{till.ID + "?", other(till.ID) + "?"})
		case strings.Contains(path, "/webhooks/{id}"):
			pairs = append(pairs, [2]string{hook.ID + "?", other(hook.ID) + "?"})
		}
		for _, pair := range pairs {
			var at [2]string
			for i := range at {
				name, query, _ := strings.Cut(pair[i], "?")
				at[i] = strings.NewReplacer("{budget}", name, "{id}", name).Replace(path) + "?" + strings.TrimPrefix(query, "&")
			}
			same(call.Method, at[0], at[1], callBodies[call.Op])
		}
	}
	for _, names := range [][2]string{{"hidden", "absent"}, {id(hidden.ID), id(hidden.ID + 1000)}} {
		same("GET", "/v1/alerts?budget="+names[0], "/v1/alerts?budget="+names[1], "")
		for path, body := range map[string]string{
			"/v1/deductions:batch": `{"deductions":[{"budget":%q,"request_id":"o1","amount":1}]}`,
			"/v1/checks":           `{"checks":[{"budget":%q,"amount":1}]}`,
		} {
			var got [2]reply
			for i, name := range names {
				got[i] = o.ask(boss.Token, "POST", path, fmt.Sprintf(body, name))
				got[i].text, got[i].correlation = shown.ReplaceAllString(got[i].text, "X"), ""
			}
			if diff := cmp.Diff(got[1], got[0], cmp.AllowUnexported(reply{})); diff != "" || !strings.Contains(got[0].text, "budget_not_found") {
				t.Errorf("%s of %s: %s %s", path, names[0], got[0].text, diff)
			}
		}
	}
	// Lists do not contain it.
	for _, path := range []string{"/v1/budgets", "/v1/alerts", "/v1/refusals", "/v1/keys", "/v1/webhooks", "/v1/whoami"} {
		if got := o.done(boss.Token, "GET", path, "", nil); shown.MatchString(got.text) || strings.Contains(got.text, "shop") {
			t.Errorf("%s: %s", path, got.text)
		}
	}
	// The tenant's own budget takes more steps, so steps are recorded. The foreign one is unchanged.
	asked, own := o.ask(boss.Token, "GET", "/v1/budgets/"+id(hidden.ID), ""), o.ask(boss.Token, "GET", "/v1/budgets/"+id(mine.ID), "")
	if own.status != 200 || !slices.Contains(asked.steps, "sql read") || len(own.steps) <= len(asked.steps) {
		t.Errorf("own budget: status %d, steps %q; foreign: %q", own.status, own.steps, asked.steps)
	}
	if o.heard != nil && (len(asked.statements) == 0 || len(own.statements) <= len(asked.statements)) {
		t.Errorf("own budget: statements %q; foreign: %q", own.statements, asked.statements)
	}
	if got := o.done(o.root, "GET", "/v1/webhooks/"+hook.ID, "", nil); !strings.Contains(got.text, `"enabled":true`) {
		t.Error(got.text)
	}
	o.follow()
	o.done(till.Token, "POST", "/v1/budgets/hidden/deduct", callBodies["deduct"], nil)
}

// TestKeysStayWithinTheirIssuer checks that a key can issue only keys within its tenant and budgets,
// and cannot revoke or rotate a key with a wider scope.
func TestKeysStayWithinTheirIssuer(t *testing.T) {
	o := newSecuredNode(t)
	boss := o.issue(`{"principal":"boss","role":"admin","tenant":"other"}`)
	some := o.issue(`{"principal":"some","role":"admin","tenant":"other","budgets":["a*"]}`)
	lead := o.issue(`{"principal":"lead","role":"operator"}`)
	for n, test := range []struct {
		by, ask string
		want    int
		is      string // what whoami says of the key
	}{
		{boss.Token, `"role":"admin"`, 201, `"role":"admin","tenant":"other"`},
		{boss.Token, `"role":"admin","tenant":"shop"`, 403, ""},
		{some.Token, `"role":"admin"`, 201, `"tenant":"other","budgets":["a*"]`},
		{some.Token, `"role":"read","budgets":["a1","a-*"]`, 201, `"budgets":["a1","a-*"]`},
		{some.Token, `"role":"read","budgets":["a1","b*"]`, 403, ""},
		{some.Token, `"role":"read","budgets":["*"]`, 403, ""},
		{lead.Token, `"role":"read"`, 403, ""},
		{o.root, `"role":"admin"`, 201, `"role":"admin"`},
	} {
		got := o.ask(test.by, "POST", "/v1/keys", fmt.Sprintf(`{"principal":"p%d",%s}`, n, test.ask))
		if got.status != test.want {
			t.Errorf("%s: %d %s, want %d", test.ask, got.status, got.text, test.want)
			continue
		}
		if test.want != 201 {
			continue
		}
		var made issued
		if err := json.Unmarshal([]byte(got.text), &made); err != nil {
			t.Fatal(err)
		}
		o.follow()
		if who := o.done(made.Token, "GET", "/v1/whoami", "", nil); !strings.Contains(who.text, test.is) {
			t.Errorf("%s: %s", test.ask, who.text)
		}
	}
	for _, further := range []string{o.root[4:14], lead.ID, boss.ID} {
		for _, verb := range []string{"revoke", "rotate"} {
			if got := o.ask(some.Token, "POST", "/v1/keys/"+further+"/"+verb, ""); got.status != 404 {
				t.Errorf("%s of a key with a wider scope: %d %s", verb, got.status, got.text)
			}
		}
	}
}
