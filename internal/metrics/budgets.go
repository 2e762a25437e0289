package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/budgetd/budgetd/bucket"
)

// otherBudgets labels the sum of all budgets without series of their own. No budget can have that
// name.
const otherBudgets = "(other)"

// figures is the result of the last pass over all budgets.
type figures struct {
	largest []bucket.BudgetFigures
	all     bucket.BudgetFigures
}

// budgets collects the figures of the last pass as a whole. So the series of a budget that is
// gone, or no longer among the largest, end. It collects nothing before the first pass.
type budgets struct {
	latest       atomic.Pointer[figures]
	descriptions []*prometheus.Desc
	quarantined  *prometheus.Desc
}

// budgetFigures are the metrics of each budget.
var budgetFigures = []struct {
	name, help string
	of         func(f *bucket.BudgetFigures) int64
}{
	{"budget_total_units", "Total of a budget, in minor units.",
		func(f *bucket.BudgetFigures) int64 { return f.Figures.Total }},
	{"budget_undistributed_units", "Minor units of a budget that a period has and no bucket.",
		func(f *bucket.BudgetFigures) int64 { return f.Figures.Undistributed }},
	{"budget_not_funded_units", "Minor units of a budget that no period has received.",
		func(f *bucket.BudgetFigures) int64 { return f.Figures.Unfunded }},
	{"budget_remaining_units", "Minor units of a budget that deductions can take now.",
		func(f *bucket.BudgetFigures) int64 { return f.Remaining }},
	{"budget_in_buckets_units", "Minor units in the open buckets of a budget.",
		func(f *bucket.BudgetFigures) int64 { return f.Figures.InBuckets }},
	{"budget_in_transit_units", "Minor units of a budget on their way to or from its total.",
		func(f *bucket.BudgetFigures) int64 { return f.Figures.InTransit() }},
	{"budget_held_units", "Minor units of a budget that are held and neither used nor free.",
		func(f *bucket.BudgetFigures) int64 { return f.Figures.Held }},
	{"budget_used_units", "Minor units of a budget that were used.",
		func(f *bucket.BudgetFigures) int64 { return f.Figures.Used }},
}

func newBudgets() *budgets {
	b := &budgets{quarantined: prometheus.NewDesc(namespace+"_quarantined_units",
		"Minor units of lost buckets that an operator has to decide on, over all budgets.", nil, nil)}
	for _, f := range budgetFigures {
		b.descriptions = append(b.descriptions,
			prometheus.NewDesc(namespace+"_"+f.name, f.help, []string{"tenant", "budget"}, nil))
	}
	return b
}

// Describe is part of prometheus.Collector.
func (b *budgets) Describe(to chan<- *prometheus.Desc) {
	to <- b.quarantined
	for _, d := range b.descriptions {
		to <- d
	}
}

// Collect is part of prometheus.Collector.
func (b *budgets) Collect(to chan<- prometheus.Metric) {
	latest := b.latest.Load()
	if latest == nil {
		return
	}
	to <- prometheus.MustNewConstMetric(b.quarantined, prometheus.GaugeValue,
		float64(latest.all.Figures.Quarantined))
	for i, f := range budgetFigures {
		rest := f.of(&latest.all)
		for j := range latest.largest {
			shown := &latest.largest[j]
			units := f.of(shown)
			rest -= units
			to <- prometheus.MustNewConstMetric(b.descriptions[i], prometheus.GaugeValue, float64(units),
				shown.Tenant, shown.Name)
		}
		to <- prometheus.MustNewConstMetric(b.descriptions[i], prometheus.GaugeValue, float64(rest),
			"", otherBudgets)
	}
}
