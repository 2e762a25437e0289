package commit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/rows"
)

// Bounds of one transaction.
const (
	maxOperations = 1000
	// flightBuckets bounds the buckets of a flight.
	flightBuckets = 512
	// maxText bounds the bytes of the texts of all operations. Each text is written up to three
	// times, with two hexadecimal digits per byte.
	maxText = 1 << 20
)

// flight is a list of operations that share a transaction and are judged in order.
type flight struct {
	ops []bucket.Operation
	out []bucket.Outcome
	// byID lists the operations in the order of their rows, byOwner those that are no further legs of
	// a set in the order of their ids: the lock order.
	byID, byOwner []int
	// duplicates reports that an id occurs more than once.
	duplicates bool
}

func newFlight(ops []bucket.Operation, out []bucket.Outcome) *flight {
	f := &flight{ops: ops, out: out, byID: make([]int, len(ops))}
	for i := range f.byID {
		f.byID[i] = i
	}
	slices.SortFunc(f.byID, func(i, j int) int {
		a, b := &ops[i], &ops[j]
		if a.Budget.ID != b.Budget.ID {
			return int(min(max(a.Budget.ID-b.Budget.ID, -1), 1))
		}
		if c := strings.Compare(a.Request.ID, b.Request.ID); c != 0 {
			return c
		}
		f.duplicates = f.duplicates || i != j
		return i - j
	})
	if f.byOwner = f.byID; slices.ContainsFunc(ops, isSet) {
		f.sortOwners()
	}
	return f
}

func isSet(op bucket.Operation) bool { return op.Set != nil }

// sortOwners lists the operations by owner in a flight that has sets.
func (f *flight) sortOwners() {
	f.byOwner = make([]int, 0, len(f.ops))
	for i := 0; i < len(f.ops); i += f.ops[i].Legs() {
		f.byOwner = append(f.byOwner, i)
	}
	slices.SortFunc(f.byOwner, func(i, j int) int {
		c := rows.CompareIDs(f.ops[i].ID(), f.ops[j].ID())
		f.duplicates = f.duplicates || c == 0 && i != j
		return cmp.Or(c, i-j)
	})
}

// ids returns the ids of the operations that want selects, in lock order, without further legs.
func (f *flight) ids(want func(i int) bool) []bucket.ID {
	out := make([]bucket.ID, 0, len(f.byOwner))
	for _, i := range f.byOwner {
		if want(i) {
			out = append(out, f.ops[i].ID())
		}
	}
	return slices.CompactFunc(out, func(a, b bucket.ID) bool { return rows.CompareIDs(a, b) == 0 })
}

func all(int) bool { return true }

// buckets returns the buckets of the operations, sorted and without duplicates.
func (f *flight) buckets() []int64 {
	out := make([]int64, len(f.ops))
	for i := range f.ops {
		out[i] = f.ops[i].Bucket
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// split divides operations into flights within the bounds of a transaction. A set stays whole, and
// may exceed the bound of the buckets.
func split(ops []bucket.Operation, out []bucket.Outcome) []*flight {
	var flights []*flight
	for begin := 0; begin < len(ops); {
		seen, text, end := map[int64]bool{}, 0, begin
		for end < len(ops) && end-begin < maxOperations {
			legs := ops[end : end+ops[end].Legs()]
			isNew := false
			for i := range legs {
				text += textOf(&legs[i])
				isNew = isNew || !seen[legs[i].Bucket]
			}
			if isNew && len(seen) >= flightBuckets || text > maxText && end > begin {
				break
			}
			for i := range legs {
				seen[legs[i].Bucket] = true
			}
			end += len(legs)
		}
		flights = append(flights, newFlight(ops[begin:end], out[begin:end]))
		begin = end
	}
	return flights
}

// textOf returns the length in bytes of an operation's texts, including those of its limits.
func textOf(op *bucket.Operation) int {
	r := &op.Request
	n := 3*len(r.ID) + len(r.Reference) + 3*len(r.Dimensions) + len(r.Counts) + 2*len(r.Group)
	for i := range op.Charges {
		n += len(op.Charges[i].Key)
	}
	return n
}
