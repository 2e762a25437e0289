package sqlstore

import (
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// budgetColumns is what a budgetRow reads.
const budgetColumns = `id, tenant, name, gl_code, unit, durability, type, total_quantity,
	undistributed_quantity, quarantined_quantity, forfeited_quantity, pending_shrink_quantity,
	sharding_quantity, bucket_quantity, adjust_cnt, status, start_ms, end_ms, created_as, version,
	list_version, created_at, updated_at`

// budgetRow is a row of budget_management_bucket.
type budgetRow struct {
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
	Status        string `db:"status"`
	StartMS       int64  `db:"start_ms"`
	EndMS         int64  `db:"end_ms"`
	CreatedAs     string `db:"created_as"`
	Version       int64  `db:"version"`
	ListVersion   int64  `db:"list_version"`
	CreatedAt     int64  `db:"created_at"`
	UpdatedAt     int64  `db:"updated_at"`
}

// The values of budget_management_bucket.status: what the clock says is not stored.
const statusActive, statusPaused = "active", "paused"

func (r *budgetRow) definition() budget.Definition {
	return budget.Definition{
		ID: r.ID, Tenant: r.Tenant, Name: r.Name, GLCode: r.GLCode, Unit: budget.Unit(r.Unit),
		Durability: budget.Durability(r.Durability), Type: budget.Type(r.Type), TotalQuantity: r.Total,
		BucketQuantity: r.Buckets, ShardingQuantity: r.Sharding, AdjustCnt: r.AdjustCnt,
		StartAt: fromMS(r.StartMS), EndAt: fromMS(r.EndMS), Paused: r.Status == statusPaused,
		Version: r.Version, CreatedAt: fromMS(r.CreatedAt), UpdatedAt: fromMS(r.UpdatedAt),
	}
}

// releasable is what apply and hand-out may take.
func (r *budgetRow) releasable() int64 { return max(r.Undistributed-r.PendingShrink, 0) }

// epochColumns is what an epochRow reads, of bucket_epoch e.
const epochColumns = `e.bucket_id, e.epoch, e.budget_id, e.status, e.activation,
	e.outstanding_quantity, e.held_quantity, e.used_quantity, e.returning_quantity, e.closed_quantity,
	e.swept_quantity, e.next_grant, e.next_entry, e.drained_seq, e.drained_chain, e.period_end_ms,
	e.fenced`

// epochRow is a row of bucket_epoch.
type epochRow struct {
	Bucket       int64  `db:"bucket_id"`
	Number       int64  `db:"epoch"`
	Budget       int64  `db:"budget_id"`
	Status       string `db:"status"`
	Activation   int64  `db:"activation"`
	Outstanding  int64  `db:"outstanding_quantity"`
	Held         int64  `db:"held_quantity"`
	Used         int64  `db:"used_quantity"`
	Returning    int64  `db:"returning_quantity"`
	Closed       int64  `db:"closed_quantity"`
	Swept        int64  `db:"swept_quantity"`
	NextGrant    int64  `db:"next_grant"`
	NextEntry    int64  `db:"next_entry"`
	DrainedSeq   int64  `db:"drained_seq"`
	DrainedChain string `db:"drained_chain"`
	PeriodEndMS  int64  `db:"period_end_ms"`
	Fenced       string `db:"fenced"`
}

func (r *epochRow) epoch() ledger.Epoch {
	return ledger.Epoch{
		Budget: r.Budget, Bucket: r.Bucket, Number: r.Number, Status: ledger.Status(r.Status),
		Activation: r.Activation, Outstanding: r.Outstanding, Held: r.Held, Used: r.Used,
		Returning: r.Returning, NextGrant: r.NextGrant, NextEntry: r.NextEntry,
		DrainedSeq: r.DrainedSeq, DrainedChain: r.DrainedChain, Fenced: r.Fenced,
		EndAt: fromMS(r.PeriodEndMS),
	}
}

func (r *epochRow) ref() bucket.Ref {
	return bucket.Ref{Bucket: r.Bucket, Epoch: r.Number, Activation: r.Activation}
}

func (r *epochRow) live() bool { return ledger.Status(r.Status).Live() }

// mayGrow reports whether the epoch may be granted units.
func (r *epochRow) mayGrow() bool { return r.Status == string(ledger.Open) && r.Fenced == "" }

// position names an epoch without its activation.
type position struct{ bucket, epoch int64 }

func (p position) less(q position) bool {
	return p.bucket < q.bucket || p.bucket == q.bucket && p.epoch < q.epoch
}

func (r *epochRow) position() position { return position{r.Bucket, r.Number} }

func at(ref bucket.Ref) position { return position{ref.Bucket, ref.Epoch} }

// laneEpochRow is an epoch with where it lives; laneEpochColumns reads it, of bucket_epoch e and
// sharding_budget_management_bucket b.
type laneEpochRow struct {
	epochRow
	Instance string `db:"instance"`
	Lane     int    `db:"lane"`
}

const laneEpochColumns = epochColumns + `, b.instance, b.lane`

func (r *laneEpochRow) of() bucket.EpochOf {
	return bucket.EpochOf{
		Budget: r.Budget, Lane: bucket.Lane{Instance: r.Instance, Index: r.Lane}, Row: r.epoch(),
	}
}

// bucketColumns is what a bucketRow reads, of sharding_budget_management_bucket b and its newest
// bucket_epoch e.
const bucketColumns = laneEpochColumns + `, b.ordinal, b.sharding_bucket_key AS bucket_key,
	b.out_quantity, b.out_cnt, b.status AS list_status, b.offline_by, b.updated_at`

// bucketRow is a bucket with its newest epoch.
type bucketRow struct {
	laneEpochRow
	Ordinal     int    `db:"ordinal"`
	Key         string `db:"bucket_key"`
	OutQuantity int64  `db:"out_quantity"`
	OutCnt      int    `db:"out_cnt"`
	ListStatus  string `db:"list_status"`
	OfflineBy   string `db:"offline_by"`
	UpdatedAt   int64  `db:"updated_at"`
}

// The values of sharding_budget_management_bucket.status.
const online, offline = "online", "offline"

func (r *bucketRow) lane() bucket.Lane {
	return bucket.Lane{Instance: r.Instance, Index: r.Lane}
}

func (r *bucketRow) bucket() bucket.Bucket {
	return bucket.Bucket{
		ID: r.Bucket, Ordinal: r.Ordinal, Key: r.Key, Lane: r.lane(), Online: r.ListStatus == online,
		OfflineBy: bucket.OfflineBy(r.OfflineBy), OutQuantity: r.OutQuantity, OutCnt: r.OutCnt,
		Epoch: r.epoch(), UpdatedAt: fromMS(r.UpdatedAt),
	}
}

// deductionColumns is what a deductionRow reads, of deduction d.
const deductionColumns = `d.budget_id, d.request_id, d.state, d.amount, d.rolled_back,
	d.fingerprint, d.nonce, d.reference, d.dimensions, d.bucket_id, d.epoch, d.seq, d.entry,
	d.counted_at`

// deductionRow is a row of deduction; a tombstone has NULL where it never was.
type deductionRow struct {
	Budget      int64  `db:"budget_id"`
	RequestID   string `db:"request_id"`
	State       string `db:"state"`
	Amount      int64  `db:"amount"`
	RolledBack  int64  `db:"rolled_back"`
	Fingerprint string `db:"fingerprint"`
	Nonce       string `db:"nonce"`
	Reference   []byte `db:"reference"`
	Dimensions  []byte `db:"dimensions"`
	Bucket      *int64 `db:"bucket_id"`
	Epoch       *int64 `db:"epoch"`
	Seq         *int64 `db:"seq"`
	Entry       *int64 `db:"entry"`
	CountedAt   int64  `db:"counted_at"`
}

func (r *deductionRow) deduction() ledger.Deduction {
	return ledger.Deduction{
		Budget: r.Budget, RequestID: r.RequestID, Amount: r.Amount, RolledBack: r.RolledBack,
		State: ledger.State(r.State), Fingerprint: r.Fingerprint, Nonce: r.Nonce,
		Reference: string(r.Reference), Dimensions: string(r.Dimensions),
		Position: ledger.Position{
			Bucket: orZero(r.Bucket), Epoch: orZero(r.Epoch), Seq: orZero(r.Seq),
		},
		Entry: orZero(r.Entry), CountedAt: fromMS(r.CountedAt),
	}
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// orNull binds a text that callers choose, NULL for "".
func orNull(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}
