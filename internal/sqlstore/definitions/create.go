package definitions

import (
	"context"
	"encoding/json"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/trail"
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
}

func createdAs(d budget.Definition) (string, error) {
	lost := d.OnLoss
	if lost == budget.Quarantine {
		lost = "" // an explicit default equals an omitted one
	}
	text, err := json.Marshal(creation{
		Tenant: d.Tenant, Name: d.Name, GLCode: d.GLCode, Unit: string(d.Unit),
		Durability: string(d.Durability), OnLoss: string(lost), Type: string(d.Type),
		TotalQuantity: d.TotalQuantity, BucketQuantity: d.BucketQuantity,
		ShardingQuantity: d.ShardingQuantity, AdjustCnt: d.AdjustCnt,
		StartMS: engine.ToMS(d.StartAt), EndMS: engine.EndMS(d.EndAt), Paused: d.Paused,
		Archived: d.Archived, TypeRule: rows.SayRule(d.Rule), Timezone: d.Timezone,
		LateRefund: string(d.LateRefund), Unlimited: d.Unlimited, RoutingDimension: d.RoutingDimension,
		Limits: json.RawMessage(limit.EncodeAll(d.Limits)),
	})
	return string(text), err
}

// Create stores a budget with one bucket per element of homes and hands out the units of its first
// period. A promo budget gets all of its total, divided evenly, with the remainder in the first
// buckets. homes are the partitions of the buckets; in ledger mode they are zero. BucketQuantity 0
// means one bucket per home; other homes do not make it another budget. All of this is one
// transaction. A repeated call with the same definition returns the existing budget in its present
// state.
//
// Errors: Invalid if the end has passed and AllowPast is not set; NameTaken if the name has another
// definition; Unavailable, in store mode also if a partition is drained or was never reached;
// OutcomeUnknown.
func (p *Part) Create(ctx context.Context, d budget.Definition, homes []bucket.Partition) (
	out manage.Created, err error) {
	d.Limits = limit.Zoned(d)
	as, err := createdAs(d)
	if err != nil {
		return out, &budget.Error{Code: budget.Internal, Op: "create", Err: err}
	}
	if d.BucketQuantity == 0 {
		d.BucketQuantity = len(homes)
	}
	if len(homes) != d.BucketQuantity || len(homes) == 0 {
		return out, budget.Refuse(budget.Internal, "create", "%d homes for %d buckets", len(homes),
			d.BucketQuantity)
	}
	own, err := p.db.TakeIDs(ctx, engine.SequenceBudget, 1)
	if err != nil {
		return out, err
	}
	first, err := p.db.TakeIDs(ctx, engine.SequenceBucket, len(homes))
	if err != nil {
		return out, err
	}
	err = p.db.Write(ctx, "create", func(t *engine.Tx) error {
		out = manage.Created{}
		old, err := find(&t.Reader, bucket.BudgetRef{Tenant: d.Tenant, Name: d.Name})
		if err != nil {
			return err
		}
		switch {
		case old != nil && old.CreatedAs != as:
			return budget.Refuse(budget.NameTaken, "create",
				"budget %q exists with another definition", d.Name)
		case old != nil:
			out.New = old.ID == own // an earlier attempt was committed
		default:
			out.New = true
			if err := create(t, d, as, homes, own, first); err != nil {
				return err
			}
			trail.FromContext(ctx).Change(d.Tenant, d.Name, nil, []byte(as))
		}
		out.Budget, err = view(&t.Reader, bucket.BudgetRef{Tenant: d.Tenant, Name: d.Name})
		return err
	})
	if err != nil {
		return manage.Created{}, err
	}
	return out, nil
}

const (
	insertBudget = `INSERT INTO budget_management_bucket (id, tenant, name, gl_code, unit, durability,
		on_loss, unlimited, total_quantity, unfunded_quantity, undistributed_quantity, out_quantity,
		sharding_quantity, bucket_quantity, adjust_cnt, type, type_rule, status, status_due_ms,
		is_paused, start_ms, end_ms, timezone, routing_dimension, unused, late_refund, period,
			period_start_ms, period_end_ms,
		is_over, roll_over_ms, created_as, version, list_version, limits_version, created_at,
		updated_at)`
	insertAdjustment = `INSERT INTO adjustment (budget_id, request_id, quantity, fingerprint, nonce,
		status, deadline_ms, created_at, updated_at)`
	insertBucket = `INSERT INTO sharding_budget_management_bucket (id, budget_id, ordinal,
		sharding_bucket_key, instance, partition_number, out_quantity, sharding_quantity, out_cnt, status,
		offline_by, epoch, created_at, updated_at)`

	// The numbers of columns in these lists.
	budgetWidth, adjustmentWidth, bucketWidth = 37, 9, 14
)

// firstVersion is the version of a new definition and of a new bucket list.
const firstVersion = 1

