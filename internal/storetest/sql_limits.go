package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

var limitTests = []sqlTest{
	{"limits/kept with the definition", limitsAreKept},
	{"limits/as long as may be", limitsOfManyOverrides},
	{"limits/no more than the maximum", limitsRefuse},
	{"limits/several at once, all or nothing", limitsAllOrNothing},
	{"limits/within one transaction", limitsWithinOneTransaction},
	{"limits/a log that fails counts nothing", limitsOfFailedLog},
	{"limits/windows", limitWindows},
	{"limits/what comes back", limitReturns},
	{"limits/yesterday's refund", limitRefundOfYesterday},
	{"limits/overrides, and counted only", limitOverrides},
	{"limits/own amounts", limitOwnAmounts},
	{"limits/a missing dimension", limitMissingDimension},
	{"limits/changed", limitsChanged},
	{"limits/a longer window starts from the true count", limitsStartFromTheTruth},
	{"limits/a new epoch", limitsOfNewEpoch},
	{"limits/expired counters", limitCountersExpire},
	{"limits/archived", limitsAfterArchive},
	{"usage", usageOfValues},
}

// daily is a limit of calls per calendar day.
func daily(name, dimension string, most int64) budget.Limit {
	return budget.Limit{Name: name, Dimension: dimension, Max: most, Measure: budget.MeasureCount, Enforce: true,
		Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Day}}
}

// lifetime is a limit of units for ever.
func lifetime(name, dimension string, most int64) budget.Limit {
	return budget.Limit{Name: name, Dimension: dimension, Max: most, Measure: budget.MeasureAmount, Enforce: true,
		Window: budget.LimitWindow{Kind: budget.WindowLifetime}}
}

// sliding and firstHit are limits of calls in the last, or from the first, so long.
func sliding(name, dimension string, length, slot time.Duration, most int64) budget.Limit {
	return budget.Limit{Name: name, Dimension: dimension, Max: most, Measure: budget.MeasureCount, Enforce: true,
		Window: budget.LimitWindow{Kind: budget.WindowSliding, Length: length, Slot: slot}}
}

func firstHit(name, dimension string, length time.Duration, most int64) budget.Limit {
	return budget.Limit{Name: name, Dimension: dimension, Max: most, Measure: budget.MeasureCount, Enforce: true,
		Window: budget.LimitWindow{Kind: budget.WindowFirstHit, Length: length}}
}

// limited makes a budget with limits.
func (w *sqlWorld) limited(name string, buckets int, limits ...budget.Limit) bucket.Budget {
	w.Helper()
	return w.create(name, 1_000_000, buckets, func(d *budget.Definition) {
		d.Limits = &budget.Limits{List: limits}
	})
}

// noon moves the clock to just after the noon of the next day in UTC, so that a test meets no end of a window.
func (w *sqlWorld) noon() {
	now := w.db.Now().UTC()
	w.clock.Advance(now.Truncate(24 * time.Hour).Add(36*time.Hour + 500*time.Millisecond).Sub(now))
}

