package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var periodTests = []sqlTest{
	{"periods/the same rule with its defaults written out", sameRule},
	{"periods/those that are over, the first first", periodsOver},
	{"roll over/not before the end", rollOverEarly},
	{"roll over/at the end", rollOverAtEnd},
	{"roll over/by unused", rollOverUnused},
	{"roll over/several that nobody rolled over", rollOverMissed},
	{"roll over/more than at once", rollOverMany},
	{"roll over/leaves out lanes", rollOverWithout},
	{"roll over/a fenced epoch stays", rollOverFenced},
	{"roll over/the last, and another end", rollOverLast},
	{"roll over/a rule changed within", rollOverChanged},
	{"roll over/a rule changed before it began", rollOverBefore},
	{"roll over/in store mode epochs are closed in their stores", rollOverInStore},
	{"roll over/an epoch that opens late ends", rollOverOpening},
	{"periods/nothing is given of one that is over", overGivesNothing},
	{"periods/late returns", periodReturns},
	{"periods/the end moves", periodEndMoves},
	{"periods/quarantined units", periodQuarantine},
	{"periods/the sum of the open one", periodJudge},
	{"periods/append and shrink", periodAdjust},
}

// day is the rule of most tests: 40 units a day.
func day(unused budget.Where) budget.Rule {
	return budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 40, Unused: unused}
}

// daily makes a budget whose first day begins now, in UTC, with two open buckets.
func (w *sqlWorld) daily(name string, total int64, rule budget.Rule, edits ...func(*budget.Definition)) bucket.Budget {
	w.Helper()
	w.clock.Advance(diffStart.Sub(w.db.Now()))
	all := append([]func(*budget.Definition){func(d *budget.Definition) {
		d.Type, d.Rule, d.StartAt = budget.Daily, &rule, diffStart
	}}, edits...)
	return w.create(name, total, 2, all...)
}

func late(where budget.Where) func(*budget.Definition) {
	return func(d *budget.Definition) { d.LateRefund = where }
}

func inStore(d *budget.Definition) { d.Durability = budget.Store }

func endsAfter(days int) func(*budget.Definition) {
	return func(d *budget.Definition) { d.EndAt = diffStart.AddDate(0, 0, days) }
}

// until moves the clock to so long after the first day began.
func (w *sqlWorld) until(d time.Duration) {
	w.Helper()
	w.clock.Advance(diffStart.Add(d).Sub(w.db.Now()))
}

const dayLong = 24 * time.Hour

// rollOver rolls a budget over, which must be due, and opens its epochs.
func (w *sqlWorld) rollOver(id int64, without ...bucket.Lane) bucket.RolledOver {
	w.Helper()
	done := must(w.db.RollOver(w.ctx, id, without...))(w)
	equal(w, "rolled over", done.Done, true)
	for i := range done.Opened {
		w.open(done.Opened[i].Ref())
	}
	w.deliver()
	return done
}

// holds compares F, U + ΣO, R, S and X.
func (w *sqlWorld) holds(what string, id, unfunded, left, returning, used, forfeited int64) {
	w.Helper()
	f := must(w.db.Figures(w.ctx, id))(w)
	got := [5]int64{f.Unfunded, f.Undistributed + f.Remaining + f.Unsettled, f.Returning, f.Used, f.Forfeited}
	if want := [5]int64{unfunded, left, returning, used, forfeited}; got != want {
		w.Errorf("%s: F, U + O, R, S, X are %v, want %v", what, got, want)
	}
	if a := must(w.db.Accounts(w.ctx, id))(w); a.Check() != nil {
		w.Errorf("%s: %v", what, a.Check())
	}
}

func (w *sqlWorld) period(id, number int64) ledger.PeriodFigures {
	w.Helper()
	a := must(w.db.Accounts(w.ctx, id))(w)
	for _, p := range a.Periods {
		if p.Number == number {
			return p
		}
	}
	w.Fatalf("no period %d of %+v", number, a.Periods)
	return ledger.PeriodFigures{}
}

// gone compares what a period got and what left it, to F, later ones, X.
func (w *sqlWorld) gone(what string, id, number int64, want [5]int64) {
	w.Helper()
	p := w.period(id, number)
	if got := [5]int64{p.Funded, p.Carried, p.Returned, p.Passed, p.Forfeited}; got != want {
		w.Errorf("%s: period %d got and gave back %v, want %v", what, number, got, want)
	}
}

