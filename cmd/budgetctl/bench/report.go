package bench

import (
	"strings"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// Report is the result of a run. It covers the measured time; Check includes the warm-up.
// Quantities are minor units.
type Report struct {
	Budget  string `json:"budget"`
	Budgets int    `json:"budgets"`
	// Complete means that the load ran to its end.
	Complete    bool `json:"complete"`
	Connections int  `json:"connections"`
	Batch       int  `json:"batch"`
	// IntendedPerS is the rate of calls of an open loop; 0 for a closed loop.
	IntendedPerS float64 `json:"intended_per_s"`
	DurationS    float64 `json:"duration_s"`
	// Calls is how many calls were answered or lost, including rollbacks. Unsent is how many calls
	// of an open loop were never sent.
	Calls  int64 `json:"calls"`
	Unsent int64 `json:"unsent"`
	// Deductions is how many were accepted, replayed or refused.
	Deductions int64 `json:"deductions"`
	Accepted   int64 `json:"accepted"`
	Replayed   int64 `json:"replayed"`
	RolledBack int64 `json:"rolled_back"`
	// Answers counts deductions and rollbacks by the code of their answer.
	Answers        map[string]int64 `json:"answers"`
	CallsPerS      float64          `json:"calls_per_s"`
	DeductionsPerS float64          `json:"deductions_per_s"`
	// Latency is that of calls that deduct, RollbackLatency that of rollbacks. Delay is how late
	// the calls of an open loop were sent. Unless all connections were busy, the generator caused
	// it.
	Latency         workload.Latency  `json:"latency"`
	RollbackLatency *workload.Latency `json:"rollback_latency,omitzero"`
	Delay           *workload.Latency `json:"delay,omitzero"`
	// Processes begins with this process where its figures can be read.
	Processes []Use `json:"processes"`
	Check     Check `json:"check"`
}

// Use is what a process and its children that ended used in the measured time (workload.Usage).
type Use struct {
	Name string  `json:"name"`
	Pid  int     `json:"pid"`
	CPUS float64 `json:"cpu_s"`
	// CPUPerDeductionUS is CPUS divided by Deductions, in microseconds.
	CPUPerDeductionUS float64 `json:"cpu_per_deduction_us"`
	// MemoryMiB is its resident memory at the end.
	MemoryMiB float64 `json:"memory_mib"`
}

// Check compares the answers, including those of the warm-up, with the budgets.
type Check struct {
	OK bool `json:"ok"`
	// ToldUnits is what was accepted less what was rolled back, by the answers. UsedUnits is what
	// the budgets have used since the start of the run.
	ToldUnits int64 `json:"told_units"`
	UsedUnits int64 `json:"used_units"`
	// Settled is how many outcomes were unknown at the end of the load.
	Settled int `json:"settled"`
	// SettledS is the time from the end of the load until the budgets agreed, in seconds.
	SettledS float64 `json:"settled_s"`
	// Problems describes the first few problems.
	Problems []string `json:"problems"`
}

// report makes the report from the measurements.
func (r *run) report(m workload.Measured, c counts, processes []Use) Report {
	p := r.plan
	report := Report{Budget: p.Budgets[0], Budgets: len(p.Budgets), Connections: p.Connections,
		Batch: p.Batch, IntendedPerS: p.Load.Rate, DurationS: workload.Rounded(m.Duration.Seconds()),
		Calls: m.Calls, Unsent: m.Unsent, Deductions: c.deductions, Accepted: c.accepted,
		Replayed: c.replayed, RolledBack: c.rolledBack, Answers: c.answers.byCode(),
		Latency: m.Latency[deducts].Latency(), Processes: processes,
		CallsPerS:      workload.PerSecond(m.Calls, m.Duration),
		DeductionsPerS: workload.PerSecond(c.deductions, m.Duration)}
	if h := m.Latency[rollbacks]; h.Count() > 0 {
		l := h.Latency()
		report.RollbackLatency = &l
	}
	if m.Delay.Count() > 0 {
		l := m.Delay.Latency()
		report.Delay = &l
	}
	return report
}

// Expected reports whether a correct service under load may give an answer: done, used up, given
// back before, not done (unavailable), or an unknown outcome, which the check settles.
func Expected(answer string) bool {
	switch budget.Code(strings.TrimPrefix(answer, "rollback: ")) {
	case "accepted", "replayed", "rolled_back", budget.BudgetExhausted, budget.PeriodExhausted,
		budget.LimitExceeded, budget.AlreadyRolledBack, budget.Unavailable, budget.OutcomeUnknown:
		return true
	}
	return false
}
