package wire

import (
	"github.com/budgetd/budgetd/bucket"
)

// held is the JSON form of the holds of a group.
type held struct {
	Group      string          `json:"group"`
	Deductions []deductionView `json:"deductions"`
}

// HeldOf returns the JSON form of one deduction, or of those of a group.
func HeldOf(group string, views []bucket.DeductionView) any {
	if group == "" && len(views) == 1 {
		return DeductionOf(&views[0])
	}
	out := &held{Group: group, Deductions: make([]deductionView, len(views))}
	for i := range views {
		out.Deductions[i] = *DeductionOf(&views[i])
	}
	return out
}
