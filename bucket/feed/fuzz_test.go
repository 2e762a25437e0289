package feed

import (
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
)

// FuzzCursor checks that only what text wrote is a cursor, and that its figures are in range.
func FuzzCursor(f *testing.F) {
	f.Add((&cursor{budget: 7, made: 1_700_000_000_000, turn: 1, read: []position{{entry: 5}, {entry: 9, within: 3}}}).text())
	f.Add((&cursor{budget: budget.MaxAmount, read: []position{{entry: budget.MaxAmount, within: 1}}}).text())
	f.Add((&cursor{}).text())
	f.Add("")
	f.Add("AgcBAAAA")
	f.Add(strings.Repeat("A", maxCursorBytes+1))
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := parse(text)
		if !ok {
			return
		}
		if c.text() != text {
			t.Errorf("%q is the same cursor as %q", text, c.text())
		}
		for _, at := range c.read {
			if at.entry < 0 || at.within < 0 || at.within > at.entry || c.turn >= len(c.read) {
				t.Errorf("%q: %+v", text, c)
			}
		}
	})
}
