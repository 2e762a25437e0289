package daemon

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/budgetd/budgetd/access"
)

// ofTenant are the paths and bodies of a delegate's calls that are about a tenant. Where they name
// a budget or a set they have NAME.
var ofTenant = map[string][2]string{
	"list":         {"?parent=NAME"},
	"set":          {"?request_id=NAME"},
	"remaining":    {"?budget=NAME"},
	"check":        {"", `{"checks":[{"budget":"NAME","amount":1}]}`},
	"batch":        {"", `{"deductions":[{"budget":"NAME","request_id":"b","amount":1}]}`},
	"deduct set":   {"", `{"request_id":"s","legs":[{"budget":"NAME","amount":1}]}`},
	"confirm set":  {"", `{"request_id":"NAME"}`},
	"extend set":   {"", `{"request_id":"NAME","hold_ttl":"5m"}`},
	"cancel set":   {"", `{"request_id":"rival"}`}, // another id would be void for this principal
	"rollback set": {"", `{"request_id":"NAME"}`},
	"create":       {"", `{"name":"made","parent":"NAME","unit":"count","type":"promo","total_quantity":1}`},
}

// family has budgets inside and outside a delegate's subtree: org has team and rival, which have
// inner and deep; plain has no family.
type family struct {
	*securedNode
	ids map[string]int64
	key issued
}

func newFamily(o *securedNode) *family {
	f := &family{o, map[string]int64{}, issued{}}
	for _, one := range [][3]string{{"org", "", "1000"}, {"team", "org", "200"}, {"rival", "org", "200"},
		{"inner", "team", "100"}, {"deep", "rival", "100"}, {"plain", "", "100"}} {
		var made struct{ ID int64 }
		body := fmt.Sprintf(`{"name":%q,"unit":"count","type":"promo","total_quantity":%s`, one[0], one[2])
		if one[1] != "" {
			body += fmt.Sprintf(`,"parent":%q`, one[1])
		}
		o.done(o.root, "POST", "/v1/budgets", body+"}", &made)
		f.ids[one[0]] = made.ID
	}
	f.key = o.issue(`{"principal":"agent","role":"delegate","subtree":"team"}`)
	return f
}

// outside are the budgets that the delegate must not see.
var outside = []string{"org", "rival", "deep", "plain"}

// seen returns all that the administrator sees of the budgets outside.
func (f *family) seen() (all []string) {
	f.t.Helper()
	for _, name := range outside {
		for _, path := range []string{"", "/ledger", "/holds", "/audit"} {
			all = append(all, name+path+" "+f.done(f.root, "GET", "/v1/budgets/"+name+path, "", nil).text)
		}
	}
	all = append(all, f.done(f.root, "GET", "/v1/deductions?request_id=rival", "", nil).text)
	for i := range all {
		all[i] = passing.ReplaceAllString(all[i], "")
	}
	return all
}

// passing is what changes with time.
var passing = regexp.MustCompile(`"expires_in":[\d.]+`)

// TestDelegateOutsideItsSubtree makes every call with the key of a delegate on budgets outside its
// subtree, by name and by id. None of the calls changes anything, and the answers, with the steps
// of the database, are those about budgets that do not exist.
func TestDelegateOutsideItsSubtree(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { newFamily(newSecuredNode(t)).outside(t) })
	t.Run("MariaDB", func(t *testing.T) { newFamily(newLoggedNode(t)).outside(t) })
}

