// Package rows reads and locks the rows that all parts of the database share: budgets, buckets and
// their epochs.
//
// All transactions take locks in one order: budget, deductions, group, limit rows, epochs by
// (bucket, epoch), feed. Rows of buckets are written only under their budget's lock.
package rows

import (
	"cmp"
	"encoding/json"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// BudgetColumns are the columns of a Budget.
const BudgetColumns = `id, tenant, name, gl_code, unit, durability, type, total_quantity,
	undistributed_quantity, quarantined_quantity, forfeited_quantity, pending_shrink_quantity,
	sharding_quantity, bucket_quantity, adjust_cnt, is_paused, is_archived, start_ms, end_ms,
	created_as, version, list_version, created_at, updated_at, type_rule, timezone,
	late_refund, on_loss, unfunded_quantity,
	period, period_start_ms, period_end_ms, is_over, roll_over_ms, unlimited, routing_dimension,
		limits_version`

// Budget is a row of budget_management_bucket.
type Budget struct {
	ID            int64  `db:"id"`
	Tenant        string `db:"tenant"`
	Name          string `db:"name"`
	GLCode        string `db:"gl_code"`
	Unit          string `db:"unit"`
	Durability    string `db:"durability"`
	Type          string `db:"type"`
	Total         int64  `db:"total_quantity"`
	Undistributed int64  `db:"undistributed_quantity"`
	Quarantined   int64  `db:"quarantined_quantity"`
	Forfeited     int64  `db:"forfeited_quantity"`
	PendingShrink int64  `db:"pending_shrink_quantity"`
	Sharding      int64  `db:"sharding_quantity"`
	Buckets       int    `db:"bucket_quantity"`
	AdjustCnt     int    `db:"adjust_cnt"`
	IsPaused      int64  `db:"is_paused"`
	IsArchived    int64  `db:"is_archived"`
	StartMS       int64  `db:"start_ms"`
	EndMS         int64  `db:"end_ms"`
	CreatedAs     string `db:"created_as"`
	Version       int64  `db:"version"`
	ListVersion   int64  `db:"list_version"`
	CreatedAt     int64  `db:"created_at"`
	UpdatedAt     int64  `db:"updated_at"`
	TypeRule      []byte `db:"type_rule"`
	Timezone      string `db:"timezone"`
	LateRefund    string `db:"late_refund"`
	OnLoss        string `db:"on_loss"`
	Unfunded      int64  `db:"unfunded_quantity"`
	Period        int64  `db:"period"`
	PeriodStartMS int64  `db:"period_start_ms"`
	PeriodEndMS   int64  `db:"period_end_ms"`
	IsOver        int64  `db:"is_over"`
	RollOverMS    int64  `db:"roll_over_ms"`
	Unlimited     int64  `db:"unlimited"`
	Routing       []byte `db:"routing_dimension"`
	LimitsVersion int64  `db:"limits_version"`
}

// Definition returns the definition, without its limits.
func (r *Budget) Definition() budget.Definition {
	return budget.Definition{
		Rule: ReadRule(r.TypeRule), Timezone: r.Timezone, LateRefund: budget.Where(r.LateRefund),
		Unlimited: r.Unlimited == 1, OnLoss: budget.OnLoss(r.OnLoss), RoutingDimension: string(r.Routing),
		ID: r.ID, Tenant: r.Tenant, Name: r.Name, GLCode: r.GLCode, Unit: budget.Unit(r.Unit),
		Durability: budget.Durability(r.Durability), Type: budget.Type(r.Type), TotalQuantity: r.Total,
		BucketQuantity: r.Buckets, ShardingQuantity: r.Sharding, AdjustCnt: r.AdjustCnt,
		StartAt: engine.FromMS(r.StartMS), EndAt: engine.FromMS(r.EndMS), Paused: r.IsPaused == 1,
		Archived: r.IsArchived == 1,
		Version:  r.Version, CreatedAt: engine.FromMS(r.CreatedAt),
		UpdatedAt: engine.FromMS(r.UpdatedAt),
	}
}

// PeriodNow returns the open or last period, without its units.
func (r *Budget) PeriodNow() budget.Period {
	return budget.Period{
		Number: r.Period,
		Over:   r.IsOver == 1,
		Start:  engine.FromMS(r.PeriodStartMS),
		End:    engine.FromMS(r.PeriodEndMS),
	}
}

// ReadRule parses the text of a rule; nil means none.
func ReadRule(text []byte) *budget.Rule {
	if len(text) == 0 {
		return nil
	}
	rule := &budget.Rule{}
	if err := json.Unmarshal(text, rule); err != nil {
		return &budget.Rule{} // of no known kind: it releases nothing
	}
	return rule
}

// SayRule returns the canonical text of a rule, nil for none.
func SayRule(rule *budget.Rule) []byte {
	if rule == nil {
		return nil
	}
	return []byte(allocation.Canonical(*rule))
}

// EpochColumns are the columns of an Epoch, of bucket_epoch e.
const EpochColumns = `e.bucket_id, e.epoch, e.budget_id, e.status, e.incarnation,
	e.outstanding_quantity, e.held_quantity, e.used_quantity, e.returning_quantity, e.closed_quantity,
	e.swept_quantity, e.next_grant, e.next_entry, e.definition_version, e.period_end_ms,
	e.halted, e.period, e.late_quantity, e.taken_quantity, e.given_back_quantity, e.late_sum_quantity`

// Epoch is a row of bucket_epoch.
type Epoch struct {
	Bucket            int64  `db:"bucket_id"`
	Number            int64  `db:"epoch"`
	Budget            int64  `db:"budget_id"`
	Status            string `db:"status"`
	Incarnation       int64  `db:"incarnation"`
	Outstanding       int64  `db:"outstanding_quantity"`
	Held              int64  `db:"held_quantity"`
	Used              int64  `db:"used_quantity"`
	Returning         int64  `db:"returning_quantity"`
	Closed            int64  `db:"closed_quantity"`
	Swept             int64  `db:"swept_quantity"`
	NextGrant         int64  `db:"next_grant"`
	NextEntry         int64  `db:"next_entry"`
	DefinitionVersion int64  `db:"definition_version"`
	PeriodEndMS       int64  `db:"period_end_ms"`
	Halted            string `db:"halted"`
	Period            int64  `db:"period"`
	Late              int64  `db:"late_quantity"`
	Taken             int64  `db:"taken_quantity"`
	GivenBack         int64  `db:"given_back_quantity"`
	LateSum           int64  `db:"late_sum_quantity"`
}

// Ledger converts the row.
func (r *Epoch) Ledger() ledger.Epoch {
	return ledger.Epoch{
		Budget: r.Budget, Bucket: r.Bucket, Number: r.Number, Status: ledger.Status(r.Status),
		Incarnation: r.Incarnation, Outstanding: r.Outstanding, Held: r.Held, Used: r.Used,
		Returning: r.Returning, Swept: r.Swept, NextGrant: r.NextGrant, NextEntry: r.NextEntry,
		DefinitionVersion: r.DefinitionVersion, Closed: r.Closed, Halted: r.Halted,
		Taken: r.Taken, GivenBack: r.GivenBack, LateSum: r.LateSum,
		EndAt: engine.FromMS(r.PeriodEndMS), Period: r.Period, Late: r.Late,
	}
}

// Ref returns the epoch with its incarnation.
func (r *Epoch) Ref() bucket.Ref {
	return bucket.Ref{Bucket: r.Bucket, Epoch: r.Number, Incarnation: r.Incarnation}
}

// Live reports whether the epoch has not ended.
func (r *Epoch) Live() bool { return ledger.Status(r.Status).Live() }

// MayGrow reports whether the epoch may be granted units.
func (r *Epoch) MayGrow() bool {
	return r.Status == string(ledger.Open) && r.Halted == ""
}

// Position identifies an epoch without its incarnation.
type Position struct{ Bucket, Epoch int64 }

// Compare orders positions as they are locked.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Bucket, q.Bucket), cmp.Compare(p.Epoch, q.Epoch))
}

