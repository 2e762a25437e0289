package manage

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

// creation is the canonical form of the definition that a budget was created with. It tells a
// repeated create from a create of another budget with that name. Its JSON is stored in created_as.
type creation struct {
	Tenant           string          `json:"tenant"`
	Name             string          `json:"name"`
	GLCode           string          `json:"gl_code"`
	Unit             string          `json:"unit"`
	Durability       string          `json:"durability"`
	OnLoss           string          `json:"on_loss,omitempty"`
	Type             string          `json:"type"`
	TotalQuantity    int64           `json:"total_quantity"`
	BucketQuantity   int             `json:"bucket_quantity"`
	DefaultBuckets   bool            `json:"default_buckets,omitempty"`
	ShardingQuantity int64           `json:"sharding_quantity"`
	AdjustCnt        int             `json:"adjust_cnt"`
	StartMS          int64           `json:"start_ms"`
	EndMS            int64           `json:"end_ms"`
	Paused           bool            `json:"paused"`
	Archived         bool            `json:"archived,omitempty"`
	TypeRule         json.RawMessage `json:"type_rule,omitempty"`
	Timezone         string          `json:"timezone,omitempty"`
	LateRefund       string          `json:"late_refund,omitempty"`
	Unlimited        bool            `json:"unlimited,omitempty"`
	RoutingDimension string          `json:"routing_dimension,omitempty"`
	Limits           json.RawMessage `json:"limits,omitempty"`
	Parent           int64           `json:"parent,omitempty"`
	AtLeast          int64           `json:"at_least,omitempty"`
	TTLMS            int64           `json:"ttl_ms,omitempty"`
	AlsoCharges      []int64         `json:"also_charges,omitempty"`
}

// creationOf returns the canonical form of a definition. A default that is written out equals one
// that is left out.
func creationOf(d budget.Definition) creation {
	written := func(text, standard string) string {
		if text == standard {
			return ""
		}
		return text
	}
	return creation{
		Tenant: d.Tenant, Name: d.Name, GLCode: d.GLCode, Unit: string(d.Unit),
		Durability: string(d.Durability), Type: string(d.Type),
		OnLoss:        written(string(d.OnLoss), string(budget.Quarantine)),
		TotalQuantity: d.TotalQuantity, BucketQuantity: d.BucketQuantity,
		ShardingQuantity: d.ShardingQuantity, AdjustCnt: d.AdjustCnt,
		StartMS: engine.ToMS(d.StartAt), EndMS: engine.EndMS(d.EndAt), Paused: d.Paused,
		Archived: d.Archived, TypeRule: rows.SayRule(d.Rule), Timezone: written(d.Timezone, "UTC"),
		LateRefund: written(string(d.LateRefund), string(budget.ToTotal)), Unlimited: d.Unlimited,
		RoutingDimension: d.RoutingDimension,
		Limits:           json.RawMessage(limit.EncodeAll(d.Limits)),
		Parent:           d.Parent, AtLeast: d.AtLeast, TTLMS: d.TTL.Milliseconds(),
		AlsoCharges: slices.Sorted(slices.Values(d.AlsoCharges.IDs)),
	}
}

// text returns the JSON that is stored.
func (c creation) text() (string, error) {
	text, err := json.Marshal(c)
	return string(text), err
}

// repeats reports whether a create with definition c, made before with the text was, is the same
// again. A number of buckets that was left out equals the number that it stood for.
func (c creation) repeats(was string) bool {
	var before creation
	if err := json.Unmarshal([]byte(was), &before); err != nil {
		return false
	}
	if c.DefaultBuckets && before.DefaultBuckets {
		c.BucketQuantity = before.BucketQuantity
	}
	c.DefaultBuckets = before.DefaultBuckets
	text, err := c.text()
	return err == nil && text == was
}

// Create stores a budget with one bucket per element of homes and hands out the units of its first
// period. A promo budget gets all of its total, divided evenly, with the remainder in the first
// buckets. homes are the partitions of the buckets; in ledger mode they are zero. BucketQuantity 0
// means one bucket per home; other homes do not make it another budget. All of this is one
// transaction of two round trips. A repeated call with the same definition returns the existing
// budget in its present state.
//
// A budget with a parent gets its units from there, in the same transaction: see books.Carve.
//
// Errors: Invalid if the end has passed and AllowPast is not set; NameTaken if the name has another
// definition; those of books.Carve; Unavailable, in store mode also if a partition is drained or
// was never reached; OutcomeUnknown.
func (l *Ledger) Create(ctx context.Context, d budget.Definition, homes []bucket.Partition) (
	out Created, err error) {
	d.Limits = limit.Zoned(d)
	byDefault := d.BucketQuantity == 0
	if byDefault {
		d.BucketQuantity = len(homes)
	}
	definition := creationOf(d)
	definition.DefaultBuckets = byDefault
	as, err := definition.text()
	if err != nil {
		return out, &budget.Error{Code: budget.Internal, Op: "create", Err: err}
	}
	if len(homes) != d.BucketQuantity || len(homes) == 0 {
		return out, budget.Refuse(budget.Internal, "create", "%d homes for %d buckets", len(homes),
			d.BucketQuantity)
	}
	c := books.Creation{Definition: d, As: as,
		KeyOf: func(ordinal int) string { return bucket.KeyOf(d.Name, ordinal) }}
	if c.ID, err = l.db.TakeIDs(ctx, engine.SequenceBudget, 1); err != nil {
		return out, err
	}
	if c.FirstBucket, err = l.db.TakeIDs(ctx, engine.SequenceBucket, len(homes)); err != nil {
		return out, err
	}
	m := making{ledger: l, creation: c, definition: definition, homes: homes}
	scope := scopeOf(d, homes)
	if d.Parent != 0 {
		err = m.carve(ctx, scope)
	} else {
		err = bookkeeper.Do(ctx, l.db, "create", scope,
			func(b *books.Books) ([]bookkeeper.Query, error) {
				return nil, m.decide(ctx, b, nil)
			})
	}
	out = m.out
	if err == nil && m.there {
		out.Budget, err = l.Budget(ctx, bucket.BudgetRef{Tenant: d.Tenant, Name: d.Name})
	}
	if err != nil {
		return Created{}, err
	}
	return out, nil
}

