package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaultsOfAFileNameTheBudget checks that a fault of a file names the budget and the member, and what an unknown
// member may have been meant to be.
func TestFaultsOfAFileNameTheBudget(t *testing.T) {
	for what, c := range map[string]struct{ members, want string }{
		"a wrong name":            {`totl_quantity: 5`, "budget spring: totl_quantity is not known; did you mean total_quantity?"},
		"a wrong name in a limit": {`limits: [{name: a, windw: {}}]`, "budget spring: limits[0].windw is not known; did you mean window?"},
		"a wrong name in a rule":  {`type_rule: {kid: calendar}`, "budget spring: type_rule.kid is not known; did you mean kind?"},
		"no such name":            {`zzzzzzzz: 5`, "budget spring: zzzzzzzz is not known"},
		"a wrong type":            {`total_quantity: [5]`, "budget spring: total_quantity cannot be a list"},
	} {
		t.Run(what, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "budgets.yaml")
			text := "budgets:\n- {name: winter}\n- {name: spring, " + c.members + "}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := command(t, "http://127.0.0.1:1", "apply -f "+file)
			if r.status != exitUsage || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%d %s; want %q", r.status, r.stderr, c.want)
			}
		})
	}
}

// TestAllFaultsOfAFile checks that one run names every faulty member, each with its budget.
func TestAllFaultsOfAFile(t *testing.T) {
	for text, wants := range map[string][]string{
		`budgets:
- {name: winter, totl_quantity: 5, gl_code: 7, end_at: tomorrow}
- {name: spring, total_quantity: 010, limits: [{name: a, windw: {}, max: []}, {max: -}], type_rule: {kid: calendar}}
- {total_quantity: 1.5, name: 5, unit: , bucket_quantity: 2.0}
budgts: []
`: {
			"budget winter: totl_quantity is not known; did you mean total_quantity?", "budget winter: gl_code cannot be 7",
			`budget winter: end_at cannot be "tomorrow"`, "line 3: budget spring: total_quantity must be a number",
			"budget spring: limits[0].windw is not known; did you mean window?", "budget spring: limits[0].max cannot be a list",
			`budget spring: limits[1].max cannot be "-"`, "budget 5: name cannot be 5", "budget spring: type_rule.kid is not known; did you mean kind?",
			"budget 5: total_quantity cannot be 1.5", "budget 5: bucket_quantity cannot be 2.0", "line 4: budget 5: unit has no value", "budgts is not known; did you mean budgets?",
		},
		`budgets: [{name: Winter}, {name: spring, tenant: acme, status: stopped}, {name: spring}, {}]`: {
			`budget "Winter": name `, "budget spring: tenant: give it", "budget spring: status must be", "budget spring appears twice",
			`budget "": name `},
		"- name: a": {"the file cannot be a list"},
	} {
		file := filepath.Join(t.TempDir(), "budgets.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := command(t, "http://127.0.0.1:1", "apply -f "+file)
		checkContains(t, r.stderr, wants...)
		if lines := strings.Count(r.stderr, "\n"); r.status != exitUsage || lines < len(wants)+1 {
			t.Errorf("status %d, %d lines:\n%s", r.status, lines, r.stderr)
		}
	}
	f := newFake(t)
	file := filepath.Join(t.TempDir(), "budgets.yaml")
	text := "budgets:\n- {name: a, type_rule: {kind: calendar}}\n- {name: b, total_quantity: 1}\n- {name: c, type_rule: {kind: calendar}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := command(t, f.URL, "apply -f "+file)
	checkContains(t, r.stderr, "budget a: invalid", "budget c: invalid", "  type_rule: is compressed")
}