// Position returns the epoch's position.
func (r *Epoch) Position() Position { return Position{r.Bucket, r.Number} }

// At returns the position of a reference.
func At(ref bucket.Ref) Position { return Position{ref.Bucket, ref.Epoch} }

// BucketColumns are the columns of a Bucket, of sharding_budget_management_bucket b and its newest
// bucket_epoch e.
const BucketColumns = EpochColumns + `, b.instance, b.partition_number, b.ordinal,
	b.sharding_bucket_key AS bucket_key,
	b.out_quantity, b.out_cnt, b.collect_cnt, b.status AS list_status, b.offline_by,
		b.copied_epoch, b.updated_at`

// Bucket is a bucket with its newest epoch.
type Bucket struct {
	Epoch
	Instance       string `db:"instance"`
	PartitionIndex int    `db:"partition_number"`
	Ordinal        int    `db:"ordinal"`
	Key            string `db:"bucket_key"`
	OutQuantity    int64  `db:"out_quantity"`
	OutCnt         int    `db:"out_cnt"`
	CollectCnt     int    `db:"collect_cnt"`
	ListStatus     string `db:"list_status"`
	OfflineBy      string `db:"offline_by"`
	CopiedEpoch    int64  `db:"copied_epoch"`
	UpdatedAt      int64  `db:"updated_at"`
}

// The values of sharding_budget_management_bucket.status.
const Online, Offline = "online", "offline"

// Partition returns the bucket's partition.
func (r *Bucket) Partition() bucket.Partition {
	return bucket.Partition{Instance: r.Instance, Index: r.PartitionIndex}
}

// View converts the row.
func (r *Bucket) View() bucket.Bucket {
	return bucket.Bucket{
		ID: r.Bucket, Ordinal: r.Ordinal, Key: r.Key, Partition: r.Partition(),
		Online:      r.ListStatus == Online,
		OfflineBy:   bucket.OfflineBy(r.OfflineBy),
		OutQuantity: min(r.OutQuantity, budget.MaxAmount), OutCnt: r.OutCnt,
		CollectCnt: r.CollectCnt, Epoch: r.Ledger(), UpdatedAt: engine.FromMS(r.UpdatedAt),
	}
}

// Locked ends a SELECT whose rows stay locked until the end of the transaction.
const Locked = ` /*locked*/`

// SelectBuckets reads buckets b with their newest epochs; a condition and InOrdinalOrder follow.
const (
	selectBudget = `SELECT ` + BudgetColumns + `
		FROM budget_management_bucket /*by PRIMARY*/ WHERE id = ?`
	SelectBuckets = `SELECT ` + BucketColumns + ` FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch WHERE `
	InOrdinalOrder = ` ORDER BY b.ordinal`
)

// ReadBudget returns a budget's row, or BudgetNotFound.
func ReadBudget(r *engine.Reader, op string, id int64) (*Budget, error) {
	var row Budget
	found, err := r.Get(&row, selectBudget, id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, budget.Refuse(budget.BudgetNotFound, op, "there is no budget %d", id)
	}
	return &row, nil
}

// Buckets returns a budget's buckets with their newest epochs, by ordinal. The epochs are not
// locked and may change.
func Buckets(r *engine.Reader, budgetID int64) ([]Bucket, error) {
	var read []Bucket
	err := r.List(&read, SelectBuckets+`b.budget_id = ?`+InOrdinalOrder, budgetID)
	return read, err
}
