package budget

import (
	"fmt"
	"time"
)

// Unit says what a budget counts.
type Unit string

// The units.
const (
	Count  Unit = "count"
	Amount Unit = "amount"
)

// Type says when the units are handed out.
type Type string

// Promo hands out everything at once.
const Promo Type = "promo"

// Durability says when a caller hears "accepted": see DESIGN 2.
type Durability string

// The durabilities.
const (
	// Ledger: after the deduction is in the ledger, i.e. after the SQL commit.
	Ledger Durability = "ledger"
	// Store: after the store's script; the ledger follows, never further behind than the window.
	Store Durability = "store"
)

// OnLoss says what becomes of units whose store lost its memory, in store mode: see DESIGN 6.
type OnLoss string

// What becomes of units whose store lost its memory.
const (
	// Quarantine: an operator decides. Nothing is sold twice.
	Quarantine OnLoss = "quarantine"
	// AssumeUnused: they return to the total. What was sold of them since the last sync is sold
	// twice, at most at_risk.
	AssumeUnused OnLoss = "assume_unused"
)

// Bounds of a definition.
const (
	MaxBuckets = 1024
	// MaxDefaultBuckets is the most buckets of a budget whose maker gives no number.
	MaxDefaultBuckets = 64
	// UnitsPerBucketCount and UnitsPerBucketAmount size the buckets of a budget whose maker gives
	// no number: one per 1,000 counted units or per 1,000,000 minor units of money that a period
	// gets.
	UnitsPerBucketCount  = 1_000
	UnitsPerBucketAmount = 1_000_000
)

// Status is where a budget stands by the clock, or paused by an operator.
type Status string

// The statuses.
const (
	Pending   Status = "pending"
	Effective Status = "effective"
	Paused    Status = "paused"
	Expired   Status = "expired"
)