func periodsOver(w *sqlWorld) {
	a := w.daily("a", 1000, day(""))
	hours := budget.Rule{Kind: budget.Calendar, Every: budget.Hour, Quantity: 1}
	b := w.daily("b", 1000, hours)
	w.create("promo", 10, 1)
	over := func(limit int) []int64 { return must(w.db.Over(w.ctx, limit))(w) }
	w.until(time.Hour - time.Millisecond)
	equal(w, "before any end", len(over(10)), 0)
	w.until(time.Hour)
	if got := over(10); !slices.Equal(got, []int64{b.ID}) {
		w.Errorf("over %v, want %v", got, b.ID)
	}
	w.until(dayLong)
	if got := over(10); !slices.Equal(got, []int64{b.ID, a.ID}) {
		w.Errorf("over %v, want %v and %v", got, b.ID, a.ID)
	}
	if got := over(1); !slices.Equal(got, []int64{b.ID}) {
		w.Errorf("the first of those over: %v", got)
	}
	w.rollOver(a.ID)
	w.rollOver(b.ID)
	equal(w, "after the roll-overs", len(over(10)), 0)
}

func rollOverEarly(w *sqlWorld) {
	b := w.daily("b", 1000, day(""))
	w.until(dayLong - time.Millisecond)
	w.unchanged(b.ID, "a roll-over before the end", func() {
		done := must(w.db.RollOver(w.ctx, b.ID))(w)
		equal(w, "done", done.Done, false)
		equal(w, "period", done.Period, w.read(b.ID).Period)
	})
	_, err := w.db.RollOver(w.ctx, 1<<40)
	w.refused(err, budget.BudgetNotFound)
}

func rollOverAtEnd(w *sqlWorld) {
	b := w.daily("b", 1000, day(""))
	refs := []bucket.Ref{b.Buckets[0].Ref(), b.Buckets[1].Ref()}
	equal(w, "ends", b.Buckets[0].Epoch.EndAt, diffStart.Add(dayLong))
	w.use(refs[0], "a", 15)
	w.book(refs[1]).deduct("too late", 5)
	w.until(dayLong)
	done := w.rollOver(b.ID)
	if got := amounts(w.read(b.ID), done.Handout); !slices.Equal(got, []int64{20, 20}) || len(done.Opened) != 2 {
		w.Errorf("granted %v, opened %d", got, len(done.Opened))
	}
	read := w.read(b.ID)
	want := budget.Period{Number: 2, Start: diffStart.Add(dayLong), End: diffStart.Add(2 * dayLong)}
	if got := read.Period; got != want || done.Period != want {
		w.Errorf("period %+v, answered %+v, want %+v", got, done.Period, want)
	}
	if read.ListVersion <= b.ListVersion {
		w.Errorf("list version %d became %d", b.ListVersion, read.ListVersion)
	}
	for i := range read.Buckets {
		e := read.Buckets[i].Epoch
		equal(w, "epoch", e.Number, 2)
		equal(w, "its period", e.Period, 2)
		equal(w, "its end", e.EndAt, want.End)
		equal(w, "out_cnt", read.Buckets[i].OutCnt, 1)
		equal(w, "the old one", w.epoch(refs[i]).Status, ledger.Lost)
	}
	w.holds("after the first day", b.ID, 945, 40, 0, 15, 0)
	w.gone("the first day", b.ID, 1, [5]int64{40, 0, 25, 0, 0})
	if r := w.tryCommit(w.book(refs[1]))[0]; r.Err == nil || len(r.Outcomes) > 0 {
		w.Errorf("an entry of the old epoch: %+v", r)
	}
	w.unchanged(b.ID, "a second roll-over", func() { must(w.db.RollOver(w.ctx, b.ID))(w) })
	w.use(read.Buckets[1].Ref(), "b", 20)
}

