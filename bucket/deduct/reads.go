package deduct

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// readSize bounds the operations that one read serves.
const readSize = 1000

// readBalances reads O of the buckets of repeated deductions, and the sums of the budgets whose
// figures are too old for their answers.
func (h *sqlHome) readBalances(ops []*Op) {
	var old []*Op
	for _, o := range ops {
		if o.Err, o.Sum, o.balance = nil, nil, -1; o.old {
			old = append(old, o)
		}
	}
	ctx, cancel := h.s.bounded()
	defer cancel()
	h.standingsOf(ctx, ops, old)
	for _, o := range ops {
		o.Back(true)
	}
}

// standingsOf reads O of the buckets of recorded deductions, and the sums of the budgets of old.
func (h *sqlHome) standingsOf(ctx context.Context, ops, old []*Op) {
	buckets := make([]int64, len(ops))
	for i, o := range ops {
		buckets[i] = o.Recorded.Bucket
	}
	slices.Sort(buckets)
	buckets = slices.Compact(buckets)
	var found map[int64]int64
	err := h.sums(ctx, old, func(ctx context.Context, budgets []int64) (
		sums map[int64]ledger.Availability, err error) {
		found, sums, err = h.lookup.Balances(ctx, buckets, budgets)
		return sums, err
	})
	for _, o := range ops {
		o.Err = cmp.Or(o.Err, err)
		if outstanding, known := found[o.Recorded.Bucket]; known {
			o.balance = outstanding
		}
	}
}

// readSums reads the sums of the operations' budgets twice, and then the rows of the operations
// (I3).
func (h *sqlHome) readSums(ops []*Op) {
	ctx, cancel := h.s.bounded()
	defer cancel()
	ids := idsOf(ops)
	var recorded map[bucket.ID]ledger.Deduction
	_ = h.sums(ctx, ops, func(ctx context.Context, budgets []int64) (
		sums map[int64]ledger.Availability, err error) {
		sums, recorded, err = h.lookup.LookTwice(ctx, budgets, ids)
		return sums, err
	})
	for i, o := range ops {
		o.record(recorded, ids[i])
		o.Step = stepSums
		o.Back(true)
	}
}

// readFigures reads the sums of the operations' budgets for answers.
func (h *sqlHome) readFigures(ops []*Op) {
	ctx, cancel := h.s.bounded()
	defer cancel()
	h.look(ctx, ops, false)
	for _, o := range ops {
		o.Step = stepFigures
		o.Back(true)
	}
}

// look reads the sums of the operations' budgets once. exact is a locking read.
func (h *sqlHome) look(ctx context.Context, ops []*Op, exact bool) {
	if len(ops) == 0 {
		return
	}
	_ = h.sums(ctx, ops, func(ctx context.Context, budgets []int64) (
		map[int64]ledger.Availability, error) {
		return h.lookup.Availability(ctx, budgets, exact)
	})
}

// sums reads the sums of the operations' budgets. It returns the error of the read.
func (h *sqlHome) sums(ctx context.Context, ops []*Op,
	read func(ctx context.Context, budgets []int64) (map[int64]ledger.Availability, error)) error {
	began := h.s.clock.Now()
	spent := map[int64]int64{} // before the read begins
	var budgets []int64
	for _, o := range ops {
		for l := range o.legs {
			if _, known := spent[l.Budget.ID]; !known && !l.charged && l.from == nil {
				spent[l.Budget.ID] = l.State.counted(o.way.store)
				budgets = append(budgets, l.Budget.ID)
			}
		}
	}
	available, err := read(ctx, budgets)
	if err != nil {
		h.s.failed("sql", err)
	}
	sums := make(map[int64]*Sum, len(available))
	for _, o := range ops {
		o.Err = err
		for l := range o.legs {
			id := l.Budget.ID
			if l.charged || l.from != nil { // its figures are not shown
				continue
			}
			units, known := available[id]
			if known && sums[id] == nil {
				sums[id] = &Sum{Availability: units, At: began, Spent: spent[id]}
				l.State.note(sums[id])
			}
			if l.Sum = sums[id]; err == nil && !known {
				o.Err = notFound(l.Budget)
			}
		}
	}
	return err
}