// dims makes dimensions of names and values in turn.
func dims(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// askFor admits a deduction that carries dimensions.
func (b *sqlBook) askFor(id string, amount int64, dimensions map[string]string, counts ...map[string]int64) ledger.Entry {
	b.nonces++
	r := sqlRequest(id, amount, fmt.Sprintf("%d/%d/%d", b.ref.Bucket, b.ref.Epoch, b.nonces))
	r.Dimensions = ledger.Dimensions(dimensions)
	for _, c := range counts {
		r.Counts = ledger.Counts(c)
	}
	return b.admit(amount, r)
}

// useFor commits a deduction that carries dimensions, and returns what became of it.
func (w *sqlWorld) useFor(ref bucket.Ref, id string, amount int64, dimensions map[string]string,
	counts ...map[string]int64) ledger.Outcome {
	w.Helper()
	book := w.book(ref)
	entry := book.askFor(id, amount, dimensions, counts...)
	for _, o := range w.commit(book)[0].Outcomes {
		if o.Position.Seq == entry.Seq {
			return o
		}
	}
	w.Fatalf("no outcome for %q", id)
	return ledger.Outcome{}
}

// passes commits a deduction that no limit may refuse, and returns how far the limits are used.
func (w *sqlWorld) passes(ref bucket.Ref, id string, amount int64, dimensions map[string]string,
	counts ...map[string]int64) []budget.LimitState {
	w.Helper()
	o := w.useFor(ref, id, amount, dimensions, counts...)
	if o.Duplicate != nil {
		w.Errorf("%s: %s %s, want it to pass", id, o.Duplicate.Reason, o.Duplicate.Figures)
	}
	return o.Limits
}

// stopped commits a deduction that a limit must refuse, and returns its figures.
func (w *sqlWorld) stopped(ref bucket.Ref, id string, amount int64, dimensions map[string]string,
	counts ...map[string]int64) ledger.LimitRefusal {
	w.Helper()
	o := w.useFor(ref, id, amount, dimensions, counts...)
	if o.Duplicate == nil || o.Duplicate.Reason != ledger.ReasonLimit || o.Deduction != nil {
		w.Errorf("%s: %+v, want a refusal by a limit", id, o)
		return ledger.LimitRefusal{}
	}
	at := must(w.db.At(w.ctx, []ledger.Position{o.Position}))(w)[o.Position]
	if at.Duplicate == nil || at.Duplicate.Figures != o.Duplicate.Figures || at.Deduction != nil {
		w.Errorf("%s: recorded as %+v, told %+v", id, at.Duplicate, o.Duplicate)
	}
	r, ok := ledger.ReadLimitRefusal(o.Duplicate.Figures)
	if !ok {
		w.Errorf("%s: figures %q", id, o.Duplicate.Figures)
	}
	return r
}

// used is what a limit counts for dimensions now, by CheckLimits.
func (w *sqlWorld) used(id int64, name string, dimensions map[string]string) int64 {
	w.Helper()
	answers := must(w.db.CheckLimits(w.ctx, id, []bucket.LimitAsk{{Amount: 1, Dimensions: dimensions}}))(w)
	for _, s := range answers[0].States {
		if s.Limit == name {
			return s.Used
		}
	}
	w.Fatalf("no limit %q among %+v", name, answers[0].States)
	return 0
}

func limitsAreKept(w *sqlWorld) {
	list := []budget.Limit{daily("daily", "user", 2), sliding("hourly", "user+ad", time.Hour, time.Minute, 5),
		firstHit("burst", "ad", 5*time.Second, 3), lifetime("ever", "user", 100)}
	list[1].Optional, list[3].Enforce = true, false
	list[1].Overrides = []budget.Override{{Values: []string{"u+1", "a"}, Exempt: true}, {Value: "u+a", Max: 7}}
	b := w.limited("b", 1, list...)
	want := w.read(b.ID).Limits
	if want == nil || len(want.List) != len(list) || want.Version == 0 {
		w.Fatalf("limits %+v", want)
	}
	for i, l := range want.List {
		if l.ChangedVersion != want.Version || !l.ChangedAt.Equal(w.db.Now()) && l.ChangedAt.After(w.db.Now()) {
			w.Errorf("limit %d changed in %d at %v", i, l.ChangedVersion, l.ChangedAt)
		}
		l.ChangedVersion, l.ChangedAt = 0, time.Time{}
		equal(w, l.Name, fmt.Sprintf("%+v", l), fmt.Sprintf("%+v", list[i]))
	}
	page := must(w.db.Budgets(w.ctx, bucket.Page{Size: 10}))(w)
	equal(w, "in the page", fmt.Sprintf("%+v", page[0].Limits), fmt.Sprintf("%+v", want))
	again := definition("b", 1_000_000, 1)
	again.Limits = &budget.Limits{List: list}
	if _, made, err := w.db.Create(w.ctx, again, w.lanes(1)); made || err != nil {
		w.Errorf("the same again: made %v, %v", made, err)
	}
	again.Limits = &budget.Limits{List: list[:3]}
	_, _, err := w.db.Create(w.ctx, again, w.lanes(1))
	w.refused(err, budget.NameTaken)
}

// limitsOfManyOverrides: the longest definition that is allowed is kept as it is, at the create and by a change.
func limitsOfManyOverrides(w *sqlWorld) {
	long := func(n int) string { return fmt.Sprintf("%0256d", n) }
	l := lifetime("ever", "user+ad", 100)
	for i := range limit.MaxOverrides {
		l.Overrides = append(l.Overrides, budget.Override{Values: []string{long(i), long(i)}, Max: budget.MaxAmount})
	}
	b := w.limited("b", 1, l)
	other := l
	other.Overrides = slices.Clone(l.Overrides)
	slices.Reverse(other.Overrides)
	for _, want := range []budget.Limit{l, other} {
		got := w.read(b.ID).Limits.List[0].Overrides
		equal(w, "overrides", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want.Overrides))
		must(w.db.Change(w.ctx, b.ID, bucket.Change{Limits: &[]budget.Limit{other}}))(w)
	}
	again := definition("b", 1_000_000, 1)
	again.Limits = &budget.Limits{List: []budget.Limit{l}}
	if _, made, err := w.db.Create(w.ctx, again, w.lanes(1)); made || err != nil {
		w.Errorf("the same again: made %v, %v", made, err)
	}
}

