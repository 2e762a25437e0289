package bucket

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// RankBy is an order of budgets.
type RankBy string

// The orders. Budgets that are equal in one are in the order of their names.
const (
	ByName RankBy = "name"
	// ByRemaining orders by all that is left, in minor units; unlimited budgets come last.
	ByRemaining RankBy = "remaining"
	// ByUsedShare orders by the part of the total that is used.
	ByUsedShare RankBy = "used_share"
	// ByEnd orders by the end of the budget; those without one come last.
	ByEnd RankBy = "end"
	// ByRefusals orders by how many deductions this node refused lately.
	ByRefusals RankBy = "refusals"
	// ByExhaustion orders by when the last unit goes at the present rate; those without such an
	// instant come last.
	ByExhaustion RankBy = "exhausted_at"
)

// Selection says which budgets are ranked, and how.
type Selection struct {
	// Covers reports whether the caller may see a budget; nil: all of them.
	Covers func(tenant, name string) bool
	// Tenant "" means every tenant.
	Tenant string
	Type   budget.Type
	Status budget.Status
	// Search is a part of the name, or of the tenant and the name with a slash between; "": all.
	Search string
	// Archived selects archived budgets too.
	Archived   bool
	By         RankBy
	Descending bool
	// Skip is how many come before the page, Size how many are in it.
	Skip, Size int
}

// Ranking is a page of budgets in an order.
type Ranking struct {
	IDs []int64
	// Total is how many budgets were selected.
	Total int
	// At is when the figures were read that the order is by; zero: they have not been yet.
	At time.Time
}

// Standing is how a budget stands. Quantities are minor units.
type Standing struct {
	Tenant, Name            string
	Unit                    budget.Unit
	Total, Left, Held, Used int64
	// Rate is what was spent a second lately; ExhaustedAt is when the last unit goes at that rate.
	Rate        float64
	ExhaustedAt time.Time
	// Refusals is how many deductions this node refused lately, by code.
	Refusals map[budget.Code]int
}

// Standings sums up how all budgets stand.
type Standings struct {
	At time.Time
	// Statuses is how many budgets there are of each; Exhausted are effective ones with nothing
	// left.
	Statuses  map[budget.Status]int
	Exhausted int
	// Fenced is how many epochs are fenced, Quarantined how many units are in quarantine.
	Fenced      int
	Quarantined int64
	// Discrepancies are known, and differ by Gap units; both must be 0.
	Discrepancies int
	Gap           int64
	// Next are the budgets that run out first, Refused those with the most refusals.
	Next, Refused []Standing
}

// Second is how many deductions this node answered in one second, by outcome.
type Second struct {
	At time.Time
	// Refused by the budget, Limited by a limit, Failed: unavailable or of unknown outcome; Faulty
	// requests were none.
	Accepted, Refused, Limited, Failed, Faulty int
}

// Refusal is a deduction that was refused, as this node remembers it.
type Refusal struct {
	At      time.Time
	Request DeductRequest
	Err     *budget.Error
	// Bucket is what the request's key is routed to now; nil: not known.
	Bucket *Bucket
}
