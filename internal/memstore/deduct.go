package memstore

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// Deduct implements bucket.Counter.
func (s *Store) Deduct(_ context.Context, m bucket.Memory, deductions []bucket.StoreDeduction) (
	bucket.StoreAnswer, error) {
	deductions = slices.Clone(deductions) // a delayed call runs after the caller has reused the list
	return with(s, "deduct", m, func(l *partition) (bucket.StoreAnswer, error) {
		out := bucket.StoreAnswer{
			NowMS:    s.nowMS(),
			Outcomes: make([]bucket.StoreOutcome, len(deductions)),
		}
		for i := range deductions {
			out.Outcomes[i] = l.deduct(m, &deductions[i], out.NowMS)
		}
		return out, nil
	})
}

// Predict implements bucket.Counter.
func (s *Store) Predict(_ context.Context, m bucket.Memory, deductions []bucket.StoreDeduction) (
	bucket.StoreAnswer, error) {
	deductions = slices.Clone(deductions)
	return with(s, "predict", m, func(l *partition) (bucket.StoreAnswer, error) {
		out := bucket.StoreAnswer{
			NowMS:    s.nowMS(),
			Outcomes: make([]bucket.StoreOutcome, len(deductions)),
		}
		for i := range deductions {
			out.Outcomes[i] = l.predict(&deductions[i], out.NowMS)
		}
		return out, nil
	})
}

// predict returns the outcome of one deduction, with limits before it.
func (l *partition) predict(d *bucket.StoreDeduction, nowMS int64) bucket.StoreOutcome {
	out, _ := l.check(d, nowMS, true)
	if out.Verdict != bucket.Accepted && out.Verdict != bucket.Short ||
		d.Value == "" || len(d.Terms.Limits) == 0 {
		return out
	}
	out.Limits = make([]bucket.LimitUse, len(d.Terms.Limits))
	for i := range d.Terms.Limits {
		x := &d.Terms.Limits[i]
		w := l.counters[valueName{d.Bucket, d.Value}].windows[limitName{x.Name, x.Changed}]
		out.Limits[i] = use(x, present(x, w, nowMS), nowMS)
	}
	return out
}

// standing returns Accepted if units can be taken from an epoch, else the verdict of the deduction.
func (l *partition) standing(bucketID, epoch int64) bucket.Verdict {
	e, known := l.entries[bucketID]
	switch {
	case e.state == copying, known && e.epoch == epoch && (e.state == moving || e.state == copied):
		return bucket.Moving
	case known && e.epoch == epoch && e.state == opened:
		return bucket.Accepted
	case known && e.epoch >= epoch, l.newest[bucketID] > epoch:
		return bucket.Closed
	}
	return bucket.Lost
}

// record returns the record of an id.
func (l *partition) record(id bucket.RecordID) (bucket.Record, int64, bool) {
	for _, slice := range []int64{l.slice, l.slice - 1} {
		if r, known := l.records[slice][id]; known {
			return r, slice, true
		}
	}
	return bucket.Record{}, l.slice, false
}

// keep stores a record in a slice.
func (l *partition) keep(slice int64, id bucket.RecordID, r bucket.Record) {
	if l.records[slice] == nil {
		l.records[slice] = map[bucket.RecordID]bucket.Record{}
	}
	l.records[slice][id] = r
}

// check evaluates one deduction in the order of bucket.Counter. next is the counter of its value
// after it.
func (l *partition) check(d *bucket.StoreDeduction, nowMS int64, predict bool) (
	out bucket.StoreOutcome, next *counter) {
	verdict := func(v bucket.Verdict) (bucket.StoreOutcome, *counter) {
		return bucket.StoreOutcome{Verdict: v}, nil
	}
	e, t := l.entries[d.Bucket], d.Terms
	switch v := l.standing(d.Bucket, d.Epoch); {
	case v == bucket.Accepted:
	case predict && (v == bucket.Closed || v == bucket.Lost):
		e = entry{}
	default:
		return verdict(v)
	}
	if d.NotAfterMS < nowMS {
		return verdict(bucket.TooOld)
	}
	if r, _, known := l.record(d.RecordID); known {
		return bucket.StoreOutcome{Verdict: bucket.Known, Record: r}, nil
	}
	switch {
	case t.EndMS > 0 && nowMS >= t.EndMS:
		return verdict(bucket.Over)
	case l.versions[d.Bucket] > t.LimitsVersion:
		return verdict(bucket.Outdated)
	}
	for i := range t.Limits {
		x := &t.Limits[i]
		if x.Kind == budget.WindowCalendar && (nowMS < x.FromMS || nowMS >= x.ToMS) {
			return verdict(bucket.WindowOver)
		}
	}
	next, uses, fits := l.judge(d, nowMS)
	switch {
	case !fits:
		return bucket.StoreOutcome{Verdict: bucket.Limited, Balance: e.balance, Limits: uses,
			Slots: l.slots(d, nowMS)}, nil
	case e.balance < d.Amount, e.taken > budget.MaxAmount-d.Amount:
		return bucket.StoreOutcome{Verdict: bucket.Short, Balance: e.balance}, nil
	}
	return bucket.StoreOutcome{Verdict: bucket.Accepted, Balance: e.balance - d.Amount,
		Limits: uses}, next
}

