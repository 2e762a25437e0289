package main

import (
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/client"
)

// place decides how overrides get to the limits of a budget that exists, so that no value is ever
// judged by a maximum that it has neither before nor after. A limit that goes on counting gets them
// before it changes, and loses the others afterwards. Any other limit gets them in the call that
// changes it. If they are too many for that, it must be a new one, which refuses nothing until it
// has them. after are the limits of the file, full the same with what the server completes.
func (d *applied) place(after, full []client.Limit) error {
	late := false
	for i := range d.own {
		m := &d.own[i]
		was, is := limitNamed(d.before.Limits, m.limit), limitNamed(full, m.limit)
		if was != nil && textOf(counting(was)) == textOf(counting(is)) {
			continue
		}
		wanted, to := limitNamed(after, m.limit), limitNamed(d.patch.Limits, m.limit)
		m.set, m.remove = nil, nil
		switch {
		case len(wanted.Overrides) <= overridesAtOnce:
			to.Overrides = wanted.Overrides
		case was != nil:
			return fmt.Errorf("limit %s: it is to count otherwise, with more than %s overrides: give it "+
				"another name", m.limit, grouped(overridesAtOnce))
		default:
			m.set, m.fresh = wanted.Overrides, true
			if is.Enforce == nil || *is.Enforce {
				to.Enforce, late = new(bool), true
			}
		}
	}
	if late {
		d.then = &client.PatchRequest{Limits: bare(after)}
		d.Lines = append(d.Lines, "a new limit refuses nothing until its overrides are set")
	}
	return nil
}

// limitNamed returns the limit of a name, or nil.
func limitNamed(list []client.Limit, name string) *client.Limit {
	i := slices.IndexFunc(list, func(l client.Limit) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// counting returns what decides whether a changed limit goes on counting as before.
func counting(l *client.Limit) client.Limit {
	return client.Limit{Dimension: l.Dimension, Window: l.Window, Measure: l.Measure}
}
