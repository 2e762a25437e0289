package bucket

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// RankBy is an order of budgets.
type RankBy string

// The orders. Equal budgets are ordered by name.
const (
	ByName RankBy = "name"
	// ByRemaining orders by what deductions can take now, in minor units, with unlimited budgets last.
	ByRemaining RankBy = "remaining"
	// ByHeld, ByUsed and ByTotal order by quantities in minor units, with unlimited budgets last in
	// ByTotal.
	ByHeld  RankBy = "held"
	ByUsed  RankBy = "used"
	ByTotal RankBy = "total"
	// ByUsedShare orders by the part of the total that is used.
	ByUsedShare RankBy = "used_share"
	// ByEnd orders by the end of the budget, with budgets without an end last.
	ByEnd RankBy = "end"
	// ByRefusals orders by how many deductions this node refused recently.
	ByRefusals RankBy = "refusals"
	// ByServing orders by what hurts: first what does not serve, by its unserved calls.
	ByServing RankBy = "serving"
	// ByExhaustion orders by when the last unit is used at the present rate, with budgets that have no
	// such instant last.
	ByExhaustion RankBy = "exhausted_at"
)

// Selection says which budgets to rank, and how.
type Selection struct {
	// Covers reports whether the caller may see a budget. It may be nil.
	Covers func(tenant, name string) bool
	// Tenant restricts the selection to one tenant, unless it is empty.
	Tenant string
	Type   budget.Type
	Status budget.Status
	// Search is a part of the name, or of `tenant/name`. If it is empty, all names match.
	Search string
	// Trouble and Instance restrict the selection to budgets with that trouble, unless Trouble is
	// empty.
	Trouble  Cause
	Instance string
	// Archived includes archived budgets.
	Archived   bool
	By         RankBy
	Descending bool
	// Skip is the number of budgets before the page, Size that of the page.
	Skip, Size int
}

// Ranking is a page of ranked budgets.
type Ranking struct {
	Budgets []Ranked
	// Total is how many budgets were selected, Tenants how many of each tenant would be if the
	// selection were not restricted to one.
	Total   int
	Tenants map[string]int
	// At is when the figures of the order were read. It is zero if they have not been read yet.
	At time.Time
}

// Ranked is a budget in a ranking.
type Ranked struct {
	ID           int64
	Tenant, Name string
	// ExhaustedAt is when the last unit is used at the recent rate; zero if there is no such instant.
	ExhaustedAt time.Time
	// Refusals is what ByRefusals orders by. It is nil in other orders.
	Refusals *int
}

// Summary is the state of a budget. Quantities are minor units.
type Summary struct {
	Tenant, Name      string
	Unit              budget.Unit
	Total, Held, Used int64
	// Unlimited says that there is no total, and nothing remaining of it.
	Unlimited bool
	Serving   Serving
	// Remaining is what deductions can take now. If that is 0 because the budget or its period begins
	// later, OpensAt says when.
	Remaining int64
	OpensAt   time.Time
	// Rate is the recent spending per second. ExhaustedAt is when the last unit is used at that rate.
	Rate        float64
	ExhaustedAt time.Time
	// Refusals counts the deductions that this node refused recently, by code.
	Refusals map[budget.Code]int
}

// Overview sums up the state of all budgets.
type Overview struct {
	At time.Time
	// Statuses counts the budgets by status.
	Statuses map[budget.Status]int
	// Serving counts the budgets by whether they serve.
	Serving map[Serving]int
	// Halted counts halted epochs, Quarantined the budgets with units in quarantine.
	Halted      int
	Quarantined int
	// Discrepancies are known differences, of Gap units in all. Both must be 0.
	Discrepancies int
	Gap           int64
	// Troubles lists what needs a person, the worst first, at most one of a cause and an instance.
	Troubles []Trouble
	// Next lists the serving budgets that run out first, Refused those with the most refusals.
	Next, Refused []Summary
}

// Cause says why a person is needed.
type Cause string

// The causes, the worst first.
const (
	// LostStore is a store that does not answer, for each instance.
	LostStore Cause = "store_down"
	// Undecided are units in quarantine.
	Undecided Cause = "quarantined"
	// Stopped are halted epochs.
	Stopped Cause = "halted"
	// Refusing are budgets that are effective and refuse calls because they are used up.
	Refusing Cause = "used_up"
	// Waiting are budgets that refuse calls until their next period.
	Waiting Cause = "period_used_up"
)

// Trouble is what has one cause and needs a person.
type Trouble struct {
	Cause Cause
	// Instance is that of LostStore; otherwise it is empty.
	Instance string
	// Budgets counts those that it hurts, Buckets their buckets with it.
	Budgets, Buckets int
	// Unserved counts their calls of the last minute that this node did not serve.
	Unserved int64
	// Since is when this node saw it first.
	Since time.Time
	// Worst are the budgets with the most unserved calls, at most three.
	Worst []BudgetRef
}

// Second counts the deductions that this node answered in one second, by outcome.
type Second struct {
	At time.Time
	// Refused counts refusals by the budget, Limited those by a limit, Failed answers of unavailable
	// or unknown outcome, and Faulty invalid requests.
	Accepted, Refused, Limited, Failed, Faulty int
}

// Refusal is a refused deduction that this node remembers.
type Refusal struct {
	At      time.Time
	Request DeductRequest
	Err     *budget.Error
	// RoutingKey is the key by which the request is routed now, or "" if the budget is unknown.
	// Bucket is the bucket to which it is routed, or nil if unknown. Durability is its budget's.
	RoutingKey string
	Bucket     *Bucket
	Durability budget.Durability
}

// Answered counts the deductions of a budget that this node answered in the last minute.
type Answered struct {
	// Refused were refused for a cause of the caller: a limit of its own, or an amount that can never
	// be deducted. Unserved were refused for any other cause. Invalid requests are not counted.
	Accepted, Refused, Unserved int64
}

// Plus adds other calls.
func (c Answered) Plus(o Answered) Answered {
	return Answered{c.Accepted + o.Accepted, c.Refused + o.Refused, c.Unserved + o.Unserved}
}

// Hurts reports whether more than 5 % of the calls were unserved.
func (c Answered) Hurts() bool { return 20*c.Unserved > c.Accepted+c.Refused+c.Unserved }
