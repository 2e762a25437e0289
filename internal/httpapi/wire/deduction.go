package wire

import (
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/ledger"
	"github.com/go-json-experiment/json/jsontext"
)

// Deduction is the body of a deduct.
type Deduction struct {
	Request bucket.DeductRequest
	DryRun  bool
}

func (d *Deduction) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "request_id":
		r.Text(name, &d.Request.RequestID, budget.CheckRequestID)
	case "amount":
		r.Amount(name, &d.Request.Amount)
	case "key":
		r.Text(name, &d.Request.Key, budget.CheckKey)
	case "dimensions":
		r.Texts(name, &d.Request.Dimensions, budget.MaxDimensions, budget.CheckKey)
	case "reference":
		r.Text(name, &d.Request.Reference, budget.CheckKey)
	case "dry_run":
		r.Bool(name, &d.DryRun)
	case "counts":
		readCounts(r, name, &d.Request.Counts)
	case "hold_ttl":
		readHold(r, name, &d.Request.HoldTTL)
	case "group":
		r.Text(name, &d.Request.Group, budget.CheckRequestID)
	default:
		return false
	}
	return true
}

func (d *Deduction) Check(r *strictjson.Reader) {
	r.Require("request_id", "amount")
	if r.Seen("group") && !r.Seen("hold_ttl") {
		r.Invalid("group", `needs "hold_ttl": it names holds that are confirmed or rolled back together`)
	}
}

// GiveBack is the body of a rollback, or of a cancel, which has no amount.
type GiveBack struct {
	Whole                 bool
	RequestID, RollbackID string
	Receipt, Group, Key   string
	// NoKey says that the key is there and empty: the deduction had none.
	NoKey      bool
	Dimensions map[string]string
	Amount     int64
}

func (d *GiveBack) Member(r *strictjson.Reader, name string) bool {
	switch {
	case name == "request_id":
		r.Text(name, &d.RequestID, budget.CheckRequestID)
	case name == "receipt":
		r.Text(name, &d.Receipt, budget.CheckKey)
	case name == "key":
		r.Text(name, &d.Key, CheckOptionalKey)
	case name == "dimensions":
		r.Texts(name, &d.Dimensions, budget.MaxDimensions, budget.CheckKey)
	case d.Whole:
		return false
	case name == "rollback_id":
		r.Text(name, &d.RollbackID, budget.CheckRequestID)
	case name == "amount":
		r.Amount(name, &d.Amount)
	case name == "group":
		r.Text(name, &d.Group, budget.CheckRequestID)
	default:
		return false
	}
	return true
}

func (d *GiveBack) Check(r *strictjson.Reader) {
	(&holdTarget{}).check(r, "amount", "rollback_id", "key", "dimensions")
	d.NoKey = r.Seen("key") && d.Key == ""
	if r.Seen("dimensions") && d.Dimensions == nil {
		d.Dimensions = map[string]string{}
	}
}

// Request returns what the body asks for.
func (d *GiveBack) Request(of bucket.BudgetRef) bucket.RollbackRequest {
	return bucket.RollbackRequest{
		Budget:     of,
		RequestID:  d.RequestID,
		RollbackID: d.RollbackID,
		Amount:     d.Amount,
		Receipt:    d.Receipt,
		Key:        d.Key,
		NoKey:      d.NoKey,
		Dimensions: d.Dimensions,
	}
}

// CheckOptionalKey is budget.CheckKey for the key of an earlier deduction, which is "" if that had
// none.
func CheckOptionalKey(text string) string {
	if text == "" {
		return ""
	}
	return budget.CheckKey(text)
}

// Accepted is the answer to a deduct. Quantities are minor units.
type Accepted struct {
	RequestID string       `json:"request_id"`
	Outcome   string       `json:"outcome"`
	Amount    int64        `json:"amount"`
	State     ledger.State `json:"state"`
	Bucket    string       `json:"bucket"`
	// BucketRemaining and BudgetRemaining are null for an unlimited budget, and if they could not be
	// read in time. They are never figures from before the deduction.
	BucketRemaining *int64           `json:"bucket_remaining"`
	BudgetRemaining *int64           `json:"budget_remaining"`
	PeriodRemaining *int64           `json:"period_remaining,omitzero"`
	Unlimited       bool             `json:"unlimited,omitzero"`
	HoldUntil       time.Time        `json:"hold_until,omitzero"`
	Limits          []api.LimitState `json:"limits"`
	Receipt         string           `json:"receipt"`
	Replayed        bool             `json:"replayed"`
}

// AcceptedOf returns the JSON form of d. It shares d's figures.
func AcceptedOf(d *bucket.DeductAnswer) Accepted {
	a := Accepted{
		RequestID: d.RequestID, Outcome: "accepted", Amount: d.Amount, State: d.State, Bucket: d.Bucket,
		PeriodRemaining: d.PeriodRemaining, Unlimited: d.Unlimited, HoldUntil: InUTC(d.HoldUntil),
		Limits: statesOf(d.Limits), Receipt: d.Receipt, Replayed: d.Replayed,
	}
	if d.Unlimited {
		return a
	}
	if !d.RemainingUnknown {
		a.BucketRemaining = &d.BucketRemaining
	}
	if d.FiguresUnknown {
		a.PeriodRemaining = nil
	} else {
		a.BudgetRemaining = &d.BudgetRemaining
	}
	return a
}

// deductionView is the record of a request id. A tombstone has neither amount nor bucket.
type deductionView struct {
	RequestID  string         `json:"request_id"`
	State      ledger.State   `json:"state"`
	Amount     int64          `json:"amount"`
	RolledBack int64          `json:"rolled_back"`
	Confirmed  int64          `json:"confirmed,omitzero"`
	HoldUntil  time.Time      `json:"hold_until,omitzero"`
	Group      string         `json:"group,omitzero"`
	Bucket     string         `json:"bucket,omitzero"`
	Dimensions jsontext.Value `json:"dimensions,omitzero"`
	Reference  string         `json:"reference,omitzero"`
	CountedAt  time.Time      `json:"counted_at,omitzero"`
	Receipt    string         `json:"receipt,omitzero"`
	Replayed   bool           `json:"replayed"`
}

// DeductionOf returns the body that shows d.
func DeductionOf(d *bucket.DeductionView) *deductionView {
	v := &deductionView{
		RequestID: d.RequestID, State: d.State, Amount: d.Amount, RolledBack: d.RolledBack,
		Confirmed: d.Confirmed, HoldUntil: InUTC(d.HoldUntil), Group: d.Group,
		Bucket: d.Bucket, Reference: d.Reference,
		CountedAt: InUTC(d.CountedAt), Receipt: d.Receipt, Replayed: d.Replayed,
	}
	if d.Dimensions != "" {
		v.Dimensions = jsontext.Value(d.Dimensions)
	}
	return v
}