func limitsRefuse(w *sqlWorld) {
	b := w.limited("b", 1, daily("daily", "user", 2))
	ref := b.Buckets[0].Ref()
	w.noon()
	for i := range 2 {
		states := w.passes(ref, fmt.Sprint("a", i), 5, dims("user", "u1"))
		if len(states) != 1 || states[0].Used != int64(i)+1 || states[0].Max != 2 || states[0].Limit != "daily" ||
			states[0].Value != "u1" {
			w.Errorf("states %+v", states)
		}
	}
	before := w.figures(b.ID)
	r := w.stopped(ref, "a2", 5, dims("user", "u1"))
	if r.Limit != "daily" || r.Dimension != "user" || r.Value != "u1" || r.Used != 2 || r.Max != 2 {
		w.Errorf("refusal %+v", r)
	}
	midnight := w.db.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	equal(w, "reset", r.ResetAt, midnight)
	after := w.figures(b.ID)
	before.Remaining, before.Returning = before.Remaining-5, before.Returning+5
	equal(w, "figures", after, before)
	w.passes(ref, "b", 5, dims("user", "u2"))
	// The id stayed free: it may pass tomorrow.
	w.clock.Advance(12 * time.Hour)
	w.passes(ref, "a2", 5, dims("user", "u1"))
	// A recorded id is a duplicate, whatever the limit says.
	w.passes(ref, "a3", 5, dims("user", "u1"))
	if o := w.useFor(ref, "a3", 5, dims("user", "u1")); o.Duplicate == nil || o.Duplicate.Reason != ledger.ReasonDuplicate {
		w.Errorf("a repetition: %+v", o.Duplicate)
	}
	answers := must(w.db.CheckLimits(w.ctx, b.ID, []bucket.LimitAsk{
		{RequestID: "a3", Amount: 5, Dimensions: dims("user", "u1")},
		{RequestID: "a4", Amount: 5, Dimensions: dims("user", "u1")},
		{RequestID: "a4", Amount: 5, Dimensions: dims("user", "u2")},
		{Amount: 5, Dimensions: dims("ad", "x")},
	}))(w)
	if a := answers[0]; a.Recorded == nil || a.Recorded.RequestID != "a3" || a.Refusal == nil || a.Refusal.Used != 2 {
		w.Errorf("a recorded id: %+v", a)
	}
	if a := answers[1]; a.Recorded != nil || a.Refusal == nil {
		w.Errorf("an id at its limit: %+v", a)
	}
	if a := answers[2]; a.Recorded != nil || a.Refusal != nil || len(a.States) != 1 || a.States[0].Used != 0 {
		w.Errorf("another day: %+v", a)
	}
	if a := answers[3]; a.Missing == nil || a.Missing.Dimension != "user" {
		w.Errorf("without the dimension: %+v", a)
	}
}