func rollOverUnused(w *sqlWorld) {
	for _, tc := range []struct {
		unused                    budget.Where
		unfunded, left, forfeited int64
		gone, next                [5]int64
	}{
		{budget.Spread, 930, 40, 0, [5]int64{40, 0, 10, 0, 0}, [5]int64{40}},
		{budget.Next, 920, 50, 0, [5]int64{40, 0, 0, 10, 0}, [5]int64{40, 10}},
		{budget.Forfeit, 920, 40, 10, [5]int64{40, 0, 0, 0, 10}, [5]int64{40}},
	} {
		b := w.daily(string(tc.unused), 1000, day(tc.unused))
		w.use(b.Buckets[0].Ref(), "a", 20)
		w.use(b.Buckets[1].Ref(), "b", 10)
		w.until(dayLong)
		w.rollOver(b.ID)
		w.holds(string(tc.unused), b.ID, tc.unfunded, tc.left, 0, 30, tc.forfeited)
		w.gone(string(tc.unused), b.ID, 1, tc.gone)
		w.gone(string(tc.unused), b.ID, 2, tc.next)
	}
}

func rollOverMissed(w *sqlWorld) {
	b := w.daily("b", 1000, day(budget.Next))
	w.use(b.Buckets[0].Ref(), "a", 10)
	w.until(4*dayLong + time.Hour)
	done := w.rollOver(b.ID)
	equal(w, "period", done.Period.Number, 5)
	w.holds("after four days", b.ID, 800, 190, 0, 10, 0)
	w.gone("a day that nobody opened", b.ID, 3, [5]int64{40, 70, 0, 110, 0})
	w.gone("today", b.ID, 5, [5]int64{40, 150, 0, 0, 0})
	equal(w, "begins", w.period(b.ID, 5).Start, diffStart.Add(4*dayLong))
	c := w.daily("c", 1000, day(budget.Forfeit))
	w.until(30 * dayLong)
	w.rollOver(c.ID)
	w.holds("all of it has expired", c.ID, 0, 0, 0, 0, 1000)
}

func rollOverMany(w *sqlWorld) {
	hours := budget.Rule{Kind: budget.Calendar, Every: budget.Hour, Quantity: 1, Unused: budget.Next}
	b := w.daily("b", 1000, hours)
	w.until((bucket.PeriodsAtOnce + 10) * time.Hour)
	first := must(w.db.RollOver(w.ctx, b.ID))(w)
	equal(w, "as far as one goes", first.Period.Number, bucket.PeriodsAtOnce+1)
	equal(w, "opened", len(first.Opened), 0)
	equal(w, "due still", len(must(w.db.Over(w.ctx, 10))(w)), 1)
	equal(w, "the rest", w.rollOver(b.ID).Period.Number, bucket.PeriodsAtOnce+11)
	w.holds("what all hours left", b.ID, 1000-bucket.PeriodsAtOnce-11, bucket.PeriodsAtOnce+11, 0, 0, 0)
}

func rollOverWithout(w *sqlWorld) {
	b := w.daily("b", 1000, day(""))
	w.until(dayLong)
	done := w.rollOver(b.ID, laneOf(0))
	if got := amounts(w.read(b.ID), done.Handout); !slices.Equal(got, []int64{0, 40}) || len(done.Opened) != 1 {
		w.Errorf("granted %v, opened %d", got, len(done.Opened))
	}
	equal(w, "the other has ended", w.read(b.ID).Buckets[0].Epoch.Status, ledger.Lost)
	w.holds("all are in the second bucket", b.ID, 960, 40, 0, 0, 0)
	if got := must(w.db.Unfinished(w.ctx, 10))(w).Offline; !slices.Equal(got, []int64{b.ID}) {
		w.Errorf("to be settled: %v", got)
	}
}

func rollOverFenced(w *sqlWorld) {
	for _, tc := range []struct {
		unused                    budget.Where
		unfunded, left, forfeited int64
	}{{budget.Spread, 960, 40, 0}, {budget.Next, 920, 80, 0}, {budget.Forfeit, 920, 40, 40}} {
		b := w.daily(string(tc.unused), 1000, day(tc.unused))
		ref := b.Buckets[0].Ref()
		w.ok(w.db.Fence(w.ctx, ref, "broken"))
		w.until(dayLong)
		w.rollOver(b.ID)
		equal(w, "still alive", w.epoch(ref).Status, ledger.Open)
		equal(w, "of its period", w.epoch(ref).Period, 1)
		f := must(w.db.Figures(w.ctx, b.ID))(w)
		equal(w, "all units", f.Unfunded+f.Undistributed+f.Remaining+f.Forfeited, 1000)
		equal(w, "lost", must(w.db.Lose(w.ctx, ref))(w), true)
		w.holds("then "+string(tc.unused), b.ID, tc.unfunded, tc.left, 0, 0, tc.forfeited)
	}
}