// deduct checks one deduction, and executes it if no check fails.
func (l *partition) deduct(m bucket.Memory, d *bucket.StoreDeduction,
	nowMS int64) bucket.StoreOutcome {
	out, next := l.check(d, nowMS, false)
	if out.Verdict != bucket.Accepted {
		return out
	}
	e, t := l.entries[d.Bucket], d.Terms
	e.balance, e.taken = e.balance-d.Amount, e.taken+d.Amount
	l.entries[d.Bucket], l.changed[epochName{d.Bucket, 0}] = e, true
	l.versions[d.Bucket] = max(l.versions[d.Bucket], t.LimitsVersion)
	n := note{value: d.Value, version: t.LimitsVersion}
	if d.Counts != nil {
		n.counts = map[limitName]int64{}
		for i := range t.Limits {
			n.counts[limitName{t.Limits[i].Name, t.Limits[i].Changed}] = d.Counts[i]
		}
	}
	if next != nil {
		l.counters[valueName{d.Bucket, d.Value}] = *next
	}
	l.keep(
		l.slice,
		d.RecordID,
		bucket.Record{Amount: d.Amount, Epoch: d.Epoch, Incarnation: m.Incarnation,
			Fingerprint: d.Fingerprint, Nonce: d.Nonce, AtMS: nowMS},
	)
	l.notes[d.RecordID] = n
	return out
}

// judge returns the counter and the usage of limits after a deduction. If the deduction does not
// fit, fits is false and uses is the present usage. A deduction that counts for no limit fits.
func (l *partition) judge(d *bucket.StoreDeduction,
	nowMS int64) (next *counter, uses []bucket.LimitUse, fits bool) {
	t := d.Terms
	if d.Value == "" || len(t.Limits) == 0 {
		return nil, nil, true
	}
	c := l.counters[valueName{d.Bucket, d.Value}]
	before := make([]bucket.LimitUse, len(t.Limits))
	next, fits = &counter{windows: map[limitName]window{}}, true
	lifetime := false
	for i := range t.Limits {
		x := &t.Limits[i]
		n, most := d.Amount, x.Max
		switch {
		case d.Counts != nil:
			n = d.Counts[i]
		case x.Measure == budget.MeasureCount:
			n = 1
		}
		if d.Max != nil {
			most = d.Max[i]
		}
		name := limitName{x.Name, x.Changed}
		w := present(x, c.windows[name], nowMS)
		before[i] = use(x, w, nowMS)
		if n > 0 && w.counted+n > most {
			before[i].Exceeded, fits = true, false
			continue
		}
		if n > 0 {
			w = counted(x, w, n, nowMS)
		}
		next.windows[name] = w
		end := ends(x, w, nowMS)
		next.expiresMS, lifetime = max(next.expiresMS, end), lifetime || end == 0
		uses = append(uses, use(x, w, nowMS))
	}
	if lifetime {
		next.expiresMS = 0
	}
	if !fits {
		return nil, before, false
	}
	return next, uses, true
}

// slots returns the slots that count in each sliding limit of a deduction's value.
func (l *partition) slots(d *bucket.StoreDeduction, nowMS int64) [][]limit.Slot {
	out := make([][]limit.Slot, len(d.Terms.Limits))
	for i := range d.Terms.Limits {
		x := &d.Terms.Limits[i]
		w := l.counters[valueName{d.Bucket, d.Value}].windows[limitName{x.Name, x.Changed}]
		if x.Kind != budget.WindowSliding {
			continue
		}
		for _, s := range present(x, w, nowMS).slots {
			if s.counted > 0 {
				out[i] = append(out[i], limit.Slot{AtMS: s.first, Counted: s.counted})
			}
		}
	}
	return out
}

// Rollback implements bucket.Counter.
func (s *Store) Rollback(_ context.Context, m bucket.Memory,
	all []bucket.StoreRollback) ([]bucket.StoreReturn, error) {
	return s.undo("rollback", m, all, false)
}

