package sqlstore

import (
	"encoding/json"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// budgetColumns is what a budgetRow reads.
const budgetColumns = `id, tenant, name, gl_code, unit, durability, type, total_quantity,
	undistributed_quantity, quarantined_quantity, forfeited_quantity, pending_shrink_quantity,
	sharding_quantity, bucket_quantity, resize_quantity, adjust_cnt, status, start_ms, end_ms, created_as, version,
	list_version, created_at, updated_at, type_rule, timezone, unused, late_refund, unfunded_quantity,
	period, period_start_ms, period_end_ms, is_over, roll_over_ms, unlimited, routing_dimension, limits_version`

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
	Resize        int    `db:"resize_quantity"`
	AdjustCnt     int    `db:"adjust_cnt"`
	Status        string `db:"status"`
	StartMS       int64  `db:"start_ms"`
	EndMS         int64  `db:"end_ms"`
	CreatedAs     string `db:"created_as"`
	Version       int64  `db:"version"`
	ListVersion   int64  `db:"list_version"`
	CreatedAt     int64  `db:"created_at"`
	UpdatedAt     int64  `db:"updated_at"`
	TypeRule      []byte `db:"type_rule"`
	Timezone      string `db:"timezone"`
	Unused        string `db:"unused"`
	LateRefund    string `db:"late_refund"`
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

// The values of budget_management_bucket.status: what the clock says is not stored.
const statusActive, statusPaused = "active", "paused"

// definition is the budget's, without its limits: see withLimits.
func (r *budgetRow) definition() budget.Definition {
	return budget.Definition{
		Rule: readRule(r.TypeRule), Timezone: r.Timezone, LateRefund: budget.Where(r.LateRefund),
		Unlimited: r.Unlimited == 1, RoutingDimension: string(r.Routing),
		ID: r.ID, Tenant: r.Tenant, Name: r.Name, GLCode: r.GLCode, Unit: budget.Unit(r.Unit),
		Durability: budget.Durability(r.Durability), Type: budget.Type(r.Type), TotalQuantity: r.Total,
		BucketQuantity: r.Buckets, ShardingQuantity: r.Sharding, AdjustCnt: r.AdjustCnt,
		StartAt: fromMS(r.StartMS), EndAt: fromMS(r.EndMS), Paused: r.Status == statusPaused,
		Version: r.Version, CreatedAt: fromMS(r.CreatedAt), UpdatedAt: fromMS(r.UpdatedAt),
	}
}

// period is the open or last period, without what it got.
func (r *budgetRow) period() budget.Period {
	return budget.Period{Number: r.Period, Over: r.IsOver == 1, Start: fromMS(r.PeriodStartMS),
		End: fromMS(r.PeriodEndMS)}
}

// halted reports whether no epoch of the budget may begin: in store mode all of them end before it
// gets another number of buckets.
func (r *budgetRow) halted() bool {
	return r.Resize > 0 && r.Durability == string(budget.Store) && !safeguard.Off(safeguard.ResizeEndsAll)
}

// due reports whether a roll-over is.
func (r *budgetRow) due(now time.Time) bool { return r.RollOverMS != 0 && toMS(now) >= r.RollOverMS }

// releasable is what apply and hand-out may take at an instant: nothing of a period that is over. A
// pending shrink takes what is not funded first.
func (r *budgetRow) releasable(now time.Time) int64 {
	if r.period().OverAt(now) && !safeguard.Off(safeguard.PeriodOver) {
		return 0
	}
	if safeguard.Off(safeguard.PendingShrink) {
		return r.Undistributed
	}
	return max(r.Undistributed-max(r.PendingShrink-r.Unfunded, 0), 0)
}

// readRule reads a rule as writeRule wrote it; nil: none.
func readRule(text []byte) *budget.Rule {
	if len(text) == 0 {
		return nil
	}
	rule := &budget.Rule{}
	if err := json.Unmarshal(text, rule); err != nil {
		return &budget.Rule{} // of no known kind: it releases nothing
	}
	return rule
}

// sayRule is the one text of all rules that say the same, nil for none.
func sayRule(rule *budget.Rule) []byte {
	if rule == nil {
		return nil
	}
	return []byte(allocation.Canonical(*rule))
}

// writeRule is a rule as it was given, nil for none.
func writeRule(rule *budget.Rule) []byte {
	if rule == nil {
		return nil
	}
	text, _ := json.Marshal(rule) // strings and numbers only
	return text
}

// unusedColumn is the column unused, by which selectCovers knows what may still come to the open period.
func unusedColumn(d budget.Definition) string {
	if allocation.IsWhole(d) {
		return "whole"
	}
	return string(allocation.Unused(d))
}

// epochColumns is what an epochRow reads, of bucket_epoch e.
const epochColumns = `e.bucket_id, e.epoch, e.budget_id, e.status, e.activation,
	e.outstanding_quantity, e.held_quantity, e.used_quantity, e.returning_quantity, e.closed_quantity,
	e.swept_quantity, e.next_grant, e.next_entry, e.drained_seq, e.drained_chain, e.period_end_ms,
	e.fenced, e.period, e.late_quantity, e.limits_version`

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
	Period       int64  `db:"period"`
	Late         int64  `db:"late_quantity"`
	// LimitsVersion is of the limits by which its commits are judged.
	LimitsVersion int64 `db:"limits_version"`
}

