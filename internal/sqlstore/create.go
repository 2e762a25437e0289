package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Names of the rows in sequence.
const sequenceBudget, sequenceBucket = "budget", "bucket"

// creation is the canonical form of the definition a budget was created with: what tells "the same
// body again" from another budget of that name. Its JSON is kept in created_as.
type creation struct {
	Tenant           string          `json:"tenant"`
	Name             string          `json:"name"`
	GLCode           string          `json:"gl_code"`
	Unit             string          `json:"unit"`
	Durability       string          `json:"durability"`
	Type             string          `json:"type"`
	TotalQuantity    int64           `json:"total_quantity"`
	BucketQuantity   int             `json:"bucket_quantity"`
	ShardingQuantity int64           `json:"sharding_quantity"`
	AdjustCnt        int             `json:"adjust_cnt"`
	StartMS          int64           `json:"start_ms"`
	EndMS            int64           `json:"end_ms"`
	Paused           bool            `json:"paused"`
	TypeRule         json.RawMessage `json:"type_rule,omitempty"`
	Timezone         string          `json:"timezone,omitempty"`
	LateRefund       string          `json:"late_refund,omitempty"`
	Unlimited        bool            `json:"unlimited,omitempty"`
	RoutingDimension string          `json:"routing_dimension,omitempty"`
	Limits           json.RawMessage `json:"limits,omitempty"`
}

func createdAs(d budget.Definition) (string, error) {
	text, err := json.Marshal(creation{
		Tenant: d.Tenant, Name: d.Name, GLCode: d.GLCode, Unit: string(d.Unit),
		Durability: string(d.Durability), Type: string(d.Type), TotalQuantity: d.TotalQuantity,
		BucketQuantity: d.BucketQuantity, ShardingQuantity: d.ShardingQuantity, AdjustCnt: d.AdjustCnt,
		StartMS: toMS(d.StartAt), EndMS: endMS(d.EndAt), Paused: d.Paused,
		TypeRule: sayRule(d.Rule), Timezone: d.Timezone, LateRefund: string(d.LateRefund),
		Unlimited: d.Unlimited, RoutingDimension: d.RoutingDimension, Limits: json.RawMessage(limit.EncodeAll(d.Limits)),
	})
	return string(text), err
}

// Create stores a budget, its buckets with their first epochs, and hands out the whole total. See
// bucket.Definitions. Errors: NameTaken; Unavailable when a lane has never been reached.
func (db *DB) Create(ctx context.Context, d budget.Definition, lanes []bucket.Lane) (
	b bucket.Budget, created bool, err error) {
	as, err := createdAs(d)
	if err != nil {
		return b, false, &budget.Error{Code: budget.Internal, Op: "create", Err: err}
	}
	if d.BucketQuantity == 0 {
		d.BucketQuantity = len(lanes)
	}
	if len(lanes) != d.BucketQuantity || len(lanes) == 0 {
		return b, false, budget.Refuse(budget.Internal, "create", "%d lanes for %d buckets",
			len(lanes), d.BucketQuantity)
	}
	made := int64(0) // the id that an earlier attempt used
	err = db.write(ctx, "create", func(t *tx) error {
		old, err := t.find(bucket.BudgetRef{Tenant: d.Tenant, Name: d.Name})
		if err != nil {
			return err
		}
		switch {
		case old != nil && old.CreatedAs != as:
			return budget.Refuse(budget.NameTaken, "create", "budget %q exists with another definition",
				d.Name)
		case old != nil:
			created = t.unsure && old.ID == made
			made = old.ID
		default:
			created = true
			if made, err = t.create(d, as, lanes); err != nil {
				return err
			}
		}
		b, err = t.view(bucket.BudgetRef{ID: made})
		return err
	})
	if err != nil {
		return bucket.Budget{}, false, err
	}
	return b, created, nil
}

const (
	takeNumbers = `UPDATE sequence SET next_id = next_id + ? WHERE name = ?`
	nextNumber  = `SELECT next_id FROM sequence WHERE name = ?`

	insertBudget = `INSERT INTO budget_management_bucket (id, tenant, name, gl_code, unit, durability,
		total_quantity, unfunded_quantity, undistributed_quantity, out_quantity, sharding_quantity,
		bucket_quantity, adjust_cnt, type, type_rule, status, start_ms, end_ms, timezone, unused,
		late_refund, period, period_start_ms, period_end_ms, is_over, roll_over_ms, created_as, version,
		list_version, created_at, updated_at, unlimited, routing_dimension, limits_version)`
	insertAdjustment = `INSERT INTO adjustment (budget_id, request_id, quantity, fingerprint, nonce, status,
		deadline_ms, created_at, updated_at)`
	insertBucket = `INSERT INTO sharding_budget_management_bucket (id, budget_id, ordinal,
		sharding_bucket_key, instance, lane, out_quantity, sharding_quantity, out_cnt, status, offline_by,
		epoch, created_at, updated_at)`
	insertEpoch = `INSERT INTO bucket_epoch (bucket_id, epoch, budget_id, status, activation,
		outstanding_quantity, held_quantity, used_quantity, returning_quantity, closed_quantity,
		swept_quantity, next_grant, next_entry, drained_seq, drained_chain, period, period_end_ms, fenced,
		created_at, limits_version)`
	insertGrant = `INSERT INTO grant_log (bucket_id, epoch, number, budget_id, request_key, amount,
		status, created_at)`

	// How many columns these name.
	budgetWidth, adjustmentWidth, bucketWidth, epochWidth, grantWidth = 34, 9, 14, 20, 8
)

