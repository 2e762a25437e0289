package trail

import (
	"cmp"
	"slices"
	"sync"
)

// MaxRefusals bounds the distinct refusals that are counted between two calls of Take: half of it
// for callers that are known and half for others.
const MaxRefusals = 1000

// Refusals counts refused authentications and forbidden calls. Equal ones become one row with a
// count, so that a flood of them costs few rows. If there are too many distinct ones, those of the
// tenant or the source with the most are counted by outcome alone, so that it does not push out
// those of others. It is safe for concurrent use. The zero value is ready to use.
type Refusals struct {
	mu             sync.Mutex
	known, unknown shares
	rest           map[string]*tally // by outcome alone
}

// shares holds refusals by whose they are: a tenant, a principal of no tenant, or a source.
type shares struct {
	of map[string]map[refusal]*tally
	n  int
}

// refusal is the key of equal refusals.
type refusal struct{ tenant, principal, keyID, source, op, outcome string }

// tally has the time of the first of equal refusals, and their number.
type tally struct{ firstMS, times int64 }

// Add counts a refused authentication.
func (f *Refusals) Add(nowMS int64, keyID, source, op, outcome string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(refusal{"", "", keyID, source, op, outcome}, tally{nowMS, 1})
}

// forbidden is the outcome of a call that a known principal may not make.
const forbidden = "forbidden"

// Forbid counts a call that a known principal, of one tenant or of "", may not make.
func (f *Refusals) Forbid(nowMS int64, tenant, principal, keyID, source, op string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(refusal{tenant, principal, keyID, source, op, forbidden}, tally{nowMS, 1})
}

func (f *Refusals) add(one refusal, t tally) {
	s, owner := &f.known, cmp.Or(one.tenant, one.principal)
	if one.principal == "" {
		s, owner = &f.unknown, one.source
	}
	if s.of[owner][one] == nil && s.n >= MaxRefusals/2 {
		most := owner
		for other, list := range s.of {
			if len(list) > max(len(s.of[most]), len(s.of[owner])+1) {
				most = other
			}
		}
		if most == owner {
			f.rest = counted(f.rest, one.outcome, t)
			return
		}
		for old, had := range s.of[most] {
			f.rest = counted(f.rest, old.outcome, *had)
			delete(s.of[most], old)
			s.n--
			break
		}
	}
	if s.of == nil {
		s.of = map[string]map[refusal]*tally{}
	}
	before := len(s.of[owner])
	s.of[owner] = counted(s.of[owner], one, t)
	s.n += len(s.of[owner]) - before
}

// counted adds a tally to that of a key, and returns the map, which may have been nil.
func counted[K comparable](all map[K]*tally, key K, t tally) map[K]*tally {
	if all == nil {
		all = map[K]*tally{}
	}
	if had := all[key]; had != nil {
		t = tally{min(had.firstMS, t.firstMS), had.times + t.times}
	}
	all[key] = &t
	return all
}

// Take returns rows for all refusals since the last call, the earliest first.
func (f *Refusals) Take() []Row {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := make([]Row, 0, f.known.n+f.unknown.n+len(f.rest))
	for _, s := range []shares{f.known, f.unknown} {
		for _, list := range s.of {
			for one, t := range list {
				rows = append(rows, Row{AtMS: t.firstMS, Tenant: one.tenant, Principal: one.principal,
					KeyID: one.keyID, Source: one.source, Op: one.op, Outcome: one.outcome,
					Times: t.times})
			}
		}
	}
	for outcome, t := range f.rest {
		rows = append(rows, Row{AtMS: t.firstMS, Outcome: outcome, Times: t.times})
	}
	f.known, f.unknown, f.rest = shares{}, shares{}, nil
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.AtMS, b.AtMS), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Tenant, b.Tenant),
			cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Outcome, b.Outcome))
	})
	return rows
}

// Return adds rows of Take again, for a caller that could not append them.
func (f *Refusals) Return(rows []Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range rows {
		f.add(refusal{row.Tenant, row.Principal, row.KeyID, row.Source, row.Op, row.Outcome},
			tally{row.AtMS, row.Times})
	}
}
