package ledger

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Judge decides by a budget's limits whether a deduction may be counted, and counts it if so.
type Judge func(request *Request, amount int64) Verdict

// Verdict is what a Judge says.
type Verdict struct {
	// Refusal is "" for a deduction that was counted, else the figures of the limit that refused it.
	Refusal string
	// Reason is that of another refusal, which has no figures.
	Reason Reason
	// States is how far each limit is used with the deduction counted.
	States []budget.LimitState
}

// LimitRefusal is what a duplicate of ReasonLimit reports.
type LimitRefusal struct {
	budget.LimitState
	// Missing: the deduction does not carry the limit's dimension, which has become necessary since it
	// was asked for.
	Missing bool
}

type limitFigures struct {
	Limit     string `json:"limit"`
	Dimension string `json:"dimension"`
	Value     string `json:"value,omitempty"`
	Used      int64  `json:"used"`
	Max       int64  `json:"max"`
	ResetMS   int64  `json:"reset_ms,omitempty"`
	Missing   bool   `json:"missing,omitempty"`
}

// Figures is the text of a refusal.
func (r LimitRefusal) Figures() string {
	f := limitFigures{Limit: r.Limit, Dimension: r.Dimension, Value: r.Value, Used: r.Used, Max: r.Max,
		Missing: r.Missing}
	if !r.ResetAt.IsZero() {
		f.ResetMS = r.ResetAt.UnixMilli()
	}
	text, _ := json.Marshal(f) // strings and numbers only
	return string(text)
}

// ReadLimitRefusal reads what Figures wrote; ok is false for anything else.
func ReadLimitRefusal(figures string) (r LimitRefusal, ok bool) {
	var f limitFigures
	if err := json.Unmarshal([]byte(figures), &f); err != nil || f.Limit == "" {
		return r, false
	}
	r = LimitRefusal{Missing: f.Missing, LimitState: budget.LimitState{
		Limit: f.Limit, Dimension: f.Dimension, Value: f.Value, Used: f.Used, Max: f.Max}}
	if f.ResetMS != 0 {
		r.ResetAt = time.UnixMilli(f.ResetMS).UTC()
	}
	return r, true
}

// Counts returns the canonical JSON of own amounts for single limits, "" when there are none.
func Counts(counts map[string]int64) string {
	if len(counts) == 0 {
		return ""
	}
	text, _ := json.Marshal(counts) // by name
	return string(text)
}

// ReadDimensions reads what Dimensions wrote; nil: there are none.
func ReadDimensions(text string) (dimensions map[string]string) {
	if text == "" {
		return nil
	}
	return readCanonical(text)
}

// Dimension is one of a deduction's dimensions.
type Dimension struct{ Name, Value string }

// AppendDimensions adds to a list what ReadDimensions reads, sorted by name; nothing where it reads nothing. What
// Dimensions wrote, without escapes, needs no memory but the list's.
func AppendDimensions(to []Dimension, text string) []Dimension {
	if text == "" {
		return to
	}
	begin := len(to)
	if eachPlain(text, func(name, value string) bool {
		if len(to) > begin && name <= to[len(to)-1].Name {
			return false // not what Dimensions wrote: of a name that comes twice the last counts
		}
		to = append(to, Dimension{name, value})
		return true
	}) {
		return to
	}
	to = to[:begin]
	all := readCanonical(text)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		to = append(to, Dimension{name, all[name]})
	}
	return to
}

// Value returns the value of a name in what AppendDimensions has added to an empty list.
func Value(dimensions []Dimension, name string) (value string, ok bool) {
	const few = 8
	if len(dimensions) <= few {
		for i := range dimensions {
			if dimensions[i].Name == name {
				return dimensions[i].Value, true
			}
		}
		return "", false
	}
	i, ok := slices.BinarySearchFunc(dimensions, name, func(d Dimension, name string) int { return cmp.Compare(d.Name, name) })
	if !ok {
		return "", false
	}
	return dimensions[i].Value, true
}

// ReadCounts reads what Counts wrote; nil: there are none.
func ReadCounts(text string) map[string]int64 {
	if text == "" {
		return nil
	}
	var counts map[string]int64
	if json.Unmarshal([]byte(text), &counts) != nil {
		return nil
	}
	return counts
}
