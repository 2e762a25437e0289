package limit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
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

// UnknownZone returns Unavailable for a definition with time zones that the zone data of this
// version lack, else nil. A node of another version wrote it, or this one was installed in place of
// a newer one. Nothing may be decided in another zone.
func UnknownZone(op string, d budget.Definition) *budget.Error {
	var unknown []string
	look := func(field, zone string) {
		if _, err := iana.Zone(zone); err != nil {
			unknown = append(unknown, fmt.Sprintf("%s %q", field, zone))
		}
	}
	look("timezone", d.Timezone)
	if d.Limits != nil {
		for i, l := range d.Limits.List {
			look(fmt.Sprintf("limits[%d].window.timezone", i), l.Window.Timezone)
		}
	}
	if unknown == nil {
		return nil
	}
	e := budget.Refuse(budget.Unavailable, op, "budget %d has %s, which release %s of the time zones "+
		"lacks: upgrade this node, or change the budget", d.ID, strings.Join(unknown, " and "),
		iana.Release())
	e.Reason = budget.ReasonUnknownZone
	return e
}