// create inserts the rows of a new budget. first is the id of its first bucket.
func create(t *engine.Tx, d budget.Definition, as string, homes []bucket.Partition,
	id, first int64) error {
	if faults := budget.CheckEnd(d.EndAt, t.Now); len(faults) > 0 && !d.AllowPast {
		return &budget.Error{Code: budget.Invalid, Op: "create", Fields: faults,
			Message: "the definition has faults"}
	}
	incarnations, err := moves.Incarnations(t, "create", d.Durability, homes)
	if err != nil {
		return err
	}
	if d.Limits != nil {
		d.Limits = limit.Begin(d.Limits.List, t.Now)
	}
	if err := insertLimits(t, id, d.Limits); err != nil {
		return err
	}
	unfunded, period := allocation.Begin(d, t.Now)
	err = insertRow(t, id, d, as, unfunded, period)
	if err != nil {
		return err
	}
	if err := moves.InsertPeriod(t, id, period); err != nil {
		return err
	}
	now := engine.ToMS(t.Now)
	err = t.Insert(insertAdjustment, adjustmentWidth, []any{id, []byte{}, d.TotalQuantity, []byte{},
		[]byte{}, string(bucket.AdjustmentDone), 0, now, now})
	if err != nil {
		return err
	}
	b, err := rows.LockBudget(t, "create", id)
	if err != nil {
		return err
	}
	list, err := addBuckets(t, b, 0, first, homes, incarnations)
	if err != nil {
		return err
	}
	return giveFirst(t, b, list)
}

// giveFirst hands out U of a new budget, also to epochs that are still opening.
func giveFirst(t *engine.Tx, b *rows.Budget, list []*rows.Bucket) error {
	var portions []moves.Portion
	handedOut := int64(0)
	for i, units := range allocation.Shares(b.Definition(), b.Undistributed, len(list)) {
		if units > 0 {
			portions = append(portions, moves.Portion{Row: list[i], Units: units})
			handedOut += units
		}
	}
	if err := moves.Give(t, b, moves.Apply, portions...); err != nil {
		return err
	}
	return moves.Units(t, b, allocation.Movement{Undistributed: -handedOut})
}

// insertRow writes the row of a new budget: its first period is funded, and its buckets hold
// nothing.
func insertRow(t *engine.Tx, id int64, d budget.Definition, as string, unfunded int64,
	p budget.Period) error {
	now, lost := engine.ToMS(t.Now), d.OnLoss
	status, due := rows.StatusOf(d, t.Now)
	if lost == "" {
		lost = budget.Quarantine
	}
	limits := int64(0)
	if d.Limits != nil {
		limits = d.Limits.Version
	}
	return t.Insert(insertBudget, budgetWidth, []any{id, []byte(d.Tenant), []byte(d.Name),
		[]byte(d.GLCode), string(d.Unit), string(d.Durability), string(lost),
		moves.OneIf(d.Unlimited), d.TotalQuantity, unfunded, p.Funded, 0, d.ShardingQuantity,
		d.BucketQuantity, d.AdjustCnt, string(d.Type), rows.WriteRule(d.Rule), status, due,
		moves.OneIf(d.Paused),
		engine.ToMS(d.StartAt), engine.EndMS(d.EndAt), []byte(d.Timezone), orNull(d.RoutingDimension),
		rows.UnusedColumn(d), string(d.LateRefund), p.Number, engine.ToMS(p.Start),
		engine.EndMS(p.End), moves.OneIf(p.Over), moves.RollOverMS(p), []byte(as), firstVersion,
		firstVersion, limits, now, now})
}

// orNull returns the column value of an optional text.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return []byte(text)
}

// addBuckets creates one bucket of a locked budget per home, with ordinals from `from` and ids from
// first on. They are online and have first epochs without units.
func addBuckets(t *engine.Tx, b *rows.Budget, from int, first int64, homes []bucket.Partition,
	incarnations map[bucket.Partition]int64) ([]*rows.Bucket, error) {
	if len(homes) == 0 {
		return nil, nil
	}
	now := engine.ToMS(t.Now)
	list, epochs, values := []*rows.Bucket(nil), []*rows.Epoch(nil), []any(nil)
	for i, partition := range homes {
		id, ordinal := first+int64(i), from+i
		row := &rows.Bucket{
			Ordinal:        ordinal,
			Key:            bucket.KeyOf(b.Name, ordinal),
			Instance:       partition.Instance,
			PartitionIndex: partition.Index,
			ListStatus:     rows.Online,
			UpdatedAt:      now,
		}
		row.Epoch = rows.Epoch{Bucket: id, Number: 1, Budget: b.ID,
			Status:      string(moves.FirstStatus(budget.Durability(b.Durability))),
			Incarnation: incarnations[partition], NextGrant: 1, NextEntry: 1, DefinitionVersion: b.Version,
			Period: b.Period, PeriodEndMS: b.PeriodEndMS}
		values = append(values, id, b.ID, ordinal, []byte(row.Key), []byte(partition.Instance),
			partition.Index, 0, 0, 0, rows.Online, "", 1, now, now)
		list, epochs = append(list, row), append(epochs, &row.Epoch)
	}
	if err := t.Insert(insertBucket, bucketWidth, values); err != nil {
		return nil, err
	}
	return list, moves.InsertEpochs(t, epochs...)
}
