package console

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/series"
)

// Overview summarises all budgets, with at most `most` budgets in each list.
func (o *Dashboard) Overview(most int) bucket.Overview {
	all, at := o.pass()
	now := o.Now()
	out := bucket.Overview{At: at, Statuses: map[budget.Status]int{},
		Serving: map[bucket.Serving]int{}}
	out.Discrepancies, out.Gap = o.Known()
	counts, troubles := o.recent.counts(now), troubles{calls: o.recent.calls(now)}
	for i := range all {
		s := &all[i]
		word, _, _ := s.serving(now)
		if !s.terms.Archived {
			out.Statuses[s.terms.StatusAt(now)]++
			out.Serving[word]++
		}
		out.Halted += s.halted
		if s.figures.Quarantined > 0 {
			out.Quarantined++
		}
		troubles.add(s, now)
		p := s.projection(now)
		// What cannot serve now does not run out next.
		if serves := word == bucket.ServesFully || word == bucket.ServesPartly; serves &&
			p.ExhaustedAt.After(now) {
			out.Next = append(out.Next, s.view(p, nil, now))
		}
		if refused := counts.of(s); len(refused) > 0 {
			out.Refused = append(out.Refused, s.view(p, refused, now))
		}
		if len(out.Next) > 4*most+1000 {
			out.Next = soonest(out.Next, most)
		}
	}
	out.Next, out.Troubles = soonest(out.Next, most), o.since(troubles.list(), now)
	slices.SortFunc(out.Refused, func(a, b bucket.Summary) int {
		return cmp.Or(cmp.Compare(sum(b.Refusals), sum(a.Refusals)), strings.Compare(a.Name, b.Name))
	})
	out.Refused = out.Refused[:min(most, len(out.Refused))]
	return out
}

func (s *summary) view(p series.Projection, refused map[budget.Code]int,
	now time.Time) bucket.Summary {
	word, units, opensAt := s.serving(now)
	f := &s.figures
	return bucket.Summary{Tenant: s.tenant, Name: s.name, Unit: s.unit, Total: f.Total,
		Unlimited: s.terms.Unlimited, Serving: word, Remaining: units, OpensAt: opensAt, Held: f.Held,
		Used: f.Used, Rate: p.Rate, ExhaustedAt: p.ExhaustedAt, Refusals: refused}
}

func soonest(list []bucket.Summary, most int) []bucket.Summary {
	slices.SortFunc(list, func(a, b bucket.Summary) int {
		return cmp.Or(a.ExhaustedAt.Compare(b.ExhaustedAt), strings.Compare(a.Name, b.Name))
	})
	return list[:min(most, len(list))]
}

func sum(counts map[budget.Code]int) (n int) {
	for _, times := range counts {
		n += times
	}
	return n
}
