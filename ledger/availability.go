package ledger

// Availability is I3's sum, from one statement: everything that the budget can still give to a
// request.
type Availability struct {
	// Undistributed is U if some bucket may apply for it, and 0 otherwise. Pending shrinks are not
	// subtracted.
	Undistributed int64
	// Outstanding and Returning are the parts of ΣO and ΣR over all epochs that the open period may
	// get.
	Outstanding, Returning int64
	// Descendants is what descendants that have ended have left: it comes back once they are settled.
	Descendants int64
	// Allocated is A, which is not included in Sum: only a budget with children has descendants.
	Allocated int64
	// Later is what only a later period may get: units that are not funded, and the parts of ΣO and
	// ΣR of older periods that go there. It is not included in Sum.
	Later int64
}

// Sum returns what I3 compares with the amount.
func (c Availability) Sum() int64 {
	return c.Undistributed + c.Outstanding + c.Returning + c.Descendants
}
