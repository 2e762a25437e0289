package bucket

import (
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// DeductRequest asks for units. The caller has validated the texts (budget.CheckRequestID,
// budget.CheckKey) and the amount.
type DeductRequest struct {
	Budget    BudgetRef
	RequestID string
	// Amount is in minor units, 1 … budget.MaxAmount.
	Amount int64
	// Key routes to a bucket. If it is empty, the request id does.
	Key        string
	Dimensions map[string]string
	// Counts are separate amounts for single limits, by name: 0 … budget.MaxAmount. 0 counts nothing.
	Counts    map[string]int64
	Reference string
	// HoldTTL makes the deduction a hold, which expires that long after its commit unless it is
	// confirmed. It is in whole milliseconds, budget.MinHoldTTL … budget.MaxHoldTTL, or 0 to use the
	// units at once.
	HoldTTL time.Duration
	// Group, unless it is empty, names the holds that are confirmed, extended or rolled back together.
	// It is for holds only.
	Group string
	// Above says what a confirm of more than is held does; "" stands for ledger.AboveRefuse. It is
	// for holds only.
	Above ledger.Above
	// ExpiresAs says what the expiry of the hold does; "" stands for ledger.ExpiresReleased. It is for
	// holds only.
	ExpiresAs ledger.ExpiresAs
	// By is the principal that deducts, or empty on a server without authentication. Ledger mode keeps
	// it. A repeat may come from another principal.
	By string
	// Legs makes the request a set of the tenant that Budget names: all legs are deducted, or none.
	// Each has a Budget or From, an Amount, a Key, Dimensions and Counts; the request has the rest.
	Legs []DeductRequest
	// From are the sources of a leg, 2 … 8 in order, which has no Budget and no Counts. What
	// the first one has not comes from the next; with Whole, all from the first one that has all.
	From  []BudgetRef
	Whole bool
}

// Refs returns the budgets that a request without legs names.
func (r *DeductRequest) Refs() []BudgetRef {
	if len(r.From) > 0 {
		return r.From
	}
	return []BudgetRef{r.Budget}
}

// ForHold reports whether the request is for a hold, or has something that only holds have.
func (r *DeductRequest) ForHold() bool {
	return r.HoldTTL != 0 || r.Group != "" || r.Above != "" || r.ExpiresAs != ""
}

// DeductAnswer is an accepted deduction.
type DeductAnswer struct {
	RequestID string
	// Budget is the name of the budget. It is set only in the answer to a leg.
	Budget string
	// Parts are what the sources of a leg gave, in their order: each has a Budget, an Amount and
	// Limits. The leg goes by the first source that the request names, and has no other figures.
	Parts []DeductAnswer
	// IsCharged marks a leg in a budget that the request does not name. It has a Budget and an Amount.
	IsCharged bool
	Amount    int64
	State     ledger.State
	// Bucket is the key of the bucket it was deducted from.
	Bucket string
	// BucketRemaining is what that bucket held immediately afterwards, in minor units. On a replay
	// it is what the bucket holds in the ledger. It is not set if RemainingUnknown is, because a
	// replay could not read it in time.
	BucketRemaining  int64
	RemainingUnknown bool
	// BudgetRemaining is what the whole budget still covers after this deduction, at most 1 s old. It
	// is not set if FiguresUnknown is.
	BudgetRemaining int64
	// FiguresUnknown says that BudgetRemaining and PeriodRemaining could not be read in time.
	FiguresUnknown bool
	// PeriodRemaining is what the open period of a daily budget still covers. It is nil for promo.
	PeriodRemaining *int64
	// Unlimited says that the budget has no total, so that its remaining figures mean nothing.
	Unlimited bool
	// Limits are those that the deduction counts against, after it. They are empty on a replay.
	Limits []budget.LimitState
	// HoldUntil is when a hold expires. It is zero for other deductions.
	HoldUntil time.Time
	// Receipt locates the deduction. It is opaque to callers.
	Receipt string
	// Replayed says that an earlier call with this id made the deduction.
	Replayed bool
	// Legs are the answers to the legs of a set, in the order of the request, and then those in
	// budgets that these also charge. The set's own answer has only RequestID, State, HoldUntil and
	// Replayed. Of a deduction from one budget they are those in the budgets that it also charged.
	Legs []DeductAnswer
}

// DeductionView is the ledger's row of a request id, as shown to callers.
type DeductionView struct {
	RequestID string
	// Budget is the name of the budget of a leg, and Legs are those of a set, in the order in which
	// they were deducted. Parts are what the sources of a leg gave, which goes by the first one that
	// the request named.
	Budget     string
	Legs       []DeductionView
	Parts      []DeductionView
	State      ledger.State
	Amount     int64
	RolledBack int64
	// Confirmed is what a confirm used, of the hold and above it. HoldUntil is when the hold expires
	// or would have expired. It is zero if the deduction is not a hold.
	Confirmed int64
	HoldUntil time.Time
	// Extra is the part of Confirmed that was taken above the hold; Uncollected is what the confirm
	// asked for and the budget did not have. Above is the deduction's.
	Extra, Uncollected int64
	// OverLimit says that a limit would have refused Extra as a deduction of its own.
	OverLimit bool
	// Late says that it was confirmed after it had expired.
	Late  bool
	Above ledger.Above
	// ExpiresAs is the deduction's.
	ExpiresAs ledger.ExpiresAs
	// Group is the hold's group, if any.
	Group      string
	Bucket     string
	Reference  string
	Dimensions string
	CountedAt  time.Time
	Receipt    string
	// Replayed says that the call was a repeat.
	Replayed bool
}

// RollbackRequest asks for units of a deduction to be given back.
type RollbackRequest struct {
	// Budget is the deduction's. A set has none: only its tenant.
	Budget     BudgetRef
	RequestID  string
	RollbackID string
	// Group is set only for RollbackGroup, without a request id, a rollback id and an amount.
	Group string
	// Amount is what to give back; 0 means all that is left.
	Amount int64
	// Amounts are the parts of the legs of a set, by the names of their budgets; nil means all that is
	// left of each. Legs that it does not name stay as they are.
	Amounts map[string]int64
	// Receipt is the deduction's. It is optional.
	Receipt string
	// OnlyBy, unless it is empty, restricts the call to deductions of this principal; for others it
	// returns Forbidden. Store mode does not record principals and always refuses it.
	OnlyBy string
	// Key is the deduction's routing key, and Dimensions are its dimensions, nil if the call does not
	// say. NoKey says that the deduction had no key. In store mode ids are unique per routing key, so
	// that the key, the routing dimension's value, the receipt or NoKey is needed to name the record.
	Key        string
	NoKey      bool
	Dimensions map[string]string
}

// IsSet reports whether the request is about a set.
func (r *RollbackRequest) IsSet() bool { return r.Budget.IsTenant() }

// ConfirmRequest asks for held units to be used, of one hold or of all holds of a group.
type ConfirmRequest struct {
	// Budget is the deduction's. A set has none: only its tenant.
	Budget BudgetRef
	// Exactly one of RequestID and Group is set.
	RequestID, Group string
	// Amount is what to confirm; 0 means the whole, and the rest is given back. Above what is held it
	// takes units of the budget, if the deduction allows that. It is 0 with a group.
	Amount int64
	// Amounts are the parts of the legs of a set, by the names of their budgets. Legs that it does not
	// name are confirmed as a whole.
	Amounts map[string]int64
	// Receipt is the deduction's. It is optional; see RollbackRequest.
	Receipt string
	// OnlyBy, unless it is empty, restricts the call to holds of this principal; for others it
	// returns Forbidden.
	OnlyBy string
}

// ExtendRequest asks for a hold, or all holds of a group, to last HoldTTL from now.
type ExtendRequest struct {
	// Budget is the deduction's. A set has none: only its tenant.
	Budget BudgetRef
	// Exactly one of RequestID and Group is set.
	RequestID, Group string
	// HoldTTL is in whole milliseconds, budget.MinHoldTTL … budget.MaxHoldTTL.
	HoldTTL time.Duration
	// ExpiresAs is what the hold expires as; "" leaves it as it is.
	ExpiresAs ledger.ExpiresAs
	Receipt   string
	// OnlyBy is as in ConfirmRequest.
	OnlyBy string
}

// RenewRequest asks for one step of a stream.
type RenewRequest struct {
	Budget    BudgetRef
	RequestID string
	// Step is 1 … ledger.MostSteps. Used became used since the last step, Hold is what to hold from
	// now on, for HoldTTL. Both are in minor units, from 0 on.
	Step, Used, Hold int64
	// HoldTTL is in whole milliseconds, budget.MinHoldTTL … budget.MaxHoldTTL.
	HoldTTL time.Duration
	Receipt string
	// OnlyBy is as in ConfirmRequest.
	OnlyBy string
}

// Renewal is what a step of a stream did, in minor units.
type Renewal struct {
	RequestID string
	Step      int64
	// UsedTotal became used in all, with this step; Held is held now. IsFinal means that this is less
	// than was asked for.
	UsedTotal, Held int64
	IsFinal         bool
	// Uncollected and OverLimit are those of DeductionView.
	Uncollected int64
	OverLimit   bool
	State       ledger.State
	HoldUntil   time.Time
	Replayed    bool
}

// AdjustRequest is an append (positive) or a shrink (negative quantity).
type AdjustRequest struct {
	Budget    BudgetRef
	RequestID string
	Quantity  int64
}

// View is a budget as of one snapshot.
type View struct {
	Definition budget.Definition
	Status     budget.Status
	Figures    ledger.Figures
	// Period is the open or last period, without its units, which are in Figures.
	Period budget.Period
	// Remaining is what deductions can take now, in minor units. OpensAt is when they can begin, zero
	// if it is not the future. See Remaining and State.
	Remaining int64
	OpensAt   time.Time
	Serving   Serving
	// Replayed says that an earlier call made the creation or the adjustment.
	Replayed bool
	// Usable is the least that the budget and those that it also charges have left: nil if all are
	// unlimited, and of a budget that charges none. It is set only in the view of a single budget.
	Usable *int64
	// Away is what is on stores that this node does not reach. Remaining does not count it.
	Away Away
	// Plan is what the first periods and the last one would get. It is set only by a dry run.
	Plan []allocation.Planned
}

// Remaining returns what deductions can take at an instant: what is available, or 0 unless the
// budget is effective and its period, which begins at begin, has begun. If the budget or the period
// begins later, opensAt says when; otherwise it is zero.
func Remaining(d *budget.Definition, begin time.Time, available int64, now time.Time) (
	units int64, opensAt time.Time) {
	if d.StartAt.After(begin) {
		begin = d.StartAt
	}
	switch status := d.StatusAt(now); {
	case status != budget.Effective && status != budget.Pending:
		return 0, time.Time{}
	case now.Before(begin):
		return 0, begin
	}
	return available, time.Time{}
}

// BucketView is a bucket as shown to operators.
type BucketView struct {
	Bucket
	// Durability is the budget's. Only in store mode is the balance in the bucket's partition.
	Durability budget.Durability
	// Remaining is O, what the bucket holds in the ledger, in minor units.
	Remaining int64
	// Problem says why its store does not answer this node. It is empty if the store answers.
	Problem string
}

// View returns a bucket of the budget as shown to operators. Those of an unlimited budget hold no
// part of a total.
func (b *Budget) View(bk *Bucket) BucketView {
	v := BucketView{Bucket: *bk, Durability: b.Durability, Remaining: bk.Epoch.Outstanding}
	if b.Unlimited {
		v.Remaining = 0
	}
	return v
}

// AuditReport is the proof of I1 for a budget.
type AuditReport struct {
	OK bool
	// Unlimited says that there is no total that the others make up.
	Unlimited bool
	Figures   ledger.Figures
	// AtRisk is what would be quarantined if every store were lost: 0 in ledger mode, else ΣO of the
	// live epochs.
	AtRisk        int64
	Discrepancies []ledger.Discrepancy
	// Unchecked lists buckets whose store could not be read. Only their rows were checked.
	Unchecked []string
}

// PartitionView is a partition as shown to operators.
type PartitionView struct {
	Partition   Partition
	Incarnation int64
	// Reachable says whether the last attempt reached the partition. Problem says why not.
	Reachable bool
	Problem   string
	// Draining says that its buckets move to other partitions.
	Draining bool
	// Buckets is how many buckets it has, or nil if SQL could not be read.
	Buckets *int
	// Role is that of the server whose memory was verified last. Incarnation began at BeganAt, and
	// Cause says why. They are empty in ledger mode, where no memory is verified.
	Role, Cause string
	BeganAt     time.Time
	// AtRisk is what a loss of its memory would quarantine or return, in minor units: what epochs of
	// budgets in store mode held some seconds ago. It is nil if SQL could not be read.
	AtRisk *int64
}

// OverrideRequest sets or removes overrides of a limit.
type OverrideRequest struct {
	Budget BudgetRef
	Limit  string
	// Set has at most limit.MaxOverrideList overrides.
	Set []budget.Override
	// Remove is the value whose override is removed, one per dimension; nil for none.
	Remove []string
}

// OverridesRequest asks for a page of the overrides of a limit.
type OverridesRequest struct {
	Budget BudgetRef
	Limit  string
	// Values asks for the override of one value; nil asks for those after a key, at most Most.
	Values []string
	After  string
	Most   int
}

// Overrides are overrides of a limit, and how many it has. Last is the key of the last one.
type Overrides struct {
	List  []budget.Override
	Count int64
	Last  string
}
