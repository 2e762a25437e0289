package limit

import (
	"cmp"
	"slices"

	"github.com/budgetd/budgetd/budget"
)

// Zoned returns a definition's limits with the budget's zone written into calendar windows that
// have no zone of their own. nil stays nil.
func Zoned(d budget.Definition) *budget.Limits {
	if d.Limits == nil {
		return nil
	}
	out := *d.Limits
	out.List = slices.Clone(out.List)
	for i := range out.List {
		if w := &out.List[i].Window; w.Kind == budget.WindowCalendar {
			w.Timezone = cmp.Or(w.Timezone, d.Timezone, "UTC")
		}
	}
	return &out
}