func (f *family) outside(t *testing.T) {
	for _, name := range outside {
		f.done(f.root, "POST", "/v1/budgets/"+name+"/deduct", `{"request_id":"o1","amount":5,"hold_ttl":"1h","group":"g"}`, nil)
	}
	f.done(f.root, "POST", "/v1/deductions", `{"request_id":"rival","legs":[{"budget":"rival","amount":3}],"hold_ttl":"1h"}`, nil)
	f.halt() // statements are compared: there must be no others
	before := f.seen()
	shown := regexp.MustCompile(`"correlation_id":"\w+"|budget \d+|"budget":"\d+"|"as_of":"[^"]+"|\\"\d+\\"|` +
		strings.Join(outside, "|") + "|absent")
	same := func(method, foreign, missing, body, other string, want ...int) {
		t.Helper()
		a, b := f.ask(f.key.Token, method, foreign, body), f.ask(f.key.Token, method, missing, other)
		a.text, b.text = shown.ReplaceAllString(a.text, "X"), shown.ReplaceAllString(b.text, "X")
		a.correlation, b.correlation = "", ""
		if strings.HasPrefix(foreign, "/v1/deductions/") { // the ids of sets are those of the tenant
			a.statements, b.statements = nil, nil
		}
		if diff := cmp.Diff(b, a, cmp.AllowUnexported(reply{})); diff != "" || !slices.Contains(want, a.status) {
			t.Errorf("%s %s %s is answered %d %s; it differs from %s:\n%s", method, foreign, body, a.status, a.text, missing, diff)
		}
	}
	for _, call := range access.Calls() {
		query := map[string]string{"deduction": "&request_id=o1", "usage": "&user=u1", "remove override": "&value=u1"}[call.Op]
		path := strings.NewReplacer("{key}", "rival:bucket-0", "{message}", "msg_1", "{name}", "rival", "{id}", f.key.ID,
			"{$}", "").Replace(call.Pattern)
		want := 403
		if call.Delegates != access.NoDelegate {
			want = 404
		}
		for i, name := range outside {
			for _, pair := range [][2]string{{name, "absent"}, {id(f.ids[name]), id(f.ids[name] + 1000)}} {
				switch named := ofTenant[call.Op]; {
				case call.Over == access.Nobody, call.Over == access.Self:
				case call.Over == access.Budget:
					for _, tenant := range []string{"?", "?tenant=default", "?tenant=other"} {
						at := func(name string) string { return strings.Replace(path, "{budget}", name, 1) + tenant + query }
						same(call.Method, at(pair[0]), at(pair[1]), callBodies[call.Op], callBodies[call.Op], want)
					}
				case call.Delegates == access.NoDelegate:
					if got := f.status(call.Method, path, callBodies[call.Op]); i == 0 && got != 403 {
						t.Errorf("%s: %d", call.Op, got)
					}
				case named == [2]string{}:
					t.Fatalf("there is no example of %s", call.Op)
				default:
					at := func(part int, name string) string { return strings.ReplaceAll(named[part], "NAME", name) }
					same(call.Method, path+at(0, pair[0]), path+at(0, pair[1]), at(1, pair[0]), at(1, pair[1]), 200, 404, 422)
				}
			}
		}
	}
	if diff := cmp.Diff(before, f.seen()); diff != "" {
		t.Errorf("outside the subtree (-before +after):\n%s", diff)
	}
}

