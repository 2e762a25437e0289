package books

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// Home is the partition of a bucket in store mode; zero in ledger mode.
type Home struct {
	Instance    string
	Partition   int64
	Incarnation int64
}

// Creation is a budget to create. Its definition is complete and valid.
type Creation struct {
	Definition budget.Definition
	// As is the canonical text of what was asked for, to know a repeated create.
	As string
	// ID is the budget's, FirstBucket that of its first bucket.
	ID, FirstBucket int64
	// Homes has one element per bucket.
	Homes []Home
	// KeyOf returns the key of the bucket with an ordinal.
	KeyOf func(ordinal int) string
}

// Create adds a budget with its buckets, and hands out the units of its first period: a promo
// budget gets all of its total, divided evenly. Epochs in a store are opening, and their grants are
// pending. Keeps I1.
func (b *Books) Create(c Creation) *Budget {
	d, now := c.Definition, at(b.NowMS)
	row := budgetOf(d, now)
	row.ID, row.CreatedAs = c.ID, c.As
	u := b.Budgets.Add(row)
	unfunded, period := allocation.Begin(d, now)
	u.Unfunded, u.Undistributed = unfunded, period.Funded
	b.open(u, period)
	b.addLimits(u, d)
	b.Adjustments.Add(Adjustment{Budget: u.ID, Quantity: d.TotalQuantity, Status: Done,
		CreatedAt: b.NowMS, UpdatedAt: b.NowMS})
	list := make([]*Bucket, len(c.Homes))
	for i, home := range c.Homes {
		list[i] = b.addBucket(u, c.FirstBucket+int64(i), i, c.KeyOf(i), home)
	}
	b.distributeFirst(u, d, list)
	return u
}

// addBucket adds a bucket that is online, with a first epoch without units.
func (b *Books) addBucket(u *Budget, id int64, ordinal int, key string, home Home) *Bucket {
	row := b.Buckets.Add(Bucket{ID: id, Budget: u.ID, Ordinal: int64(ordinal), Key: key,
		Instance: home.Instance, Partition: home.Partition, Status: Online, Epoch: 1,
		CreatedAt: b.NowMS, UpdatedAt: b.NowMS})
	b.begin(u, row, home.Incarnation)
	return row
}

// firstVersion is the version of a new definition and of a new bucket list.
const firstVersion = 1

// budgetOf returns the row of a definition, without units.
func budgetOf(d budget.Definition, now time.Time) Budget {
	status, due := statusOf(d, now)
	u := Budget{Tenant: d.Tenant, Name: d.Name, GLCode: d.GLCode, Unit: Word(d.Unit),
		Durability: Word(d.Durability), OnLoss: Word(d.OnLoss), Unlimited: one(d.Unlimited),
		Total: d.TotalQuantity, Sharding: d.ShardingQuantity, Buckets: int64(d.BucketQuantity),
		AdjustCnt: int64(d.AdjustCnt), Type: Word(d.Type), Status: status, StatusDueMS: due,
		IsPaused: one(d.Paused), IsArchived: one(d.Archived), StartMS: ms(d.StartAt),
		EndMS: endMS(d.EndAt), Timezone: d.Timezone, Unused: unused(d),
		LateRefund: Word(d.LateRefund), Version: firstVersion, ListVersion: firstVersion, NextRun: 1,
		AlsoCharges: chargesOf(d.AlsoCharges.IDs), CreatedAt: ms(now), UpdatedAt: ms(now)}
	if u.OnLoss == "" {
		u.OnLoss = Word(budget.Quarantine)
	}
	if d.RoutingDimension != "" {
		u.Routing = &d.RoutingDimension
	}
	if d.Rule != nil {
		text, _ := json.Marshal(d.Rule) // strings and numbers only
		rule := string(text)
		u.TypeRule = &rule
	}
	return u
}

// statusOf returns a budget's status, and when the clock next changes it, in ms; 0 means never.
func statusOf(d budget.Definition, now time.Time) (status Word, dueMS int64) {
	var due time.Time
	switch {
	case !d.StartAt.IsZero() && now.Before(d.StartAt):
		due = d.StartAt
	case !d.EndAt.IsZero() && now.Before(d.EndAt):
		due = d.EndAt
	}
	return Word(d.StatusAt(now)), endMS(due)
}

// Restate brings the status of a budget's row up to date.
func (b *Books) Restate(u *Budget) {
	u.Status, u.StatusDueMS = statusOf(u.Definition(), at(b.NowMS))
}

func unused(d budget.Definition) Word {
	if allocation.IsWhole(d) {
		return "whole"
	}
	return Word(allocation.Unused(d))
}

func (b *Books) addLimits(u *Budget, d budget.Definition) {
	if d.Limits == nil {
		return
	}
	u.LimitsVersion, u.OverridesVersion = d.Limits.Version, d.Limits.OverridesVersion
	for i, l := range d.Limits.List {
		b.addOverrides(u, &l)
		b.Limits.Add(Limit{Budget: u.ID, Name: l.Name, Definition: string(limit.Encode(l)),
			Ordinal: int64(i), ChangedVersion: l.ChangedVersion, ChangedMS: ms(l.ChangedAt),
			Overrides: l.OverrideCount, Series: l.OverrideSeries})
	}
}

// Incarnation returns that of a partition that was loaded. Errors, as texts: it is drained, or was
// never reached.
func (b *Books) Incarnation(instance string, partition int64) (int64, error) {
	p := b.Partitions.Get(PartitionID{instance, partition})
	switch {
	case p == nil:
		return 0, fmt.Errorf("instance %s has never been reached", instance)
	case p.IsDraining == 1:
		return 0, fmt.Errorf("instance %s is being drained", instance)
	}
	return p.Incarnation, nil
}
