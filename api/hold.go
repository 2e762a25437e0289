package api

import (
	"time"
)

// ConfirmRequest uses the units of a hold.
type ConfirmRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id,omitzero"`
	// Group confirms all holds of a group, and excludes all other members.
	Group string `json:"group,omitzero"`
	// Amount is the part to use, the rest is given back; 0 means the whole.
	Amount  int64  `json:"amount,omitzero"`
	Receipt string `json:"receipt,omitzero"`
}

// ExtendRequest extends or shortens a hold.
type ExtendRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id,omitzero"`
	// Group extends all holds of a group, and excludes RequestID and Receipt.
	Group string `json:"group,omitzero"`
	// HoldTTL counts from the time of the call, such as "15m".
	HoldTTL string `json:"hold_ttl"`
	Receipt string `json:"receipt,omitzero"`
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
}

// HoldList lists open holds.
type HoldList struct {
	Holds []OpenHold `json:"holds"`
}
