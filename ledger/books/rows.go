package books

import "cmp"

// Word is a status, kind or reason of budgetd itself, which is stored as text. A string is a text
// of a caller, which is stored as bytes.
type Word string

// Budget is a row of budget_management_bucket.
type Budget struct {
	ID            int64   `db:"id" key:""`
	Tenant        string  `db:"tenant"`
	Name          string  `db:"name"`
	GLCode        string  `db:"gl_code"`
	Unit          Word    `db:"unit"`
	Durability    Word    `db:"durability"`
	OnLoss        Word    `db:"on_loss"`
	Unlimited     int64   `db:"unlimited"`
	Total         int64   `db:"total_quantity"`
	Unfunded      int64   `db:"unfunded_quantity"`
	Undistributed int64   `db:"undistributed_quantity"`
	Out           int64   `db:"out_quantity"`
	Quarantined   int64   `db:"quarantined_quantity"`
	Forfeited     int64   `db:"forfeited_quantity"`
	PendingShrink int64   `db:"pending_shrink_quantity"`
	Sharding      int64   `db:"sharding_quantity"`
	Buckets       int64   `db:"bucket_quantity"`
	AdjustCnt     int64   `db:"adjust_cnt"`
	Type          Word    `db:"type"`
	TypeRule      *string `db:"type_rule"`
	Status        Word    `db:"status"`
	StatusDueMS   int64   `db:"status_due_ms"`
	IsPaused      int64   `db:"is_paused"`
	IsArchived    int64   `db:"is_archived"`
	StartMS       int64   `db:"start_ms"`
	EndMS         int64   `db:"end_ms"`
	Timezone      string  `db:"timezone"`
	Routing       *string `db:"routing_dimension"`
	Unused        Word    `db:"unused"`
	LateRefund    Word    `db:"late_refund"`
	Period        int64   `db:"period"`
	PeriodStartMS int64   `db:"period_start_ms"`
	PeriodEndMS   int64   `db:"period_end_ms"`
	IsOver        int64   `db:"is_over"`
	RollOverMS    int64   `db:"roll_over_ms"`
	CreatedAs     string  `db:"created_as"`
	Version       int64   `db:"version"`
	ListVersion   int64   `db:"list_version"`
	LimitsVersion int64   `db:"limits_version"`
	// OverridesVersion increases with each change of overrides.
	OverridesVersion int64 `db:"overrides_version"`
	NextRun          int64 `db:"next_run"`
	// ContractionBound is what Bring left over at most when it took buckets offline.
	ContractionBound int64 `db:"contraction_bound"`
	ContractedMS     int64 `db:"contracted_ms"`
	Allocated        int64 `db:"allocated_quantity"`
	// Parent is 0 for a budget without one. ParentPeriod is the period of the parent that its units
	// belong to.
	Parent       int64 `db:"parent_id"`
	ParentPeriod int64 `db:"parent_period"`
	Depth        int64 `db:"depth"`
	// Ancestors are the ids of its ancestors, from the first one on, each between slashes.
	Ancestors string `db:"ancestors"`
	// AlsoCharges are the ids of the budgets that it charges, ChargedBy is how many charge it.
	AlsoCharges string `db:"also_charges"`
	ChargedBy   int64  `db:"charged_by"`
	CreatedAt   int64  `db:"created_at"`
	UpdatedAt   int64  `db:"updated_at"`
}

// Limit is a row of budget_limit.
type Limit struct {
	Budget         int64  `db:"budget_id" key:""`
	Name           string `db:"name" key:""`
	Definition     string `db:"definition"`
	Ordinal        int64  `db:"ordinal"`
	ChangedVersion int64  `db:"changed_version"`
	ChangedMS      int64  `db:"changed_ms"`
	Overrides      int64  `db:"override_count"`
	Series         int64  `db:"override_series"`
}

// Period is a row of budget_period.
type Period struct {
	Budget    int64 `db:"budget_id" key:""`
	Number    int64 `db:"number" key:""`
	StartMS   int64 `db:"start_ms"`
	EndMS     int64 `db:"end_ms"`
	Funded    int64 `db:"funded_quantity"`
	Carried   int64 `db:"carried_quantity"`
	Before    int64 `db:"before_quantity"`
	Returned  int64 `db:"returned_quantity"`
	Passed    int64 `db:"passed_quantity"`
	Forfeited int64 `db:"forfeited_quantity"`
	CreatedAt int64 `db:"created_at"`
}

// Bucket is a row of sharding_budget_management_bucket. It changes only under its budget's lock.
type Bucket struct {
	ID          int64  `db:"id" key:""`
	Budget      int64  `db:"budget_id"`
	Ordinal     int64  `db:"ordinal"`
	Key         string `db:"sharding_bucket_key"`
	Instance    string `db:"instance"`
	Partition   int64  `db:"partition_number"`
	Out         int64  `db:"out_quantity"`
	LastGrant   int64  `db:"sharding_quantity"`
	OutCnt      int64  `db:"out_cnt"`
	CollectCnt  int64  `db:"collect_cnt"`
	Status      Word   `db:"status"`
	OfflineBy   Word   `db:"offline_by"`
	Epoch       int64  `db:"epoch"`
	CopiedEpoch int64  `db:"copied_epoch"`
	CreatedAt   int64  `db:"created_at"`
	UpdatedAt   int64  `db:"updated_at"`
}

// PartitionID identifies a partition of a store.
type PartitionID struct {
	Instance string
	Number   int64
}

