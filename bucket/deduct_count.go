package bucket

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// storeCount is what an attempt knows of the limits that its store counts for it (store mode).
type storeCount struct {
	touches []limit.Touch
	// asked is what was sent last, of which the store may say that it does not know a counter.
	asked *Counting
	// bucket is the one it was sent to.
	bucket int64
	// at is the lane's clock, in SQL's ms, when it said that the windows are others; 0: SQL's clock does.
	at int64
	// loaded is what the ledger has, for counters that the store did not know.
	loaded map[counterOf]*Loaded
	// again: the store can be asked anew at once.
	again bool
}

// counterOf names one counter of an attempt's value. By the time it is sent what was loaded for it, the limit may
// be another one of the same name, its window may be over, the bucket's counters may have begun anew, as they do
// where the store lost its memory, or another bucket may have the value.
type counterOf struct {
	bucket, from   int64
	limit          string
	changed, begin int64
}

func (c *storeCount) counter(i int) counterOf {
	n := &c.asked.Counts[i]
	if safeguard.Off(safeguard.LoadedFor) {
		return counterOf{limit: n.Limit}
	}
	return counterOf{bucket: c.bucket, from: c.asked.From, limit: n.Limit, changed: n.Changed, begin: n.Window.Begin}
}

// routed makes a request go to the bucket of its routing dimension's value, whatever its key is: the value's
// counters are there. Without limits too, so that an id stays where its record is when the first limit
// comes or the last one goes (I4).
func (a *attempt) routed(b *Budget) {
	if value, ok := routingValue(b, a.dimensions); ok {
		a.key = value
	}
}

func routingValue(b *Budget, dimensions map[string]string) (value string, ok bool) {
	if b.RoutingDimension == "" || safeguard.Off(safeguard.RoutedAlways) && !b.hasLimits() {
		return "", false
	}
	value, ok = dimensions[b.RoutingDimension]
	return value, ok
}

func (b *Budget) hasLimits() bool { return b.Limits != nil && len(b.Limits.List) > 0 }

// limitsVersion is 0 for a budget that never had limits.
func (b *Budget) limitsVersion() int64 {
	if b.Limits == nil {
		return 0
	}
	return b.Limits.Version
}

// counting is what an operation counts in its store, nil: nothing; and the version of the limits that say so.
func (a *attempt) counting(b *Budget, bk *Bucket, l *lane) (c *Counting, version int64, err error) {
	if !b.hasLimits() || l.direct != nil {
		return nil, b.limitsVersion(), nil
	}
	set, err := a.entry.limitSet() // may be newer than b
	if err != nil {
		return nil, 0, err
	}
	a.count.touches, _ = set.Touches(a.amount, a.dimensions, a.counts)
	at := a.count.at
	if at == 0 {
		at = a.s.sql.Now().UnixMilli()
	}
	if c = countingOf(a.count.touches, bk, l, at); c == nil {
		return nil, set.Version, nil
	}
	a.count.asked, a.count.bucket = c, bk.ID
	for i := range c.Counts {
		c.Counts[i].Loaded = a.count.loaded[a.count.counter(i)]
	}
	return c, set.Version, nil
}

// countingOf is what touches count in a bucket at an instant, in ms; nil: nothing.
func countingOf(touches []limit.Touch, bk *Bucket, l *lane, at int64) *Counting {
	if len(touches) == 0 {
		return nil
	}
	c := &Counting{From: bk.CountersFrom, Ahead: l.ahead.Load(), Counts: make([]Count, len(touches))}
	for i := range touches {
		c.Counts[i] = countOf(&touches[i], at)
		c.Counts[i].New = c.From == 1 && touches[i].Limit.ChangedVersion == 1
	}
	return c
}

func countOf(t *limit.Touch, at int64) Count {
	l := t.Limit
	n := Count{Limit: l.Name, Changed: l.ChangedVersion, Value: t.Key, Add: t.Counts, Max: NoMax,
		Window: CountWindow{Kind: l.Window.Kind}}
	if most, exempt := l.Bound(t.Key); l.Enforce && !exempt {
		n.Max = most
	}
	switch l.Window.Kind {
	case budget.WindowCalendar:
		tally := limit.NewTally(l, t.Key, at)
		n.Window.Begin, n.Window.End = tally.LedgerSpan()
	case budget.WindowFirstHit, budget.WindowSliding:
		n.Window.Length, n.Window.Slot = l.Window.Length.Milliseconds(), l.Window.Slot.Milliseconds()
	}
	return n
}

