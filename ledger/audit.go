package ledger

import "fmt"

// Figures are a budget's columns, from one snapshot. Quantities are minor units.
type Figures struct {
	// Total, Undistributed, Quarantined and Forfeited are T, U, Q and X of DESIGN 3.
	Total, Undistributed, Quarantined, Forfeited int64
	// PendingShrink is the sum of the shrinks that wait for units.
	PendingShrink int64
	// Remaining is ΣO of the open epochs, Unsettled ΣO of the opening and closing ones.
	Remaining, Unsettled  int64
	Held, Used, Returning int64
	Online, Offline       int
}

// InTransit is what is on its way back to or out of the total: ΣR and ΣO of opening and closing epochs.
func (f Figures) InTransit() int64 { return f.Returning + f.Unsettled }

// OutQuantity is what has been handed out: T − U − X.
func (f Figures) OutQuantity() int64 { return f.Total - f.Undistributed - f.Forfeited }

// EpochFigures are an epoch's columns beside the same figures counted anew from rows and entries.
type EpochFigures struct {
	Bucket string
	Row    Epoch
	// Granted is Σ grant_log; Closed what the end of the epoch moved out of O; Swept what sweeps
	// moved out of R.
	Granted, Closed, Swept int64
	// Deducted is Σ amount of the epoch's deductions, Duplicates of its duplicates, RolledBack what
	// the rollbacks' own rows gave back.
	Deducted, Duplicates, RolledBack int64
	// Noted is Σ rolled_back of the deductions: must equal RolledBack.
	Noted int64
}

// Discrepancy is a figure that does not agree with the rows it stands for.
type Discrepancy struct {
	// Bucket is "" for a discrepancy of the budget itself.
	Bucket string `json:"bucket,omitempty"`
	Epoch  int64  `json:"epoch,omitempty"`
	// What names the figure, Recorded what its column holds, Counted what the rows give.
	What     string `json:"what"`
	Recorded int64  `json:"recorded"`
	Counted  int64  `json:"counted"`
}

func (d Discrepancy) String() string {
	where := "budget"
	if d.Bucket != "" {
		where = fmt.Sprintf("bucket %s, epoch %d", d.Bucket, d.Epoch)
	}
	return fmt.Sprintf("%s: %s is recorded as %d, its rows give %d", where, d.What, d.Recorded, d.Counted)
}

// Check recomputes every column from rows and entries and returns each disagreement (I1):
//
//	O = granted − deducted − duplicates − closed      of each epoch
//	S + H = deducted − rolled back                    of each epoch
//	R = duplicates + rolled back − swept              of each epoch
//	U = T − X − Σ(granted − closed − swept)           of the budget; T = Σ adjustments
//
// adjusted is the sum of the budget's adjustments, its creation included.
func Check(f Figures, adjusted int64, epochs []EpochFigures) []Discrepancy {
	var out []Discrepancy
	compare := func(e *EpochFigures, what string, recorded, counted int64) {
		if recorded == counted && recorded >= 0 {
			return
		}
		d := Discrepancy{What: what, Recorded: recorded, Counted: counted}
		if e != nil {
			d.Bucket, d.Epoch = e.Bucket, e.Row.Number
		}
		out = append(out, d)
	}
	handedOut := int64(0)
	for i := range epochs {
		e := &epochs[i]
		compare(e, "outstanding", e.Row.Outstanding, e.Granted-e.Deducted-e.Duplicates-e.Closed)
		compare(e, "used and held", e.Row.Used+e.Row.Held, e.Deducted-e.RolledBack)
		compare(e, "returning", e.Row.Returning, e.Duplicates+e.RolledBack-e.Swept)
		compare(e, "rolled back", e.Noted, e.RolledBack)
		handedOut += e.Granted - e.Closed - e.Swept
	}
	compare(nil, "total", f.Total, adjusted)
	compare(nil, "undistributed", f.Undistributed, f.Total-f.Forfeited-handedOut)
	sum := f.Undistributed + f.Remaining + f.Unsettled + f.Held + f.Used + f.Returning + f.Quarantined + f.Forfeited
	compare(nil, "conservation", f.Total, sum)
	return out
}