func limitsAllOrNothing(w *sqlWorld) {
	b := w.limited("b", 1, daily("per-user", "user", 2), lifetime("per-device", "device", 10),
		daily("both", "user+device", 1))
	ref := b.Buckets[0].Ref()
	w.passes(ref, "a", 4, dims("user", "u", "device", "d"))
	equal(w, "limit", w.stopped(ref, "b", 4, dims("user", "u", "device", "d")).Limit, "both")
	equal(w, "user", w.used(b.ID, "per-user", dims("user", "u", "device", "d")), 1)
	equal(w, "device", w.used(b.ID, "per-device", dims("user", "u", "device", "d")), 4)
	equal(w, "limit", w.stopped(ref, "c", 7, dims("user", "u", "device", "d")).Limit, "per-device")
	w.passes(ref, "d", 6, dims("user", "u", "device", "e"))
	equal(w, "limit", w.stopped(ref, "e", 6, dims("user", "u", "device", "f")).Limit, "per-user")
	equal(w, "of the refused", w.used(b.ID, "per-device", dims("user", "v", "device", "f")), 0)
	// Joined values are not taken for others that look alike.
	w.passes(ref, "f", 1, dims("user", "x", "device", "1y"))
	w.passes(ref, "g", 1, dims("user", "x1", "device", "y"))
}

func limitsWithinOneTransaction(w *sqlWorld) {
	b := w.limited("b", 2, daily("daily", "user", 3))
	w.noon()
	one, two := w.book(b.Buckets[0].Ref()), w.book(b.Buckets[1].Ref())
	for i := range 3 {
		one.askFor(fmt.Sprint("a", i), 1, dims("user", "u"))
		two.askFor(fmt.Sprint("b", i), 1, dims("user", "u"))
	}
	passed := 0
	for _, report := range w.commit(one, two) {
		for _, o := range report.Outcomes {
			if o.Duplicate == nil {
				passed++
			}
		}
	}
	equal(w, "passed", passed, 3)
	equal(w, "used", w.used(b.ID, "daily", dims("user", "u")), 3)
}

func limitsOfFailedLog(w *sqlWorld) {
	b := w.limited("b", 2, daily("daily", "user", 2))
	w.noon()
	one, two := w.book(b.Buckets[0].Ref()), w.book(b.Buckets[1].Ref())
	one.askFor("a0", 1, dims("user", "u"))
	one.askFor("a1", 1, dims("user", "u"))
	log := one.log(w.epoch(one.ref).DrainedSeq)
	log.Entries = append([]ledger.Entry(nil), log.Entries...)
	log.Entries[len(log.Entries)-1].Chain = "0123456789abcdef"
	two.askFor("b0", 1, dims("user", "u"))
	two.askFor("a0", 1, dims("user", "u")) // whose id is as new as before
	reports := w.commitLogs(log, two.log(w.epoch(two.ref).DrainedSeq))
	if reports[0].Err == nil || reports[1].Err != nil {
		w.Fatalf("errors %v, %v", reports[0].Err, reports[1].Err)
	}
	for _, o := range reports[1].Outcomes {
		if o.Duplicate != nil {
			w.Errorf("%+v, though the other log was not committed", o.Duplicate)
		}
	}
	equal(w, "used", w.used(b.ID, "daily", dims("user", "u")), 2)
}

