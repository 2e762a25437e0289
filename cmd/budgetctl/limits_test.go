package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scripted answers every request the same and keeps what was asked.
type scripted struct {
	*httptest.Server
	asked []string
}

func newScripted(t *testing.T, status int, answer string) *scripted {
	t.Helper()
	s := new(scripted)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.asked = append(s.asked, fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body))
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

const cappedAnswer = `{"id":9,"tenant":"default","name":"capped","unit":"count","durability":"ledger","type":"promo",
	"bucket_quantity":2,"routing_dimension":"user","unlimited":true,"status":"effective","version":3,"total_quantity":null,
	"out_quantity":null,"undistributed":null,"not_funded":null,"remaining":null,"held":0,"used":3,"in_transit":0,
	"quarantined":0,"forfeited":0,"buckets":{"online":2,"offline":0},"limits":[{"name":"per-user","dimension":"user",
	"window":{"kind":"calendar","every":"day","timezone":"Europe/Berlin"},"max":5000,"measure":"count","enforce":true,
	"override_count":3},
	{"name":"per-ad","dimension":"user+ad","optional":true,"window":{"kind":"sliding","length":"8h","slot":"10m"},"max":100,
	"measure":"amount","enforce":false}]}`

const stateAnswer = `"limits":[{"name":"per-user","dimension":"user","value":"u1","used":3,"max":5000,
	"reset_at":"2026-05-02T00:00:00Z"},{"name":"per-ad","dimension":"user+ad","value":"u1+a1","used":9,"exempt":true}]`

const refusedAnswer = `{"status":429,"code":"limit_exceeded","detail":"limit per-user of user \"u1\": 5 of 5 are used",
	"limit":"per-user","dimension":"user","value":"u1","used":5,"max":5,"reset_at":"2026-05-02T00:00:00Z","retry_after":5400}`

