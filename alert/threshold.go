package alert

import (
	"strconv"

	"github.com/budgetd/budgetd/budget"
)

// Kind says what a threshold watches.
type Kind string

// The kinds.
const (
	// UsedShare is crossed when Percent of the units are used or held.
	UsedShare Kind = "used_share"
	// Exhausted is crossed when nothing is left to deduct.
	Exhausted Kind = "exhausted"
	// Projected is crossed when the units would run out before their end at the rate of the last 15
	// minutes. Without an end, it is crossed when they would run out within a day.
	Projected Kind = "projected"
	// StrandedShare is crossed when Percent of the total is where it cannot be used.
	StrandedShare Kind = "stranded_share"
	// Quarantine is crossed when units of a lost store are in quarantine.
	Quarantine Kind = "quarantine"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{UsedShare, Exhausted, Projected, StrandedShare, Quarantine} }

// Of selects the units that a threshold watches.
type Of string

// The units of a threshold.
const (
	// Total selects all units of a budget, Period those of its open period, Limit what a value may
	// take.
	Total  Of = "total"
	Period Of = "period"
	Limit  Of = "limit"
)

// Threshold is a condition under which a budget needs attention.
type Threshold struct {
	Kind Kind `json:"kind"`
	// Of is empty for StrandedShare and Quarantine. Only UsedShare can watch a limit.
	Of Of `json:"of,omitzero"`
	// Percent is 1 … 100 for the shares, else 0.
	Percent int `json:"percent,omitzero"`
	// Limit is the name of a limit of one dimension, Value the watched value.
	Limit string `json:"limit,omitzero"`
	Value string `json:"value,omitzero"`
}

// The most thresholds of a budget, and the most bytes of a threshold's value.
const (
	MaxThresholds = 16
	maxValue      = 256
)

// Defaults returns the thresholds of budgets without their own.
func Defaults() []Threshold {
	return []Threshold{{Kind: UsedShare, Of: Total, Percent: 80},
		{Kind: UsedShare, Of: Total, Percent: 95}, {Kind: Exhausted, Of: Total},
		{Kind: Projected, Of: Total}, {Kind: StrandedShare, Percent: 25}, {Kind: Quarantine}}
}

// Name identifies a threshold within its budget: used_share/total/80.
func (t Threshold) Name() string {
	name := string(t.Kind)
	if t.Of != "" {
		name += "/" + string(t.Of)
	}
	if t.Of == Limit {
		name += "/" + t.Limit + "/" + t.Value
	}
	if t.Percent > 0 {
		name += "/" + strconv.Itoa(t.Percent)
	}
	return name
}

// Check returns the faulty fields of a list of thresholds.
func Check(list []Threshold) (faults []budget.FieldError) {
	add := func(field, message string) {
		faults = append(faults, budget.FieldError{Field: field, Message: message})
	}
	if len(list) > MaxThresholds {
		add("thresholds", "has more than "+strconv.Itoa(MaxThresholds)+" thresholds")
		return faults
	}
	seen := map[string]bool{}
	for i, t := range list {
		field := "thresholds[" + strconv.Itoa(i) + "]"
		if name, why := t.fault(); why != "" {
			add(field+"."+name, why)
			continue
		}
		if name := t.Name(); seen[name] {
			add(field, "appears twice: "+name)
		} else {
			seen[name] = true
		}
	}
	return faults
}

// fault returns the first faulty field of a threshold and what it must be.
func (t Threshold) fault() (field, why string) {
	share := t.Kind == UsedShare || t.Kind == StrandedShare
	laddered := t.Kind == UsedShare || t.Kind == Exhausted || t.Kind == Projected
	switch {
	case !laddered && !share && t.Kind != Quarantine:
		return "kind", "must be used_share, exhausted, projected, stranded_share or quarantine"
	case laddered && t.Of != Total && t.Of != Period && (t.Of != Limit || t.Kind != UsedShare):
		return "of", "must be total or period, or limit for used_share"
	case !laddered && t.Of != "":
		return "of", "must not be set for " + string(t.Kind)
	case share && (t.Percent < 1 || t.Percent > 100):
		return "percent", "must be 1 to 100"
	case !share && t.Percent != 0:
		return "percent", "must not be set for " + string(t.Kind)
	case t.Of != Limit && (t.Limit != "" || t.Value != ""):
		return "limit", "must not be set, nor value, unless of is limit"
	case t.Of == Limit && budget.CheckName(t.Limit) != "":
		return "limit", "must be the name of a limit"
	case t.Of == Limit && (t.Value == "" || len(t.Value) > maxValue):
		return "value", "must be 1 to 256 bytes: the value of the limit's dimension that is watched"
	}
	return "", ""
}

// Units returns the key of a threshold's units in Figures.Of. Thresholds with the same key form a
// ladder and share messages.
func (t Threshold) Units() string {
	switch t.Of {
	case "":
		return string(t.Kind)
	case Limit:
		return string(Limit) + "/" + t.Limit + "/" + t.Value
	}
	return string(t.Of)
}

// rank orders the steps of a ladder.
func (t Threshold) rank() int {
	switch t.Kind {
	case Exhausted:
		return 101 + 1
	case Projected:
		return 0
	}
	return t.Percent
}