// limitWindows is the reference run of a cap per advertisement, and each kind of window once.
func limitWindows(w *sqlWorld) {
	b := w.limited("b", 1, firstHit("burst", "ad", 5*time.Second, 2),
		sliding("last", "user", time.Minute, 10*time.Second, 2),
		budget.Limit{Name: "minute", Dimension: "shop", Max: 1, Measure: budget.MeasureCount, Enforce: true,
			Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Minute, Timezone: "Asia/Kolkata"}})
	ref := b.Buckets[0].Ref()
	w.noon()
	n := 0
	at := func(after time.Duration, pass bool, dimension, value string) {
		w.Helper()
		w.clock.Advance(after)
		all := dims("ad", fmt.Sprint("x", n), "user", fmt.Sprint("x", n), "shop", fmt.Sprint("x", n))
		all[dimension] = value
		n++
		if pass {
			w.passes(ref, fmt.Sprint("r", n), 1, all)
		} else {
			w.stopped(ref, fmt.Sprint("r", n), 1, all)
		}
	}
	at(0, true, "ad", "a")
	at(3*time.Second, true, "ad", "a")
	at(1*time.Second, false, "ad", "a")
	at(time.Second, true, "ad", "a") // 5 s after the first: a new window
	at(4*time.Second, true, "ad", "a")
	at(time.Second-20*time.Millisecond, false, "ad", "a")
	at(0, true, "user", "u")
	at(30*time.Second, true, "user", "u")
	at(20*time.Second, false, "user", "u")
	at(20*time.Second+20*time.Millisecond, true, "user", "u") // its slot has left
	at(15*time.Second, false, "user", "u")
	w.noon()
	at(0, true, "shop", "s")
	at(59*time.Second, false, "shop", "s")
	at(time.Second, true, "shop", "s")
}

func limitReturns(w *sqlWorld) {
	b := w.limited("b", 1, daily("daily", "user", 2), lifetime("ever", "user", 20),
		sliding("last", "user", time.Hour, time.Minute, 2), firstHit("burst", "user", time.Hour, 2))
	ref := b.Buckets[0].Ref()
	w.noon()
	u := dims("user", "u")
	w.passes(ref, "a", 10, u)
	w.passes(ref, "b", 10, u)
	w.stopped(ref, "c", 1, u)
	want := func(what string, daily, ever int64) {
		w.Helper()
		for _, name := range []string{"daily", "last", "burst"} {
			equal(w, what+": "+name, w.used(b.ID, name, u), daily)
		}
		equal(w, what+": ever", w.used(b.ID, "ever", u), ever)
	}
	order := bucket.RollbackOrder{Budget: b.ID, RequestID: "a", RollbackID: "part", Amount: 4}
	must2(w.db.Rollback(w.ctx, order))(w)
	want("a part", 2, 16)
	must2(w.db.Rollback(w.ctx, order))(w)
	want("again", 2, 16)
	must(w.db.Cancel(w.ctx, b.ID, "a"))(w)
	want("the whole", 1, 10)
	w.passes(ref, "d", 10, u)
	want("again in use", 2, 20)
	w.clock.Advance(30 * time.Minute)
	must(w.db.Cancel(w.ctx, b.ID, "d"))(w)
	want("another slot", 1, 10)
	must(w.db.Cancel(w.ctx, b.ID, "never"))(w)
	want("what never was", 1, 10)
}

// must2 is must for two results, of which the second is of no interest.
func must2[A, B any](a A, _ B, err error) func(*sqlWorld) A { return must(a, err) }

func limitRefundOfYesterday(w *sqlWorld) {
	b := w.limited("b", 1, daily("daily", "user", 2), lifetime("ever", "user", 100),
		firstHit("burst", "user", time.Hour, 2))
	ref := b.Buckets[0].Ref()
	w.noon()
	u := dims("user", "u")
	w.passes(ref, "a", 10, u)
	w.clock.Advance(24 * time.Hour)
	w.passes(ref, "b", 10, u)
	must(w.db.Cancel(w.ctx, b.ID, "a"))(w)
	equal(w, "today", w.used(b.ID, "daily", u), 1)
	equal(w, "the present burst", w.used(b.ID, "burst", u), 1)
	equal(w, "ever", w.used(b.ID, "ever", u), 10)
	w.passes(ref, "c", 10, u)
	w.stopped(ref, "d", 10, u)
}