// Compare orders partitions as they are locked.
func (p PartitionID) Compare(o PartitionID) int {
	return cmp.Or(cmp.Compare(p.Instance, o.Instance), cmp.Compare(p.Number, o.Number))
}

// Home returns the partition of a bucket in a store.
func (r *Bucket) Home() PartitionID { return PartitionID{r.Instance, r.Partition} }

// Position identifies an epoch. Epochs are locked in the order of their positions.
type Position struct{ Bucket, Epoch int64 }

// Compare orders positions as epochs are locked.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Bucket, o.Bucket), cmp.Compare(p.Epoch, o.Epoch))
}

// Epoch is a row of bucket_epoch.
type Epoch struct {
	Bucket      int64  `db:"bucket_id" key:""`
	Number      int64  `db:"epoch" key:""`
	Budget      int64  `db:"budget_id"`
	Status      Word   `db:"status"`
	Period      int64  `db:"period"`
	PeriodEndMS int64  `db:"period_end_ms"`
	Version     int64  `db:"definition_version"`
	Outstanding int64  `db:"outstanding_quantity"`
	Held        int64  `db:"held_quantity"`
	Used        int64  `db:"used_quantity"`
	Returning   int64  `db:"returning_quantity"`
	Late        int64  `db:"late_quantity"`
	Closed      int64  `db:"closed_quantity"`
	Swept       int64  `db:"swept_quantity"`
	NextGrant   int64  `db:"next_grant"`
	NextEntry   int64  `db:"next_entry"`
	Incarnation int64  `db:"incarnation"`
	Taken       int64  `db:"taken_quantity"`
	GivenBack   int64  `db:"given_back_quantity"`
	LateSum     int64  `db:"late_sum_quantity"`
	Halted      string `db:"halted"`
	CreatedAt   int64  `db:"created_at"`
}

// Position returns the epoch's position.
func (e *Epoch) Position() Position { return Position{e.Bucket, e.Number} }

// Grant is a row of grant_log.
type Grant struct {
	Bucket    int64 `db:"bucket_id" key:""`
	Epoch     int64 `db:"epoch" key:""`
	Number    int64 `db:"number" key:""`
	Budget    int64 `db:"budget_id"`
	Kind      Word  `db:"kind"`
	Amount    int64 `db:"amount"`
	Status    Word  `db:"status"`
	CreatedAt int64 `db:"created_at"`
}

// ID identifies a request within a budget.
type ID struct {
	Budget    int64
	RequestID string
}

// Adjustment is a row of adjustment.
type Adjustment struct {
	Budget      int64  `db:"budget_id" key:""`
	RequestID   string `db:"request_id" key:""`
	Quantity    int64  `db:"quantity"`
	Fingerprint string `db:"fingerprint"`
	Nonce       string `db:"nonce"`
	Status      Word   `db:"status"`
	DeadlineMS  int64  `db:"deadline_ms"`
	CreatedAt   int64  `db:"created_at"`
	UpdatedAt   int64  `db:"updated_at"`
}

// Partition is a row of store_partition. Movements of units read it, and never change it.
type Partition struct {
	Instance    string `db:"instance" key:""`
	Number      int64  `db:"partition_number" key:""`
	Identity    string `db:"identity"`
	Incarnation int64  `db:"incarnation"`
	Since       int64  `db:"since_incarnation"`
	IsDraining  int64  `db:"is_draining"`
	BeganAt     int64  `db:"began_at"`
	Cause       string `db:"cause"`
}

// ID returns what identifies the partition.
func (p *Partition) ID() PartitionID { return PartitionID{p.Instance, p.Number} }

// Quarantine is a row of quarantine.
type Quarantine struct {
	Bucket    int64  `db:"bucket_id" key:""`
	Epoch     int64  `db:"epoch" key:""`
	Budget    int64  `db:"budget_id"`
	Instance  string `db:"instance"`
	Partition int64  `db:"partition_number"`
	Quantity  int64  `db:"quantity"`
	Released  int64  `db:"released_quantity"`
	Cause     string `db:"cause"`
	CreatedAt int64  `db:"created_at"`
}

// Position returns the position of the epoch whose units were put into quarantine.
func (q *Quarantine) Position() Position { return Position{q.Bucket, q.Epoch} }

// Release is a row of quarantine_release.
type Release struct {
	Budget    int64  `db:"budget_id" key:""`
	RequestID string `db:"request_id" key:""`
	Bucket    int64  `db:"bucket_id" key:""`
	Epoch     int64  `db:"epoch" key:""`
	Quantity  int64  `db:"quantity"`
	GoesTo    Word   `db:"goes_to"`
	Asked     int64  `db:"asked_quantity"`
	Reason    string `db:"reason"`
	By        string `db:"released_by"`
	CreatedAt int64  `db:"created_at"`
}

// Run is a row of recycle_run: the report of a recycle.
type Run struct {
	Budget         int64 `db:"budget_id" key:""`
	Number         int64 `db:"number" key:""`
	Cause          Word  `db:"cause"`
	Buckets        int64 `db:"buckets"`
	Skipped        int64 `db:"buckets_skipped"`
	Moved          int64 `db:"moved"`
	UnitsBefore    int64 `db:"units_before"`
	StrandedBefore int64 `db:"stranded_before"`
	UnitsAfter     int64 `db:"units_after"`
	StrandedAfter  int64 `db:"stranded_after"`
	BeganAt        int64 `db:"created_at"`
	EndedAt        int64 `db:"ended_at"`
}
