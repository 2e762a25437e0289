package redisstore_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// check returns the outcome of a deduction, and changes nothing. Usage is that before the deduction.
func (b *modelBucket) check(d *bucket.StoreDeduction, nowMS int64, predict bool) bucket.StoreOutcome {
	here, balance, t := b.state != "" && b.epoch == d.Epoch, b.balance, d.Terms
	out := bucket.StoreOutcome{Verdict: bucket.Lost}
	switch {
	case here && b.state == "open":
		out.Verdict = bucket.Accepted
	case here && b.leaves(), strings.HasPrefix(b.state, "copying"):
		out.Verdict = bucket.Moving
	case b.newest > d.Epoch, here:
		out.Verdict = bucket.Closed
	}
	if predict && (out.Verdict == bucket.Closed || out.Verdict == bucket.Lost) {
		out.Verdict, balance = bucket.Accepted, 0
	}
	r := b.records[d.ID]
	switch {
	case out.Verdict != bucket.Accepted:
		return out
	case d.NotAfterMS < nowMS:
		return bucket.StoreOutcome{Verdict: bucket.TooOld}
	case r != nil:
		return bucket.StoreOutcome{Verdict: bucket.Known, Record: r.Record}
	case t.EndMS <= nowMS:
		return bucket.StoreOutcome{Verdict: bucket.Over}
	case b.limits > t.LimitsVersion:
		return bucket.StoreOutcome{Verdict: bucket.Outdated}
	}
	out.Balance = balance
	for i := range t.Limits {
		l := &t.Limits[i]
		if l.Kind == budget.WindowCalendar && (nowMS < l.FromMS || nowMS >= l.ToMS) {
			return bucket.StoreOutcome{Verdict: bucket.WindowOver}
		}
		use, slots := b.usage(l, d.Value, nowMS)
		most := l.Max
		if d.Max != nil {
			most = d.Max[i]
		}
		if n := countsOf(d, i); d.Value != "" && n > 0 && use.Used+n > most {
			use.Exceeded, out.Verdict = true, bucket.Limited
		}
		out.Limits, out.Slots = append(out.Limits, use), append(out.Slots, slots)
	}
	if d.Value == "" {
		out.Limits = nil
	}
	if out.Verdict != bucket.Limited {
		out.Slots = nil
		if balance < d.Amount {
			out.Verdict = bucket.Short
		}
	}
	return out
}

// countsOf returns what a deduction counts in a limit of its terms.
func countsOf(d *bucket.StoreDeduction, i int) int64 {
	switch {
	case d.Counts != nil:
		return d.Counts[i]
	case d.Terms.Limits[i].Measure == budget.MeasureCount:
		return 1
	}
	return d.Amount
}

// usage sums up what a value has counted in a limit, and in each of its slots if it slides.
func (b *modelBucket) usage(l *bucket.LimitTerms, value string, nowMS int64) (
	use bucket.LimitUse, slots []limit.Slot) {
	slot := func(atMS int64) int64 { return atMS - atMS%max(l.SlotMS, 1) }
	began, oldest := int64(0), slot(nowMS)
	for _, c := range b.counted[limitOf{value, l.Name, l.Changed}] {
		switch {
		case l.Kind == budget.WindowCalendar && c.atMS < l.FromMS,
			l.Kind == budget.WindowSliding && slot(c.atMS) < slot(nowMS-l.LengthMS+1):
			continue
		case l.Kind == budget.WindowFirstHit && began == 0 && c.n > 0:
			began = c.atMS // the oldest that still counts
		}
		use.Used += c.n
		if l.Kind != budget.WindowSliding || c.n == 0 {
			continue
		}
		oldest = min(oldest, slot(c.atMS))
		if n := len(slots); n > 0 && slots[n-1].AtMS == slot(c.atMS) {
			slots[n-1].Counted += c.n
		} else {
			slots = append(slots, limit.Slot{AtMS: slot(c.atMS), Counted: c.n})
		}
	}
	switch l.Kind {
	case budget.WindowCalendar:
		use.ResetMS = l.ToMS
	case budget.WindowSliding:
		use.ResetMS = oldest + l.SlotMS - 1 + l.LengthMS
	case budget.WindowFirstHit:
		if nowMS >= began+l.LengthMS {
			began, use.Used = nowMS, 0
		}
		use.ResetMS = began + l.LengthMS
	}
	return use, slots
}

func (b *modelBucket) predict(d *bucket.StoreDeduction, nowMS int64) bucket.StoreOutcome {
	out := b.check(d, nowMS, true)
	if out.Verdict == bucket.Accepted {
		out.Balance -= d.Amount
	}
	return out
}

