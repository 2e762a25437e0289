package console

import (
	"math"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

const (
	// slot is the time whose calls are counted together, slots their number: a minute, and the slot
	// that is not over.
	slot, slots = 10 * time.Second, 7
)

// minute counts the calls of a budget, by slots of time.
type minute [slots]struct {
	at int64
	n  bucket.Answered
}

// callCounts are the calls of a shard's budgets. They are bounded by counted: others are not
// counted until some budgets have had no call for a minute.
type callCounts map[bucket.BudgetRef]*minute

// count counts a call of a budget, with nil for an accepted one.
func (c callCounts) count(now time.Time, ref bucket.BudgetRef, refused *budget.Error) {
	m := c[ref]
	at := now.UnixNano() / int64(slot)
	if m == nil {
		if len(c) >= counted && !c.forget(at) {
			return
		}
		m = new(minute)
		c[ref] = m
	}
	one := &m[at%slots]
	if one.at != at {
		one.at, one.n = at, bucket.Answered{}
	}
	switch {
	case refused == nil:
		one.n.Accepted++
	case refused.Never || kindOf(refused.Code) == limited:
		one.n.Refused++
	default:
		one.n.Unserved++
	}
}

// forget removes the budgets without a call in the last minute, and reports whether there are any.
func (c callCounts) forget(at int64) bool {
	before := len(c)
	for ref, m := range c {
		if m.sum(at) == (bucket.Answered{}) {
			delete(c, ref)
		}
	}
	return len(c) < before
}

// sum adds up the last minute.
func (m *minute) sum(at int64) (out bucket.Answered) {
	for i := range m {
		if m[i].at > at-slots {
			out = out.Plus(m[i].n)
		}
	}
	return out
}

// callsOf adds up the last minute of a budget, by all references that callers use.
func (r *recent) callsOf(now time.Time, refs ...bucket.BudgetRef) (out bucket.Answered) {
	at := now.UnixNano() / int64(slot)
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for _, ref := range refs {
			if m := s.calls[ref]; m != nil {
				out = out.Plus(m.sum(at))
			}
		}
		s.mu.Unlock()
	}
	return out
}

// tallies are the calls of budgets in the last minute, by the references that callers use.
type tallies map[bucket.BudgetRef]bucket.Answered

// calls adds up the last minute of all budgets.
func (r *recent) calls(now time.Time) tallies {
	at, out := now.UnixNano()/int64(slot), tallies{}
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for ref, m := range s.calls {
			out[ref] = out[ref].Plus(m.sum(at))
		}
		s.mu.Unlock()
	}
	return out
}

// of returns the calls of a budget.
func (t tallies) of(s *summary) bucket.Answered {
	return t[bucket.BudgetRef{Tenant: s.tenant, Name: s.name}].Plus(
		t[bucket.BudgetRef{Tenant: s.tenant, ID: s.id}])
}

// Calls returns what this node answered for a budget in the last minute.
func (o *Dashboard) Calls(id int64, tenant, name string) bucket.Answered {
	return o.recent.callsOf(o.Now(), bucket.BudgetRef{Tenant: tenant, Name: name},
		bucket.BudgetRef{Tenant: tenant, ID: id})
}

// worst is the order of what hurts: what refuses calls before what will. Other words follow.
var worst = map[bucket.Serving]float64{bucket.StoreDown: 1, bucket.UsedUp: 2,
	bucket.PeriodUsedUp: 3, bucket.ServesPartly: 4, bucket.Serving(budget.Paused): 5,
	bucket.ServesFully: 6, bucket.Serving(budget.Pending): 7, bucket.Serving(budget.Expired): 8}

// hurt returns how early a budget comes in ByServing: by the word, then by its unserved calls. One
// that serves by its figures and refuses calls all the same comes with those that serve partly.
func hurt(word bucket.Serving, calls bucket.Answered) float64 {
	rank, known := worst[word]
	if !known {
		return none
	}
	if rank > worst[bucket.ServesPartly] && calls.Hurts() {
		rank = worst[bucket.ServesPartly]
	}
	return rank + 0.5/(1+math.Min(float64(calls.Unserved), 1e9))
}
