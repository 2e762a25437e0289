package console_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// dialog is one dialog of the console, as a person goes through it.
type dialog struct {
	name   string
	of     string // the file of web/src/views that it is in
	at     string // the view that has its button
	before func()
	opens  string // its button there
	asks   string // what it says before anything is filled in; empty: it has nothing to fill in
	fill   func()
	verb   string // the button that submits it
	said   string // what it says when it is done
	then   func() // looks at what became of it
}

// floor is a server with two stores and a receiver of messages, and a page that shows it.
type floor struct {
	*testing.T
	*server
	page   *tab
	stores []*testservers.RedisServer
	hook   string // the address of a receiver
	rows   *sql.DB
}

func newFloor(t *testing.T) *floor {
	t.Helper()
	stores := []*testservers.RedisServer{testservers.Redis(t), testservers.Redis(t)}
	config, hook := hooked(t, func(http.ResponseWriter, *http.Request) {})
	file := filepath.Join(t.TempDir(), "budgetd.db")
	s := serve(t, config+fmt.Sprintf("instances:\n- {name: redis-a, driver: redis, addrs: [%q]}\n"+
		"- {name: redis-b, driver: redis, addrs: [%q]}\n", stores[0].Addr(), stores[1].Addr()),
		"BUDGETD_DATABASE_DSN="+file)
	s.must("POST", "/v1/budgets", `{"name":"sale","unit":"count","type":"promo","total_quantity":1000,
		"bucket_quantity":2,"limits":[{"name":"per-user","dimension":"user","window":{"kind":"lifetime"},
		"max":500}]}`)
	s.must("POST", "/v1/budgets", `{"name":"tickets","unit":"count","type":"promo","total_quantity":1000,
		"bucket_quantity":2,"durability":"store"}`)
	rows, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rows.Close() })
	return &floor{t, s, open(t, s.url+"/#/budgets"), stores, hook, rows}
}

// budget returns members of a budget as the API has them.
func (f *floor) budget(name string, members ...string) string {
	f.Helper()
	now := f.must("GET", "/v1/budgets/"+name, "")
	var out []string
	for _, member := range members {
		out = append(out, fmt.Sprint(now[member]))
	}
	return strings.Join(out, " ")
}

// is returns a check of members of a budget.
func (f *floor) is(name, want string, members ...string) func() {
	return func() {
		f.Helper()
		if got := f.budget(name, members...); got != want {
			f.Errorf("%s of %s: %s, want %s", members, name, got, want)
		}
	}
}

// sees returns a check of what the view behind the dialog shows afterwards.
func (f *floor) sees(texts ...string) func() {
	return func() { f.Helper(); f.page.sees(texts...) }
}

// goes goes through a dialog.
func (f *floor) goes(d dialog) {
	f.Helper()
	f.page.do(chromedp.Navigate(f.url + "/#/" + d.at))
	if d.before != nil {
		d.before()
	}
	if d.of == "budget" { // the buttons of a bucket are there while it has the focus
		f.page.until("a bucket", `(e => { e?.focus(); return !!e })(document.querySelector('.square'))`)
	}
	f.page.clicks("button", d.opens)
	f.page.until("the dialog", `!!document.querySelector('dialog[open]')`)
	const submit = `document.querySelector('dialog button.main, dialog button.danger')`
	if got := value[string](f.page, submit+`.innerText`); got != d.verb {
		f.Fatalf("the dialog's button is %q, want %q", got, d.verb)
	}
	if off := value[bool](f.page, submit+`.disabled`); off != (d.asks != "") {
		f.Errorf("before anything is filled in it can be submitted: %v", !off)
	}
	if d.fill != nil {
		f.page.sees(d.asks)
		d.fill()
	}
	f.page.until("the figures before and after", `!!document.querySelector('dialog .diff')`)
	f.page.until("the button", `!`+submit+`.disabled`)
	f.page.js(submit + `.click()`)
	f.page.sees(d.said)
	f.page.clicks("button", "Close")
	f.page.until("the dialog closes", `!document.querySelector('dialog')`)
	if d.then != nil {
		d.then()
	}
}