func limitOverrides(w *sqlWorld) {
	l := daily("daily", "user", 2)
	l.Overrides = []budget.Override{{Value: "less", Max: 1}, {Value: "none"}, {Value: "free", Exempt: true}}
	counted := daily("counted", "user", 1)
	counted.Enforce = false
	b := w.limited("b", 1, l, counted)
	ref := b.Buckets[0].Ref()
	w.noon()
	for user, most := range map[string]int{"u": 2, "less": 1, "none": 0, "free": 4} {
		for i := range 4 {
			id := fmt.Sprint(user, i)
			if i >= most {
				equal(w, "limit", w.stopped(ref, id, 1, dims("user", user)).Limit, "daily")
				continue
			}
			states := w.passes(ref, id, 1, dims("user", user))
			equal(w, id, states[0].Used, int64(i)+1)
			equal(w, id+" exempt", states[0].Exempt, user == "free")
			equal(w, id+" counted", states[1].Used, int64(i)+1)
		}
	}
}

func limitOwnAmounts(w *sqlWorld) {
	b := w.limited("b", 1, lifetime("points", "user", 10), daily("daily", "user", 3))
	ref := b.Buckets[0].Ref()
	w.noon()
	u := dims("user", "u")
	w.passes(ref, "a", 100, u, map[string]int64{"points": 5, "daily": 0})
	equal(w, "points", w.used(b.ID, "points", u), 5)
	equal(w, "daily", w.used(b.ID, "daily", u), 0)
	w.stopped(ref, "b", 1, u, map[string]int64{"points": 6})
	w.passes(ref, "c", 1, u, map[string]int64{"points": 0, "daily": 2})
	w.stopped(ref, "d", 1, u, map[string]int64{"points": 0, "daily": 2})
	// A part that came back counts in proportion, what is left rounded up: 5 × 99/100 -> 5, 5 × 2/100 -> 1.
	must2(w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "a", RollbackID: "1", Amount: 1}))(w)
	equal(w, "points", w.used(b.ID, "points", u), 5)
	must2(w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "a", RollbackID: "2", Amount: 97}))(w)
	equal(w, "points", w.used(b.ID, "points", u), 1)
}

func limitMissingDimension(w *sqlWorld) {
	optional := daily("per-ad", "ad", 1)
	optional.Optional = true
	b := w.limited("b", 1, daily("per-user", "user", 1), optional)
	ref := b.Buckets[0].Ref()
	w.noon()
	r := w.stopped(ref, "a", 1, dims("ad", "x"))
	if !r.Missing || r.Limit != "per-user" || r.Dimension != "user" {
		w.Errorf("refusal %+v", r)
	}
	w.passes(ref, "b", 1, dims("user", "u"))
	w.passes(ref, "c", 1, dims("user", "v", "ad", "x"))
	w.stopped(ref, "d", 1, dims("user", "w", "ad", "x"))
}

// change replaces a budget's limits.
func (w *sqlWorld) change(id int64, limits ...budget.Limit) {
	w.Helper()
	must(w.db.Change(w.ctx, id, bucket.Change{Limits: &limits}))(w)
}

func limitsChanged(w *sqlWorld) {
	b := w.limited("b", 2, daily("daily", "user", 2))
	w.noon()
	ref, other := b.Buckets[0].Ref(), b.Buckets[1].Ref()
	u := dims("user", "u")
	w.passes(ref, "a", 1, u)
	w.passes(other, "b", 1, u)
	w.stopped(ref, "c", 1, u)
	before := w.read(b.ID)
	w.change(b.ID, daily("daily", "user", 3)) // only the maximum
	after := w.read(b.ID)
	if after.Version != before.Version+1 || after.Limits.Version <= before.Limits.Version ||
		after.Limits.List[0].ChangedVersion != before.Limits.List[0].ChangedVersion {
		w.Errorf("limits %+v after %+v", after.Limits, before.Limits)
	}
	w.passes(other, "d", 1, u)
	w.stopped(ref, "e", 1, u)
	w.change(b.ID)
	w.passes(ref, "f", 1, u)
	w.passes(other, "g", 1, nil)
	w.change(b.ID, daily("daily", "user", 5))
	equal(w, "what was counted meanwhile", w.used(b.ID, "daily", u), 4)
	w.passes(ref, "h", 1, u)
	w.stopped(other, "i", 1, u)
	_, err := w.db.Change(w.ctx, b.ID, bucket.Change{Limits: &[]budget.Limit{daily("Daily", "", -1)}})
	if e := w.refused(err, budget.Invalid); len(e.Fields) != 3 {
		w.Errorf("faults %+v", e.Fields)
	}
}

