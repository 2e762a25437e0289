package ledger

import (
	"cmp"
	"encoding/binary"
	"strings"
)

// Leg is a row of a set, as the row of the set's owner lists it: where it was deducted, and under
// which budget. Its request id is LegID of the owner. Tied says that its budget charges others, or
// that others charge it: no part of it is given back or confirmed without them.
type Leg struct {
	Budget, Bucket, Epoch int64
	Tied                  bool
	// Source is the first budget of the sources that the request names for a leg of which this is a
	// part, by which the leg goes; 0 for a leg of one budget. The parts of a leg follow each other, in
	// the order of the sources.
	Source int64
}

// Name returns the budget by which callers name what the row is the leg of, or a part of.
func (l Leg) Name() int64 { return cmp.Or(l.Source, l.Budget) }

// The first byte of the request id of a leg, which no caller's id has.
const (
	legOfBudget = '\x01'
	legOfTenant = '\x02'
)

// SetID returns the id under which the owner of a set of a tenant is recorded, in budget 0.
func SetID(tenant, requestID string) string { return tenant + "\x00" + requestID }

// LegID returns the request id under which the legs of a set are recorded in their own budgets,
// other than the owner's own row. owner is the budget that the set belongs to, or 0 if it belongs
// to a tenant. requestID is the caller's.
func LegID(owner int64, requestID string) string {
	if owner == 0 {
		return string(legOfTenant) + requestID
	}
	id := binary.BigEndian.AppendUint64([]byte{legOfBudget}, uint64(owner)) //nolint:gosec // above 0
	return string(append(id, requestID...))
}

// IsLegID reports whether a recorded request id is LegID's.
func IsLegID(recorded string) bool {
	return recorded != "" && (recorded[0] == legOfTenant || recorded[0] == legOfBudget)
}

// Caller returns the caller's request id of a recorded one. owner is the budget that the set of a
// leg belongs to; 0 for a set of a tenant, and for a deduction that is no leg. isLeg tells them
// apart.
func Caller(recorded string) (requestID string, owner int64, isLeg bool) {
	const number = 8
	switch {
	case recorded == "":
	case recorded[0] == legOfTenant:
		return recorded[1:], 0, true
	case recorded[0] == legOfBudget && len(recorded) > number:
		owner := binary.BigEndian.Uint64([]byte(recorded[1 : 1+number]))
		return recorded[1+number:], int64(owner), true //nolint:gosec // as LegID wrote it
	}
	if _, id, isOwner := strings.Cut(recorded, "\x00"); isOwner {
		return id, 0, false
	}
	return recorded, 0, false
}

// CallerID returns the caller's request id of a recorded one: see Caller.
func CallerID(recorded string) string {
	id, _, _ := Caller(recorded)
	return id
}

// Legs are legs as bytes: see PackLegs. "" has none.
type Legs string

// The third number of a packed leg is its epoch, shifted, with these marks.
const (
	markTied   = 1
	markSource = 2 // the source follows
	markBits   = 2
)

// PackLegs returns legs as bytes: three or four numbers each.
func PackLegs(legs []Leg) Legs {
	var out []byte
	for _, l := range legs {
		numbers := []int64{l.Budget, l.Bucket, l.Epoch << markBits}
		if l.Tied {
			numbers[2] |= markTied
		}
		if l.Source != 0 {
			numbers[2] |= markSource
			numbers = append(numbers, l.Source)
		}
		for _, n := range numbers {
			out = binary.AppendUvarint(out, uint64(n)) //nolint:gosec // above 0
		}
	}
	return Legs(out)
}

// List returns the legs. ok is false for bytes that PackLegs does not return.
func (l Legs) List() (legs []Leg, ok bool) {
	for packed := string(l); packed != ""; {
		var numbers [4]uint64
		for i := range numbers {
			if i == len(numbers)-1 && numbers[2]&markSource == 0 {
				break
			}
			if numbers[i], packed, ok = cutUvarint(packed); !ok {
				return nil, false
			}
		}
		legs = append(legs, Leg{int64(numbers[0]), int64(numbers[1]), //nolint:gosec // 63 bits
			int64(numbers[2] >> markBits),                //nolint:gosec // 62 bits
			numbers[2]&markTied != 0, int64(numbers[3])}) //nolint:gosec // 63 bits
	}
	return legs, true
}
