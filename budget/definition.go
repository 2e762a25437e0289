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

// Type says how a budget releases its units.
type Type string

// Promo releases all units at once.
const Promo Type = "promo"

// Durability says when a deduction is acknowledged.
type Durability string

// The durabilities.
const (
	// Ledger acknowledges after the SQL commit.
	Ledger Durability = "ledger"
	// Store acknowledges after the store's script. The ledger follows, at most one window behind.
	Store Durability = "store"
)

// OnLoss says what happens to units whose store lost its memory (store mode).
type OnLoss string

// The policies for lost units.
const (
	// Quarantine leaves the units to an operator. Nothing is sold twice.
	Quarantine OnLoss = "quarantine"
	// AssumeUnused returns the units to the total. Those sold since the last sync, at most at_risk,
	// are sold twice.
	AssumeUnused OnLoss = "assume_unused"
)

// Bounds of a definition.
const (
	MaxBuckets = 1024
	// MaxDefaultBuckets is the most buckets that a budget gets by default.
	MaxDefaultBuckets = 64
	// UnitsPerBucketCount and UnitsPerBucketAmount size the default number of buckets: one per
	// 1,000 counted units, or per 1,000,000 minor units of money, that a period gets.
	UnitsPerBucketCount  = 1_000
	UnitsPerBucketAmount = 1_000_000
)

// Status is the state of a budget at an instant.
type Status string

// The statuses.
const (
	Pending   Status = "pending"
	Effective Status = "effective"
	Paused    Status = "paused"
	Expired   Status = "expired"
)

// Definition is the part of a budget that an operator decides. Quantities are minor units. A zero
// start means "from the beginning", a zero end "without an end".
type Definition struct {
	ID         int64
	Tenant     string
	Name       string
	GLCode     string
	Unit       Unit
	Durability Durability
	Type       Type
	// Rule defines the periods of a daily budget; nil for promo. It is never changed in place.
	Rule *Rule
	// Timezone is the IANA zone of the periods; "" means UTC.
	Timezone string
	// LateRefund is the destination of a refund whose period is over; "" means ToTotal.
	LateRefund Where
	// OnLoss is the policy for lost units (store mode); "" means Quarantine.
	OnLoss OnLoss
	// Unlimited means that the budget has no total (TotalQuantity is 0) and no balance; only limits
	// bound deductions.
	Unlimited bool
	// RoutingDimension is the dimension whose value picks the bucket of a request without a key; if
	// it is "", the request id picks it. In store mode the dimension takes precedence over the key,
	// and is the only one that may have limits.
	RoutingDimension string
	// Limits bound each value of a dimension; nil means none. They are never changed in place.
	Limits *Limits
	// TotalQuantity is T; appends and shrinks change it.
	TotalQuantity int64
	// BucketQuantity is the number of buckets.
	BucketQuantity int
	// Parent is the number of the budget that this one is carved out of; 0 means none. ParentName is
	// its name in the tenant, which create is given and views show.
	Parent     int64
	ParentName string
	// AlsoCharges are the budgets that each deduction is also taken from.
	AlsoCharges Charges
	// AtLeast is the least that a child accepts if its parent has less than TotalQuantity; 0 means
	// all of it. It is an option of create and is not stored.
	AtLeast int64
	// TTL ends a child so long after its start, or after its creation if that is later, by SQL's
	// clock; 0 means at EndAt. It is an option of create and is not stored.
	TTL time.Duration
	// ShardingQuantity is the most units that one ordinary apply may take; 0 means no bound.
	ShardingQuantity int64
	// AdjustCnt is how often one bucket may apply for units that no bucket had, between two
	// recycles and within a period; 0 means no bound. Units of other buckets are collected
	// without a bound.
	AdjustCnt int
	StartAt   time.Time
	EndAt     time.Time
	// AllowPast accepts an EndAt that has passed. It is an option of create and is not stored.
	AllowPast bool
	// DryRun validates without creating. It is an option of create and is not stored.
	DryRun bool
	Paused bool
	// Archived means that lists leave the budget out. Only a budget that is over can be archived.
	Archived bool
	// Version grows with every change of the definition (I8); it is the ETag.
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// MaxCharges is the most budgets that a budget charges besides itself.
const MaxCharges = 7

// Charges are the budgets that each deduction from another one is also taken from. IDs are stored.
// Names, in the same order, are what create and a change are given, and what views show.
type Charges struct {
	Names []string
	IDs   []int64
}

// StatusAt returns the status at an instant. Paused takes precedence over the clock; the end is
// exclusive.
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

// RefusalAt returns why the budget refuses deductions at an instant, or nil if it is effective. The
// codes are BudgetExpired, with Never; BudgetPaused; and BudgetNotEffective, with StartAt and
// RetryAfter.
func (d Definition) RefusalAt(now time.Time) *Error {
	switch d.StatusAt(now) {
	case Expired:
		e := Refuse(BudgetExpired, "deduct", "budget %s ended at %s", d.Name,
			d.EndAt.Format(time.RFC3339))
		e.Never = true
		return e
	case Paused:
		return Refuse(BudgetPaused, "deduct", "budget %s is paused until an operator resumes it; "+
			"no end of the pause is known", d.Name)
	case Pending:
		e := Refuse(BudgetNotEffective, "deduct", "budget %s starts at %s", d.Name,
			d.StartAt.Format(time.RFC3339))
		e.StartAt, e.RetryAfter = d.StartAt, d.StartAt.Sub(now)
		return e
	}
	return nil
}

// DefaultBuckets returns the number of buckets of a budget that was created without one: one per
// 1,000 counted units or 1,000,000 minor units of its first period, rounded up. A number above
// partitions is rounded up to a multiple of partitions, so that every partition gets the same
// number. The result is 1 … MaxDefaultBuckets. An unlimited budget gets one bucket per partition.
// DefaultBuckets(Count, 10_000, 1) is 10, DefaultBuckets(Count, 10_000, 3) is 12.
func DefaultBuckets(unit Unit, period int64, partitions int) int {
	per := int64(UnitsPerBucketCount)
	if unit == Amount {
		per = UnitsPerBucketAmount
	}
	n, each := max((period-1)/per+1, 1), int64(max(partitions, 1))
	if n > each && n%each > 0 {
		n += each - n%each
	}
	return int(min(n, MaxDefaultBuckets))
}

// Instants outside these years are refused. Within them SQL, JSON and RFC 3339 agree.
const minYear, maxYear = 1970, 9998

// Check returns the faults of a new definition, or nil. Packages allocation and limit check its
// rule and its limits.
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
	case !d.Unlimited && !ValidAmount(d.TotalQuantity) && (d.Parent == 0 || d.TotalQuantity != 0):
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
	faults = append(faults, d.checkChild()...)
	if len(d.AlsoCharges.Names)+len(d.AlsoCharges.IDs) > 0 {
		faults = append(faults, d.checkCharges()...)
	}
	return append(faults, CheckSpan(d.StartAt, d.EndAt)...)
}

