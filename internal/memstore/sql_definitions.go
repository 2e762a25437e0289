package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

type created struct {
	budget bucket.Budget
	new    bool
}

// Create stores a budget and hands out its total. See bucket.Definitions.
func (s *SQL) Create(ctx context.Context, d budget.Definition, lanes []bucket.Lane) (
	bucket.Budget, bool, error) {
	d.StartAt, d.EndAt = toStart(d.StartAt), toEnd(d.EndAt)
	r, err := transact(ctx, s, "Create", func(now time.Time) (created, error) {
		if old := s.byName[sqlName{d.Tenant, d.Name}]; old != nil {
			if comparable(d) != old.createdAs || ruleText(d.Rule) != old.createdRule ||
				limit.EncodeAll(d.Limits) != old.createdLimits {
				return created{}, budget.Refuse(budget.NameTaken, "create",
					"budget %q exists with another definition", d.Name)
			}
			return created{budget: old.view()}, nil
		}
		if d.BucketQuantity != 0 && len(lanes) != d.BucketQuantity {
			return created{}, budget.Refuse(budget.Internal, "create",
				"%d lanes for %d buckets", len(lanes), d.BucketQuantity)
		}
		for _, lane := range lanes {
			if err := s.fit("create", lane); err != nil {
				return created{}, err
			}
		}
		b := s.insert(d, lanes, now)
		s.verify(b)
		return created{b.view(), true}, nil
	})
	return r.budget, r.new, err
}

// comparable returns the part of a definition that tells one creation from another.
func comparable(d budget.Definition) budget.Definition {
	d.ID, d.Version, d.CreatedAt, d.UpdatedAt = 0, 0, time.Time{}, time.Time{}
	d.Rule, d.Limits = nil, nil
	return d
}

// ruleText is a rule in a form that can be compared.
func ruleText(rule *budget.Rule) string {
	if rule == nil {
		return ""
	}
	return allocation.Canonical(*rule)
}

func unknownLane(op string, lane bucket.Lane) error {
	return budget.Refuse(budget.Unavailable, op,
		"lane %d of instance %q has never been reached", lane.Index, lane.Instance)
}

// insert makes the rows of a new budget.
func (s *SQL) insert(d budget.Definition, lanes []bucket.Lane, now time.Time) *sqlBudget {
	b := &sqlBudget{
		createdAs:   comparable(d),
		createdRule: ruleText(d.Rule), createdLimits: limit.EncodeAll(d.Limits),
		listVersion: 1,
		nextRun:     1,
		adjustments: map[string]*sqlAdjustment{},
		deductions:  map[string]*ledger.Deduction{},
		rollbacks:   map[sqlRollback]*ledger.Rollback{},
		holds:       map[string]*ledger.Deduction{},
		holdEnds:    map[string]*ledger.HoldEnd{},
		groups:      map[string]ledger.GroupState{},
		values:      map[dimensionValue][]*carrier{},
	}
	d.ID, d.Version, d.CreatedAt, d.UpdatedAt = int64(len(s.budgets))+1, 1, now, now
	d.BucketQuantity = len(lanes)
	if d.Limits != nil {
		d.Limits = limit.Begin(d.Limits.List, now)
	}
	b.limits = compile(d.Limits)
	b.definition = d
	b.adjustments[""] = &sqlAdjustment{
		Adjustment: bucket.Adjustment{Budget: d.ID, Quantity: d.TotalQuantity},
		state:      bucket.AdjustmentDone,
	}
	s.budgets = append(s.budgets, b)
	s.byName[sqlName{d.Tenant, d.Name}] = b
	unfunded, period := allocation.Begin(d, now)
	b.unfunded = unfunded
	b.open(period)
	for i, share := range allocation.Shares(d, period.Funded, len(lanes)) {
		shard := &sqlBucket{budget: b, Bucket: bucket.Bucket{
			ID: int64(len(s.buckets)) + 1, Ordinal: i, Lane: lanes[i], UpdatedAt: now,
			Key: fmt.Sprintf("%s:bucket-%d", d.Name, i),
		}}
		s.buckets = append(s.buckets, shard)
		b.buckets = append(b.buckets, shard)
		epoch := s.begin(shard, now)
		if share > 0 {
			epoch.grant(share, now)
			shard.OutCnt = 1
		}
	}
	return b
}

