package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/budgetd/budgetd/client"
)

// secured runs a budgetd that wants keys, and returns its URL and a client of its administrator.
func secured(t *testing.T) (url string, c *client.Client) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "admin.key")
	admin := strings.TrimSpace(withEnv(t, nil, "keys", "generate").stdout)
	if err := os.WriteFile(file, []byte(admin), 0o600); err != nil {
		t.Fatal(err)
	}
	url = serveWith(t, "auth: keys\nkeys: {first_admin_file: \""+file+"\"}\n")
	return url, mustClient(t, url, client.WithTokenFile(file))
}

// made creates a budget of some units, out of a parent unless that is "", and returns its id.
func made(t *testing.T, c *client.Client, name, parent string, units int64) int64 {
	t.Helper()
	b, err := c.Create(t.Context(), client.CreateRequest{Name: name, Parent: parent, Unit: "count",
		Type: "promo", TotalQuantity: units})
	if err != nil {
		t.Fatal(err)
	}
	return b.ID
}

// withKey is an agent with a key that the node knows, which takes up to a second.
func withKey(t *testing.T, url string, c *client.Client, request client.KeyRequest) agent {
	t.Helper()
	issued, err := c.CreateKey(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	a := overStdio(t, url, issued.Token)
	for range 1200 {
		text, _, _ := a.call("check", `{"budgets":["any"],"amount":1}`)
		if !strings.Contains(text, "key of this server is") {
			return a
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the node does not know the key")
	return a
}

// outsiders are budgets outside the subtree of the delegate, which is team.
var outsiders = []string{"org", "rival", "deep", "plain"}

// divided is a family with a delegate on team. org has team and rival, and rival has deep.
func divided(t *testing.T) (a agent, c *client.Client, ids map[string]int64) {
	url, c := secured(t)
	ids = map[string]int64{}
	for _, one := range []struct {
		name, parent string
		units        int64
	}{{"org", "", 1000}, {"team", "org", 200}, {"rival", "org", 200}, {"deep", "rival", 100},
		{"plain", "", 100}} {
		ids[one.name] = made(t, c, one.name, one.parent, one.units)
	}
	return withKey(t, url, c, client.KeyRequest{Principal: "agent", Role: "delegate",
		Subtree: "team"}), c, ids
}

// TestAgentCarves checks that an agent divides its budget and takes back what a part did not use,
// that repeats take nothing more, and that every unit is counted.
func TestAgentCarves(t *testing.T) {
	a, c, ids := divided(t)
	carve := func(parent any, child string, units int, more string) string {
		return fmt.Sprintf(`{"parent":"%v","child":%q,"units":%d%s}`, parent, child, units, more)
	}
	const ttl = `,"ttl":"1h"`
	answer := a.does("carve", carve("team", "c1", 80, ttl), "c1 has 80 units of team", "80 left", "ends at")
	end, err := time.Parse(time.RFC3339, fmt.Sprint(answer["end_at"]))
	if left := time.Until(end); err != nil || left < 50*time.Minute || left > time.Hour+time.Minute {
		t.Errorf("it ends at %v: %v", answer["end_at"], err)
	}
	checkUnits(t, c, "team", 0, 0, 120)
	a.does("carve", carve(ids["team"], "c1", 80, ttl), "c1 has 80 units of team")
	for _, other := range []string{carve("team", "c1", 81, ttl), carve("team", "c1", 80, ""),
		carve("c1", "c1", 80, ttl)} {
		a.fails("carve", other, "Conflict. Nothing was changed.", "name_taken", "choose another child")
	}
	checkUnits(t, c, "team", 0, 0, 120)
	a.fails("carve", carve("team", "c2", 121, ""), "Refused. Nothing was changed.", "budget_exhausted",
		"available: 120", "ask for at most what is available")
	a.does("carve", carve("c1", "lower", 30, ""), "lower has 30 units of c1")
	a.does("hold", `{"budget":"lower","request_id":"r1","amount":10,"hold_ttl":"15m"}`, "10 units")
	a.does("confirm", `{"budget":"lower","request_id":"r1","amount":4}`, "4 units are used")
	a.does("hold", `{"budget":"c1","request_id":"r2","amount":5,"hold_ttl":"15m"}`, "5 units")
	for range 2 {
		a.does("close", `{"budget":"c1"}`, "c1 is closed", "5 are held")
	}
	checkUnits(t, c, "team", 0, 0, 200-4-5)
	a.does("carve", carve("team", "c1", 80, ttl), "carved before", "expired")
	a.fails("hold", `{"budget":"c1","request_id":"r3","amount":1,"hold_ttl":"1m"}`, "budget_expired")
	a.does("release", `{"budget":"c1","request_id":"r2"}`, "5 units went back")
	a.does("hold", `{"budget":"team","request_id":"r4","amount":196,"hold_ttl":"15m"}`, "196 units")
	a.does("release", `{"budget":"team","request_id":"r4"}`, "196 units went back")
	checkUnits(t, c, "team", 0, 0, 196)
	a.fails("close", `{"budget":"team"}`, "forbidden", "tell a person")
	checkUnits(t, c, "org", 0, 0, 600)
	for _, wrong := range []string{carve("team", "", 1, ""), carve("team", "c3", 0, ""), carve("team", "c3", -1, ""),
		carve("team", "../keys", 1, ""), carve("team", "c3", 1, `,"ttl":""`), carve("team", "c3", 1, `,"ttl":"9y"`),
		carve("team", "c3", 1, `,"total":9`), `{"child":"c3","units":1}`, `{"parent":"team","units":1}`} {
		a.fails("carve", wrong)
	}
	for name := range ids {
		if report, err := c.Audit(t.Context(), name); err != nil || !report.OK {
			t.Errorf("audit of %s: %+v, %v", name, report, err)
		}
	}
	checkUnits(t, c, "team", 0, 0, 196)
}

// TestAgentOutsideItsSubtree checks that a delegate's agent, whatever tool it uses on budgets
// outside, is told what it is told of budgets that do not exist, and changes nothing.
func TestAgentOutsideItsSubtree(t *testing.T) {
	a, c, ids := divided(t)
	for _, name := range outsiders {
		if _, err := c.Deduct(t.Context(), name, client.DeductRequest{RequestID: "r1", Amount: 5,
			HoldTTL: "1h"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Deduct(t.Context(), name, client.DeductRequest{RequestID: "no",
			Amount: 5000}); err == nil {
			t.Fatal("5,000 units were there")
		}
	}
	attempts := map[string][]string{
		"check":   {`{"budgets":["NAME"],"amount":9}`, `{"budgets":["team","NAME"],"amount":9}`},
		"hold":    {`{"budget":"NAME","request_id":"h","amount":1,"hold_ttl":"1h"}`},
		"confirm": {`{"budget":"NAME","request_id":"r1"}`, `{"budget":"NAME","request_id":"r1","amount":2}`},
		"release": {`{"budget":"NAME","request_id":"r1"}`, `{"budget":"NAME","request_id":"h"}`},
		"explain": {`{"budget":"NAME","request_id":"no"}`, `{"budget":"NAME","request_id":"r1"}`,
			`{"request_id":"no"}`},
		"carve": {`{"parent":"NAME","child":"made","units":1}`, `{"parent":"NAME","child":"rival","units":1}`,
			`{"parent":"NAME","child":"deep","units":100}`},
		"close": {`{"budget":"NAME"}`},
	}
	list, err := a.session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != len(attempts) {
		t.Fatalf("there are %d tools, %v", len(list.Tools), err)
	}
	before := seenBy(t, c)
	passing := regexp.MustCompile(`(?m)^ +correlation id: .*$|"correlation_id":"\w+"`)
	answered := func(tool, args, name string) string {
		text, failed, answer := a.call(tool, strings.ReplaceAll(args, "NAME", name))
		structured, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		said := regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(text+"\n"+string(structured), "NAME")
		return passing.ReplaceAllString(fmt.Sprint(failed, " ", said), "")
	}
	for _, tool := range list.Tools {
		for _, args := range attempts[tool.Name] {
			for _, name := range outsiders {
				id := ids[name]
				for foreign, missing := range map[string]string{name: "absent",
					fmt.Sprint(id): fmt.Sprint(id + 1000)} {
					got, want := answered(tool.Name, args, foreign), answered(tool.Name, args, missing)
					if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(got, "budget_not_found") &&
						tool.Name != "explain" {
						t.Errorf("%s %s of %s (-missing +outside):\n%s\n%s", tool.Name, args, foreign, diff, got)
					}
				}
			}
		}
	}
	// A name that is in use is refused, and nothing else is said of it.
	for _, name := range outsiders {
		got := answered("carve", `{"parent":"team","child":"NAME","units":1}`, name)
		if want := "true Conflict. Nothing was changed.\ncarve: name_taken: budget \"NAME\" exists with " +
			"another definition\n\nWhat to do: a budget has this name; repeat its carve exactly as it was, " +
			"or choose another child.\nnull"; got != want {
			t.Errorf("carve of %s:\n%s", name, got)
		}
	}
	if diff := cmp.Diff(before, seenBy(t, c)); diff != "" {
		t.Errorf("after the calls (-before +after):\n%s", diff)
	}
}

// seenBy is all that an administrator sees of the budgets and their holds.
func seenBy(t *testing.T, c *client.Client) (all []string) {
	t.Helper()
	for b, err := range c.Budgets(t.Context(), client.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		b.Calls = nil // a number of the last minute
		holds, err := c.Holds(t.Context(), b.Name, 100)
		if err != nil {
			t.Fatal(err)
		}
		for i := range holds.Holds {
			holds.Holds[i].ExpiresIn = 0
		}
		ledger, err := c.Ledger(t.Context(), b.Name, "", 100, 0)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{b, holds, ledger})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}