func (r *epochRow) epoch() ledger.Epoch {
	return ledger.Epoch{
		Budget: r.Budget, Bucket: r.Bucket, Number: r.Number, Status: ledger.Status(r.Status),
		Activation: r.Activation, Outstanding: r.Outstanding, Held: r.Held, Used: r.Used,
		Returning: r.Returning, Swept: r.Swept, NextGrant: r.NextGrant, NextEntry: r.NextEntry,
		DrainedSeq: r.DrainedSeq, DrainedChain: r.DrainedChain, Fenced: r.Fenced,
		EndAt: fromMS(r.PeriodEndMS), Period: r.Period, Late: r.Late,
	}
}

func (r *epochRow) ref() bucket.Ref {
	return bucket.Ref{Bucket: r.Bucket, Epoch: r.Number, Activation: r.Activation}
}

func (r *epochRow) live() bool { return ledger.Status(r.Status).Live() }

// mayGrow reports whether the epoch may be granted units.
func (r *epochRow) mayGrow() bool {
	return (r.Status == string(ledger.Open) || safeguard.Off(safeguard.OpenForGrants)) && r.Fenced == ""
}

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
	b.out_quantity, b.out_cnt, b.status AS list_status, b.offline_by, b.counters_from, b.updated_at`

// bucketRow is a bucket with its newest epoch.
type bucketRow struct {
	laneEpochRow
	Ordinal     int    `db:"ordinal"`
	Key         string `db:"bucket_key"`
	OutQuantity int64  `db:"out_quantity"`
	OutCnt      int    `db:"out_cnt"`
	ListStatus  string `db:"list_status"`
	OfflineBy   string `db:"offline_by"`
	Counters    int64  `db:"counters_from"`
	UpdatedAt   int64  `db:"updated_at"`
}

// The values of sharding_budget_management_bucket.status.
const online, offline = "online", "offline"

func (r *bucketRow) lane() bucket.Lane {
	return bucket.Lane{Instance: r.Instance, Index: r.Lane}
}

// mayTake reports whether units can be handed out to the bucket: it is online with an open epoch of the
// budget's period and of its lane's activation, or was taken offline by the service and has ended.
func (r *bucketRow) mayTake(b *budgetRow, activation int64) bool {
	return r.ListStatus == online && r.mayGrow() && r.Period == b.Period && r.Activation == activation ||
		r.OfflineBy == string(bucket.ByService) && !r.live()
}

// retired reports whether a smaller number of buckets has taken the bucket out of the ring.
func (r *bucketRow) retired() bool { return r.OfflineBy == string(bucket.ByResize) }

func (r *bucketRow) bucket() bucket.Bucket {
	return bucket.Bucket{
		ID: r.Bucket, Ordinal: r.Ordinal, Key: r.Key, Lane: r.lane(), Online: r.ListStatus == online,
		OfflineBy: bucket.OfflineBy(r.OfflineBy), OutQuantity: min(r.OutQuantity, budget.MaxAmount), OutCnt: r.OutCnt,
		CountersFrom: r.Counters, Epoch: r.epoch(), UpdatedAt: fromMS(r.UpdatedAt),
	}
}

// deductionColumns is what a deductionRow reads, of deduction d.
const deductionColumns = `d.budget_id, d.request_id, d.state, d.amount, d.rolled_back,
	d.fingerprint, d.nonce, d.reference, d.dimensions, d.counts, d.hold_group,
	d.hold_until_ms, d.confirmed, d.bucket_id, d.epoch, d.seq, d.entry,
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
	Counts      []byte `db:"counts"`
	Group       []byte `db:"hold_group"`
	HoldUntil   int64  `db:"hold_until_ms"`
	Confirmed   int64  `db:"confirmed"`
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
		Counts: string(r.Counts), Group: string(r.Group), HoldUntil: fromMS(r.HoldUntil), Confirmed: r.Confirmed,
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
