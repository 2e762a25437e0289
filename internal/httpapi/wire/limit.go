package wire

import (
	"cmp"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

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
