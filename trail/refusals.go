package trail

import (
	"cmp"
	"slices"
	"sync"
)

// MaxRefusals bounds the distinct refusals that are counted between two calls of Take.
const MaxRefusals = 1000

// Refusals counts refused authentications and forbidden calls. Equal ones become one row with a
// count, so that a flood of them costs few rows. It is safe for concurrent use. The zero value is
// ready to use.
type Refusals struct {
	mu      sync.Mutex
	counted map[refusal]*tally
}

// refusal is the key of equal refusals.
type refusal struct{ principal, keyID, source, op, outcome string }

// tally has the time of the first of equal refusals, and their number.
type tally struct{ firstMS, times int64 }

// Add counts a refused authentication. After MaxRefusals distinct refusals, new ones are counted by
// outcome alone.
func (f *Refusals) Add(nowMS int64, keyID, source, op, outcome string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(nowMS, refusal{"", keyID, source, op, outcome}, 1)
}

// forbidden is the outcome of a call that a known principal may not make.
const forbidden = "forbidden"

// Forbid counts a call that a known principal may not make.
func (f *Refusals) Forbid(nowMS int64, principal, keyID, source, op string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(nowMS, refusal{principal, keyID, source, op, forbidden}, 1)
}

func (f *Refusals) add(nowMS int64, one refusal, times int64) {
	if f.counted == nil {
		f.counted = map[refusal]*tally{}
	}
	if f.counted[one] == nil && len(f.counted) >= MaxRefusals {
		one = refusal{outcome: one.outcome}
	}
	if f.counted[one] == nil {
		f.counted[one] = &tally{firstMS: nowMS}
	}
	f.counted[one].times += times
}

// Take returns rows for all refusals since the last call, the earliest first.
func (f *Refusals) Take() []Row {
	f.mu.Lock()
	counted := f.counted
	f.counted = nil
	f.mu.Unlock()
	rows := make([]Row, 0, len(counted))
	for one, t := range counted {
		rows = append(rows, Row{AtMS: t.firstMS, Principal: one.principal, KeyID: one.keyID,
			Source: one.source, Op: one.op,
			Outcome: one.outcome, Times: t.times})
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.AtMS, b.AtMS), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Principal, b.Principal),
			cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Outcome, b.Outcome))
	})
	return rows
}

// Return adds rows of Take again, for a caller that could not append them.
func (f *Refusals) Return(rows []Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range rows {
		f.add(row.AtMS, refusal{row.Principal, row.KeyID, row.Source, row.Op, row.Outcome}, row.Times)
	}
}
