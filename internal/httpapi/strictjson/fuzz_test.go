package strictjson_test

import (
	"testing"

	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// FuzzParseDuration checks that an accepted length is above 0, and that its text gives the same
// length again.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1d12h", "250ms", "", "d", "1d-1s", "+1s", "36600d1ns", "1.5h", "99999999999h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		length, why := strictjson.ParseDuration(text)
		if why != "" {
			return
		}
		again, why := strictjson.ParseDuration(strictjson.FormatDuration(length))
		if length <= 0 || again != length || why != "" {
			t.Errorf("%q is %d, then %d %s", text, length, again, why)
		}
	})
}