func (b *modelBucket) deduct(d *bucket.StoreDeduction, incarnation, nowMS int64) bucket.StoreOutcome {
	out := b.check(d, nowMS, false)
	if out.Verdict == bucket.Short {
		out.Limits = nil
	}
	if out.Verdict != bucket.Accepted {
		return out
	}
	b.balance, b.taken, b.changed[0] = b.balance-d.Amount, b.taken+d.Amount, true
	b.limits = d.Terms.LimitsVersion
	out.Balance, out.Limits = b.balance, nil
	r := &recorded{value: d.Value, version: d.Terms.LimitsVersion, counts: map[limitOf]int64{},
		Record: bucket.Record{Amount: d.Amount, Epoch: d.Epoch, Incarnation: incarnation,
			Fingerprint: d.Fingerprint, Nonce: d.Nonce, AtMS: nowMS}}
	b.records[d.ID] = r
	kept := map[limitOf][]count{}
	for i := range d.Terms.Limits {
		l := &d.Terms.Limits[i]
		of := limitOf{d.Value, l.Name, l.Changed}
		r.counts[of] = countsOf(d, i)
		if d.Value != "" {
			if use, _ := b.usage(l, d.Value, nowMS); l.Kind == budget.WindowFirstHit && use.Used == 0 {
				b.counted[of] = nil // the window is over, or nothing of it counts
			}
			b.counted[of] = append(b.counted[of], count{d.ID, nowMS, r.counts[of]})
			use, _ := b.usage(l, d.Value, nowMS)
			out.Limits, kept[of] = append(out.Limits, use), b.counted[of]
		}
	}
	if len(kept) > 0 { // what other limits counted for the value is dropped
		maps.DeleteFunc(b.counted, func(of limitOf, _ []count) bool { return of.value == d.Value })
		maps.Copy(b.counted, kept)
	}
	return out
}

// undo rolls back or cancels. young says that a missing record proves nothing, since is the first
// incarnation whose records can be rolled back.
func (b *modelBucket) undo(x *bucket.StoreRollback, cancel bool, incarnation, since, nowMS int64,
	young bool) bucket.StoreReturn {
	r := b.records[x.ID]
	switch {
	case b.leaves():
		return bucket.StoreReturn{Verdict: bucket.Moving}
	case r == nil && cancel:
		r = &recorded{Record: bucket.Record{Void: true, Unsure: young, Incarnation: incarnation, AtMS: nowMS}}
		b.records[x.ID] = r
		if young {
			return bucket.StoreReturn{Verdict: bucket.Unclear, Record: r.Record}
		}
		return bucket.StoreReturn{Verdict: bucket.Voided, Record: r.Record}
	case r == nil && young:
		return bucket.StoreReturn{Verdict: bucket.Unclear}
	case r == nil:
		return bucket.StoreReturn{Verdict: bucket.NotFound}
	case r.Void && !r.Unsure:
		return bucket.StoreReturn{Verdict: bucket.Known, Record: r.Record}
	case r.Void, r.Incarnation < since:
		return bucket.StoreReturn{Verdict: bucket.Unclear, Record: r.Record}
	}
	gave, earlier := int64(0), false
	for _, back := range r.Rollbacks {
		if back.ID == x.RollbackID {
			gave, earlier = back.Amount, true
		}
	}
	left, amount := r.Amount-r.RolledBack, x.Amount
	if amount == 0 {
		amount = left
	}
	out := bucket.StoreReturn{Verdict: bucket.Accepted, Record: r.Record}
	switch {
	case earlier && !cancel, left == 0 && (cancel || x.Amount == 0):
		out.Verdict, out.Amount = bucket.Known, gave
		return out
	case amount > left:
		out.Verdict = bucket.TooMuch
		return out
	case len(r.Rollbacks) >= bucket.MostRollbackIDs && !cancel:
		out.Verdict = bucket.TooMany
		return out
	}
	r.RolledBack += amount
	r.Rollbacks = append(slices.Clone(r.Rollbacks), bucket.RecordedRollback{ID: x.RollbackID, Amount: amount})
	b.lower(x.ID, r, x.Terms, r.RolledBack-amount)
	out.Record, out.Amount = r.Record, amount
	if b.state == "open" && b.epoch == r.Epoch {
		b.balance, b.given, b.changed[0] = b.balance+amount, b.given+amount, true
		return out
	}
	b.late[r.Epoch], b.changed[r.Epoch], out.Late = b.late[r.Epoch]+amount, true, true
	return out
}

// lower subtracts returned units from what their deduction counts in the limits of terms.
func (b *modelBucket) lower(id string, r *recorded, terms *bucket.Terms, before int64) {
	for i := range terms.Limits {
		l := &terms.Limits[i]
		of := limitOf{r.value, l.Name, l.Changed}
		n := r.counts[of]
		for j := range b.counted[of] {
			if b.counted[of][j].id == id && l.Changed <= r.version {
				b.counted[of][j].n -= keeps(l, n, r.Amount, before) - keeps(l, n, r.Amount, r.RolledBack)
			}
		}
	}
}

// keeps returns what a deduction still counts: a call as long as a unit is left, units in proportion
// to what is left, rounded up. The numbers are small.
func keeps(l *bucket.LimitTerms, n, amount, back int64) int64 {
	if l.Measure == budget.MeasureCount && back < amount {
		return n
	}
	return (n*(amount-back) + amount - 1) / amount
}

func (b *modelBucket) find(id string, young bool) bucket.StoreReturn {
	out := bucket.StoreReturn{Verdict: bucket.NotFound, Young: young}
	if b.leaves() {
		out.Verdict = bucket.Moving
	} else if r := b.records[id]; r != nil {
		out.Verdict, out.Record = bucket.Known, r.Record
	}
	return out
}