// Find implements Decider: it reads the rows of the operations' ids.
func (h *sqlHome) Find(ops []*Op) {
	ctx, cancel := h.s.bounded()
	defer cancel()
	h.findAll(ctx, ops)
	for _, o := range ops {
		o.Step = StepFound
		o.Back(true)
	}
}

func (h *sqlHome) findAll(ctx context.Context, ops []*Op) {
	if len(ops) == 0 {
		return
	}
	ids := idsOf(ops)
	found, err := h.lookup.Recorded(ctx, ids)
	if err != nil {
		h.s.failed("sql", err)
	}
	for i, o := range ops {
		o.Err = err
		o.record(found, ids[i])
	}
}

// readLegs reads the rows of the legs of sets that were deducted before.
func (h *sqlHome) readLegs(ops []*Op) {
	ctx, cancel := h.s.bounded()
	defer cancel()
	var ids []bucket.ID
	for _, o := range ops {
		o.set.rows = nil
		list, _ := o.Recorded.Legs.List()
		for _, l := range list {
			ids = append(ids, bucket.ID{Budget: l.Budget,
				RequestID: ledger.LegID(0, o.set.request.RequestID)})
		}
	}
	found, err := h.lookup.Recorded(ctx, ids)
	if err != nil {
		h.s.failed("sql", err)
	}
	for _, o := range ops {
		o.Step, o.Err = stepLegs, err
		list, _ := o.Recorded.Legs.List()
		for _, id := range ids[:len(list)] {
			if d, known := found[id]; known {
				o.set.rows = append(o.set.rows, d)
			}
		}
		ids = ids[len(list):]
		o.Back(true)
	}
}

// idsOf returns the names of the operations' rows.
func idsOf(ops []*Op) []bucket.ID {
	ids := make([]bucket.ID, len(ops))
	for i, o := range ops {
		ids[i] = o.id()
	}
	return ids
}

// record sets the operation's row, if there is one.
func (o *Op) record(found map[bucket.ID]ledger.Deduction, id bucket.ID) {
	o.Recorded = nil
	if d, known := found[id]; known {
		o.Recorded = &d
	}
}

// readLimits reads which limits the operations would exceed.
func (h *sqlHome) readLimits(ops []*Op) {
	ctx, cancel := h.s.bounded()
	defer cancel()
	_ = h.judgeLimits(ctx, ops)
	for _, o := range ops {
		o.Step = stepLimits
		o.Back(true)
	}
}

// judgeLimits sets which limits the operations would exceed. It returns the usage of the limits of
// each.
func (h *sqlHome) judgeLimits(ctx context.Context, ops []*Op) [][]*limit.Usage {
	asked := make([]bucket.Charged, len(ops))
	for i, o := range ops {
		asked[i] = bucket.Charged{Budget: o.Budget.ID, Charges: o.Charges}
	}
	usages, err := h.lookup.Usages(ctx, asked)
	if err != nil {
		h.s.failed("sql", err)
	}
	for i, o := range ops {
		o.Err, o.Exceeded = err, nil
		if err == nil {
			o.Exceeded = limit.Exceeded(o.Charges, usages[i])
		}
	}
	return usages
}

// Predict implements Decider.
func (h *sqlHome) Predict(ctx context.Context, ops []*Op, _ time.Time) {
	var named, known, counted []*Op
	for _, o := range ops {
		o.Verdict = bucket.Short
		if o.Row.ID != "" {
			named = append(named, o)
		}
	}
	h.findAll(ctx, named)
	for _, o := range ops {
		switch {
		case o.Err != nil:
		case o.Recorded != nil && o.Recorded.Decides(o.Row.By):
			o.Verdict = bucket.Known
			known = append(known, o)
		case len(o.Charges) > 0 && o.Refusal == nil:
			counted = append(counted, o)
		}
	}
	if len(known) > 0 {
		h.standingsOf(ctx, known, nil)
	}
	if len(counted) == 0 {
		return
	}
	for i, usages := range h.judgeLimits(ctx, counted) {
		o := counted[i]
		for j := range o.Charges {
			o.Result.Answer.Limits = append(o.Result.Answer.Limits, o.Charges[j].State(usages[j]))
		}
		if len(o.Exceeded) > 0 {
			o.Verdict = bucket.Limited
		}
	}
}
