package api

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// BatchItem is one deduction of a batch.
type BatchItem struct {
	Budget        string `json:"budget" check:"required same"`
	DeductRequest `json:",inline"`
}

// DeductBody is the body of a deduct.
type DeductBody struct {
	DeductRequest `json:",inline"`
	// DryRun asks what the answer would be now, and changes nothing.
	DryRun bool `json:"dry_run,omitzero"`
}

// DeductRequest asks for units of a budget.
type DeductRequest struct {
	// RequestID identifies the deduction permanently: 1-128 bytes of UTF-8 without control
	// characters. See NewRequestID.
	RequestID string `json:"request_id" check:"required id"`
	// Amount is in minor units, 1 … 9007199254740991.
	Amount int64 `json:"amount" check:"required 1..max"`
	// Key routes the request to a bucket; "" routes it by the request id.
	Key string `json:"key,omitzero" check:"key"`
	// Dimensions say whom the deduction is for, such as {"user": "u1"}. They are recorded, and
	// limits count by them.
	Dimensions map[string]string `json:"dimensions,omitempty" check:"most=dimensions key"`
	// Counts are the request's own amounts by limit name; 0 counts nothing.
	Counts map[string]int64 `json:"counts,omitempty" check:"most=limits name"`
	// Reference is the caller's note, recorded.
	Reference string `json:"reference,omitzero" check:"key"`
	// HoldTTL makes a hold, which expires after this time unless it is confirmed, and then gives
	// its units back: 1 ms to 366 days, such as "15m"; "" uses the units at once.
	HoldTTL string `json:"hold_ttl,omitzero" check:"hold_ttl"`
	// Group names holds that are confirmed or rolled back together: 1-128 bytes.
	Group string `json:"group,omitzero" check:"id"`
	// Above says what a confirm of more than is held does: "refuse", the default, or "available",
	// which takes the rest from what the budget has left.
	Above string `json:"above,omitzero" check:"above"`
	// ExpiresAs says what the expiry of the hold does: "released", the default, gives its units back;
	// "used" confirms them, for calls that surely went out. One late confirm may correct that.
	ExpiresAs string `json:"expires_as,omitzero" check:"expires_as"`
}

// Validate refuses without a hold what is about one.
func (r *DeductRequest) Validate(o *Object) {
	if o.Seen("hold_ttl") {
		return
	}
	if o.Seen("group") {
		o.Invalid("group", `needs "hold_ttl": it names holds that are confirmed or rolled back together`)
	}
	if o.Seen("above") {
		o.Invalid("above", `needs "hold_ttl": it is about the confirm of a hold`)
	}
	if o.Seen("expires_as") {
		o.Invalid("expires_as", `needs "hold_ttl": it is about the expiry of a hold`)
	}
}

// DeductAnswer is an accepted deduction.
type DeductAnswer struct {
	RequestID string `json:"request_id"`
	// Outcome is "accepted".
	Outcome string `json:"outcome"`
	Amount  int64  `json:"amount"`
	// State is the present state of the deduction, even in a replay: "used" or "held".
	State  string `json:"state"`
	Bucket string `json:"bucket"`
	// BucketRemaining is what the serving bucket still holds, in minor units. It is nil if Unlimited,
	// and if it could not be read in time.
	BucketRemaining *int64 `json:"bucket_remaining"`
	// BudgetRemaining is what the whole budget still holds after the deduction, except for changes
	// of other nodes within the last second. It is nil if Unlimited, and if it could not be read in
	// time.
	BudgetRemaining *int64 `json:"budget_remaining"`
	// PeriodRemaining is what the open period of a daily budget still holds; nil for other budgets,
	// and if it could not be read in time.
	PeriodRemaining *int64 `json:"period_remaining,omitzero"`
	// Unlimited means that the budget has no total.
	Unlimited bool `json:"unlimited,omitzero"`
	// HoldUntil is when a hold expires, by the database's clock.
	HoldUntil time.Time `json:"hold_until,omitzero"`
	// ExpiresIn is the seconds from the answer until HoldUntil, by the database's clock, rounded down
	// to milliseconds; 0 if nothing is held any more, nil if there is no HoldUntil.
	ExpiresIn *float64 `json:"expires_in,omitzero"`
	// Limits are those that it counts for, and their usage.
	Limits []LimitState `json:"limits"`
	// Receipt helps a later rollback or cancel to find the deduction; it is opaque.
	Receipt string `json:"receipt"`
	// Legs is what a budget that charges others took from these too.
	Legs []ChargedLeg `json:"legs,omitempty"`
	// Replayed means that the request id was known, from an earlier call or an earlier attempt of
	// this one.
	Replayed bool `json:"replayed"`
	// Attempts is the number of attempts until this answer.
	Attempts int `json:"-"`
}

// ChargedLeg is what a deduction took from a budget that its own budget also charges.
type ChargedLeg struct {
	Budget string `json:"budget"`
	Amount int64  `json:"amount"`
}

// RollbackRequest gives a deduction's units back.
type RollbackRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id,omitzero" check:"id"`
	// Group gives back every hold of a group, and excludes all other members.
	Group string `json:"group,omitzero" check:"id"`
	// Amount is the part to give back; 0 means all that is left.
	Amount int64 `json:"amount,omitzero" check:"1..max"`
	// RollbackID names the rollback; "" means the rollback of the whole. The same id again replays.
	RollbackID string `json:"rollback_id,omitzero" check:"id"`
	// Key and Dimensions are the deduction's, NoKey means that it had no key, and Receipt is from its
	// answer. Store mode needs one of Key, NoKey and Receipt, and of a budget with a routing dimension
	// its value in Key or Dimensions, or the receipt. DeductRequest.Return sets what is needed.
	Key        string            `json:"key,omitzero" check:"optional_key"`
	NoKey      bool              `json:"-"`
	Dimensions map[string]string `json:"dimensions,omitzero" check:"most=dimensions key"`
	Receipt    string            `json:"receipt,omitzero" check:"key"`
}

