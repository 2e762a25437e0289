package api

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Limit bounds what each value of a dimension may take in a window: one person, device or ad.
type Limit struct {
	// Name is unique within the budget: [a-z][a-z0-9-]{0,62}.
	Name string `json:"name" check:"required"`
	// Dimension is what is bounded, "user", or several joined by "+", "user+ad".
	Dimension string `json:"dimension" check:"required"`
	// Optional exempts deductions without the dimension; otherwise they are invalid.
	Optional bool   `json:"optional,omitzero"`
	Window   Window `json:"window" check:"required"`
	// Max is the most per value and window, in calls or minor units: 0 … 9007199254740991.
	Max int64 `json:"max" check:"required 0..max"`
	// Measure says what is counted; "" means calls.
	Measure budget.Measure `json:"measure,omitzero" check:"measure"`
	// Enforce false counts and never refuses, even above Max; nil means true.
	Enforce *bool `json:"enforce,omitzero"`
	// Overrides are all overrides of a new definition. With nil a changed limit keeps those that it
	// has, unless its dimension changes. Answers do not have it.
	Overrides []Override `json:"overrides,omitzero" check:"most=overrides"`
	// OverrideCount is how many overrides the limit has. Requests may repeat it; it changes nothing.
	OverrideCount int64 `json:"override_count,omitzero" check:"0..max"`
}

// Window is the time over which a limit counts.
type Window struct {
	Kind budget.WindowKind `json:"kind" check:"required"`
	// Every, Anchor and Timezone (IANA; "" means the budget's) belong to calendar windows.
	Every    budget.Every  `json:"every,omitzero" check:"word"`
	Anchor   budget.Anchor `json:"anchor,omitzero"`
	Timezone string        `json:"timezone,omitzero" check:"zone"`
	// Length belongs to sliding and first_hit windows, Slot to sliding ones: Go's units, the larger
	// first, and d for 24 hours: "5s", "8h", "1d12h".
	Length string `json:"length,omitzero" check:"length"`
	Slot   string `json:"slot,omitzero" check:"length"`
}

// Override replaces the bound for one value of a limit's dimension.
type Override struct {
	// Value is the dimension's; for a combined dimension Values has one for each.
	Value  string   `json:"value,omitzero" check:"key"`
	Values []string `json:"values,omitempty" check:"most=combined key"`
	// Max is the bound; Exempt removes it.
	Max    *int64 `json:"max,omitzero" check:"0..max"`
	Exempt bool   `json:"exempt,omitzero"`
}

// Validate requires one value or several, and either a bound or an exemption.
func (v *Override) Validate(o *Object) {
	if o.Seen("value") == o.Seen("values") {
		o.Invalid("",
			`must have a value, or, for a combined dimension, the values of each ("values"), not both`)
	}
	if o.Seen("max") == v.Exempt {
		o.Invalid("", `must have either a max or "exempt": true`)
	}
}

// OverridesRequest sets one override, or those in Overrides.
type OverridesRequest struct {
	Value  string   `json:"value,omitzero" check:"key"`
	Values []string `json:"values,omitempty" check:"most=combined key"`
	Max    *int64   `json:"max,omitzero" check:"0..max"`
	Exempt bool     `json:"exempt,omitzero"`
	// Overrides are 1 to 1,000.
	Overrides []Override `json:"overrides,omitzero" check:"most=overrides"`
}

// Validate requires either one override or a list.
func (r *OverridesRequest) Validate(o *Object) {
	if !o.Seen("overrides") {
		one := r.One()
		one.Validate(o)
		return
	}
	if len(r.Overrides) == 0 && !o.Has("overrides") {
		o.Invalid("overrides", "must not be empty")
	}
	for _, name := range []string{"value", "values", "max", "exempt"} {
		if o.Seen(name) {
			o.Invalid(name, "does not go together with overrides")
		}
	}
}

// One returns the override that is not in a list.
func (r *OverridesRequest) One() Override {
	return Override{Value: r.Value, Values: r.Values, Max: r.Max, Exempt: r.Exempt}
}

// OverridePage is a part of the overrides of a limit.
type OverridePage struct {
	Overrides []Override `json:"overrides"`
	// OverrideCount is how many the limit has.
	OverrideCount int64 `json:"override_count"`
	// NextPageToken requests the next page; "" on the last page.
	NextPageToken string `json:"next_page_token,omitzero"`
}

// Nearest lists the values that have used the largest shares of their maximums of a limit.
type Nearest struct {
	// Values leave out exempt values and those without usage. The largest share is first.
	Values []LimitState `json:"values"`
	// Read is how many values were read, at most 10,000. Complete says that no other value can have
	// usage. It is false while the window contains a change of what the limit counts: values without
	// a deduction since then are missing.
	Read     int  `json:"read"`
	Complete bool `json:"complete"`
}

// LimitState is the usage of a limit by one value, in calls or minor units.
type LimitState struct {
	Name      string `json:"name"`
	Dimension string `json:"dimension"`
	// Value is the dimension's; those of a combined one are joined by "+".
	Value string `json:"value"`
	Used  int64  `json:"used"`
	// Max is nil if the value is exempt.
	Max    *int64 `json:"max,omitzero"`
	Exempt bool   `json:"exempt,omitzero"`
	// Asked is what a refused request would have counted; 0 otherwise.
	Asked int64 `json:"asked,omitzero"`
	// ResetAt is when the window ends; for a sliding one, when its oldest slot leaves it. For an
	// exceeded limit it is the first instant at which the request fits. Zero means never.
	ResetAt time.Time `json:"reset_at,omitzero"`
}
