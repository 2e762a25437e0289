package console

import (
	"cmp"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// trouble names what needs a person.
type trouble struct {
	cause    bucket.Cause
	instance string
}

// troubles collects what needs a person in a pass over all budgets.
type troubles struct {
	calls tallies
	found map[trouble]*hurting
}

// hurting are the budgets of a trouble. worst has those with the most unserved calls.
type hurting struct {
	bucket.Trouble
	worst []ranked
}

// add adds the troubles of a budget.
func (t *troubles) add(s *summary, now time.Time) {
	calls := t.calls.of(s)
	for _, of := range s.troubles(calls, now) {
		t.note(of, s, calls)
	}
}

// troubles returns what of a budget needs a person; nothing of an archived one.
func (s *summary) troubles(calls bucket.Answered, now time.Time) (out []trouble) {
	if s.terms.Archived {
		return nil
	}
	for _, instance := range s.away.Instances {
		out = append(out, trouble{bucket.LostStore, instance})
	}
	if s.figures.Quarantined > 0 {
		out = append(out, trouble{cause: bucket.Undecided})
	}
	if s.halted > 0 {
		out = append(out, trouble{cause: bucket.Stopped})
	}
	if calls.Unserved == 0 { // what nobody asks for hurts nobody
		return out
	}
	switch word, _, _ := s.serving(now); word {
	case bucket.UsedUp:
		out = append(out, trouble{cause: bucket.Refusing})
	case bucket.PeriodUsedUp:
		out = append(out, trouble{cause: bucket.Waiting})
	}
	return out
}

func (t *troubles) note(of trouble, s *summary, calls bucket.Answered) {
	const shown = 3
	if t.found == nil {
		t.found = map[trouble]*hurting{}
	}
	h := t.found[of]
	if h == nil {
		h = &hurting{Trouble: bucket.Trouble{Cause: of.cause, Instance: of.instance}}
		t.found[of] = h
	}
	h.Budgets++
	switch of.cause {
	case bucket.LostStore:
		h.Buckets += s.away.Buckets
	case bucket.Stopped:
		h.Buckets += s.halted
	}
	h.Unserved += calls.Unserved
	if len(h.worst) == shown && float64(calls.Unserved) <= h.worst[shown-1].value {
		return
	}
	h.worst = append(h.worst, ranked{summary: s, value: float64(calls.Unserved)})
	slices.SortStableFunc(h.worst, func(a, b ranked) int { return cmp.Compare(b.value, a.value) })
	h.worst = h.worst[:min(shown, len(h.worst))]
}

// order are the causes, the worst first.
var order = []bucket.Cause{bucket.LostStore, bucket.Undecided, bucket.Stopped, bucket.Refusing,
	bucket.Waiting}

// list returns the troubles, the worst first.
func (t *troubles) list() []bucket.Trouble {
	out := make([]bucket.Trouble, 0, len(t.found))
	for _, h := range t.found {
		for _, w := range h.worst {
			h.Worst = append(h.Worst, bucket.BudgetRef{Tenant: w.tenant, Name: w.name})
		}
		out = append(out, h.Trouble)
	}
	slices.SortFunc(out, func(a, b bucket.Trouble) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Cause), slices.Index(order, b.Cause)),
			cmp.Compare(a.Instance, b.Instance))
	})
	return out
}

// since tells troubles since when they are known, and forgets those that are over.
func (o *Dashboard) since(list []bucket.Trouble, now time.Time) []bucket.Trouble {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := make(map[trouble]time.Time, len(list))
	for i := range list {
		of := trouble{list[i].Cause, list[i].Instance}
		at, known := o.seen[of]
		if !known {
			at = now
		}
		seen[of], list[i].Since = at, at
	}
	o.seen = seen
	return list
}
