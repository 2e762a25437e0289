package ledger

import (
	"fmt"

	"github.com/budgetd/budgetd/budget"
)

// Figures are a budget's columns in one snapshot, in minor units.
type Figures struct {
	// Total, Undistributed, Quarantined and Forfeited are T, U, Q and X.
	Total, Undistributed, Quarantined, Forfeited int64
	// Unfunded is F: what no period has received.
	Unfunded int64
	// Allocated is A: the units with the children, used ones included.
	Allocated int64
	// PendingShrink is the sum of the pending shrinks.
	PendingShrink int64
	// InBuckets is ΣO of the open epochs, Unsettled ΣO of the opening and closing ones.
	InBuckets, Unsettled  int64
	Held, Used, Returning int64
	Online, Offline       int
	// Period is the open or last period, without its units.
	Period budget.Period
	// PeriodUnits is all that the open or last period got, PeriodUsed ΣS of its epochs.
	PeriodUnits, PeriodUsed int64
	// PeriodBefore is what was used between that period's start and its opening. It is 0 unless a
	// change of the rule opened the period.
	PeriodBefore int64
}

// InTransit returns the units on their way to or from the total: ΣR, and ΣO of opening and closing
// epochs.
func (f Figures) InTransit() int64 { return f.Returning + f.Unsettled }

// Available returns what deductions can take, in minor units: U, ΣO and ΣR, less pending shrinks.
// It is not negative: a shrink waits for units that do not exist yet.
func (f Figures) Available() int64 {
	return max(0, f.Undistributed+f.InBuckets+f.InTransit()-f.PendingShrink)
}

// OutQuantity returns the units handed out: T − F − U − X.
func (f Figures) OutQuantity() int64 { return f.Total - f.Unfunded - f.Undistributed - f.Forfeited }

// Sum returns F + U + O + H + S + R + Q + X + A, which must equal T.
func (f Figures) Sum() int64 {
	return f.Unfunded + f.Undistributed + f.InBuckets + f.Unsettled + f.Held + f.Used + f.Returning +
		f.Quarantined + f.Forfeited + f.Allocated
}

// Plus adds the figures of another budget.
func (f Figures) Plus(o Figures) Figures {
	f.Total += o.Total
	f.Unfunded += o.Unfunded
	f.Undistributed += o.Undistributed
	f.Quarantined += o.Quarantined
	f.Forfeited += o.Forfeited
	f.PendingShrink += o.PendingShrink
	f.Allocated += o.Allocated
	f.InBuckets += o.InBuckets
	f.Unsettled += o.Unsettled
	f.Held += o.Held
	f.Used += o.Used
	f.Returning += o.Returning
	f.Online += o.Online
	f.Offline += o.Offline
	return f
}

// EpochFigures are an epoch's columns, and the same figures recomputed from rows and entries.
type EpochFigures struct {
	Bucket string
	Row    Epoch
	// Granted is Σ grant_log; Closed is what the end of the epoch moved out of O.
	Granted, Closed int64
	// Deducted is the sum of the epoch's deductions, GivenBack of their refunds, BackInO the part
	// of those that went directly into O.
	Deducted, GivenBack, BackInO int64
	// Held is what is left of the epoch's holds. It must equal Row.Held.
	Held int64
	// Quarantined is what the end of the epoch moved into Q, Released the sum of the rows of
	// releases. NotedRelease is the released sum in the quarantine's row. It must equal Released.
	Quarantined, Released, NotedRelease int64
}

// EntryInStore is the What of a bucket in store mode whose entry is missing or not a number.
// Nothing is deducted from such a bucket; the next call that finds it ends its epoch.
const EntryInStore = "entry in the store"

// Discrepancy is a figure that disagrees with its rows.
type Discrepancy struct {
	// Bucket is "" for a discrepancy of the budget itself.
	Bucket string `json:"bucket,omitempty"`
	Epoch  int64  `json:"epoch,omitempty"`
	// What names the figure, Recorded is its column, Counted the result of its rows.
	What     string `json:"what"`
	Recorded int64  `json:"recorded"`
	Counted  int64  `json:"counted"`
}

// SameFigure reports whether two discrepancies concern the same figure. Their values may differ.
func (d Discrepancy) SameFigure(other Discrepancy) bool {
	return d.Bucket == other.Bucket && d.Epoch == other.Epoch && d.What == other.What
}