// checkChild returns the faults of a definition as that of a child, or of one without a parent.
func (d Definition) checkChild() (faults []FieldError) {
	fault := func(field, message string, args ...any) {
		faults = append(faults, FieldError{Field: field, Message: fmt.Sprintf(message, args...)})
	}
	if d.Parent == 0 && d.ParentName == "" {
		if d.AtLeast != 0 {
			fault("at_least", "belongs to a budget with a parent only")
		}
		if d.TTL != 0 {
			fault("ttl", "belongs to a budget with a parent only")
		}
		return faults
	}
	switch {
	case d.Unlimited:
		fault("unlimited", "does not go together with parent: a child has a total")
	case d.Type == Daily:
		fault("type", `must be "promo": a child is carved out of one period of its parent`)
	}
	if d.Durability == Store {
		fault("durability", `must be "ledger": families are of ledger mode`)
	}
	if d.AtLeast != 0 && (d.AtLeast < 1 || d.AtLeast > d.TotalQuantity) {
		fault("at_least", "must be 1 to total_quantity")
	}
	if d.TTL != 0 && !ValidHoldTTL(d.TTL) {
		fault("ttl", "must be whole milliseconds, at most %d days", MaxHoldTTL/(24*time.Hour))
	}
	return faults
}

// checkCharges returns the faults of the budgets that a definition also charges.
func (d Definition) checkCharges() (faults []FieldError) {
	fault := func(message string) {
		faults = append(faults, FieldError{Field: "also_charges", Message: message})
	}
	if d.Durability == Store {
		fault(`needs durability "ledger": a deduction from several budgets is one transaction`)
	}
	if len(d.AlsoCharges.Names) > MaxCharges {
		fault(fmt.Sprintf("must have at most %d elements", MaxCharges))
	}
	seen := map[string]bool{d.Name: true}
	for _, name := range d.AlsoCharges.Names {
		if seen[name] {
			fault(fmt.Sprintf("must name other budgets, each once: %q", name))
		}
		seen[name] = true
	}
	return faults
}

// CheckEnd returns a fault if the end has passed, or nil.
func CheckEnd(end, now time.Time) []FieldError {
	if end.IsZero() || end.After(now) {
		return nil
	}
	return []FieldError{{"end_at", fmt.Sprintf("has passed: it is %s now; "+
		"give a later end, or allow_past (--allow-past) if that is what you want",
		now.UTC().Format(time.RFC3339))}}
}

// CheckSpan returns a fault for each instant that is out of range and for an end that does not
// follow the start, or nil.
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