// TestLimits pins what the commands on limits ask, and how they show the answers.
func TestLimits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte("limits:\n- name: per-user\n  dimension: user\n  window: {kind: calendar, every: day}\n"+
		"  max: 5\n  measure: count\n  overrides: [{value: 'a,b', max: 0}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none.json")
	if err := os.WriteFile(none, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	const accepted = `{"request_id":"o1","outcome":"accepted","amount":2,"state":"used","bucket":"capped:bucket-0","bucket_remaining":null,
		"budget_remaining":null,"unlimited":true,"receipt":"r","replayed":false,` + stateAnswer + `}`
	for _, c := range []struct{ name, line, answer, want string }{
		{"create-limits", "create capped --unlimited --routing-dimension user" +
			" --limit name=per-user,dimension=user,window=day,max=5000,timezone=Europe/Berlin,override=vip:50,override=a:b:exempt" +
			" --limit name=per-ad,dimension=user+ad,window=sliding:8h/10m,max=0,measure=amount,optional=true,enforce=false" +
			" --limit name=burst,dimension=user,window=first_hit:5s,max=3 --limit name=ever,dimension=user,window=lifetime,max=1,enforce=true",
			cappedAnswer, `POST /v1/budgets {"name":"capped","unit":"count","unlimited":true,"routing_dimension":"user","limits":[` +
				`{"name":"per-user","dimension":"user","window":{"kind":"calendar","every":"day","timezone":"Europe/Berlin"},"max":5000,` +
				`"measure":"count","overrides":[{"value":"vip","max":50},{"value":"a:b","exempt":true}]},` +
				`{"name":"per-ad","dimension":"user+ad","optional":true,"window":{"kind":"sliding","length":"8h","slot":"10m"},"max":0,` +
				`"measure":"amount","enforce":false},` +
				`{"name":"burst","dimension":"user","window":{"kind":"first_hit","length":"5s"},"max":3,"measure":"count"},` +
				`{"name":"ever","dimension":"user","window":{"kind":"lifetime"},"max":1,"measure":"count","enforce":true}]}`},
		{"set-limits", "set capped --limits-file " + file + " --if-version 2", cappedAnswer, `PATCH /v1/budgets/capped {"limits":[` +
			`{"name":"per-user","dimension":"user","window":{"kind":"calendar","every":"day"},"max":5,"measure":"count",` +
			`"overrides":[{"value":"a,b","max":0}]}]}`},
		{"set-limits-file", "set capped --limits-file ../../examples/limits.yaml", cappedAnswer, `PATCH /v1/budgets/capped {"limits":[` +
			`{"name":"per-user","dimension":"user","window":{"kind":"calendar","every":"day","timezone":"Asia/Shanghai"},"max":5,` +
			`"measure":"count","overrides":[{"value":"vip","max":50},{"value":"staff","exempt":true}]},` +
			`{"name":"per-phone","dimension":"phone","optional":true,"window":{"kind":"sliding","length":"8h","slot":"10m"},"max":100,` +
			`"measure":"amount"},{"name":"burst","dimension":"user+phone","optional":true,"window":{"kind":"first_hit","length":"3s"},` +
			`"max":2,"measure":"count"}]}`},
		{"set-no-limits", "set capped --limits-file " + none, cappedAnswer, `PATCH /v1/budgets/capped {"limits":[]}`},
		{"create-dry-run", "create b --total 7 --every month --quantity 3 --start 2027-01-31T00:00:00Z --dry-run" +
			" --end 2027-02-01T00:00:00Z --allow-past --timezone Europe/Berlin",
			`{"id":0,"tenant":"default","name":"b","unit":"count","durability":"ledger","type":"daily","bucket_quantity":1,
			"type_rule":{"kind":"calendar","every":"month","quantity":3,"unused":"spread"},"timezone":"Europe/Berlin",
			"status":"pending","version":0,"total_quantity":7,"out_quantity":0,"undistributed":0,"not_funded":0,"remaining":0,"in_buckets":0,"effective_at":"2027-01-31T00:00:00Z","periods":[
			{"number":1,"start":"2027-01-31T00:00:00Z","end":"2027-01-31T23:00:00Z","quantity":1},
			{"number":2,"start":"2027-01-31T23:00:00Z","end":"2027-02-01T00:00:00Z","quantity":1}]}`,
			`POST /v1/budgets {"name":"b","unit":"count","total_quantity":7,"type":"daily","start_at":"2027-01-31T00:00:00Z",` +
				`"end_at":"2027-02-01T00:00:00Z","type_rule":{"kind":"calendar","every":"month","quantity":3},` +
				`"timezone":"Europe/Berlin","allow_past":true,"dry_run":true}`},
		{"set-limit", "set capped --limit name=per-user,dimension=user,window=month,day=31,hour=6,max=7" +
			" --limit name=burst,dimension=user,window=first_hit:5s,max=3 --remove-limit per-ad", cappedAnswer,
			`PATCH /v1/budgets/capped {"limits":[{"name":"per-user","dimension":"user","window":{"kind":"calendar",` +
				`"every":"month","anchor":{"day":31,"hour":6}},"max":7,"measure":"count"},` +
				`{"name":"burst","dimension":"user","window":{"kind":"first_hit","length":"5s"},"max":3,"measure":"count"}]}`},
		{"deduct-limits", "deduct capped 2 --request-id o1 --dimension user=u1 --count per-ad=0", accepted,
			`POST /v1/budgets/capped/deduct {"request_id":"o1","amount":2,"dimensions":{"user":"u1"},"counts":{"per-ad":0}}`},
		{"deduct-dry-run", "deduct capped 2 --request-id o1 --dimension user=u1 --dry-run",
			`{"request_id":"o1","outcome":"would_be_accepted","amount":2,"budget_remaining":null,"unlimited":true,` + stateAnswer + `}`,
			`POST /v1/budgets/capped/deduct {"request_id":"o1","amount":2,"dimensions":{"user":"u1"},"dry_run":true}`},
		{"check", "check ad-1 7 ad-3 --dimension user=u1 --count cap=2", `{"results":[{"outcome":"would_be_accepted","amount":1,` +
			`"budget_remaining":5,` + stateAnswer + `},` + refusedAnswer + `,{"status":404,"code":"budget_not_found","detail":"none"}]}`,
			`POST /v1/checks {"checks":[{"budget":"ad-1","amount":1,"dimensions":{"user":"u1"},"counts":{"cap":2}},` +
				`{"budget":"7","amount":1,"dimensions":{"user":"u1"},"counts":{"cap":2}},` +
				`{"budget":"ad-3","amount":1,"dimensions":{"user":"u1"},"counts":{"cap":2}}]}`},
		{"usage", "usage capped --dimension user=u1 --from 2026-05-01T00:00:00Z --to 2026-06-01T00:00:00+02:00",
			`{"dimensions":{"user":"u1"},"from":"2026-05-01T00:00:00Z","to":"2026-05-31T22:00:00Z","calls":4,"amount":1009,"rolled_back":2}`,
			`GET /v1/budgets/capped/usage?dimension.user=u1&from=2026-05-01T00%3A00%3A00Z&to=2026-06-01T00%3A00%3A00%2B02%3A00 `},
		{"nearest", "nearest capped per-user --limit 2", `{"values":[{"name":"per-user","dimension":"user","value":"u1",` +
			`"used":4,"max":5,"reset_at":"2026-05-02T00:00:00Z"},{"name":"per-user","dimension":"user","value":"vip","used":1000,` +
			`"max":5000}],"read":10000,"complete":false}`, `GET /v1/budgets/capped/limits/per-user/nearest?limit=2 `},
	} {
		for _, format := range formats[:3] { // names have a test of their own
			t.Run(c.name+"/"+format, func(t *testing.T) {
				server := newScripted(t, 200, c.answer)
				r := must1(t, server.URL, c.line+" -o "+format)
				want := []string{c.want}
				if strings.HasPrefix(c.line, "set ") { // the difference is said first
					want = []string{"GET /v1/budgets/capped ", c.want}
					if strings.Contains(c.want, `"overrides":`) {
						want = slices.Insert(want, 1, "GET /v1/budgets/capped/limits/per-user/overrides?page_size=1000 ")
					}
					golden(t, "difference."+c.name, r.stderr)
				} else if r.stderr != "" {
					t.Errorf("stderr: %s", r.stderr)
				}
				golden(t, c.name+"."+format, r.stdout)
				if diff := cmp.Diff(want, server.asked); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestOtherLimitsStay checks that adding, changing or removing a limit by its name keeps the
// others.
func TestOtherLimitsStay(t *testing.T) {
	for _, c := range []struct{ flags, names, said string }{
		{"--limit name=burst,dimension=user,window=first_hit:5s,max=3", "per-user per-ad burst", "+ limit burst: "},
		{"--limit name=per-ad,dimension=user+ad,window=day,max=7", "per-user per-ad", "- limit per-ad: "},
		{"--remove-limit per-user", "per-ad", "- limit per-user: "},
	} {
		server := newScripted(t, 200, cappedAnswer)
		r := must1(t, server.URL, "set capped "+c.flags)
		var sent struct {
			Limits []struct{ Name string }
		}
		patch := server.asked[len(server.asked)-1]
		if err := json.Unmarshal([]byte(patch[strings.Index(patch, "{"):]), &sent); err != nil {
			t.Fatalf("%s: %v", patch, err)
		}
		var names []string
		for _, l := range sent.Limits {
			names = append(names, l.Name)
		}
		if got := strings.Join(names, " "); got != c.names {
			t.Errorf("set capped %s sends the limits %s, want %s", c.flags, got, c.names)
		}
		if !strings.HasPrefix(r.stderr, c.said) {
			t.Errorf("set capped %s says %q, want %q first", c.flags, r.stderr, c.said)
		}
	}
}

func TestLimitExceeded(t *testing.T) {
	server := newScripted(t, 429, refusedAnswer)
	mentions := []string{"limit_exceeded: limit per-user", "\n  limit per-user: 5 of 5 for user u1 until 2026-05-02T00:00:00Z\n",
		"\n  retry after: 1h30m0s\n", "try again when the window is over"}
	checkFailure(t, command(t, server.URL, "deduct b 1 --dimension user=u1 -o json"), exitRefused, mentions...)
	checkFailure(t, command(t, server.URL, "deduct b 1 --dimension user=u1 --dry-run"), exitRefused, mentions...)

	server = newScripted(t, 200, `{"results":[`+refusedAnswer+`]}`)
	r := command(t, server.URL, "check b --dimension user=u1")
	if r.status != exitRefused || !strings.Contains(r.stdout, "limit_exceeded") || !strings.Contains(r.stderr, mentions[0]) {
		t.Errorf("status %d, %s, %s", r.status, r.stdout, r.stderr)
	}
}

func TestUsageOfLimits(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const limit = "create b --total 5 --type promo --limit "
	server := newScripted(t, 500, "")
	for _, c := range []struct{ line, want string }{
		{limit + "=", `"=" must be NAME=VALUE`[:3]}, {limit + "name=a", "dimension is missing"},
		{limit + "dimension=user,window=day,max=1", "name is missing"}, {limit + "name=a,dimension=user,max=1", "window is missing"},
		{limit + "name=a,dimension=user,window=day", "max is missing"}, {limit + "name=A,max=1", "name must start with a letter"},
		{limit + "name=a,name=b", "name appears twice"}, {limit + "name=a,size=5", `there is no "size"; it takes name, dimension`},
		{limit + "name=a,max=-1", "max must be a whole number from 0"}, {limit + "name=a,max=1.5", "max must be"},
		{limit + "name=a,measure=calls", "measure must be count or amount"}, {limit + "name=a,window=sliding:8h", "sliding:LENGTH/SLOT"},
		{limit + "name=a,window=sliding", "sliding:LENGTH/SLOT"}, {limit + "name=a,window=first_hit", "first_hit:LENGTH"},
		{limit + "name=a,window=lifetime:5s", "lifetime has no length"}, {limit + "name=a,window=day:5", `no kind "day"`},
		{limit + "name=a,optional=yes", "optional must be true or false"}, {limit + "name=a,enforce=0", "enforce must be true or false"},
		{limit + "name=a,override=vip", "VALUE:MAX or VALUE:exempt"}, {limit + "name=a,override=vip:x", "override: max must be"},
		{limit + "name=a,override=:5", "VALUE:MAX or VALUE:exempt"}, {limit + "name=a,window", `"window" must be NAME=VALUE`},
		{limit + "name=a,dimension=user,window=day,max=1 --limits-file " + write("ok.json", "[]"), "do not go together"},
		{"set b --limits-file " + filepath.Join(dir, "absent"), "no such file"},
		{"set b --limits-file " + write("a.yaml", "limits: ["), "a.yaml"}, {"set b --limits-file " + write("b.yaml", "rules: []"), "rules"},
		{"set b --limits-file " + write("c.json", "{}"), "has no limits"}, {"set b --limits-file " + write("d.json", "null"), "has no value"},
		{"set b --limits-file " + write("e.json", `[{"name":"a","size":5}]`), "size"},
		{"set b --limits-file " + write("f.yaml", "limits: null"), "limits has no value"},
		{"set b --limits-file " + write("g.yaml", "[]\n---\n[]"), "one YAML document"},
		{"set b --limits-file " + write("h.yaml", "- {name: a, max: 010}"), "line 1: [0].max must be a number such as 10"},
		{"set b --limits-file " + write("i.yaml", "- name: a\n  max: 1_0"), "line 2: [0].max"},
		{"set b --buckets 010", "whole number such as 10"}, {"set b --buckets 0x10", "whole number such as 10"},
		{"set b --if-version 1_0", "whole number such as 10"}, {"set b --adjust-cnt +1", "whole number such as 10"},
		{"create b --unlimited --total 5", "--unlimited has no --total"}, {"create b --unlimited --type daily --rule free", "--unlimited has no"},
		{"check", "BUDGET is missing"}, {"check B", `budget "B"`}, {"check b --amount 0", `amount "0"`},
		{"check b --dimension user=", "must not be empty"}, {"check b --count A=1", "the name must"}, {"deduct b 1 --count a=-1", "--count a=-1"},
		{"check" + strings.Repeat(" b", 1001), "1001 budgets, at most 1000"},
		{"usage b", "--dimension is missing"}, {"usage b --dimension user=u1 --from today", `--from "today"`},
		{"usage b --dimension user=", "must not be empty"},
	} {
		checkFailure(t, command(t, server.URL, c.line), exitUsage, c.want)
	}
	if len(server.asked) > 0 {
		t.Errorf("requests were sent: %v", server.asked)
	}
}

func TestCompletionOfLimits(t *testing.T) {
	for so, want := range map[string][]string{
		"":              {"name=", "window=", "override="},
		"name=a,dim":    {"name=a,dimension="},
		"name=a,window": {"name=a,window="},
		"window=s":      {"window=sliding:", "window=second"},
		"override=a:1,": {"override=a:1,override=", "override=a:1,name="},
	} {
		r := must1(t, "", "__complete create b --limit "+cmpOr(so, "="))
		if so == "" {
			got, _ := completeLimit(nil, nil, "")
			r.stdout = strings.Join(got, "\n")
		}
		for _, offer := range want {
			if !strings.Contains("\n"+r.stdout, "\n"+offer) {
				t.Errorf("%q: %q is not offered:\n%s", so, offer, r.stdout)
			}
		}
		if so == "name=a,dim" && strings.Contains(r.stdout, "name=a,name=") {
			t.Error("a name is offered twice")
		}
	}
}

func cmpOr(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