func (b *sqlBudget) view() bucket.Budget {
	v := bucket.Budget{Definition: b.definition, ListVersion: b.listVersion, Period: b.period}
	for _, shard := range b.buckets {
		v.Buckets = append(v.Buckets, shard.view())
	}
	return v
}

// Budget reads a budget with its bucket list.
func (s *SQL) Budget(ctx context.Context, ref bucket.BudgetRef) (bucket.Budget, error) {
	return transact(ctx, s, "Budget", func(time.Time) (bucket.Budget, error) {
		b := s.byName[sqlName{ref.Tenant, ref.Name}]
		if ref.ID != 0 {
			var err error
			if b, err = s.find(ref.ID); err != nil {
				return bucket.Budget{}, err
			}
		}
		if b == nil {
			return bucket.Budget{}, budget.Refuse(budget.BudgetNotFound, "read",
				"tenant %q has no budget %q", ref.Tenant, ref.Name)
		}
		return b.view(), nil
	})
}

// Budgets reads a page of definitions.
func (s *SQL) Budgets(ctx context.Context, page bucket.Page) ([]budget.Definition, error) {
	return transact(ctx, s, "Budgets", func(now time.Time) ([]budget.Definition, error) {
		var out []budget.Definition
		for _, b := range s.budgets {
			d := b.definition
			if d.ID > page.AfterID && len(out) < page.Size &&
				(page.Tenant == "" || page.Tenant == d.Tenant) &&
				(page.Type == "" || page.Type == d.Type) &&
				(page.Status == "" || page.Status == d.StatusAt(now)) {
				out = append(out, d)
			}
		}
		return out, nil
	})
}

// Versions reads the versions of many budgets.
func (s *SQL) Versions(ctx context.Context, ids []int64) (map[int64]bucket.Version, error) {
	return transact(ctx, s, "Versions", func(time.Time) (map[int64]bucket.Version, error) {
		out := map[int64]bucket.Version{}
		for _, id := range ids {
			if b, err := s.find(id); err == nil {
				out[id] = bucket.Version{Definition: b.definition.Version, List: b.listVersion}
			}
		}
		return out, nil
	})
}

// Change changes a definition. See bucket.Definitions.
func (s *SQL) Change(ctx context.Context, id int64, change bucket.Change) (
	budget.Definition, error) {
	return transact(ctx, s, "Change", func(now time.Time) (budget.Definition, error) {
		b, err := s.find(id)
		if err != nil {
			return budget.Definition{}, err
		}
		d := b.definition
		if change.IfVersion != 0 && change.IfVersion != d.Version {
			return budget.Definition{}, budget.Refuse(budget.VersionConflict, "change",
				"budget %q is at version %d, not %d", d.Name, d.Version, change.IfVersion)
		}
		d = change.Of(d)
		d.EndAt = toEnd(d.EndAt)
		resize := b.resize
		if change.BucketQuantity != nil {
			d.BucketQuantity = *change.BucketQuantity
			if resize > 0 || d.BucketQuantity != b.definition.BucketQuantity {
				resize = d.BucketQuantity
			}
		}
		faults := append(allocation.CheckDefinition(d), limit.CheckDefinition(d)...)
		if faults != nil {
			return budget.Definition{}, &budget.Error{Code: budget.Invalid, Op: "change", Fields: faults}
		}
		d.BucketQuantity, b.resize = b.definition.BucketQuantity, resize
		if change.Limits != nil {
			d.Limits = limit.Change(b.definition.Limits, *change.Limits, now)
			b.limits = compile(d.Limits)
		}
		d.Version, d.UpdatedAt = d.Version+1, now
		p := b.period
		p.Funded, p.Before = b.periods[p.Number-1].Funded, b.periods[p.Number-1].Before
		end, due := allocation.Change(b.definition, d, p, now)
		b.definition = d
		b.endPeriodAt(end, due, now)
		b.topUp(now)
		s.verify(b)
		return d, nil
	})
}