func limitsStartFromTheTruth(w *sqlWorld) {
	w.noon()
	b := w.limited("b", 1, daily("l", "user", 2))
	ref := b.Buckets[0].Ref()
	u := dims("user", "u", "ad", "x")
	for i := range 4 {
		w.passes(ref, fmt.Sprint("a", i), 3, u)
		w.clock.Advance(12 * time.Hour)
	}
	must2(w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "a0", Amount: 1}))(w)
	w.change(b.ID, lifetime("l", "user", 15))
	equal(w, "units of all days", w.used(b.ID, "l", u), 11)
	w.stopped(ref, "b", 5, u)
	w.passes(ref, "c", 4, u)
	w.change(b.ID, sliding("l", "user+ad", 36*time.Hour+time.Millisecond, time.Hour, 4))
	equal(w, "calls in the last hours", w.used(b.ID, "l", u), 4)
	w.stopped(ref, "d", 1, u)
	must(w.db.Cancel(w.ctx, b.ID, "a2"))(w)
	w.passes(ref, "e", 1, u)
	w.stopped(ref, "f", 1, u)
	w.change(b.ID, firstHit("l", "ad", 40*time.Hour, 5))
	equal(w, "since the first hit", w.used(b.ID, "l", u), 4)
	w.passes(ref, "g", 1, u)
	w.stopped(ref, "h", 1, u)
	// What comes back after the change and before anything was counted is not counted twice.
	w.change(b.ID, lifetime("l", "user", 100))
	must(w.db.Cancel(w.ctx, b.ID, "c"))(w)
	equal(w, "after a refund", w.used(b.ID, "l", u), 10)
	w.passes(ref, "i", 1, u)
	equal(w, "loaded", w.used(b.ID, "l", u), 11)
	must(w.db.Cancel(w.ctx, b.ID, "i"))(w)
	equal(w, "and lowered", w.used(b.ID, "l", u), 10)
}

func limitsOfNewEpoch(w *sqlWorld) {
	b := w.limited("b", 2, daily("daily", "user", 2))
	w.noon()
	u := dims("user", "u")
	ref := b.Buckets[0].Ref()
	w.passes(ref, "a", 1, u)
	w.offline(b.ID, ref, bucket.ByService, true, nil)
	opened := must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w).Opened
	next := opened[0].Ref()
	w.open(next)
	must(w.db.HandOut(w.ctx, b.ID))(w)
	w.deliver()
	w.change(b.ID, daily("daily", "user", 3))
	w.passes(next, "b", 1, u)
	w.passes(b.Buckets[1].Ref(), "c", 1, u)
	w.stopped(next, "d", 1, u)
	must(w.db.Cancel(w.ctx, b.ID, "a"))(w) // of the epoch that has ended
	w.passes(next, "d", 1, u)
	w.stopped(b.Buckets[1].Ref(), "e", 1, u)
}