func rollOverLast(w *sqlWorld) {
	for _, tc := range []struct {
		unused              budget.Where
		unfunded, forfeited int64
	}{{budget.Spread, 990, 0}, {budget.Next, 990, 0}, {budget.Forfeit, 960, 30}} {
		b := w.daily(string(tc.unused), 1000, day(tc.unused), endsAfter(1))
		w.use(b.Buckets[0].Ref(), "a", 10)
		w.until(dayLong)
		done := w.rollOver(b.ID)
		if p := done.Period; !p.Over || p.Number != 2 || len(done.Opened)+len(done.Grants) > 0 {
			w.Errorf("after the last: %+v", done)
		}
		w.holds("expired", b.ID, tc.unfunded, 0, 0, 10, tc.forfeited)
		read := w.read(b.ID)
		equal(w, "online", w.figures(b.ID).Online, 0)
		equal(w, "offline by", read.Buckets[0].OfflineBy, bucket.ByService)
		equal(w, "over", len(must(w.db.Over(w.ctx, 10))(w)), 0)
		equal(w, "reopened", len(must(w.db.Reopen(w.ctx, b.ID, read.Buckets[0].ID))(w).Opened), 0)
		equal(w, "handed out", len(must(w.db.HandOut(w.ctx, b.ID))(w).Grants), 0)
		end := diffStart.Add(3 * dayLong)
		must(w.db.Change(w.ctx, b.ID, bucket.Change{EndAt: &end}))(w)
		again := w.rollOver(b.ID)
		equal(w, "begun again", again.Period, budget.Period{Number: 3, Start: diffStart.Add(dayLong),
			End: diffStart.Add(2 * dayLong)})
		w.holds("begun again", b.ID, tc.unfunded-40, 40, 0, 10, tc.forfeited)
		w.use(w.read(b.ID).Buckets[1].Ref(), "b", 20)
	}
}

// change gives a budget a day's rule of another quantity.
func (w *sqlWorld) changeDay(id, quantity int64, unused budget.Where) {
	w.Helper()
	rule := day(unused)
	rule.Quantity = quantity
	must(w.db.Change(w.ctx, id, bucket.Change{Rule: &rule}))(w)
}

func rollOverChanged(w *sqlWorld) {
	b := w.daily("b", 1000, day(budget.Forfeit))
	ref := b.Buckets[0].Ref()
	w.use(ref, "a", 15)
	w.until(10 * time.Hour)
	w.changeDay(b.ID, 50, budget.Forfeit)
	equal(w, "raised", must(w.db.RollOver(w.ctx, b.ID))(w).Done, false)
	w.gone("raised", b.ID, 1, [5]int64{50})
	w.changeDay(b.ID, 30, budget.Forfeit)
	row := w.epoch(ref)
	equal(w, "ends now", row.EndAt, diffStart.Add(10*time.Hour))
	done := w.rollOver(b.ID)
	equal(w, "the rest of the day", done.Period, budget.Period{Number: 2, Start: diffStart, End: diffStart.Add(dayLong)})
	w.gone("lowered", b.ID, 1, [5]int64{50, 0, 35, 0, 0})
	w.gone("lowered", b.ID, 2, [5]int64{15, 0, 0, 0, 0})
	equal(w, "used before", w.period(b.ID, 2).Before, 15)
	w.holds("lowered", b.ID, 970, 15, 0, 15, 0)
	end := diffStart.Add(20 * time.Hour)
	must(w.db.Change(w.ctx, b.ID, bucket.Change{EndAt: &end}))(w)
	equal(w, "an earlier end", w.read(b.ID).Buckets[0].Epoch.EndAt, end)
	end = time.Time{}
	must(w.db.Change(w.ctx, b.ID, bucket.Change{EndAt: &end}))(w)
	equal(w, "no end", w.read(b.ID).Buckets[0].Epoch.EndAt, diffStart.Add(dayLong))
	_, err := w.db.Change(w.ctx, b.ID, bucket.Change{Rule: &budget.Rule{Kind: "none"}})
	w.refused(err, budget.Invalid)
}