// budgets are the dialogs about a budget and its limits.
func (f *floor) budgets() []dialog {
	at, p := "budgets/default/sale", f.page
	quantity := func(n string) func() { return func() { p.types("Quantity, in units", n) } }
	return []dialog{
		{"new budget", "budgets", "budgets", nil, "New budget", "Type a name", func() {
			p.types("Name", "autumn")
			p.types("Tenant", "acme")
			p.sees("Type a total")
			p.types("Total", "12,5")
			p.sees("Type a total")
			p.types("Total", "12,500")
		}, "Create the budget", "Budget autumn has 12,500 in", func() {
			got := f.must("GET", "/v1/budgets/autumn?tenant=acme", "")
			if got["total_quantity"] != 12500.0 {
				f.Errorf("the new budget: %v", got)
			}
			p.sees("autumn")
		}},
		{"append", "budget", at, nil, "Append", "Type a quantity", quantity("200"), "Append",
			"The total of sale is 1,200, and 1,200 remain.", f.is("sale", "1200", "total_quantity")},
		{"shrink", "budget", at, nil, "Shrink", "Type a quantity", quantity("100"), "Shrink",
			"The total of sale is 1,100, and 1,100 remain.", f.is("sale", "1100", "total_quantity")},
		{"pause", "budget", at, nil, "Pause", "", nil, "Pause it", "sale is paused.",
			f.is("sale", "paused", "status")},
		{"resume", "budget", at, nil, "Resume", "", nil, "Resume it", "sale is effective.",
			f.is("sale", "effective", "status")},
		{"recycle", "budget", at, nil, "Recycle", "", nil, "Recycle it", "are stranded now.",
			func() { p.until("the report", `document.querySelectorAll('tbody tr').length > 0`) }},
		{"limit", "budget", at, nil, "Change", "Type another maximum.",
			func() { p.types("Maximum", "700") }, "Change the maximum", "per-user now allows 700.",
			f.sees("700 calls")},
		{"hold", "budget", at, func() {
			f.must("POST", "/v1/budgets/sale/deduct", `{"request_id":"held-1","amount":30,"hold_ttl":"30m",
				"dimensions":{"user":"u"}}`)
		}, "Release", "", nil, "Release it", "30 were released.", f.is("sale", "0 0", "held", "used")},
	}
}

// buckets are the dialogs about one bucket.
func (f *floor) buckets() []dialog {
	bucket := func(opens, verb, said string, before, then func()) dialog {
		return dialog{opens, "budget", "budgets/default/sale", before, opens, "", nil, verb, said, then}
	}
	return []dialog{
		bucket("Take offline", "Take it offline", "is offline and has 0 left.", nil, f.sees("offline by ")),
		bucket("Bring online", "Bring it online", "is online and has", nil, f.sees("Take offline")),
		bucket("Apply for units", "Apply", "is online and has", nil, nil),
		bucket("Resume", "Audit and resume", "takes requests again.", func() {
			f.used("+ 1") // a figure that its rows do not add up to, until it is repaired
			if now := f.must("GET", "/v1/budgets/sale/audit", ""); now["ok"] != false {
				f.Fatalf("the audit finds nothing: %v", now)
			}
			f.used("- 1")
			f.page.until("the halt", `!!document.querySelector('.square.halted')`)
		}, func() { f.page.until("the halt is gone", `!document.querySelector('.square.halted')`) }),
	}
}

// used changes by hand what a bucket has used.
func (f *floor) used(by string) {
	f.Helper()
	done, err := f.rows.Exec(`UPDATE bucket_epoch SET used_quantity = used_quantity `+by+`
		WHERE status = 'open' AND bucket_id = (SELECT MIN(b.id) FROM sharding_budget_management_bucket b
		JOIN budget_management_bucket u ON u.id = b.budget_id WHERE u.name = ?)`, []byte("sale"))
	if err != nil {
		f.Fatal(err)
	}
	if n, err := done.RowsAffected(); n != 1 || err != nil {
		f.Fatal(n, err)
	}
}

// thresholds are the dialogs about what raises an alert.
func (f *floor) thresholds() []dialog {
	at, p := "budgets/default/sale", f.page
	percent := func(n string) func() { return func() { p.types("Percent", n) } }
	return []dialog{
		{"add a threshold", "thresholds", at, nil, "Add a threshold", "Type a percentage", percent("33"),
			"Add it", "sale alerts when 33 % of the total is used or held.", f.sees("used_share/total/33")},
		{"change a threshold", "thresholds", at, nil, "Change used_share/total/33", "Type another percentage.",
			percent("34"), "Change it", "sale now alerts when 34 % of", f.sees("used_share/total/34")},
		{"remove a threshold", "thresholds", at, nil, "Remove used_share/total/34", "", nil, "Remove it",
			"used_share/total/34 is gone.", func() {
				p.until("it to go", `!document.body.innerText.includes("used_share/total/34")`)
			}},
		{"use the defaults", "thresholds", at, nil, "Use the defaults", "", nil, "Use the defaults",
			"sale has the defaults: used_share/total/80", f.sees("the defaults")},
	}
}