func limitCountersExpire(w *sqlWorld) {
	b := w.limited("b", 1, daily("daily", "user", 1), lifetime("ever", "user", 1_000),
		sliding("last", "user", time.Minute, time.Second, 5), firstHit("burst", "user", time.Minute, 5))
	ref := b.Buckets[0].Ref()
	w.noon()
	for i := range 20 {
		w.passes(ref, fmt.Sprint("a", i), 1, dims("user", fmt.Sprint("u", i)))
	}
	for range 2 {
		must(w.db.ExpireCounters(w.ctx, 1_000))(w)
		w.stopped(ref, fmt.Sprint("b", w.clock.Now()), 1, dims("user", "u3"))
		w.clock.Advance(59 * time.Minute)
	}
	w.clock.Advance(13 * time.Hour)
	for {
		removed := must(w.db.ExpireCounters(w.ctx, 7))(w)
		if removed > 7 {
			w.Fatalf("removed %d rows of at most 7", removed)
		}
		if removed == 0 {
			break
		}
	}
	equal(w, "ever", w.used(b.ID, "ever", dims("user", "u3")), 1)
	must(w.db.Cancel(w.ctx, b.ID, "a4"))(w)
	equal(w, "ever", w.used(b.ID, "ever", dims("user", "u4")), 0)
	w.passes(ref, "c", 1, dims("user", "u3"))
	w.stopped(ref, "d", 1, dims("user", "u3"))
}

func limitsAfterArchive(w *sqlWorld) {
	b := w.limited("b", 1, lifetime("ever", "user+ad", 100))
	ref := b.Buckets[0].Ref()
	u := dims("user", "u", "ad", "x")
	w.passes(ref, "a", 10, u)
	w.passes(ref, "b", 20, u)
	last := w.epoch(ref).NextEntry - 1
	upTo := must(w.db.BeginArchive(w.ctx, ref.Bucket, 0, last))(w)
	if !must(w.db.EndArchive(w.ctx, bucket.FeedSpan{Bucket: ref.Bucket, UpTo: upTo}))(w) {
		w.Fatal("not archived")
	}
	must(w.db.Cancel(w.ctx, b.ID, "a"))(w)
	equal(w, "a refund of what was archived", w.used(b.ID, "ever", u), 20)
	w.change(b.ID, lifetime("user", "user", 100), lifetime("ever", "user+ad", 100))
	equal(w, "loaded from what was archived", w.used(b.ID, "user", u), 20)
	w.passes(ref, "c", 5, u)
	equal(w, "and counted", w.used(b.ID, "user", u), 25)
}

func usageOfValues(w *sqlWorld) {
	b := w.limited("b", 1)
	ref := b.Buckets[0].Ref()
	w.noon()
	start := w.db.Now()
	for i := range 4 {
		w.passes(ref, fmt.Sprint("a", i), 10, dims("user", "u", "ad", fmt.Sprint(i%2)))
		w.clock.Advance(time.Hour)
	}
	must2(w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "a2", Amount: 4}))(w)
	var none time.Time
	usage := func(dimensions map[string]string, from, to time.Time) bucket.Usage {
		w.Helper()
		return must(w.db.Usage(w.ctx, b.ID, dimensions, from, to))(w)
	}
	equal(w, "all", usage(dims("user", "u"), none, none), bucket.Usage{Calls: 4, Amount: 40, RolledBack: 4})
	equal(w, "of two", usage(dims("user", "u", "ad", "0"), none, none), bucket.Usage{Calls: 2, Amount: 20, RolledBack: 4})
	equal(w, "nobody", usage(dims("user", "v"), none, none), bucket.Usage{})
	half := start.Add(30 * time.Minute)
	equal(w, "since", usage(dims("user", "u"), half, none), bucket.Usage{Calls: 3, Amount: 30, RolledBack: 4})
	equal(w, "until", usage(dims("user", "u"), none, half.Add(time.Hour)), bucket.Usage{Calls: 2, Amount: 20})
	_, err := w.db.Usage(w.ctx, b.ID, nil, none, none)
	w.refused(err, budget.Invalid)
	_, err = w.db.Usage(w.ctx, 999, dims("user", "u"), none, none)
	w.refused(err, budget.BudgetNotFound)
	_, err = w.db.CheckLimits(w.ctx, 999, []bucket.LimitAsk{{Amount: 1}})
	w.refused(err, budget.BudgetNotFound)
}