// Definition is what an operator decides of a budget. Quantities are minor units. Zero times mean
// "from the beginning" and "without an end".
type Definition struct {
	ID         int64
	Tenant     string
	Name       string
	GLCode     string
	Unit       Unit
	Durability Durability
	Type       Type
	// Rule says what the periods of a daily budget are; nil for promo. It is never changed in
	// place.
	Rule *Rule
	// Timezone is the IANA zone of the periods; "": UTC.
	Timezone string
	// LateRefund is where a refund goes whose period is over; "": ToTotal.
	LateRefund Where
	// OnLoss is what becomes of units whose store lost its memory (store mode); "": Quarantine.
	OnLoss OnLoss
	// Unlimited: there is no total (TotalQuantity is 0) and no balance; only the limits bound what
	// is deducted.
	Unlimited bool
	// RoutingDimension is the dimension whose value picks the bucket where a request has no key;
	// "": the request id does. In store mode its value picks the bucket whatever the key is, and
	// limits are on it alone.
	RoutingDimension string
	// Limits bound what each value of a dimension may take; nil: there are none. Never changed in
	// place.
	Limits *Limits
	// TotalQuantity is T; appends and shrinks change it.
	TotalQuantity int64
	// BucketQuantity is the number of buckets.
	BucketQuantity int
	// ShardingQuantity is the most that one ordinary apply may take; 0: no bound.
	ShardingQuantity int64
	// AdjustCnt is how often one bucket may apply in an epoch; 0: no bound.
	AdjustCnt int
	StartAt   time.Time
	EndAt     time.Time
	// AllowPast accepts an EndAt that has passed. It is part of a create and is not kept.
	AllowPast bool
	// DryRun makes nothing. It is part of a create, too.
	DryRun bool
	Paused bool
	// Version grows with every change of the definition (I8); it is the ETag.
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// StatusAt returns the status at an instant: paused goes before the clock, the end is exclusive.
func (d Definition) StatusAt(now time.Time) Status {
	switch {
	case !d.EndAt.IsZero() && !now.Before(d.EndAt):
		return Expired
	case d.Paused:
		return Paused
	case !d.StartAt.IsZero() && now.Before(d.StartAt):
		return Pending
	default:
		return Effective
	}
}

// RefusalAt returns why nothing can be deducted at an instant, or nil when the budget is effective:
// BudgetExpired, which is Never; BudgetPaused, which nobody knows the end of; BudgetNotEffective
// with StartAt and RetryAfter.
func (d Definition) RefusalAt(now time.Time) *Error {
	switch d.StatusAt(now) {
	case Expired:
		e := Refuse(BudgetExpired, "deduct", "budget %s ended at %s", d.Name,
			d.EndAt.Format(time.RFC3339))
		e.Never = true
		return e
	case Paused:
		return Refuse(BudgetPaused, "deduct", "budget %s is paused until an operator resumes it; "+
			"when that will be is not known", d.Name)
	case Pending:
		e := Refuse(BudgetNotEffective, "deduct", "budget %s starts at %s", d.Name,
			d.StartAt.Format(time.RFC3339))
		e.StartAt, e.RetryAfter = d.StartAt, d.StartAt.Sub(now)
		return e
	}
	return nil
}

// DefaultBuckets returns how many buckets a budget gets when its maker gives no number: one per
// 1,000 counted units or 1,000,000 minor units of what its first period gets, rounded up; where
// that is more than there are lanes, up to a multiple of them, so that each gets the same number;
// at least 1, at most MaxDefaultBuckets. An unlimited budget gets one per lane.
// DefaultBuckets(Count, 10_000, 1) is 10, DefaultBuckets(Count, 10_000, 3) is 12.
func DefaultBuckets(unit Unit, period int64, lanes int) int {
	per := int64(UnitsPerBucketCount)
	if unit == Amount {
		per = UnitsPerBucketAmount
	}
	n, each := max((period-1)/per+1, 1), int64(max(lanes, 1))
	if n > each && n%each > 0 {
		n += each - n%each
	}
	return int(min(n, MaxDefaultBuckets))
}

// Instants outside these years are refused: every engine, JSON and RFC 3339 agree within them.
const minYear, maxYear = 1970, 9998

// Check returns every fault of a new definition, one per field, nil if there is none. It is pure:
// the same definition always gives the same answer.
func (d Definition) Check() []FieldError {
	var faults []FieldError
	fault := func(field, format string, args ...any) {
		faults = append(faults, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if why := CheckName(d.Tenant); why != "" {
		fault("tenant", "%s", why)
	}
	if why := CheckName(d.Name); why != "" {
		fault("name", "%s", why)
	}
	if d.GLCode != "" {
		if why := CheckRequestID(d.GLCode); why != "" {
			fault("gl_code", "%s", why)
		}
	}
	if d.Unit != Count && d.Unit != Amount {
		fault("unit", `must be "count" or "amount"`)
	}
	if d.Durability != Ledger && d.Durability != Store {
		fault("durability", `must be "ledger" or "store"`)
	}
	if d.Type != Promo && d.Type != Daily {
		fault("type", `must be "promo" or "daily"`)
	}
	switch {
	case d.Unlimited && d.TotalQuantity != 0:
		fault("total_quantity", "does not belong to an unlimited budget")
	case !d.Unlimited && !ValidAmount(d.TotalQuantity):
		fault("total_quantity", "must be 1 to %d", MaxAmount)
	}
	switch d.OnLoss {
	case "", Quarantine:
	case AssumeUnused:
		if d.Durability != Store {
			fault("on_loss", `belongs to durability "store" only`)
		}
	default:
		fault("on_loss", `must be "quarantine" or "assume_unused"`)
	}
	if d.BucketQuantity < 1 || d.BucketQuantity > MaxBuckets {
		fault("bucket_quantity", "must be 1 to %d", MaxBuckets)
	}
	if d.ShardingQuantity != 0 && !ValidAmount(d.ShardingQuantity) {
		fault("sharding_quantity", "must be 1 to %d, or absent for no bound", MaxAmount)
	}
	if d.AdjustCnt < 0 || d.AdjustCnt > 1_000_000_000 {
		fault("adjust_cnt", "must be 0 (no bound) to 1000000000")
	}
	return append(faults, CheckSpan(d.StartAt, d.EndAt)...)
}

// CheckEnd returns what is wrong with an end that was given at an instant: it has passed.
func CheckEnd(end, now time.Time) []FieldError {
	if end.IsZero() || end.After(now) {
		return nil
	}
	return []FieldError{{"end_at", fmt.Sprintf("has passed: it is %s now; "+
		"give a later end, or allow_past (--allow-past) if that is what you want",
		now.UTC().Format(time.RFC3339))}}
}

// CheckSpan returns what is wrong with a budget's first and last instant: out of range, or an end
// that does not follow the start.
func CheckSpan(start, end time.Time) []FieldError {
	var faults []FieldError
	for _, f := range []struct {
		field string
		at    time.Time
	}{{"start_at", start}, {"end_at", end}} {
		if !f.at.IsZero() && (f.at.UTC().Year() < minYear || f.at.UTC().Year() > maxYear) {
			faults = append(faults, FieldError{f.field,
				fmt.Sprintf("must lie in the years %d to %d", minYear, maxYear)})
		}
	}
	if !start.IsZero() && !end.IsZero() && !end.After(start) {
		faults = append(faults, FieldError{"end_at", "must be after start_at"})
	}
	return faults
}
