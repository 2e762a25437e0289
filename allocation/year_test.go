package allocation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/allocation/reference"
	"github.com/budgetd/budgetd/budget"
)

// account keeps a daily budget with this package's functions, as a database does: it reads the
// clock only when something happens. It has no buckets, so all unused units are undistributed.
type account struct {
	t                         *testing.T
	d                         budget.Definition
	unfunded, u, forfeited    int64
	periods                   []budget.Period
	used                      []int64 // per period
	returned, passed, expired []int64
	uses                      []counted // per event
}

type counted struct {
	at     time.Time
	period int
	units  int64
}

func begin(t *testing.T, d budget.Definition) *account {
	a := &account{t: t, d: d}
	unfunded, p := allocation.Begin(d, d.StartAt)
	a.unfunded = unfunded
	a.open(p)
	a.u = p.Funded
	return a
}

func (a *account) open(p budget.Period) {
	a.periods = append(a.periods, p)
	a.used, a.returned = append(a.used, 0), append(a.returned, 0)
	a.passed, a.expired = append(a.passed, 0), append(a.expired, 0)
}

func (a *account) current() *budget.Period { return &a.periods[len(a.periods)-1] }

// returnFrom records what left a period that is over.
func (a *account) returnFrom(period int, m allocation.Movement) {
	a.returned[period] += m.Unfunded
	a.passed[period] += m.Undistributed
	a.expired[period] += m.Forfeited
}

func (a *account) move(m allocation.Movement) {
	a.unfunded, a.u, a.forfeited = a.unfunded+m.Unfunded, a.u+m.Undistributed, a.forfeited+m.Forfeited
}

// rollTo rolls over period by period.
func (a *account) rollTo(now time.Time) {
	for p := *a.current(); !p.Over && p.OverAt(now); p = *a.current() {
		next, ok := allocation.Next(a.d, p, now)
		used := int64(0)
		for _, use := range a.uses {
			if ok && next.Start.Before(p.End) && !use.at.Before(next.Start) {
				used += use.units
			}
		}
		rolled := allocation.RollOver(a.d, p, next, ok, allocation.Account{Unfunded: a.unfunded, Undistributed: a.u,
			Used: used})
		a.returnFrom(len(a.periods)-1, rolled.Left)
		a.move(rolled.Moved)
		a.open(rolled.Period)
	}
}

// apply applies an event and reports whether it had an effect.
func (a *account) apply(e reference.Event) bool {
	a.rollTo(e.At)
	a.uses = append(a.uses, counted{})
	p := a.current()
	switch {
	case e.Use > 0:
		if p.Over || e.At.Before(p.Start) || a.u < e.Use {
			return false
		}
		a.u -= e.Use
		a.used[len(a.used)-1] += e.Use
		a.uses[len(a.uses)-1] = counted{e.At, len(a.periods) - 1, e.Use}
		return true
	case e.Refund > 0:
		return a.refund(&a.uses[e.Of], e)
	case e.Quantity > 0:
		before := a.d
		rule := *before.Rule
		rule.Quantity = e.Quantity
		a.d.Rule = &rule
		p.End, _ = allocation.Change(before, a.d, *p, e.At)
		a.topUp(e.At)
		a.rollTo(e.At)
		return true
	case e.Change < 0:
		return a.shrink(-e.Change)
	}
	a.d.TotalQuantity, a.unfunded = a.d.TotalQuantity+e.Change, a.unfunded+e.Change
	a.topUp(e.At)
	return true
}

func (a *account) topUp(now time.Time) {
	if p := a.current(); !p.OverAt(now) {
		units := allocation.TopUp(a.d, *p, a.unfunded)
		p.Funded += units
		a.move(allocation.Movement{Unfunded: -units, Undistributed: units})
	}
}

func (a *account) refund(use *counted, e reference.Event) bool {
	if use.units < e.Refund {
		return false
	}
	use.units -= e.Refund
	a.used[use.period] -= e.Refund
	if p := a.current(); use.period == len(a.periods)-1 && !p.Over {
		a.u += e.Refund
		return true
	}
	m := allocation.Return(a.d, *a.current(), 0, e.Refund)
	a.returnFrom(use.period, m)
	a.current().Carried += m.Undistributed
	a.move(m)
	return true
}

func (a *account) shrink(units int64) bool {
	if a.unfunded+a.u < units {
		return false
	}
	a.d.TotalQuantity -= units
	if short := units - a.unfunded; short > 0 {
		p := a.current()
		funded := min(short, p.Funded)
		p.Funded -= funded
		a.returned[len(a.periods)-1] += short - funded
		a.move(allocation.Movement{Unfunded: short, Undistributed: -short})
	}
	a.unfunded -= units
	return true
}

// conserved fails the test unless T = F + U + X + used and all terms are at least 0.
func (a *account) conserved(after reference.Event) {
	a.t.Helper()
	sum := a.unfunded + a.u + a.forfeited
	for _, use := range a.uses {
		sum += use.units
	}
	if sum != a.d.TotalQuantity || a.unfunded < 0 || a.u < 0 || a.forfeited < 0 {
		a.t.Fatalf("after %+v: total %d, F %d, U %d, X %d, in all %d", after, a.d.TotalQuantity, a.unfunded, a.u,
			a.forfeited, sum)
	}
}