// endpoints are the dialogs about who is told of alerts.
func (f *floor) endpoints() []dialog {
	p := f.page
	made := f.must("POST", "/v1/webhooks", `{"url":"`+f.hook+`/one","secret":"shop"}`)["id"].(string)
	sent := f.must("POST", "/v1/webhooks/"+made+"/test", "")["message"].(string)
	return []dialog{
		{"new endpoint", "endpoints", "alerts", nil, "New endpoint", "Type a URL", func() {
			p.types("URL", f.hook+"/two")
			p.sees("Type the name of the secret.")
			p.types("Secret", "chat")
		}, "Make the endpoint", "gets alert.firing, alert.resolved, endpoint.disabled of all tenants.",
			f.sees(f.hook + "/two")},
		{"change an endpoint", "endpoints", "alerts", nil, "Change " + made, "Change something.",
			func() { p.types("Description", "the night shift") }, "Change it", "is " + f.hook + "/one and gets",
			f.sees("the night shift")},
		{"test an endpoint", "endpoints", "alerts", nil, "Test " + made, "", nil, "Send it",
			"was delivered: it answered 200.", nil},
		{"send a message again", "endpoints", "alerts/" + made, nil, "Resend " + sent, "", nil, "Send it again",
			"was delivered: it answered 200.", f.sees("delivered")},
		{"disable an endpoint", "endpoints", "alerts", nil, "Disable " + made, "", nil, "Disable it",
			"The endpoint is disabled.", f.sees("disabled: operator")},
		{"enable an endpoint", "endpoints", "alerts", nil, "Enable " + made, "", nil, "Enable it",
			"The endpoint is enabled.", nil},
		{"remove an endpoint", "endpoints", "alerts", nil, "Remove " + made, "", nil, "Remove it",
			"The endpoint " + made + " is gone.", nil},
	}
}

// keys are the dialogs about who may call.
func (f *floor) keys() []dialog {
	made := f.must("POST", "/v1/keys", `{"principal":"till","role":"read"}`)["id"].(string)
	return []dialog{
		{"new key", "access", "keys", nil, "New key", "Type whose key it is.", func() {
			f.page.types("Principal", "door")
			f.page.chooses("Role", "deduct")
			f.page.types("Tenant", "acme")
		}, "Make the key", "This is shown once. Keep it now:", f.sees("door")},
		{"revoke a key", "access", "keys", nil, "Revoke " + made, "", nil, "Revoke it",
			"The key " + made + " is revoked.", f.sees("revoked")},
	}
}

// instances are the dialogs about the stores and about what they lost.
func (f *floor) instances() []dialog {
	instance := func(verb, said string, then func()) dialog {
		name := strings.TrimSuffix(verb, " it") + " redis-b"
		return dialog{name, "instances", "instances", nil, name, "", nil, verb, said, then}
	}
	return []dialog{
		instance("Drain it", "redis-b is being drained", f.sees("Undrain redis-b")),
		instance("Undrain it", "redis-b is in use.", f.sees("Drain redis-b")),
		instance("Recover it", "redis-b is up.", nil),
		{"rebalance", "instances", "instances", nil, "Rebalance", "", nil, "Rebalance", "moved: ", nil},
		{"decide on a quarantine", "quarantine", "budgets/default/tickets", func() {
			for _, store := range f.stores { // both lose their memory, and with it all units
				if err := store.Kill(); err != nil {
					f.Fatal(err)
				}
				if err := store.Restart(); err != nil {
					f.Fatal(err)
				}
			}
			f.page.sees("How many of them were sold is not known.")
		}, "Decide", "Choose whether they were sold.", func() {
			f.page.types("Quantity, in units", "3")
			f.page.types("Reason", "counted at the door")
			f.page.types("Who decides", "night shift")
			f.page.sees("Choose whether they were sold.")
			f.page.chooses("These units", "sold")
		}, "Release", "3 count as used;", f.is("tickets", "3", "used")},
	}
}

// TestDialogs goes through every dialog of the console: opens it, fills it in, submits it, and sees
// what became of it. No dialog that asks for something can be submitted before it has been answered.
func TestDialogs(t *testing.T) {
	f := newFloor(t)
	all := slices.Concat(f.budgets(), f.buckets(), f.thresholds(), f.endpoints(), f.keys(), f.instances())
	var gone []string
	for _, d := range all {
		gone = append(gone, d.of+": "+d.verb)
		t.Run(d.name, func(t *testing.T) {
			outer, page := f.T, f.page.t
			f.T, f.page.t, f.server.t = t, t, t
			defer func() { f.T, f.page.t, f.server.t = outer, page, outer }()
			f.goes(d)
		})
	}
	if said := f.page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
	if missing := slices.DeleteFunc(verbs(t), func(v string) bool { return slices.Contains(gone, v) }); len(missing) > 0 {
		t.Errorf("no case goes through the dialogs %q", missing)
	}
}

var (
	verbOf = regexp.MustCompile(`(?m)\bverb: (.*)$`)
	quoted = regexp.MustCompile(`'([A-Z][a-z ]*)'`)
)

// verbs lists the buttons that submit the dialogs in the sources, each with its file.
func verbs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("web/src/views/*.tsx")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d views: %v", len(files), err)
	}
	var out []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range verbOf.FindAllStringSubmatch(string(text), -1) {
			found := quoted.FindAllStringSubmatch(line[1], -1)
			if len(found) == 0 {
				t.Errorf("%s: a verb that cannot be read: %s", file, line[0])
			}
			for _, m := range found {
				out = append(out, strings.TrimSuffix(filepath.Base(file), ".tsx")+": "+m[1])
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