// Validate requires a request id or a group. It sets NoKey for an empty key, and Dimensions for
// empty ones.
func (r *RollbackRequest) Validate(o *Object) {
	oneOrGroup(o, "amount", "rollback_id", "key", "dimensions")
	r.NoKey, r.Dimensions = found(o, r.Key, r.Dimensions)
}

// found returns whether the deduction had no key, and its dimensions.
func found(o *Object, key string, of map[string]string) (noKey bool, all map[string]string) {
	if o.Seen("dimensions") && of == nil {
		of = map[string]string{}
	}
	return o.Seen("key") && key == "", of
}

// CancelRequest ensures that a request id has no effect.
type CancelRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id" check:"required id"`
	// Key, NoKey, Dimensions and Receipt find the deduction; see RollbackRequest.
	// DeductRequest.Cancellation sets what is needed.
	Key        string            `json:"key,omitzero" check:"optional_key"`
	NoKey      bool              `json:"-"`
	Dimensions map[string]string `json:"dimensions,omitzero" check:"most=dimensions key"`
	Receipt    string            `json:"receipt,omitzero" check:"key"`
}

// Validate sets NoKey for an empty key, and Dimensions for empty ones.
func (r *CancelRequest) Validate(o *Object) {
	r.NoKey, r.Dimensions = found(o, r.Key, r.Dimensions)
}

// Deduction is the ledger's record of a request id. Quantities are minor units.
type Deduction struct {
	RequestID string `json:"request_id"`
	// State is "used", "held", "rolled_back", "expired", or "void" if it never happened and never
	// will.
	State      string `json:"state"`
	Amount     int64  `json:"amount"`
	RolledBack int64  `json:"rolled_back"`
	// Confirmed is what a confirm used, of the hold and above it; HoldUntil is the expiry of the hold,
	// Group its group. ExpiresIn is as in DeductAnswer. Above is as in DeductRequest, nothing for
	// "refuse".
	Confirmed int64  `json:"confirmed,omitzero"`
	Above     string `json:"above,omitzero"`
	// ExpiresAs is as in DeductRequest, nothing for "released".
	ExpiresAs string `json:"expires_as,omitzero"`
	// Extra is the part of Confirmed above the hold, and Uncollected what the confirm asked for and
	// the budget did not have.
	Extra       int64 `json:"extra,omitzero"`
	Uncollected int64 `json:"uncollected,omitzero"`
	// OverLimit means that a limit would have refused Extra as a deduction of its own.
	OverLimit bool `json:"over_limit,omitzero"`
	// Late means that the hold was confirmed after it had expired.
	Late       bool              `json:"late,omitzero"`
	HoldUntil  time.Time         `json:"hold_until,omitzero"`
	ExpiresIn  *float64          `json:"expires_in,omitzero"`
	Group      string            `json:"group,omitzero"`
	Bucket     string            `json:"bucket,omitzero"`
	Dimensions map[string]string `json:"dimensions,omitempty"`
	Reference  string            `json:"reference,omitzero"`
	// CountedAt is when the deduction was committed, by the database's clock.
	CountedAt time.Time `json:"counted_at,omitzero"`
	// Receipt helps a later rollback or cancel to find the deduction; it is opaque.
	Receipt string `json:"receipt,omitzero"`
	// Replayed means that the rollback was known and nothing was given back again.
	Replayed bool `json:"replayed"`
}

// Cancellation returns the cancel of the request, which finds it wherever it was routed.
func (r DeductRequest) Cancellation() CancelRequest {
	return CancelRequest{
		RequestID:  r.RequestID,
		Key:        r.Key,
		NoKey:      r.Key == "",
		Dimensions: r.allDimensions(),
	}
}

// Return returns the rollback of the whole request, which finds it wherever it was routed.
func (r DeductRequest) Return() RollbackRequest {
	return RollbackRequest{
		RequestID:  r.RequestID,
		Key:        r.Key,
		NoKey:      r.Key == "",
		Dimensions: r.allDimensions(),
	}
}

// allDimensions returns the dimensions, {} instead of nil: it has no others.
func (r DeductRequest) allDimensions() map[string]string {
	if r.Dimensions == nil {
		return map[string]string{}
	}
	return r.Dimensions
}

// MarshalJSONTo implements json.MarshalerTo: NoKey is an empty key.
func (r RollbackRequest) MarshalJSONTo(out *jsontext.Encoder) error {
	type plain RollbackRequest // without this method
	if !r.NoKey || r.Key != "" {
		return json.MarshalEncode(out, plain(r))
	}
	return json.MarshalEncode(out, struct {
		plain `json:",inline"`
		Key   string `json:"key"`
	}{plain: plain(r)})
}

// MarshalJSONTo implements json.MarshalerTo: NoKey is an empty key.
func (r CancelRequest) MarshalJSONTo(out *jsontext.Encoder) error {
	type plain CancelRequest // without this method
	if !r.NoKey || r.Key != "" {
		return json.MarshalEncode(out, plain(r))
	}
	return json.MarshalEncode(out, struct {
		plain `json:",inline"`
		Key   string `json:"key"`
	}{plain: plain(r)})
}
