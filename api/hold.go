package api

import (
	"time"
)

// ConfirmRequest uses the units of a hold.
type ConfirmRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id,omitzero" check:"id"`
	// Group confirms all holds of a group, and excludes all other members.
	Group string `json:"group,omitzero" check:"id"`
	// Amount is the part to use, the rest is given back; 0 means the whole. More than is held needs
	// "above": "available" on the deduction, and so does a confirm after the expiry.
	Amount  int64  `json:"amount,omitzero" check:"1..max"`
	Receipt string `json:"receipt,omitzero" check:"key"`
}

// Validate requires a request id or a group.
func (r *ConfirmRequest) Validate(o *Object) { oneOrGroup(o, "amount") }

// ExtendRequest extends or shortens a hold.
type ExtendRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id,omitzero" check:"id"`
	// Group extends all holds of a group, and excludes RequestID and Receipt.
	Group string `json:"group,omitzero" check:"id"`
	// HoldTTL counts from the time of the call, such as "15m".
	HoldTTL string `json:"hold_ttl" check:"hold_ttl"`
	// ExpiresAs changes what the expiry does, as in DeductRequest; "" leaves it as it is.
	ExpiresAs string `json:"expires_as,omitzero" check:"expires_as"`
	Receipt   string `json:"receipt,omitzero" check:"key"`
}

// Validate requires a request id or a group, and a lifetime.
func (r *ExtendRequest) Validate(o *Object) {
	oneOrGroup(o)
	o.Require("hold_ttl")
}

// RenewRequest is one step of a stream: a hold whose amount nobody knows at the beginning.
type RenewRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id" check:"id"`
	// Step is 1 for the first step, and one more for each next one, at most 10,000.
	Step int64 `json:"step" check:"1..steps"`
	// Used became used since the last step. Hold is what to hold from now on, 0 ends the stream. Both
	// are in minor units.
	Used int64 `json:"used" check:"0..max"`
	Hold int64 `json:"hold" check:"0..max"`
	// HoldTTL counts from the time of the call, such as "30s".
	HoldTTL string `json:"hold_ttl" check:"hold_ttl"`
	Receipt string `json:"receipt,omitzero" check:"key"`
}

// Validate requires all members but the receipt.
func (r *RenewRequest) Validate(o *Object) {
	o.Require("request_id", "step", "used", "hold", "hold_ttl")
}

// Renewal is what a step of a stream did.
type Renewal struct {
	RequestID string `json:"request_id"`
	Step      int64  `json:"step"`
	// UsedTotal became used in all, with this step. Held is held now. Final means that this is less
	// than was asked for: stop when it is used.
	UsedTotal int64 `json:"used_total"`
	Held      int64 `json:"held"`
	Final     bool  `json:"final"`
	// Uncollected was used in all and the budget did not have it.
	Uncollected int64     `json:"uncollected"`
	OverLimit   bool      `json:"over_limit,omitzero"`
	HoldUntil   time.Time `json:"hold_until"`
	// ExpiresIn is as in DeductAnswer.
	ExpiresIn float64 `json:"expires_in"`
	Replayed  bool    `json:"replayed"`
}

// oneOrGroup requires a request id or a group, and refuses members of single holds with a group.
func oneOrGroup(o *Object, single ...string) {
	if !o.Seen("group") {
		o.Require("request_id")
		return
	}
	for _, name := range append([]string{"request_id", "receipt"}, single...) {
		if o.Seen(name) {
			o.Invalid(name, `cannot stand beside "group", which names all of its holds`)
		}
	}
}

// Group is the deductions of a group, by request id.
type Group struct {
	Group      string      `json:"group"`
	Deductions []Deduction `json:"deductions"`
}

// OpenHold is a hold that is neither confirmed nor given back. Amount is what is still held, in
// minor units.
type OpenHold struct {
	RequestID string    `json:"request_id"`
	Group     string    `json:"group,omitzero"`
	Amount    int64     `json:"amount"`
	Bucket    string    `json:"bucket"`
	HeldAt    time.Time `json:"held_at"`
	HoldUntil time.Time `json:"hold_until"`
	// ExpiresIn is as in DeductAnswer.
	ExpiresIn float64 `json:"expires_in"`
}

// HoldList lists open holds.
type HoldList struct {
	Holds []OpenHold `json:"holds"`
}