// Cancel implements bucket.Counter.
func (s *Store) Cancel(_ context.Context, m bucket.Memory,
	all []bucket.StoreRollback) ([]bucket.StoreReturn, error) {
	return s.undo("cancel", m, all, true)
}

func (s *Store) undo(op string, m bucket.Memory, all []bucket.StoreRollback,
	cancel bool) ([]bucket.StoreReturn, error) {
	return with(s, op, m, func(l *partition) ([]bucket.StoreReturn, error) {
		out, nowMS := make([]bucket.StoreReturn, len(all)), s.nowMS()
		for i := range all {
			out[i] = l.undo(m, &all[i], cancel, nowMS, s.young(l, nowMS))
		}
		return out, nil
	})
}

// young reports whether a partition's memory is younger than the record window.
func (s *Store) young(l *partition, nowMS int64) bool {
	return nowMS-l.marker.SinceMS < s.config.Window.Milliseconds()
}

// undo gives back units of one deduction.
func (l *partition) undo(m bucket.Memory, x *bucket.StoreRollback, cancel bool, nowMS int64,
	young bool) bucket.StoreReturn {
	e := l.entries[x.Bucket]
	if e.state == moving || e.state == copying || e.state == copied {
		return bucket.StoreReturn{Verdict: bucket.Moving}
	}
	r, slice, known := l.record(x.RecordID)
	switch {
	case !known && cancel:
		r = bucket.Record{Void: true, Unsure: young, Incarnation: m.Incarnation, AtMS: nowMS}
		l.keep(l.slice, x.RecordID, r)
		if young {
			return bucket.StoreReturn{Verdict: bucket.Unclear, Record: r}
		}
		return bucket.StoreReturn{Verdict: bucket.Voided, Record: r}
	case !known && young:
		return bucket.StoreReturn{Verdict: bucket.Unclear}
	case !known:
		return bucket.StoreReturn{Verdict: bucket.NotFound}
	case r.Void && !r.Unsure:
		return bucket.StoreReturn{Verdict: bucket.Known, Record: r}
	case r.Void, r.Incarnation < l.marker.Since:
		return bucket.StoreReturn{Verdict: bucket.Unclear, Record: r}
	}
	id, amount, left := x.RollbackID, x.Amount, r.Amount-r.RolledBack
	earlier := slices.IndexFunc(r.Rollbacks,
		func(b bucket.RecordedRollback) bool { return b.ID == id })
	gave := int64(0)
	if earlier >= 0 {
		gave = r.Rollbacks[earlier].Amount
	}
	if amount == 0 {
		amount = left
	}
	switch {
	case earlier >= 0 && !cancel, left == 0 && (cancel || x.Amount == 0):
		return bucket.StoreReturn{Verdict: bucket.Known, Record: r, Amount: gave}
	case amount > left:
		return bucket.StoreReturn{Verdict: bucket.TooMuch, Record: r}
	case len(r.Rollbacks) >= bucket.MostRollbackIDs && !cancel:
		return bucket.StoreReturn{Verdict: bucket.TooMany, Record: r}
	}
	l.lower(x.RecordID, r, x.Terms, r.RolledBack, r.RolledBack+amount)
	r.RolledBack += amount
	r.Rollbacks = append(slices.Clone(r.Rollbacks), bucket.RecordedRollback{ID: id, Amount: amount})
	l.keep(slice, x.RecordID, r)
	out := bucket.StoreReturn{Verdict: bucket.Accepted, Record: r, Amount: amount}
	if e.state == opened && e.epoch == r.Epoch {
		e.balance, e.given = e.balance+amount, e.given+amount
		l.entries[x.Bucket], l.changed[epochName{x.Bucket, 0}] = e, true
		return out
	}
	name := epochName{x.Bucket, r.Epoch}
	l.late[name], l.changed[name] = lateSum{l.late[name].units + amount, l.slice}, true
	out.Late = true
	return out
}

// Find implements bucket.Counter.
func (s *Store) Find(_ context.Context, m bucket.Memory,
	ids []bucket.RecordID) ([]bucket.StoreReturn, error) {
	return with(s, "find", m, func(l *partition) ([]bucket.StoreReturn, error) {
		out := make([]bucket.StoreReturn, len(ids))
		for i, id := range ids {
			out[i] = bucket.StoreReturn{Verdict: bucket.NotFound, Young: s.young(l, s.nowMS())}
			if e := l.entries[id.Bucket]; e.state == moving || e.state == copying || e.state == copied {
				out[i].Verdict = bucket.Moving
			} else if r, _, known := l.record(id); known {
				out[i].Verdict, out[i].Record = bucket.Known, r
			}
		}
		return out, nil
	})
}
