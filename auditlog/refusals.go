package auditlog

import (
	"cmp"
	"sync"
)

// MaxRefusals bounds the distinct refusals that wait: half of it for callers that are known and
// half for others.
const MaxRefusals = 1000

// Refusals counts refused authentications and forbidden calls until they are written, one row at a
// time. Refused authentications of one source with one outcome share a row, and so do equal
// forbidden calls, so a flood of them costs few rows. If there are too many distinct ones, those of
// the tenant or the source with the most are counted by outcome alone, so that it does not push out
// those of others. It is safe for concurrent use. The zero value is ready to use.
type Refusals struct {
	mu             sync.Mutex
	known, unknown shares
	rest           map[string]*tally // by outcome alone
	last           int               // which of the three Take took from last
}

// shares holds refusals by whose they are: a tenant, a principal of no tenant, or a source.
type shares struct {
	of map[string]map[refusal]*tally
	n  int
}

// refusal is the key of refusals that share a row. keyID and op are empty for a refused
// authentication.
type refusal struct{ tenant, principal, keyID, source, op, outcome string }

// tally has the time of the first of the refusals of a row, their number, and the key and the call
// that all of them have; empty if they differ.
type tally struct {
	firstMS, times int64
	keyID, op      string
}

// Add counts a refused authentication.
func (f *Refusals) Add(nowMS int64, keyID, source, op, outcome string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(refusal{source: source, outcome: outcome}, tally{nowMS, 1, keyID, op})
}

// forbidden is the outcome of a call that a known principal may not make.
const forbidden = "forbidden"

// Forbid counts a call that a known principal, of one tenant or of "", may not make.
func (f *Refusals) Forbid(nowMS int64, tenant, principal, keyID, source, op string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(refusal{tenant, principal, keyID, source, op, forbidden}, tally{nowMS, 1, keyID, op})
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
		t = tally{min(had.firstMS, t.firstMS), had.times + t.times, ifEqual(had.keyID, t.keyID),
			ifEqual(had.op, t.op)}
	}
	all[key] = &t
	return all
}

func ifEqual(a, b string) string {
	if a != b {
		return ""
	}
	return a
}

// Take returns the row of the refusals that wait longest, if there are any, of those of known
// callers, of other callers, and of those that are counted by outcome alone, in turn.
func (f *Refusals) Take() (row Row, found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range 3 {
		f.last = (f.last + 1) % 3
		switch f.last {
		case 0:
			row, found = f.known.take()
		case 1:
			row, found = f.unknown.take()
		default:
			outcome, t := first(f.rest, cmp.Compare[string])
			if found = t != nil; found {
				row = rowOf(refusal{outcome: outcome}, *t)
				delete(f.rest, outcome)
			}
		}
		if found {
			return row, true
		}
	}
	return row, false
}

// take removes and returns the row of the refusals that wait longest.
func (s *shares) take() (Row, bool) {
	var one refusal
	var t *tally
	var owner string
	for name, list := range s.of {
		key, found := first(list, compareRefusals)
		if t == nil || found.firstMS < t.firstMS ||
			found.firstMS == t.firstMS && compareRefusals(key, one) < 0 {
			one, t, owner = key, found, name
		}
	}
	if t == nil {
		return Row{}, false
	}
	delete(s.of[owner], one)
	if s.n--; len(s.of[owner]) == 0 {
		delete(s.of, owner)
	}
	return rowOf(one, *t), true
}

// first returns the tally that waits longest, or nil.
func first[K comparable](all map[K]*tally, compare func(a, b K) int) (key K, t *tally) {
	for other, found := range all {
		if t == nil || cmp.Or(cmp.Compare(found.firstMS, t.firstMS), compare(other, key)) < 0 {
			key, t = other, found
		}
	}
	return key, t
}

func compareRefusals(a, b refusal) int {
	return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.principal, b.principal),
		cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.keyID, b.keyID), cmp.Compare(a.op, b.op),
		cmp.Compare(a.outcome, b.outcome))
}

func rowOf(one refusal, t tally) Row {
	return Row{AtMS: t.firstMS, Tenant: one.tenant, Principal: one.principal, KeyID: t.keyID,
		Source: one.source, Op: t.op, Outcome: one.outcome, Times: t.times}
}

// Return adds a row of Take again, for a caller that could not append it.
func (f *Refusals) Return(row Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := tally{row.AtMS, row.Times, row.KeyID, row.Op}
	switch {
	case row.Principal != "":
		f.add(refusal{row.Tenant, row.Principal, row.KeyID, row.Source, row.Op, row.Outcome}, t)
	case row.Source == "":
		f.rest = counted(f.rest, row.Outcome, t)
	default:
		f.add(refusal{source: row.Source, outcome: row.Outcome}, t)
	}
}