func rollOverBefore(w *sqlWorld) {
	evening := budget.Rule{Kind: budget.Windows, Unused: budget.Forfeit, Windows: []budget.Window{
		{From: "18:00", To: "24:00", Quantity: 40}}}
	b := w.daily("b", 1000, evening)
	w.until(10 * time.Hour)
	lower := evening
	lower.Windows = []budget.Window{{From: "18:00", To: "24:00", Quantity: 30}}
	must(w.db.Change(w.ctx, b.ID, bucket.Change{Rule: &lower}))(w)
	w.rollOver(b.ID)
	w.holds("nothing of what had not begun expires", b.ID, 970, 30, 0, 0, 0)
	equal(w, "begins", w.read(b.ID).Period.Start, diffStart.Add(18*time.Hour))
}

func rollOverInStore(w *sqlWorld) {
	for i, tc := range []struct {
		unused                    budget.Where
		unfunded, left, forfeited int64
	}{{budget.Spread, 945, 40, 0}, {budget.Next, 920, 65, 0}, {budget.Forfeit, 920, 40, 25}} {
		b := w.daily(fmt.Sprint("b", i), 1000, day(tc.unused), inStore)
		refs := []bucket.Ref{b.Buckets[0].Ref(), b.Buckets[1].Ref()}
		equal(w, "commits end", b.Buckets[0].Epoch.EndAt, time.Time{})
		w.until(dayLong)
		w.rollOver(b.ID)
		equal(w, "takes nothing more", w.epoch(refs[0]).Status, ledger.Closing)
		w.book(refs[0]).deduct("acknowledged in time", 15)
		r := w.commit(w.book(refs[0]))[0]
		equal(w, "counted", len(r.Outcomes) == 1 && r.Outcomes[0].Duplicate == nil, true)
		equal(w, "counted in its period", w.epoch(refs[0]).Used, 15)
		must(w.db.CloseEpoch(w.ctx, b.ID, refs[0], w.closing(refs[0]), &bucket.Target{Ref: refs[1]}))(w)
		equal(w, "nothing into an older epoch", w.epoch(refs[1]).NextGrant, 2)
		must(w.db.CloseEpoch(w.ctx, b.ID, refs[1], w.closing(refs[1]), nil))(w)
		w.gone("what was brought later", b.ID, 1, map[budget.Where][5]int64{budget.Spread: {40, 0, 25, 0, 0},
			budget.Next: {40, 0, 0, 25, 0}, budget.Forfeit: {40, 0, 0, 0, 25}}[tc.unused])
		w.holds(string(tc.unused), b.ID, 1000-40-40+map[budget.Where]int64{budget.Spread: 25}[tc.unused],
			40+map[budget.Where]int64{budget.Next: 25}[tc.unused], 0, 15, tc.forfeited)
	}
}

// rollOverOpening: an epoch that is opened in its store after its period is over takes nothing.
func rollOverOpening(w *sqlWorld) {
	d := definition("b", 1000, 2)
	r := day(budget.Spread)
	d.Type, d.Rule, d.Durability = budget.Daily, &r, budget.Store
	b := w.createOnly(d)
	ref := b.Buckets[0].Ref()
	w.ok(w.db.MarkOpen(w.ctx, []bucket.Ref{b.Buckets[1].Ref()}))
	w.until(dayLong)
	must(w.db.RollOver(w.ctx, b.ID))(w)
	equal(w, "not opened yet", w.epoch(ref).Status, ledger.Opening)
	w.ok(w.db.MarkOpen(w.ctx, []bucket.Ref{ref}))
	equal(w, "opened late", w.epoch(ref).Status, ledger.Closing)
}

// sameRule: a creation is repeated by any body that says the same, and by no other.
func sameRule(w *sqlWorld) {
	d := definition("b", 100, 1)
	d.Type, d.Rule = budget.Daily, &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 10}
	b := w.createOnly(d)
	d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 10, Unused: budget.Spread}
	again, made, err := w.db.Create(w.ctx, d, w.lanes(1))
	if err != nil || made || again.ID != b.ID {
		w.Errorf("the same rule: created %v, budget %d, %v", made, again.ID, err)
	}
	d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 10, Unused: budget.Forfeit}
	_, _, err = w.db.Create(w.ctx, d, w.lanes(1))
	w.refused(err, budget.NameTaken)
}
