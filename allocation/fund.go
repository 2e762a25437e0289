package allocation

// Figures are what the funding of a period depends on, in minor units. All are at least 0.
type Figures struct {
	// NotFunded is F: the part of the total that no period has got yet.
	NotFunded int64
	// Left is how many periods are left, this one included: Schedule.PeriodsLeft(period.Start). Only
	// a calendar rule without a quantity looks at it; below 1 counts as 1.
	Left int64
	// UsedAlready is what was used or held since the period's start before it was opened: 0, unless the
	// rule was changed within it, so that another period was closed for this one.
	UsedAlready int64
}

// Fund returns how many units move F -> the period when it opens, 0 … F:
//
//	free, promo            F
//	without a quantity     ⌈F / Left⌉
//	quantity q of the rule, or of the window:
//	                       min(max(q − UsedAlready, 0), F)
//
// ⌈F / Left⌉ period by period is the total in equal parts, the first T mod P periods one unit more: 10
// over 4 periods are 3, 3, 2, 2. What earlier periods left to it (`unused: next`) comes on top and is no
// part of this. The period is one of Schedule's under the same rule.
func Fund(rule Rule, period Span, f Figures) int64 {
	switch {
	case rule.Kind == Windows, rule.Kind == Calendar && rule.Quantity > 0:
		return min(max(period.Quantity-f.UsedAlready, 0), f.NotFunded)
	case rule.Kind == Calendar:
		left := max(f.Left, 1)
		if f.NotFunded%left > 0 {
			return f.NotFunded/left + 1
		}
		return f.NotFunded / left
	}
	return f.NotFunded
}