// making is a create. Each attempt sets its results.
type making struct {
	ledger     *Ledger
	creation   books.Creation
	definition creation
	homes      []bucket.Partition

	out   Created
	there bool // the budget exists
}

// decide creates the budget, out of a parent unless that is nil, or finds it.
func (m *making) decide(ctx context.Context, b *books.Books, parent *books.Budget) (err error) {
	d := &m.creation.Definition
	m.out, m.there = Created{}, false
	for _, old := range b.Budgets.All() {
		if old.Name != d.Name || old.Tenant != d.Tenant {
			continue // the parent
		}
		m.there, m.out.New = true, old.ID == m.creation.ID // an earlier attempt may have been committed
		if !m.definition.repeats(old.CreatedAs) {
			return budget.Refuse(budget.NameTaken, "create",
				"budget %q exists with another definition", d.Name)
		}
		return nil
	}
	m.out, err = m.ledger.create(b, m.creation, m.homes, parent)
	auditlog.FromContext(ctx).Change(d.Tenant, d.Name, nil, []byte(m.creation.As))
	return err
}

// scopeOf is what a create loads: the budget with the name, and the partitions of its buckets.
func scopeOf(d budget.Definition, homes []bucket.Partition) []bookkeeper.Query {
	load := append(lockCharged(d.AlsoCharges.IDs, d.Parent),
		bookkeeper.BudgetByName(d.Tenant, d.Name))
	if d.Durability != budget.Store {
		return load
	}
	partitions := slices.Clone(homes)
	slices.SortFunc(partitions, func(a, b bucket.Partition) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Index, b.Index))
	})
	var list []books.PartitionID
	for _, one := range slices.Compact(partitions) {
		list = append(list, books.PartitionID{Instance: one.Instance, Number: int64(one.Index)})
	}
	return append(load, bookkeeper.Partitions(list...))
}

// create adds a new budget to the books, carved out of a parent unless that is nil.
func (l *Ledger) create(b *books.Books, c books.Creation, homes []bucket.Partition,
	parent *books.Budget) (out Created, err error) {
	d, now := &c.Definition, engine.FromMS(b.NowMS)
	if faults := budget.CheckEnd(d.EndAt, now); len(faults) > 0 && !d.AllowPast {
		return out, &budget.Error{Code: budget.Invalid, Op: "create", Fields: faults,
			Message: "the definition has faults"}
	}
	if d.Limits != nil {
		d.Limits = limit.Begin(d.Limits.List, now)
	}
	c.Homes = make([]books.Home, len(homes))
	for i, home := range homes {
		if d.Durability == budget.Store {
			c.Homes[i] = books.Home{Instance: home.Instance, Partition: int64(home.Index)}
			c.Homes[i].Incarnation, err = b.Incarnation(home.Instance, int64(home.Index))
			if err != nil {
				return out, budget.Refuse(budget.Unavailable, "create", "%v", err)
			}
		}
	}
	var u *books.Budget
	figures := figured{}
	if parent == nil {
		u = b.Create(c)
	} else {
		if u, err = b.Carve(parent, c); err != nil {
			return out, err
		}
		d.StartAt, d.EndAt = engine.FromMS(u.StartMS), engine.FromMS(u.EndMS)
		figures.parent = parent.Name
	}
	if err := b.Charge(u, nil, d.AlsoCharges); err != nil {
		return out, err
	}
	figures.Figures = b.FirstFigures(u)
	d.ID, d.Version, d.OnLoss = u.ID, u.Version, budget.OnLoss(u.OnLoss)
	d.CreatedAt, d.UpdatedAt = now, now
	d.AllowPast, d.DryRun, d.AtLeast, d.TTL = false, false, 0, 0
	out = Created{New: true, View: viewOf(*d, figures)}
	out.View.At(now)
	out.Budget = bucket.Budget{Definition: out.View.Definition, ListVersion: u.ListVersion,
		Period: out.View.Period}
	for _, row := range b.Buckets.All() {
		if row.Budget != u.ID {
			continue // the parent's
		}
		out.Budget.Buckets = append(out.Budget.Buckets, bucketOf(b, row))
	}
	return out, nil
}

// bucketOf returns a bucket with its newest epoch.
func bucketOf(b *books.Books, row *books.Bucket) bucket.Bucket {
	return bucket.Bucket{ID: row.ID, Ordinal: int(row.Ordinal), Key: row.Key,
		Partition: bucket.Partition{Instance: row.Instance, Index: int(row.Partition)},
		Online:    row.Status == books.Online, OfflineBy: bucket.OfflineBy(row.OfflineBy),
		OutQuantity: min(row.Out, budget.MaxAmount), OutCnt: int(row.OutCnt),
		CollectCnt: int(row.CollectCnt),
		Epoch:      b.Epochs.Get(books.Position{Bucket: row.ID, Epoch: row.Epoch}).Ledger(),
		UpdatedAt:  engine.FromMS(row.UpdatedAt)}
}
