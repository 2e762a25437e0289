package bucket

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// LimitAsk is what somebody would deduct.
type LimitAsk struct {
	// RequestID is looked up too; "": the ask is of no request.
	RequestID string
	// Amount is in minor units.
	Amount     int64
	Dimensions map[string]string
	// Counts has own amounts for single limits.
	Counts map[string]int64
}

// LimitAnswer is what the limits say of an ask.
type LimitAnswer struct {
	// Recorded is the ledger's row of the request id, nil if it has none. It was read after the counters:
	// where it is nil, a refusal is not the request's own doing.
	Recorded *ledger.Deduction
	// Refusal is the first limit that would be exceeded, nil if none is. Missing names a limit whose
	// dimension the ask lacks though it is not optional: it is to be refused as Invalid.
	Refusal *budget.LimitState
	Missing *budget.LimitState
	// States is how far each limit is used now, without the ask.
	States []budget.LimitState
}

// Usage is what the ledger counts for values of dimensions in a span of time.
type Usage struct {
	// Calls is the number of deductions, Amount what they took and RolledBack what of that came back, in
	// minor units.
	Calls, Amount, RolledBack int64
}

// Limits reads what values of dimensions have used. What counts is decided by Ledger.Commit, which judges
// every entry by its budget's limits under the locks of their counters, and by Returns, which lower them.
// Errors: BudgetNotFound, Unavailable. Safe for concurrent use.
type Limits interface {
	// CheckLimits judges asks by a budget's limits as they stand, each for itself, and writes nothing: no
	// locks, one statement per kind of row for all asks. A counter that is not loaded is read from the
	// ledger.
	CheckLimits(ctx context.Context, budgetID int64, asks []LimitAsk) ([]LimitAnswer, error)
	// LoadLimits counts what the ledger has for touches of a budget's limits as of an instant, whatever
	// counters say: one tally per touch. It is for stores that judge limits themselves (store mode), whose
	// budgets have no counters in SQL.
	LoadLimits(ctx context.Context, budgetID int64, touches []limit.Touch, at time.Time) ([]*limit.Tally, error)
	// Usage adds up the deductions of a budget that carry all of the dimensions' values and were counted
	// from an instant on and before another; zero times are no bound. Invalid without a dimension.
	Usage(ctx context.Context, budgetID int64, dimensions map[string]string, from, to time.Time) (Usage, error)
	// ExpireCounters removes at most limit counters that have not counted for an hour. Repeating it, and
	// running it beside commits, is harmless.
	ExpireCounters(ctx context.Context, limit int) (removed int, err error)
}

// AnswerLimits is what tallies, one per touch and not changed, say of an ask.
func AnswerLimits(touches []limit.Touch, missing *limit.Limit, tallies []*limit.Tally) LimitAnswer {
	var answer LimitAnswer
	if missing != nil {
		absent := missing.Absent()
		answer.Missing = &absent
	}
	for i := range touches {
		state := touches[i].State(tallies[i])
		answer.States = append(answer.States, state)
		if answer.Refusal == nil && touches[i].Exceeds(state) {
			answer.Refusal = &state
		}
	}
	return answer
}

// UsageOf lists dimensions by name, with their values. Error: Invalid where there is none.
func UsageOf(dimensions map[string]string) (names, values []string, err error) {
	if len(dimensions) == 0 {
		return nil, nil, budget.Refuse(budget.Invalid, "usage", "at least one dimension must be given")
	}
	names = slices.Sorted(maps.Keys(dimensions))
	for _, name := range names {
		values = append(values, dimensions[name])
	}
	return names, values, nil
}