// status makes a call of which nothing but the status is of interest; it may have no span.
func (f *family) status(method, path, body string) int {
	f.t.Helper()
	r, err := http.NewRequest(method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+f.key.Token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

func id(n int64) string { return strconv.FormatInt(n, 10) }

// TestDelegateInItsSubtree makes every call of a delegate on the top of its subtree and below. It
// moves no units of the top's parent, and what it sees names no budget outside.
func TestDelegateInItsSubtree(t *testing.T) {
	f := newFamily(newSecuredNode(t))
	names := regexp.MustCompile(strings.Join(outside, "|"))
	check := func(want int, method, path, body string) reply {
		t.Helper()
		got := f.ask(f.key.Token, method, path, body)
		if got.status != want || names.MatchString(got.text) {
			t.Errorf("%s %s %s: %d %s, want %d", method, path, body, got.status, got.text, want)
		}
		return got
	}
	check(201, "POST", "/v1/budgets", `{"name":"carved","parent":"team","unit":"count","type":"promo","total_quantity":30}`)
	check(201, "POST", "/v1/budgets", `{"name":"brief","parent":"team","unit":"count","type":"promo","total_quantity":5,"ttl":"1ms"}`)
	check(422, "POST", "/v1/budgets", `{"name":"endless","parent":"team","unit":"count","type":"promo","total_quantity":5,"ttl":"367d"}`)
	check(422, "POST", "/v1/budgets", `{"name":"orphan","unit":"count","type":"promo","total_quantity":5,"ttl":"1h"}`)
	check(201, "POST", "/v1/budgets", `{"name":"lower","parent":"carved","unit":"count","type":"promo","total_quantity":10}`)
	for _, refused := range []string{`"parent":"team","also_charges":["plain"]`, `"gl_code":"no parent"`} {
		check(403, "POST", "/v1/budgets", `{"name":"no","unit":"count","type":"promo","total_quantity":1,`+refused+`}`)
	}
	for i, name := range []string{"team", id(f.ids["team"]), "inner", "carved", "lower"} {
		at, o := "/v1/budgets/"+name, fmt.Sprint("o", i)
		check(200, "POST", at+"/deduct", `{"request_id":"`+o+`","amount":2,"hold_ttl":"5m"}`)
		check(200, "POST", at+"/extend", `{"request_id":"`+o+`","hold_ttl":"6m"}`)
		check(200, "POST", at+"/renew", `{"request_id":"`+o+`","step":1,"used":0,"hold":2,"hold_ttl":"6m"}`)
		check(200, "POST", at+"/confirm", `{"request_id":"`+o+`","amount":1}`)
		check(200, "POST", at+"/rollback", `{"request_id":"`+o+`"}`)
		check(200, "POST", at+"/cancel", `{"request_id":"c`+o+`"}`)
		check(200, "GET", at+"/deductions?request_id="+o, "")
		for _, path := range []string{"", "/usage?user=u", "/holds", "/buckets", "/recycles", "/audit", "/ledger", "/series", "/thresholds"} {
			check(200, "GET", at+path, "")
		}
		f.done(f.root, "POST", at+"/deduct", `{"request_id":"root`+o+`","amount":1}`, nil)
		check(403, "POST", at+"/rollback", `{"request_id":"root`+o+`"}`)
		check(403, "PATCH", at, `{"status":"paused"}`)
		check(403, "DELETE", at, "")
		want := 200
		if i < 2 {
			want = 403
		}
		check(want, "POST", at+"/append", `{"request_id":"up`+o+`","quantity":2}`)
		check(want, "POST", at+"/append", `{"request_id":"down`+o+`","quantity":-1}`)
	}
	check(200, "POST", "/v1/deductions", `{"request_id":"s1","legs":[{"budget":"team","amount":1},{"budget":"lower","amount":1}]}`)
	check(200, "GET", "/v1/deductions?request_id=s1", "")
	check(200, "POST", "/v1/deductions/rollback", `{"request_id":"s1"}`)
	check(200, "POST", "/v1/deductions:batch", `{"deductions":[{"budget":"carved","request_id":"b1","amount":1}]}`)
	check(200, "POST", "/v1/checks", `{"checks":[{"budget":"lower","amount":1}]}`)
	for path, want := range map[string]string{"/v1/budgets": "brief carved inner lower team", "/v1/budgets?parent=team": "brief carved inner",
		"/v1/budgets?parent=org": "", "/v1/budgets?page_size=1": "brief"} {
		var found []string
		for _, match := range regexp.MustCompile(`"name":"(\w+)"`).FindAllStringSubmatch(check(200, "GET", path, "").text, -1) {
			found = append(found, match[1])
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) { // nobody closes brief
		got := check(200, "GET", "/v1/budgets/brief", "").text
		if strings.Contains(got, `"status":"expired"`) && strings.Contains(got, `"total_quantity":0`) {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal(got)
		}
	}
	check(403, "GET", "/v1/budgets?q=a", "")
	check(200, "GET", "/v1/whoami", "")
	check(403, "POST", "/v1/budgets/team/close", "")
	check(200, "POST", "/v1/budgets/carved/close", "")
	if got := f.done(f.root, "GET", "/v1/budgets/org", "", nil); !strings.Contains(got.text, `"allocated":400`) {
		t.Error(got.text)
	}
}

// TestKeysOfDelegates checks who gets which key for a subtree, and that a row that was edited by
// hand is no key.
func TestKeysOfDelegates(t *testing.T) {
	f := newFamily(newSecuredNode(t))
	f.done(f.root, "POST", "/v1/budgets", `{"name":"other","tenant":"shop","unit":"count","type":"promo","total_quantity":9}`, nil)
	some := f.issue(`{"principal":"some","role":"admin","tenant":"default","budgets":["t*"]}`)
	for body, want := range map[string]int{
		`"role":"delegate","subtree":"rival","tenant":"default"`: 201, `"role":"delegate","subtree":"` + id(f.ids["deep"]) + `"`: 201,
		`"role":"delegate"`: 422, `"role":"delegate","subtree":"team","budgets":["*"]`: 422, `"role":"admin","subtree":"team"`: 422,
		`"role":"delegate","subtree":"absent"`: 404, `"role":"delegate","subtree":"other"`: 404,
		`"role":"delegate","subtree":"other","tenant":"shop"`: 201,
	} {
		if got := f.ask(f.root, "POST", "/v1/keys", `{"principal":"p`+id(int64(len(body)))+`",`+body+`}`); got.status != want {
			t.Errorf("%s: %d %s, want %d", body, got.status, got.text, want)
		}
	}
	for _, by := range []string{some.Token, f.key.Token} { // it may act on team, but not on all below
		if got := f.ask(by, "POST", "/v1/keys", `{"principal":"q","role":"delegate","subtree":"team"}`); got.status != 403 {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
	var next issued
	f.done(f.root, "POST", "/v1/keys/"+f.key.ID+"/rotate", "", &next)
	f.follow()
	who := f.done(next.Token, "GET", "/v1/whoami", "", nil)
	if !strings.Contains(who.text, `"role":"delegate","tenant":"default","subtree":"`+id(f.ids["team"])+`"`) {
		t.Error(who.text)
	}
	for _, edit := range []string{"subtree_id = 0", "role = 'admin'", "tenant = ''", "budgets = '[\"*\"]'"} {
		made := f.issue(`{"principal":"` + strings.Fields(edit)[0] + `","role":"delegate","subtree":"team"}`)
		f.sql("UPDATE access_key SET "+edit+" WHERE key_id = ?", []byte(made.ID))
		f.sql("UPDATE access_state SET version = version + 1")
		f.sql("UPDATE access_key SET version = (SELECT version FROM access_state) WHERE key_id = ?", []byte(made.ID))
		_ = f.security.work[slices.IndexFunc(f.security.work, func(l loop) bool { return l.name == "keys" })].once(t.Context())
		if got := f.ask(made.Token, "GET", "/v1/budgets/team", ""); got.status != 401 {
			t.Errorf("%s: %d %s", edit, got.status, got.text)
		}
	}
}