// TestAYear runs every rule with every destination of unused units and late refunds through a year
// of random events, and compares every answer and every figure with the reference books.
func TestAYear(t *testing.T) {
	segments := windows(window("00:00", "06:00", 2_000), window("06:00", "12:00", 3_000),
		window("14:30", "24:00", 6_000))
	calendarOf := func(every allocation.Every, quantity int64) allocation.Rule {
		return allocation.Rule{Kind: allocation.Calendar, Every: every, Quantity: quantity}
	}
	location := zone(t, "Europe/Berlin")
	start, end := instant(t, "2027-02-10T09:30:00+01:00"), instant(t, "2028-02-10T09:30:00+01:00")
	known := map[allocation.Every][]reference.Period{} // calendar periods do not depend on the quantity
	for seed, rule := range []allocation.Rule{{Kind: allocation.Free}, segments,
		calendarOf(allocation.Hour, 0), calendarOf(allocation.Hour, 500),
		calendarOf(allocation.Day, 0), calendarOf(allocation.Day, 11_000),
		calendarOf(allocation.Week, 0), calendarOf(allocation.Week, 80_000),
		calendarOf(allocation.Month, 0), calendarOf(allocation.Month, 300_000)} {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		periods := known[rule.Every]
		if rule.Kind != allocation.Calendar || periods == nil {
			periods = reference.Periods(referenceRule(rule), location, start, end)
			known[rule.Every] = periods
		}
		for _, unused := range []allocation.Where{allocation.SpreadOut, allocation.ToNext, allocation.Forfeit} {
			for _, late := range []allocation.Where{budget.ToTotal, allocation.ToNext, allocation.Forfeit} {
				rule := rule
				if rule.Kind != allocation.Free {
					rule.Unused = unused
				}
				if unused == allocation.ToNext && late == allocation.ToNext {
					rule.MaxRollover = 1_000
				}
				d := budget.Definition{Type: budget.Daily, Rule: &rule, LateRefund: late, Timezone: location.String(),
					StartAt: start, EndAt: end, TotalQuantity: 3_650_000}
				name := fmt.Sprintf("%s/%s/%d/unused %s/late %s", rule.Kind, rule.Every, rule.Quantity, unused, late)
				t.Run(name, func(t *testing.T) {
					playYear(t, d, periods, reference.Events(r, referenceRule(rule), periods, reference.Pace{Pause: 6 * time.Hour,
						Gap: 240 * time.Hour, GapEvery: 60, Use: d.TotalQuantity / 100, Append: d.TotalQuantity / 20,
						Shrink: d.TotalQuantity / 15}))
				})
			}
		}
	}
}

// playYear plays the events on both sides and compares them.
func playYear(t *testing.T, d budget.Definition, periods []reference.Period, list []reference.Event) {
	t.Helper()
	book := reference.Play(referenceRule(*d.Rule), periods, string(d.LateRefund), d.TotalQuantity, list, d.EndAt)
	a := begin(t, d)
	accepted, refused := 0, 0
	for i, e := range list {
		got := a.apply(e)
		if want := book.Replies[i].Answer == reference.Accepted; got != want {
			t.Fatalf("event %d %+v: %v, want %+v", i, e, got, book.Replies[i])
		}
		if got {
			accepted++
		} else {
			refused++
		}
		if i%20 == 0 || i == len(list)-1 {
			a.conserved(e)
		}
	}
	a.rollTo(d.EndAt)
	if a.unfunded != book.NotFunded || a.u != 0 || a.forfeited != book.Forfeited || a.d.TotalQuantity != book.Total {
		t.Errorf("F %d, U %d, X %d, T %d, want %d, 0, %d, %d", a.unfunded, a.u, a.forfeited, a.d.TotalQuantity,
			book.NotFunded, book.Forfeited, book.Total)
	}
	if last := len(a.periods) - 1; !a.periods[last].Over || last != len(book.Pages) {
		t.Fatalf("%d periods, want %d", last, len(book.Pages))
	}
	for i, want := range book.Pages {
		p := a.periods[i]
		got := reference.Page{Start: p.Start, End: p.End, Period: want.Period, Funded: p.Funded, Carried: p.Carried,
			Used: a.used[i], Before: p.Before, Returned: a.returned[i], Passed: a.passed[i], Forfeited: a.expired[i]}
		if !got.Start.Equal(want.Start) || !got.End.Equal(want.End) {
			t.Fatalf("period %d is %s to %s, want %s to %s", i, got.Start, got.End, want.Start, want.End)
		}
		if got.Start, got.End = want.Start, want.End; got != want {
			t.Fatalf("period %d: %+v, want %+v", i, got, want)
		}
	}
	if accepted < 100 || refused < 10 || !slices.ContainsFunc(book.Pages, func(p reference.Page) bool { return p.Used > 0 }) {
		t.Errorf("%d events accepted, %d refused", accepted, refused)
	}
}
