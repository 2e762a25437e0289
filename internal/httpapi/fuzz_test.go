package httpapi

import (
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
)

// FuzzPageToken checks that only a text that pageToken wrote is accepted as a token.
func FuzzPageToken(f *testing.F) {
	for _, text := range []string{pageToken(1), pageToken(budget.MaxAmount), "", "MTow", "MTo\n3", "MjoxMA", "MTorMQ",
		budgetToken(&budget.Definition{Tenant: "default", Name: "sale"}), "MTphL2IvYw", "MTphL0I"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if id, ok := parsePageToken(text); ok && (id < 1 || pageToken(id) != text) {
			t.Errorf("%q: %d, which is %q", text, id, pageToken(id))
		}
		if after, ok := parseBudgetToken(text); ok {
			d := budget.Definition{Tenant: after.Tenant, Name: after.Name}
			if budgetToken(&d) != text || budget.CheckName(d.Tenant) != "" || budget.CheckName(d.Name) != "" {
				t.Errorf("%q: %+v, which is %q", text, after, budgetToken(&d))
			}
		}
	})
}

// FuzzTraceparent checks that the parts of a traceparent that go into logs and answers are
// harmless.
func FuzzTraceparent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more")
	f.Add("ff-00000000000000000000000000000000-0000000000000000-00")
	f.Fuzz(func(t *testing.T, text string) {
		trace, _, flags := parseTraceparent(text)
		if trace == "" && flags == "" {
			return
		}
		if len(trace) != 32 || len(flags) != 2 || !lowerHex(trace+flags) || strings.Trim(trace, "0") == "" {
			t.Errorf("%q: %q, %q", text, trace, flags)
		}
	})
}
