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
		"a wrong type":            {`total_quantity: [5]`, "budget spring: total_quantity: "},
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
