package books

import (
	"encoding/json"
	"testing"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

// FuzzReadRule checks that a rule that is read back from SQL is the one that would be written again.
func FuzzReadRule(f *testing.F) {
	f.Add(`{"kind":"calendar","every":"day","anchor":{"hour":6},"quantity":100,"unused":"next"}`)
	f.Add(`{"kind":"segments","windows":[{"from":"00:00","to":"24:00","quantity":5}]}`)
	f.Add(`{"kind":7}`)
	f.Add(`null`)
	read := func(text string) *budget.Rule { return (&Budget{TypeRule: &text}).Definition().Rule }
	f.Fuzz(func(t *testing.T, text string) {
		rule := read(text)
		once, _ := json.Marshal(rule)
		if again, _ := json.Marshal(read(string(once))); string(again) != string(once) {
			t.Errorf("%q is written as %q, and that as %q", text, once, again)
		}
		_ = allocation.Canonical(*rule)
	})
}
