package limit

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// FuzzDecode checks that a limit that was decoded and encoded decodes to the same limit.
func FuzzDecode(f *testing.F) {
	f.Add(Encode(budget.Limit{Name: "l", Dimension: "user+ad", Max: 5, Measure: budget.MeasureCount, Window: budget.LimitWindow{
		Kind: budget.WindowSliding, Length: 8 * time.Hour, Slot: time.Minute}, Overrides: []budget.Override{{Value: "vip"}}}))
	f.Add([]byte(`{"window":{"length":"-1ns","slot":"1e3h"},"max":1e3}`))
	f.Add([]byte(`{"name":7}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Decode(text)
		if err != nil {
			return
		}
		once := Encode(l)
		again, err := Decode(once)
		if err != nil || string(Encode(again)) != string(once) {
			t.Errorf("%q is encoded as %q, and that as %q, %v", text, once, Encode(again), err)
		}
	})
}
