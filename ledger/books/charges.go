package books

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// chargesIn returns the ids that a column also_charges has.
func chargesIn(text string) (ids []int64) {
	for _, one := range strings.Fields(text) {
		id, _ := strconv.ParseInt(one, 10, 64) // as chargesOf wrote it
		ids = append(ids, id)
	}
	return ids
}

// chargesOf returns ids as a column also_charges has them.
func chargesOf(ids []int64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(texts, " ")
}

// Charge counts the budgets that a budget also charges, and no longer charges: those of is instead
// of those of was. All of them are loaded under their locks. Error: Invalid for a budget that
// cannot be charged. A budget that charges others is charged by none, so that a deduction never
// charges more than one level.
func (b *Books) Charge(u *Budget, was []int64, is budget.Charges) error {
	var faults []budget.FieldError
	fault := func(format string, args ...any) {
		faults = append(faults, budget.FieldError{Field: "also_charges",
			Message: fmt.Sprintf(format, args...)})
	}
	if len(is.IDs) > 0 && u.ChargedBy > 0 {
		fault("must be empty: %d budgets charge this one, and a budget that is charged charges none",
			u.ChargedBy)
	}
	for i, id := range is.IDs {
		name := strconv.FormatInt(id, 10)
		if i < len(is.Names) {
			name = is.Names[i]
		}
		switch to := b.Budgets.Get(id); {
		case to == nil:
			fault("%s no longer exists", name)
		case to.Durability != Word(budget.Ledger):
			fault("%s is in store mode: sets are of ledger mode", name)
		case to.Unit != u.Unit:
			fault("%s has another unit", name)
		case to.Tenant != u.Tenant:
			fault("%s is of another tenant", name)
		case to.AlsoCharges != "":
			fault("%s charges others itself: name those here", name)
		case to.IsArchived == 1:
			fault("%s is archived", name)
		case !slices.Contains(was, id):
			to.ChargedBy++
		}
	}
	if len(faults) > 0 {
		return &budget.Error{Code: budget.Invalid, Op: "charge", Fields: faults,
			Message: "the budget cannot charge these"}
	}
	for _, id := range was {
		if !slices.Contains(is.IDs, id) {
			b.Budgets.Get(id).ChargedBy--
		}
	}
	return nil
}
