package api

import "time"

// MaxLegs is the most legs of a set.
const MaxLegs = 8

// SetRequest asks for units of several budgets of a tenant, all or none.
type SetRequest struct {
	// RequestID identifies the set permanently, within its tenant. It is no id of its budgets: a
	// deduction from one of them with the same id is another request.
	RequestID string `json:"request_id" check:"required id"`
	// Legs are 1 to 8, each of another budget.
	Legs []SetLeg `json:"legs" check:"required most=legs"`
	// Reference, HoldTTL and ExpiresAs are as in DeductRequest, for every leg.
	Reference string `json:"reference,omitzero" check:"key"`
	HoldTTL   string `json:"hold_ttl,omitzero" check:"hold_ttl"`
	ExpiresAs string `json:"expires_as,omitzero" check:"expires_as"`
	// DryRun asks what the answer would be now, and changes nothing.
	DryRun bool `json:"dry_run,omitzero"`
}

// Validate bounds the number of legs, and refuses without a hold what is about one.
func (r *SetRequest) Validate(o *Object) {
	if o.Seen("expires_as") && !o.Seen("hold_ttl") {
		o.Invalid("expires_as", `needs "hold_ttl": it is about the expiry of a hold`)
	}
	if n := len(r.Legs); o.Seen("legs") && !o.Has("legs") && (n == 0 || n > MaxLegs) {
		o.Invalid("legs", "must have 1 to %d elements", MaxLegs)
	}
}

// MaxSources is the most sources of a leg.
const MaxSources = 8

// SetLeg asks for units of one budget of a set, or of several. The other members are those of
// DeductRequest.
type SetLeg struct {
	Budget string `json:"budget,omitzero" check:"same"`
	// From are 2 to MaxSources budgets instead of Budget: what the first one has not comes from the
	// next. Split false takes all from the first one that has all.
	From       []string          `json:"from,omitempty" check:"most=sources"`
	Split      *bool             `json:"split,omitzero"`
	Amount     int64             `json:"amount" check:"required 1..max"`
	Key        string            `json:"key,omitzero" check:"key"`
	Dimensions map[string]string `json:"dimensions,omitempty" check:"most=dimensions key"`
	Counts     map[string]int64  `json:"counts,omitempty" check:"most=limits name"`
}

// Validate wants either one budget or several.
func (l *SetLeg) Validate(o *Object) {
	switch several := o.Seen("from"); {
	case several == o.Seen("budget"):
		o.Invalid("", `must have either "budget" or "from"`)
	case several && !o.Has("from") && len(l.From) < 2:
		o.Invalid("from", "must have 2 to %d elements", MaxSources)
	case several && o.Seen("counts"):
		o.Invalid("counts", `names limits of one budget, and does not go with "from"`)
	case !several && o.Seen("split"):
		o.Invalid("split", `needs "from"`)
	case !several && l.Budget == "" && !o.Has("budget"):
		o.Invalid("budget", "must not be empty")
	}
}

// SetAnswer is a set that was deducted; of a dry run it has no State.
type SetAnswer struct {
	RequestID string `json:"request_id"`
	// Outcome is "accepted", or "would_be_accepted" after a dry run.
	Outcome   string    `json:"outcome"`
	State     string    `json:"state,omitzero"`
	HoldUntil time.Time `json:"hold_until,omitzero"`
	ExpiresIn *float64  `json:"expires_in,omitzero"`
	Replayed  bool      `json:"replayed"`
	// Legs have the order of the request; then come budgets that these also charge.
	Legs []SetLegAnswer `json:"legs"`
}

// SetLegAnswer is the answer to a leg. The members are those of DeductAnswer.
type SetLegAnswer struct {
	Budget          string `json:"budget"`
	Amount          int64  `json:"amount"`
	Bucket          string `json:"bucket,omitzero"`
	BudgetRemaining *int64 `json:"budget_remaining"`
	PeriodRemaining *int64 `json:"period_remaining,omitzero"`
	Unlimited       bool   `json:"unlimited,omitzero"`
	// Charged marks a budget that the request does not name: budgets that it names also charge it.
	Charged bool `json:"charged,omitzero"`
	// Parts are what each source of the leg gave, in their order; Budget is then the first source.
	Parts  []SourcePart `json:"parts,omitempty"`
	Limits []LimitState `json:"limits"`
}

// SourcePart is what a source gave of a leg.
type SourcePart struct {
	Budget string       `json:"budget"`
	Amount int64        `json:"amount"`
	Limits []LimitState `json:"limits,omitempty"`
}

// SetRollback gives units of a set back.
type SetRollback struct {
	RequestID string `json:"request_id" check:"required id"`
	// RollbackID is as in RollbackRequest.
	RollbackID string `json:"rollback_id,omitzero" check:"id"`
	// Amounts are the parts to give back, by budget; nil means all that is left of every leg. Legs
	// that it does not name stay as they are.
	Amounts map[string]int64 `json:"amounts,omitempty" check:"most=legs name"`
}

// SetConfirm uses what a set holds.
type SetConfirm struct {
	RequestID string `json:"request_id" check:"required id"`
	// Amounts are the parts to use, by budget; the rest is given back. Legs that it does not name are
	// used as a whole.
	Amounts map[string]int64 `json:"amounts,omitempty" check:"most=legs name"`
}

// SetCancel ensures that the request id of a set has no effect.
type SetCancel struct {
	RequestID string `json:"request_id" check:"required id"`
}

// SetExtend makes the hold of a set end HoldTTL from now. ExpiresAs is as in ExtendRequest.
type SetExtend struct {
	RequestID string `json:"request_id" check:"required id"`
	HoldTTL   string `json:"hold_ttl" check:"required hold_ttl"`
	ExpiresAs string `json:"expires_as,omitzero" check:"expires_as"`
}

// Set is what is recorded of a set.
type Set struct {
	RequestID string    `json:"request_id"`
	State     string    `json:"state"`
	HoldUntil time.Time `json:"hold_until,omitzero"`
	ExpiresIn *float64  `json:"expires_in,omitzero"`
	ExpiresAs string    `json:"expires_as,omitzero"`
	Reference string    `json:"reference,omitzero"`
	CountedAt time.Time `json:"counted_at,omitzero"`
	Replayed  bool      `json:"replayed"`
	// Legs have the order of the request that was carried out; a set that never happened has none.
	Legs []SetPart `json:"legs"`
}

// SetPart is what is recorded of a leg. The members are those of Deduction.
type SetPart struct {
	Budget     string            `json:"budget"`
	State      string            `json:"state"`
	Amount     int64             `json:"amount"`
	RolledBack int64             `json:"rolled_back"`
	Confirmed  int64             `json:"confirmed,omitzero"`
	Bucket     string            `json:"bucket,omitzero"`
	Dimensions map[string]string `json:"dimensions,omitempty"`
	// Parts are what each source of the leg gave; the leg has their sums.
	Parts []SetPart `json:"parts,omitempty"`
}
