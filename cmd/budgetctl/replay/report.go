package replay

import (
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// maxSamples is how many unexpected errors a report keeps.
const maxSamples = 3

// Report is the result of a replay. Quantities are minor units.
type Report struct {
	Budget string `json:"budget"`
	// Complete means that the log was replayed to its end.
	Complete bool `json:"complete"`
	// Deductions is how many were tried, Skipped how many lines had nothing to deduct.
	Deductions int `json:"deductions"`
	Skipped    int `json:"skipped"`
	// Accepted is how many were accepted, including those rolled back since. Replayed of them had
	// been made before, by an earlier replay or by an attempt whose answer was lost.
	Accepted   int `json:"accepted"`
	Replayed   int `json:"replayed"`
	RolledBack int `json:"rolled_back"`
	// AcceptedUnits includes what was rolled back.
	AcceptedUnits   int64 `json:"accepted_units"`
	RolledBackUnits int64 `json:"rolled_back_units"`
	// Refused counts refusals by code. Unexpected counts all other errors, including those of
	// rollbacks, by code or as "unreachable".
	Refused    map[string]int `json:"refused"`
	Unexpected map[string]int `json:"unexpected"`
	DurationS  float64        `json:"duration_s"`
	RatePerS   float64        `json:"rate_per_s"`
	// LatencyP50MS and LatencyP99MS are those of a deduct call with its repeats, to 0.1 % or 1 µs.
	LatencyP50MS float64 `json:"latency_p50_ms"`
	LatencyP99MS float64 `json:"latency_p99_ms"`

	// Samples are the first unexpected errors. Worst is the one about whose outcome least is known.
	Samples []error `json:"-"`
	Worst   error   `json:"-"`
}

func newReport(plan Plan) Report {
	return Report{Budget: plan.Budget, Refused: map[string]int{}, Unexpected: map[string]int{}}
}

// add counts one call.
func (r *Report) add(o outcome) {
	for _, result := range o.results {
		r.Deductions++
		switch code := client.CodeOf(result.Err); {
		case result.Err == nil:
			r.Accepted++
			r.AcceptedUnits += result.Answer.Amount
			if earlier(result.Answer) {
				r.Replayed++
			}
		case expected(code):
			r.Refused[string(code)]++
		default:
			r.surprise(result.Err)
		}
	}
	r.RolledBack += len(o.given)
	for _, units := range o.given {
		r.RolledBackUnits += units
	}
	for _, err := range o.failures {
		r.surprise(err)
	}
}

// surprise counts an unexpected error.
func (r *Report) surprise(err error) {
	name := string(client.CodeOf(err))
	switch {
	case client.Unreachable(err):
		name = "unreachable"
	case name == "":
		name = "other"
	}
	r.Unexpected[name]++
	if len(r.Samples) < maxSamples {
		r.Samples = append(r.Samples, err)
	}
	if r.Worst == nil || rank(err) > rank(r.Worst) {
		r.Worst = err
	}
}

// rank orders errors by how little is known after them.
func rank(err error) int {
	switch client.KindOf(err) {
	case budget.MayBeDone:
		return 2
	case budget.NotDone:
		return 1
	}
	return 0
}

func (r *Report) unexpected() int {
	sum := 0
	for _, n := range r.Unexpected {
		sum += n
	}
	return sum
}

// finish sets the rounded times.
func (r *Report) finish(duration time.Duration, took *workload.Histogram) {
	r.DurationS = workload.Rounded(duration.Seconds())
	r.RatePerS = workload.PerSecond(int64(r.Deductions), duration)
	latency := took.Latency()
	r.LatencyP50MS, r.LatencyP99MS = latency.P50, latency.P99
}
