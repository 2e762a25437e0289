package deduct_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// books is a ledger in memory that obeys the contract of deduct.Ledger and deduct.Lookup. It is the
// specification that the deduct path is tested against. Every call is one transaction.
type books struct {
	mu      sync.Mutex
	budgets map[int64]*account
	names   map[string]int64
	home    map[int64]*account // by bucket
	rows    map[bucket.ID]ledger.Deduction
	usages  map[string]*limit.Usage
	now     func() time.Time

	// before and after are called around each call. An error of theirs is the call's. They may be nil.
	before, after func(call string) error
	calls         map[string]int
	flights       []int // operations of each
}

// account is a budget with what it holds.
type account struct {
	bucket.Budget
	undistributed int64
	epochs        map[int64]*ledger.Epoch // by bucket
	closedGroups  map[string]bool
}

func newBooks() *books {
	return &books{budgets: map[int64]*account{}, names: map[string]int64{}, home: map[int64]*account{}, rows: map[bucket.ID]ledger.Deduction{},
		usages: map[string]*limit.Usage{}, now: time.Now, calls: map[string]int{}}
}

// add makes a promo budget whose buckets have the first units each of the total.
func (b *books) add(name string, total int64, buckets int, each int64) *account {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := int64(len(b.budgets) + 1)
	a := &account{undistributed: total, epochs: map[int64]*ledger.Epoch{}, closedGroups: map[string]bool{}}
	a.Definition = budget.Definition{ID: id, Tenant: budget.DefaultTenant, Name: name, Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: total, BucketQuantity: buckets, Version: 1}
	a.ListVersion, a.Period.Number = 1, 1
	for i := range buckets {
		bk := bucket.Bucket{ID: id*1000 + int64(i), Ordinal: i, Key: fmt.Sprintf("%s:bucket-%d", name, i),
			Online: true}
		bk.Epoch = ledger.Epoch{Budget: id, Bucket: bk.ID, Number: 1, Status: ledger.Open, Outstanding: each}
		a.undistributed -= each
		a.Buckets = append(a.Buckets, bk)
		epoch := bk.Epoch
		a.epochs[bk.ID] = &epoch
		b.home[bk.ID] = a
	}
	b.budgets[id], b.names[name] = a, id
	return a
}

func (b *books) begin(call string) error {
	b.calls[call]++
	if b.before != nil {
		return b.before(call)
	}
	return nil
}

func (b *books) end(call string) error {
	if b.after != nil {
		return b.after(call)
	}
	return nil
}

func (b *books) Budget(_ context.Context, ref bucket.BudgetRef) (bucket.Budget, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin("budget"); err != nil {
		return bucket.Budget{}, err
	}
	if a := b.budgets[cmp.Or(ref.ID, b.names[ref.Name])]; a != nil {
		out := a.Budget
		out.Buckets = slices.Clone(a.Buckets)
		for i := range out.Buckets {
			out.Buckets[i].Epoch = *a.epochs[out.Buckets[i].ID]
		}
		return out, nil
	}
	return bucket.Budget{}, budget.Refuse(budget.BudgetNotFound, "find", "no budget %v", ref)
}

func (b *books) Versions(_ context.Context, ids []int64) (map[int64]bucket.Version, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin("versions"); err != nil {
		return nil, err
	}
	out := map[int64]bucket.Version{}
	for _, id := range ids {
		if a := b.budgets[id]; a != nil {
			out[id] = bucket.Version{Definition: a.Version, List: a.ListVersion}
		}
	}
	return out, nil
}

func (b *books) VersionSum(ctx context.Context, ids []int64) (exist int, sum bucket.Version, err error) {
	versions, err := b.Versions(ctx, ids)
	for _, v := range versions {
		sum.Definition += v.Definition
		sum.List += v.List
	}
	return len(versions), sum, err
}

func (b *books) Commit(_ context.Context, ops []bucket.Operation) ([]bucket.Outcome, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin("commit"); err != nil {
		return nil, err
	}
	b.flights = append(b.flights, len(ops))
	return b.decide(ops, b.judge), b.end("commit")
}