// states is how far limits are used, as the store told.
func (a *attempt) states(told *Counted) []budget.LimitState {
	if told == nil {
		return nil
	}
	out := make([]budget.LimitState, 0, len(told.Limits))
	for i, is := range told.Limits {
		t := &a.count.touches[i]
		state := budget.LimitState{Limit: t.Limit.Name, Dimension: t.Limit.Dimension, Used: is.Used,
			Value: strings.Join(t.Values, "+")}
		state.Max, state.Exempt = t.Limit.Bound(t.Key)
		if is.Reset > 0 {
			state.ResetAt = time.UnixMilli(is.Reset).UTC()
		}
		out = append(out, state)
	}
	return out
}

// otherWindow reports whether something that was asked is for a calendar window that an instant is not in.
func (c *storeCount) otherWindow(ms int64) bool {
	return slices.ContainsFunc(c.asked.Counts, func(n Count) bool {
		return n.Window.Kind == budget.WindowCalendar && (ms < n.Window.Begin || ms >= n.Window.End)
	})
}

// countAgain gets what the store wanted to know before it could judge the limits: it can be asked again then, if there
// is something new to ask.
func (a *attempt) countAgain(ctx context.Context, b *Budget, reply Reply) error {
	told := reply.Counted
	if reply.Verdict == Outdated {
		if told != nil {
			a.count.at = told.Now
			a.count.again = a.count.otherWindow(told.Now)
		}
		a.reread(ctx)
		a.count.again = a.count.again || a.entry.value.Load().limitsVersion() > b.limitsVersion()
		return nil
	}
	if _, err := a.s.upToDate.do(ctx, a.entry.id, a.entry); err != nil {
		return err
	}
	var missing []limit.Touch
	var places []int
	for i, mark := range told.Marks {
		if mark >= 0 {
			missing, places = append(missing, a.count.touches[i]), append(places, i)
		}
	}
	step, cancel := a.s.bounded(ctx)
	defer cancel()
	tallies, err := a.s.sql.LoadLimits(step, b.ID, missing, time.UnixMilli(told.Now))
	if err != nil {
		return unavailable("load limits", a.s.sqlFailed(err))
	}
	if a.count.loaded == nil {
		a.count.loaded = map[counterOf]*Loaded{}
	}
	for i, tally := range tallies {
		a.count.loaded[a.count.counter(places[i])] = loadedOf(tally, told.Marks[places[i]])
	}
	a.count.again = true
	return nil
}

// loadedOf is a counter as the ledger has it, for a store.
func loadedOf(t *limit.Tally, mark int64) *Loaded {
	out := &Loaded{Mark: mark, Used: min(t.Row.Counted, budget.MaxAmount), Began: t.Row.BeganMS}
	for _, slot := range t.Slots() {
		out.Slots = append(out.Slots, CountSlot{Begin: slot, Used: min(t.SlotRow(slot).Counted, budget.MaxAmount)})
	}
	return out
}

// countsReturned tells the store of a deduction, of which something has been given back in the ledger, to forget
// what it counts for its limits: whoever counts next loads it. Where the store does not hear of it, the counter
// stays too high until its window ends, or until the same is asked again. In ledger mode SQL did it all.
func (s *Service) countsReturned(ctx context.Context, entry *cached, d ledger.Deduction) {
	if b := entry.value.Load(); !b.inStoreMode() || !b.hasLimits() || d.RolledBack == 0 {
		return
	}
	if err := s.budgets.reload(ctx, entry); err != nil { // the bucket may have moved
		s.failed("sql", err)
	}
	b := entry.value.Load()
	set, err := entry.limitSet()
	dimensions := ledger.ReadDimensions(d.Dimensions)
	value, ok := routingValue(b, dimensions)
	if err != nil || !ok {
		return
	}
	bk := &b.Buckets[s.ringOf(len(b.Ring())).LocateIndex(value, func(int) bool { return false })]
	l := s.lanes[bk.Lane]
	if l == nil || l.direct != nil {
		return
	}
	touches, _ := set.Touches(d.Amount, dimensions, ledger.ReadCounts(d.Counts))
	c := countingOf(touches, bk, l, d.CountedAt.UnixMilli())
	counters, keeps := l.instance.(Counters)
	if c == nil || !keeps {
		return
	}
	c.From = min(c.From, bk.Epoch.Number)
	step, cancel := s.bounded(ctx)
	defer cancel()
	under := l.current()
	if err := counters.Unload(step, l.id, []Unloading{{Ref: bk.Ref(), Counting: *c}}); err != nil {
		s.log.Warn("a limit's counter stays too high until its window ends, or its rollback is repeated",
			"budget", b.Name, "request", d.RequestID, "error", s.laneFailed(step, l, under, err))
	}
}
