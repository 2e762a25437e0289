package rows

import (
	"encoding/json"
	"testing"
)

// FuzzReadRule checks that a rule that is read back from SQL is the one that would be written again.
func FuzzReadRule(f *testing.F) {
	f.Add([]byte(`{"kind":"calendar","every":"day","anchor":{"hour":6},"quantity":100,"unused":"next"}`))
	f.Add([]byte(`{"kind":"segments","windows":[{"from":"00:00","to":"24:00","quantity":5}]}`))
	f.Add([]byte(`{"kind":7}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rule := ReadRule(text)
		once, _ := json.Marshal(rule)
		if again, _ := json.Marshal(ReadRule(once)); rule != nil && string(again) != string(once) {
			t.Errorf("%q is written as %q, and that as %q", text, once, again)
		}
		_ = SayRule(rule)
	})
}