// decide judges operations in order. It accepts all legs of a set, or none.
func (b *books) decide(ops []bucket.Operation, judge func(*bucket.Operation) bucket.Outcome) []bucket.Outcome {
	out := make([]bucket.Outcome, len(ops))
	for i := 0; i < len(ops); i += ops[i].Legs() {
		legs := ops[i : i+ops[i].Legs()]
		fit := 0
		for j := range legs {
			if d, known := b.rows[ops[i].ID()]; known {
				out[i+j] = bucket.Outcome{Verdict: bucket.Known, Deduction: d}
			} else {
				out[i+j] = judge(&legs[j])
			}
			if out[i+j].Verdict == bucket.Accepted {
				fit++
			}
		}
		for j := range legs {
			switch {
			case fit == len(legs):
				b.accept(&legs[j], &out[i+j])
			case out[i+j].Verdict == bucket.Accepted:
				out[i+j].Verdict = bucket.Fits
			}
		}
		if set := ops[i].Set; set != nil && fit == len(legs) {
			list := make([]ledger.Leg, len(legs))
			for j := range legs {
				list[j] = ledger.Leg{Budget: legs[j].Budget.ID, Bucket: legs[j].Bucket, Epoch: 1}
			}
			b.rows[set.Owner] = ledger.Deduction{RequestID: set.Owner.RequestID, State: ledger.StateUsed,
				Fingerprint: legs[0].Request.Fingerprint, Nonce: legs[0].Request.Nonce, Legs: ledger.PackLegs(list)}
		}
	}
	return out
}

// judge returns the outcome of an operation whose id is new.
func (b *books) judge(op *bucket.Operation) bucket.Outcome {
	a, e := b.home[op.Bucket], b.home[op.Bucket].epochs[op.Bucket]
	switch {
	case a.Version != op.Budget.Version:
		return bucket.Outcome{Verdict: bucket.Outdated}
	case a.closedGroups[op.Request.Group]:
		return bucket.Outcome{Verdict: bucket.GroupClosed}
	case e.Status != ledger.Open:
		return bucket.Outcome{Verdict: bucket.Gone}
	case a.Period.OverAt(b.now()):
		return bucket.Outcome{Verdict: bucket.Over}
	case e.Outstanding < op.Request.Amount:
		return bucket.Outcome{Verdict: bucket.Short, Remaining: e.Outstanding}
	}
	if refused := limit.Exceeded(op.Charges, b.usage(a.ID, op.Charges)); refused != nil {
		return bucket.Outcome{Verdict: bucket.Limited, Refused: refused}
	}
	return bucket.Outcome{Verdict: bucket.Accepted}
}

// accept carries an operation out.
func (b *books) accept(op *bucket.Operation, out *bucket.Outcome) {
	a, e := b.home[op.Bucket], b.home[op.Bucket].epochs[op.Bucket]
	e.Outstanding -= op.Request.Amount
	e.Used += op.Request.Amount
	d := ledger.Deduction{Budget: a.ID, RequestID: op.Request.ID, Amount: op.Request.Amount, State: ledger.StateUsed,
		Fingerprint: op.Request.Fingerprint, Nonce: op.Request.Nonce, Bucket: op.Bucket, Epoch: e.Number, CountedAt: b.now()}
	b.rows[bucket.ID{Budget: a.ID, RequestID: op.Request.ID}] = d
	out.Deduction, out.Remaining = d, e.Outstanding
	out.Limits = limit.Count(op.Charges, b.usage(a.ID, op.Charges))
}

func (b *books) usage(budgetID int64, charges []limit.Charge) (out []*limit.Usage) {
	for _, charge := range charges {
		key := fmt.Sprint(budgetID, charge.Limit.Name, charge.Key)
		if b.usages[key] == nil {
			t := limit.NewUsage(charge.Limit, charge.Key, b.now().UnixMilli())
			b.usages[key] = &t
		}
		out = append(out, b.usages[key])
	}
	return out
}

func (b *books) Bring(_ context.Context, _ map[int64]int64, ops []bucket.Operation) (
	[]bucket.Outcome, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin("bring"); err != nil {
		return nil, err
	}
	out := b.decide(ops, func(op *bucket.Operation) bucket.Outcome {
		a := b.budgets[op.Budget.ID]
		e := a.serving()
		if e == nil {
			return bucket.Outcome{Verdict: bucket.Gone}
		}
		op.Bucket = e.Bucket
		a.bring(e, op.Request.Amount)
		out := b.judge(op)
		if out.Availability = a.available(); out.Verdict == bucket.Short {
			out.Verdict = bucket.Exhausted
		}
		return out
	})
	for i := range out {
		if out[i].Verdict == bucket.Accepted {
			out[i].Availability = b.budgets[ops[i].Budget.ID].available()
		}
	}
	return out, b.end("bring")
}

