package wire

import (
	"cmp"
	"strings"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/limit"
)

// readLimits reads the whole list of a budget's limits. It returns nil for an absent or empty list.
func readLimits(r *strictjson.Reader, name string) []budget.Limit {
	var list []budget.Limit
	r.List(name, func(i int) strictjson.Body {
		if i > limit.MaxLimits { // package limit refuses one too many
			return nil
		}
		list = append(list, budget.Limit{Enforce: true, Measure: budget.MeasureCount})
		return &limitBody{list, i}
	})
	return list
}

// limitBody reads the limit at an index of a body. Package limit reports contradictions.
type limitBody struct {
	of []budget.Limit
	i  int
}

func (d *limitBody) Member(r *strictjson.Reader, name string) bool {
	l := &d.of[d.i]
	switch name {
	case "name":
		r.Text(name, &l.Name, nil)
	case "dimension":
		r.Text(name, &l.Dimension, nil)
	case "optional":
		r.Bool(name, &l.Optional)
	case "window":
		r.Nested(name, &windowBody{&l.Window})
	case "max":
		r.Integer(name, &l.Max, 0, budget.MaxAmount)
	case "measure":
		r.Text(name, (*string)(&l.Measure), nil)
	case "enforce":
		r.Bool(name, &l.Enforce)
	case "overrides":
		r.List(name, func(i int) strictjson.Body {
			if i > limit.MaxOverrides {
				return nil
			}
			l.Overrides = append(l.Overrides, budget.Override{})
			return &overrideBody{l.Overrides, i}
		})
	default:
		return false
	}
	return true
}

func (d *limitBody) Check(r *strictjson.Reader) {
	r.Require("name", "dimension", "window", "max")
}

// windowBody reads the window of a limit.
type windowBody struct{ *budget.LimitWindow }

func (d *windowBody) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "kind":
		r.Text(name, (*string)(&d.Kind), nil)
	case "every":
		r.Text(name, (*string)(&d.Every), notEmpty)
	case "timezone":
		r.Text(name, &d.Timezone, checkZone)
	case "anchor":
		r.Nested(name, &anchor{&d.Anchor})
	case "length":
		r.Duration(name, &d.Length)
	case "slot":
		r.Duration(name, &d.Slot)
	default:
		return false
	}
	return true
}

func (d *windowBody) Check(r *strictjson.Reader) { r.Require("kind") }

// overrideBody reads the override at an index: another bound for one value.
type overrideBody struct {
	of []budget.Override
	i  int
}

func (d *overrideBody) Member(r *strictjson.Reader, name string) bool {
	o := &d.of[d.i]
	switch name {
	case "value":
		r.Text(name, &o.Value, budget.CheckKey)
	case "values":
		r.Strings(name, &o.Values, limit.MaxDimensions, budget.CheckKey)
	case "max":
		r.Integer(name, &o.Max, 0, budget.MaxAmount)
	case "exempt":
		r.Bool(name, &o.Exempt)
	default:
		return false
	}
	return true
}

func (d *overrideBody) Check(r *strictjson.Reader) {
	if r.Seen("value") == r.Seen("values") {
		r.Invalid("",
			`must have a value, or, for a combined dimension, the values of each ("values"), not both`)
	}
	if r.Seen("max") == d.of[d.i].Exempt {
		r.Invalid("", `must have either a max or "exempt": true`)
	}
}

// mergeBelow adds faults found elsewhere, except in members that could not be read or are missing.
func mergeBelow(r *strictjson.Reader, faults []budget.FieldError) {
	for _, fault := range faults {
		if !faultAbove(r, fault.Field) {
			r.Merge([]budget.FieldError{fault})
		}
	}
}

// faultAbove reports whether a field that contains this one has a fault.
func faultAbove(r *strictjson.Reader, field string) bool {
	for {
		cut := strings.LastIndexAny(field, ".[")
		if cut < 0 {
			return false
		}
		if field = field[:cut]; r.Has(field) {
			return true
		}
	}
}

// limitView is the JSON form of a limit. It may be sent back unchanged.
type limitView struct {
	Name      string         `json:"name"`
	Dimension string         `json:"dimension"`
	Optional  bool           `json:"optional,omitzero"`
	Window    windowView     `json:"window"`
	Max       int64          `json:"max"`
	Measure   budget.Measure `json:"measure"`
	Enforce   bool           `json:"enforce"`
	Overrides []overrideView `json:"overrides,omitempty"`
}

type windowView struct {
	Kind     budget.WindowKind `json:"kind"`
	Every    budget.Every      `json:"every,omitzero"`
	Anchor   budget.Anchor     `json:"anchor,omitzero"`
	Timezone string            `json:"timezone,omitzero"`
	Length   string            `json:"length,omitzero"`
	Slot     string            `json:"slot,omitzero"`
}

type overrideView struct {
	Value  string   `json:"value,omitzero"`
	Values []string `json:"values,omitempty"`
	// Max is nil if the value is exempt.
	Max    *int64 `json:"max,omitzero"`
	Exempt bool   `json:"exempt,omitzero"`
}

func limitsOf(limits *budget.Limits) []limitView {
	if limits == nil {
		return []limitView{}
	}
	views := make([]limitView, len(limits.List))
	for i, l := range limits.List {
		w := l.Window
		if w.Kind == budget.WindowCalendar {
			w.Timezone = cmp.Or(w.Timezone, "UTC")
		}
		views[i] = limitView{Name: l.Name, Dimension: l.Dimension, Optional: l.Optional, Max: l.Max,
			Measure: l.Measure, Enforce: l.Enforce,
			Window: windowView{Kind: w.Kind, Every: w.Every, Anchor: w.Anchor, Timezone: w.Timezone,
				Length: lengthOf(w.Length),
				Slot:   lengthOf(w.Slot)}}
		for _, o := range l.Overrides {
			view := overrideView{Value: o.Value, Values: o.Values, Exempt: o.Exempt}
			if !o.Exempt {
				view.Max = &o.Max
			}
			views[i].Overrides = append(views[i].Overrides, view)
		}
	}
	return views
}

// lengthOf formats a length of time, "" for none.
func lengthOf(length time.Duration) string {
	if length == 0 {
		return ""
	}
	return strictjson.FormatDuration(length)
}

func statesOf(states []budget.LimitState) []api.LimitState {
	out := make([]api.LimitState, len(states))
	for i, s := range states {
		out[i] = api.LimitState{Name: s.Limit, Dimension: s.Dimension, Value: s.Value, Used: s.Used,
			Exempt: s.Exempt, Asked: s.Asked,
			ResetAt: InUTC(s.ResetAt)}
		if !s.Exempt {
			out[i].Max = &s.Max
		}
	}
	return out
}

// NearestOf returns the JSON form of the values that are nearest their maximum of a limit.
func NearestOf(n *bucket.Nearest) api.Nearest {
	return api.Nearest{Values: statesOf(n.Values), Read: n.Read, Complete: n.Complete}
}