// Gap returns the difference between the two figures in units, at least 1.
func (d Discrepancy) Gap() int64 { return max(d.Recorded-d.Counted, d.Counted-d.Recorded, 1) }

func (d Discrepancy) String() string {
	where := "budget"
	if d.Bucket != "" {
		where = fmt.Sprintf("bucket %s, epoch %d", d.Bucket, d.Epoch)
	}
	return fmt.Sprintf("%s: %s is recorded as %d, its rows give %d", where, d.What, d.Recorded,
		d.Counted)
}

// Check recomputes every column from rows and entries and returns each disagreement (I1): those of
// CheckEpoch for each epoch, and for the budget
//
//	T = Σ adjustments
//	Q = Σ(quarantined − released)
//	F + U = T − X − Q − A − Σ(granted − closed − swept)
//
// adjusted is the sum of the budget's adjustments, including its creation.
func Check(f Figures, adjusted int64, epochs []EpochFigures) []Discrepancy {
	var out []Discrepancy
	handedOut, quarantined := int64(0), int64(0)
	for i := range epochs {
		e := &epochs[i]
		out = append(out, CheckEpoch(e)...)
		handedOut += e.Granted - e.Closed - e.Row.Swept
		quarantined += e.Quarantined - e.Released
	}
	out = compare(out, "total", f.Total, adjusted)
	out = compare(out, "undistributed", f.Undistributed,
		f.Total-f.Unfunded-f.Forfeited-quarantined-f.Allocated-handedOut)
	out = compare(out, "quarantined", f.Quarantined, quarantined)
	return compare(out, "conservation", f.Total, f.Sum())
}

// CheckEpoch recomputes the columns of one epoch from its rows and entries:
//
//	O = granted + given back into O − deducted − closed
//	H = Σ (amount − given back) of the deductions that are held
//	S = deducted − given back − H
//	R = given back − given back into O − swept
func CheckEpoch(e *EpochFigures) []Discrepancy {
	var out []Discrepancy
	out = compare(out, "outstanding", e.Row.Outstanding, e.Granted+e.BackInO-e.Deducted-e.Closed)
	out = compare(out, "held", e.Row.Held, e.Held)
	out = compare(out, "used", e.Row.Used, e.Deducted-e.GivenBack-e.Held)
	out = compare(out, "returning", e.Row.Returning, e.GivenBack-e.BackInO-e.Row.Swept)
	out = compare(out, "released", e.NotedRelease, e.Released)
	return e.named(out)
}

// CheckColumns compares the sum of an epoch's columns with its grants alone, without ledger rows:
// granted = O + H + S + R + closed + swept. It detects a unit too many or too few in a column or a
// grant, but not a unit in the wrong column.
func CheckColumns(e *EpochFigures) []Discrepancy {
	r := &e.Row
	return e.named(compare(nil, "units of all grants",
		r.Outstanding+r.Held+r.Used+r.Returning+e.Closed+r.Swept, e.Granted))
}

// CheckBudget compares a budget's columns with each other, with its adjustments and with the
// pending shrinks: T = F + U + Σ(O + H + S + R) + Q + X + A; T = Σ adjustments. counted is the sum
// of their rows, positive.
func CheckBudget(f Figures, adjusted, counted int64) []Discrepancy {
	var out []Discrepancy
	out = compare(out, "total", f.Total, adjusted)
	out = compare(out, "conservation", f.Total, f.Sum())
	return append(out, CheckShrinks(f, counted)...)
}

// CheckShrinks compares the column of pending shrinks, which apply withholds, with counted, the sum
// of the pending shrinks' rows, positive.
func CheckShrinks(f Figures, counted int64) []Discrepancy {
	return compare(nil, "pending shrinks", f.PendingShrink, counted)
}

// compare adds a discrepancy unless both figures agree and are not negative.
func compare(out []Discrepancy, what string, recorded, counted int64) []Discrepancy {
	if recorded == counted && recorded >= 0 {
		return out
	}
	return append(out, Discrepancy{What: what, Recorded: recorded, Counted: counted})
}

// named writes the bucket and epoch into discrepancies and returns them.
func (e *EpochFigures) named(found []Discrepancy) []Discrepancy {
	for i := range found {
		found[i].Bucket, found[i].Epoch = e.Bucket, e.Row.Number
	}
	return found
}