// serving returns the fullest open epoch, or nil.
func (a *account) serving() (best *ledger.Epoch) {
	for _, bk := range a.Buckets {
		if e := a.epochs[bk.ID]; bk.Online && e.Status == ledger.Open && (best == nil || e.Outstanding > best.Outstanding) {
			best = e
		}
	}
	return best
}

// bring moves units into a bucket until it has a number of units.
func (a *account) bring(to *ledger.Epoch, units int64) {
	if a.available().Sum() < units {
		return
	}
	take := func(from *int64) {
		n := min(max(units-to.Outstanding, 0), *from)
		*from -= n
		to.Outstanding += n
	}
	take(&a.undistributed)
	donors := slices.SortedFunc(func(yield func(*ledger.Epoch) bool) {
		for _, e := range a.epochs {
			if e != to && !yield(e) {
				return
			}
		}
	}, func(x, y *ledger.Epoch) int {
		return cmp.Or(cmp.Compare(y.Outstanding, x.Outstanding), cmp.Compare(x.Bucket, y.Bucket))
	})
	for _, donor := range donors {
		take(&donor.Outstanding)
	}
}

func (a *account) available() (c ledger.Availability) {
	c.Undistributed = a.undistributed
	for _, e := range a.epochs {
		c.Outstanding += e.Outstanding
	}
	return c
}

func (b *books) Recorded(_ context.Context, ids []bucket.ID) (map[bucket.ID]ledger.Deduction, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[bucket.ID]ledger.Deduction{}
	for _, id := range ids {
		if d, known := b.rows[id]; known {
			out[id] = d
		}
	}
	return out, b.begin("recorded")
}

func (b *books) Balances(_ context.Context, buckets, budgets []int64) (
	map[int64]int64, map[int64]ledger.Availability, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[int64]int64{}
	for _, id := range buckets {
		if a := b.home[id]; a != nil {
			out[id] = a.epochs[id].Outstanding
		}
	}
	return out, b.available(budgets), b.begin("balances")
}

func (b *books) Availability(_ context.Context, budgets []int64, _ bool) (map[int64]ledger.Availability, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.available(budgets), b.begin("availability")
}

func (b *books) available(budgets []int64) map[int64]ledger.Availability {
	out := map[int64]ledger.Availability{}
	for _, id := range budgets {
		if a := b.budgets[id]; a != nil {
			out[id] = a.available()
		}
	}
	return out
}

func (b *books) LookTwice(ctx context.Context, budgets []int64, ids []bucket.ID) (
	map[int64]ledger.Availability, map[bucket.ID]ledger.Deduction, error) {
	b.mu.Lock()
	sums, err := b.available(budgets), b.begin("twice")
	b.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	recorded, err := b.Recorded(ctx, ids)
	return sums, recorded, err
}

func (b *books) Usages(_ context.Context, asked []bucket.Charged) ([][]*limit.Usage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([][]*limit.Usage, len(asked))
	for i := range asked {
		out[i] = b.usage(asked[i].Budget, asked[i].Charges)
	}
	return out, b.begin("limits")
}

func (b *books) RollOver(_ context.Context, budgetID int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.budgets[budgetID]
	if a.Period.OverAt(b.now()) {
		a.Period = budget.Period{Number: a.Period.Number + 1, Start: a.Period.End,
			End: a.Period.End.Add(a.Period.End.Sub(a.Period.Start))}
		a.ListVersion++
	}
	return b.begin("rollover")
}

// change alters a budget under the lock.
func (b *books) change(id int64, change func(*account)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b.budgets[id])
}

// count returns how often a call was made.
func (b *books) count(call string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[call]
}

// used returns the units of all rows of a budget, and the number of the rows.
func (b *books) used(id int64) (units int64, rows int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, d := range b.rows {
		if key.Budget == id && d.State == ledger.StateUsed {
			units += d.Amount
			rows++
		}
	}
	return units, rows
}