// numbers takes n ids of a kind and returns the first. The row stays locked, so creations of one
// database follow each other.
func (t *tx) numbers(kind string, n int) (int64, error) {
	if err := t.hit(1, takeNumbers, n, []byte(kind)); err != nil {
		return 0, err
	}
	var next int64
	_, err := t.get(&next, nextNumber, []byte(kind))
	return next - int64(n), err
}

// create inserts the rows of a new budget and returns its id.
func (t *tx) create(d budget.Definition, as string, lanes []bucket.Lane) (int64, error) {
	activations, err := t.activations("create", lanes)
	if err != nil {
		return 0, err
	}
	id, err := t.numbers(sequenceBudget, 1)
	if err != nil {
		return 0, err
	}
	first, err := t.numbers(sequenceBucket, len(lanes))
	if err != nil {
		return 0, err
	}
	now, status := toMS(t.now), statusActive
	if d.Paused {
		status = statusPaused
	}
	const version, listVersion = 1, 1
	limits, err := t.createLimits(id, d.Limits)
	if err != nil {
		return 0, err
	}
	unfunded, period := allocation.Begin(d, t.now)
	shares, handedOut := allocation.Shares(d, period.Funded, len(lanes)), int64(0)
	for _, units := range shares {
		handedOut += units
	}
	err = t.insert(insertBudget, budgetWidth, []any{id, []byte(d.Tenant), []byte(d.Name),
		[]byte(d.GLCode), string(d.Unit), string(d.Durability), d.TotalQuantity, unfunded,
		period.Funded - handedOut, handedOut, d.ShardingQuantity, len(lanes), d.AdjustCnt, string(d.Type), writeRule(d.Rule),
		status, toMS(d.StartAt), endMS(d.EndAt), d.Timezone, unusedColumn(d),
		string(d.LateRefund), period.Number, toMS(period.Start),
		endMS(period.End), oneIf(period.Over), rollOverMS(period), []byte(as), version, listVersion, now, now,
		oneIf(d.Unlimited), orNull(d.RoutingDimension), limits.Version})
	if err != nil {
		return 0, err
	}
	if err := t.insertPeriod(id, period); err != nil {
		return 0, err
	}
	err = t.insert(insertAdjustment, adjustmentWidth, []any{id, []byte{}, d.TotalQuantity, []byte{}, []byte{},
		string(bucket.AdjustmentDone), 0, now, now})
	if err != nil {
		return 0, err
	}
	var buckets, epochs, grants []any
	for i, units := range shares {
		bucketID, grantCount := first+int64(i), 0
		if units > 0 {
			grantCount = 1
		}
		key := fmt.Sprintf("%s:bucket-%d", d.Name, i)
		buckets = append(buckets, bucketID, id, i, []byte(key), []byte(lanes[i].Instance), lanes[i].Index,
			units, units, grantCount, online, "", 1, now, now)
		epoch := epochRow{Bucket: bucketID, Number: 1, Budget: id, Activation: activations[lanes[i]],
			Outstanding: units, NextGrant: int64(grantCount) + 1, NextEntry: 1, Period: period.Number,
			PeriodEndMS: commitsEndMS(d.Durability, period), LimitsVersion: limits.Version}
		epochs = append(epochs, epoch.opening(now)...)
		if units > 0 {
			first := epochRow{Bucket: bucketID, Number: 1, NextGrant: 1}
			grants = append(grants, bucketID, 1, 1, id, ordinaryKey(&first), units, grantPending, now)
		}
	}
	if err := t.insert(insertBucket, bucketWidth, buckets); err != nil {
		return 0, err
	}
	if err := t.insert(insertEpoch, epochWidth, epochs); err != nil {
		return 0, err
	}
	return id, t.insert(insertGrant, grantWidth, grants)
}

// opening returns the values of a new epoch's row.
func (r *epochRow) opening(now int64) []any {
	chain := ledger.OpenChain(r.Bucket, r.Number, r.Activation)
	return []any{r.Bucket, r.Number, r.Budget, string(ledger.Opening), r.Activation, r.Outstanding, 0,
		0, 0, 0, 0, r.NextGrant, r.NextEntry, 0, []byte(chain), r.Period, r.PeriodEndMS, []byte{}, now,
		r.LimitsVersion}
}
