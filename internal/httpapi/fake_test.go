package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

// fake is a service that records what it is asked and answers the same every time, or err.
type fake struct {
	mu      sync.Mutex
	calls   []string
	err     error
	panics  bool
	created bool
	reasons []string
	// projection is what a series answers.
	projection series.Projection
	// before runs in every Deduct, with its request id.
	before func(ctx context.Context, id string)
}

var at = time.Date(2026, 1, 31, 9, 0, 0, 0, time.FixedZone("CST", 8*3600))

var aView = bucket.View{
	Definition: budget.Definition{ID: 7, Tenant: "default", Name: "sale", GLCode: "4711", Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: 1000, BucketQuantity: 2, StartAt: at,
		Version: 3, CreatedAt: at, UpdatedAt: at.Add(time.Second)},
	Status: budget.Effective, Serving: bucket.ServesFully, Remaining: 620,
	Figures: ledger.Figures{Total: 1000, Undistributed: 100, InBuckets: 500, Unsettled: 5, Used: 380,
		Returning: 15, Online: 1, Offline: 1},
}

// aDailyView is a budget of 1,000 of which 300 are in a window of today, 100 of them used.
var aDailyView = bucket.View{
	Definition: budget.Definition{ID: 8, Tenant: "default", Name: "coupons", Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Daily, TotalQuantity: 1000, BucketQuantity: 2, StartAt: at,
		Rule: &budget.Rule{Kind: budget.Windows, Windows: []budget.Window{
			{From: "00:00", To: "12:00", Quantity: 300}, {From: "18:00", To: "24:00", Quantity: 50}}},
		Version: 3, CreatedAt: at, UpdatedAt: at},
	Status: budget.Effective, Serving: bucket.ServesFully, Remaining: 200,
	Figures: ledger.Figures{Total: 1000, Unfunded: 660, Undistributed: 20, InBuckets: 180, Used: 140, Online: 2,
		PeriodUnits: 300, PeriodUsed: 100},
	Period: budget.Period{Number: 3, Start: at, End: at.Add(3 * time.Hour)},
}

var aDeduction = bucket.DeductionView{RequestID: "o1", State: ledger.StateUsed, Amount: 5, RolledBack: 2,
	Bucket: "sale:bucket-0", Reference: "ref", Dimensions: `{"user":"u1"}`, CountedAt: at, Receipt: "r.1"}

var aBucket = bucket.BucketView{Bucket: bucket.Bucket{ID: 70, Ordinal: 0, Key: "sale:bucket-0",
	Partition: bucket.Partition{Instance: "redis-a"}, Online: true, OutQuantity: 600, OutCnt: 2, UpdatedAt: at,
	Epoch: ledger.Epoch{Number: 4, Status: ledger.Open, Incarnation: 2, Outstanding: 500, Used: 380, Returning: 15},
}, Durability: budget.Store, Remaining: 500}

func (f *fake) Quarantines(_ context.Context, ref bucket.BudgetRef) ([]bucket.Quarantine, error) {
	return []bucket.Quarantine{{Key: "sale:bucket-0", Epoch: 3, Quantity: 900, Released: 850,
		Cause: "accepted up to log position 7, the log ended at 5", At: at}}, f.note("quarantines %+v", ref)
}

func (f *fake) Release(_ context.Context, r bucket.ReleaseRequest) (bucket.ReleaseAnswer, error) {
	return bucket.ReleaseAnswer{Released: 850, Quarantined: 50}, f.note("release %+v", r)
}

var aRecycle = bucket.Recycle{Budget: 7, Number: 3, Cause: bucket.OnSchedule, Buckets: 2, Skipped: 1, Moved: 480, Before: bucket.Spread{Units: 600, Stranded: 300},
	After: bucket.Spread{Units: 590, Stranded: 10}, BeganAt: at, EndedAt: at.Add(time.Second)}

func (f *fake) Recycle(_ context.Context, ref bucket.BudgetRef) (bucket.Recycle, error) {
	return aRecycle, f.note("recycle %+v", ref)
}

func (f *fake) Recycles(_ context.Context, ref bucket.BudgetRef, before int64, limit int) ([]bucket.Recycle, error) {
	return []bucket.Recycle{aRecycle}, f.note("recycles %+v before %d limit %d", ref, before, limit)
}

func (f *fake) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	if f.panics {
		panic("a secret detail")
	}
	return f.err
}

func (f *fake) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fake) Create(_ context.Context, d budget.Definition) (bucket.View, bool, error) {
	rule, list := d.Rule, d.Limits
	d.Rule, d.Limits = nil, nil
	text := fmt.Sprintf("create %+v", d)
	if list != nil {
		text += fmt.Sprintf(" limits %+v", list.List)
	}
	if rule != nil {
		text += fmt.Sprintf(" rule %+v", *rule)
	}
	return aView, f.created, f.note("%s", text)
}

func (f *fake) List(_ context.Context, page bucket.Page) ([]bucket.View, error) {
	err := f.note("list %+v", page)
	return []bucket.View{aView}, err
}

func (f *fake) View(_ context.Context, ref bucket.BudgetRef) (bucket.View, error) {
	switch ref.Name {
	case "coupons":
		return aDailyView, f.note("view %+v", ref)
	case "capped":
		return aCappedView, f.note("view %+v", ref)
	case "coupons-over": // its last period has ended
		v := aDailyView
		v.Period = budget.Period{Number: 4, Over: true}
		v.Definition.Timezone, v.Definition.LateRefund = "Asia/Shanghai", budget.Forfeit
		v.Definition.Rule = &budget.Rule{Kind: budget.Free}
		return v, f.note("view %+v", ref)
	}
	return aView, f.note("view %+v", ref)
}

func (f *fake) Delete(_ context.Context, ref bucket.BudgetRef) (bucket.View, error) {
	return aView, f.note("delete %+v", ref)
}

func (f *fake) Close(_ context.Context, ref bucket.BudgetRef) (bucket.View, error) {
	return aView, f.note("close %+v", ref)
}

func (f *fake) Change(_ context.Context, ref bucket.BudgetRef, c bucket.Change) (bucket.View, error) {
	text := fmt.Sprintf("change %+v if %d", ref, c.IfVersion)
	if c.Paused != nil {
		text += fmt.Sprintf(" paused=%t", *c.Paused)
	}
	if c.EndAt != nil {
		text += " end=" + c.EndAt.Format(time.RFC3339Nano)
	}
	if c.ShardingQuantity != nil {
		text += fmt.Sprintf(" sharding=%d", *c.ShardingQuantity)
	}
	if c.AdjustCnt != nil {
		text += fmt.Sprintf(" adjust=%d", *c.AdjustCnt)
	}
	if c.Rule != nil {
		text += fmt.Sprintf(" rule=%+v", *c.Rule)
	}
	if c.Limits != nil {
		text += fmt.Sprintf(" limits=%+v", *c.Limits)
	}
	if c.LateRefund != nil {
		text += fmt.Sprintf(" late refund=%s", *c.LateRefund)
	}
	return aView, f.note("%s", text)
}

func (f *fake) Adjust(_ context.Context, r bucket.AdjustRequest) (bucket.View, error) {
	return aView, f.note("adjust %+v", r)
}

func (f *fake) DeductAll(ctx context.Context, requests []bucket.DeductRequest) []bucket.DeductResult {
	results := make([]bucket.DeductResult, len(requests))
	for i := range requests {
		func() {
			defer func() {
				if why := recover(); why != nil {
					results[i].Err = &budget.Error{Code: budget.Internal, Op: "deduct", Err: fmt.Errorf("panic: %v", why)}
				}
			}()
			results[i].Answer, results[i].Err = f.Deduct(ctx, requests[i])
		}()
	}
	return results
}

func (f *fake) Deduct(ctx context.Context, r bucket.DeductRequest) (bucket.DeductAnswer, error) {
	if f.before != nil {
		f.before(ctx, r.RequestID)
	}
	answer := bucket.DeductAnswer{RequestID: r.RequestID, Amount: r.Amount, State: ledger.StateUsed, Bucket: "sale:bucket-0",
		BucketRemaining: 495, BudgetRemaining: 595, Receipt: "r.1"}
	if r.HoldTTL > 0 {
		answer.State, answer.HoldUntil = ledger.StateHeld, at.Add(r.HoldTTL)
		answer.Replayed = r.RequestID == "again"
	}
	if r.Budget.Name == "coupons" {
		answer.PeriodRemaining = new(int64) // 0 is a figure
		if r.Amount > 200 {
			left := int64(200)
			refusal := budget.Refuse(budget.PeriodExhausted, "deduct", "this period has 200 left")
			refusal.Available, refusal.RetryAfter = &left, 2*time.Hour+time.Millisecond/2
			return answer, errors.Join(f.note("deduct %+v", r), refusal)
		}
	}
	if r.Budget.Name == "capped" {
		answer.Unlimited, answer.Limits = true, someStates
		if r.Amount > 5 {
			return answer, errors.Join(f.note("deduct %+v", r), aLimitReached())
		}
	}
	return answer, f.note("deduct %+v", r)
}

// someHolds are those of a group.
var someHolds = []bucket.DeductionView{
	{RequestID: "o1", State: ledger.StateUsed, Amount: 5, Confirmed: 8, Extra: 3, Uncollected: 2,
		Above: ledger.AboveAvailable, HoldUntil: at, Group: "order-17", Bucket: "sale:bucket-0", CountedAt: at, Receipt: "r.1"},
	{RequestID: "o2", State: ledger.StateUsed, Amount: 7, Confirmed: 3, RolledBack: 4, HoldUntil: at.Add(time.Minute),
		Group: "order-17", Bucket: "sale:bucket-1", CountedAt: at, Receipt: "r.2", Replayed: true}}

func holdsOf(group string) []bucket.DeductionView {
	if group == "" {
		return someHolds[:1]
	}
	return someHolds
}

func (f *fake) Confirm(_ context.Context, r bucket.ConfirmRequest) ([]bucket.DeductionView, error) {
	return holdsOf(r.Group), f.note("confirm %+v", r)
}

func (f *fake) Extend(_ context.Context, r bucket.ExtendRequest) ([]bucket.DeductionView, error) {
	views := slices.Clone(holdsOf(r.Group))
	for i := range views {
		views[i].State, views[i].HoldUntil, views[i].Confirmed = ledger.StateHeld, at.Add(r.HoldTTL), 0
	}
	return views, f.note("extend %+v", r)
}

func (f *fake) Renew(_ context.Context, r bucket.RenewRequest) (bucket.Renewal, error) {
	return bucket.Renewal{RequestID: r.RequestID, Step: r.Step, UsedTotal: 40 + r.Used, Held: r.Hold - 1, IsFinal: true,
		Uncollected: 2, OverLimit: true, State: ledger.StateHeld, HoldUntil: at.Add(r.HoldTTL)}, f.note("renew %+v", r)
}

func (f *fake) HoldsOf(_ context.Context, ref bucket.BudgetRef, limit int) ([]bucket.OpenHold, error) {
	return []bucket.OpenHold{{RequestID: "o1", Amount: 5, BucketKey: "sale:bucket-0", At: at, Until: at.Add(3 * time.Second)}}, f.note("holds %+v %d", ref, limit)
}

func (f *fake) RollbackGroup(_ context.Context, r bucket.RollbackRequest) ([]bucket.DeductionView, error) {
	return holdsOf(r.Group), f.note("rollback group %+v", r)
}

// aCappedView is a budget of nothing but limits.
var aCappedView = bucket.View{
	Definition: budget.Definition{ID: 9, Tenant: "default", Name: "capped", Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, Unlimited: true, BucketQuantity: 2,
		RoutingDimension: "user", Version: 3, CreatedAt: at, UpdatedAt: at,
		Limits: &budget.Limits{Version: 2, List: []budget.Limit{
			{Name: "per-user", Dimension: "user", Max: 5, Measure: budget.MeasureCount, Enforce: true,
				Window:        budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Day, Timezone: "Europe/Berlin"},
				OverrideCount: 3},
			{Name: "per-ad", Dimension: "user+ad", Optional: true, Max: 100, Measure: budget.MeasureAmount,
				Window:        budget.LimitWindow{Kind: budget.WindowSliding, Length: 48 * time.Hour, Slot: 10 * time.Minute},
				OverrideCount: 1}}}},
	Status:  budget.Effective,
	Serving: bucket.ServesFully,
	Figures: ledger.Figures{Used: 3, Online: 2},
}

var someStates = []budget.LimitState{
	{Limit: "per-user", Dimension: "user", Value: "u1", Used: 3, Max: 5, ResetAt: at},
	{Limit: "per-ad", Dimension: "user+ad", Value: "u1+a1", Used: 9, Exempt: true},
}

func aLimitReached() error {
	refusal := budget.Refuse(budget.LimitExceeded, "deduct", "limit per-user: 5 of 5 are used")
	refusal.Limit = &budget.LimitState{Limit: "per-user", Dimension: "user", Value: "u1", Used: 5, Max: 5, ResetAt: at}
	refusal.RetryAfter = 90*time.Minute + 300*time.Millisecond
	return refusal
}

func (f *fake) DryRun(_ context.Context, r bucket.DeductRequest) (bucket.CheckAnswer, error) {
	err := f.note("dry run %+v", r)
	if r.RequestID == "known" {
		return bucket.CheckAnswer{Recorded: &bucket.DeductAnswer{RequestID: "known", Amount: 2, State: ledger.StateUsed,
			Bucket: "sale:bucket-0", Receipt: "r.1", Replayed: true}}, err
	}
	return f.Check(context.Background(), []bucket.CheckRequest{{Budget: r.Budget, Amount: r.Amount}})[0], err
}

func (f *fake) Check(_ context.Context, requests []bucket.CheckRequest) []bucket.CheckAnswer {
	answers := make([]bucket.CheckAnswer, len(requests))
	for i, r := range requests {
		_ = f.note("check %+v", r)
		answers[i] = bucket.CheckAnswer{Amount: r.Amount, BudgetRemaining: 595, Limits: someStates,
			Unlimited: r.Budget.Name == "capped"}
		if r.Amount > 5 {
			answers[i].Err = aLimitReached()
		}
	}
	return answers
}

func (f *fake) Usage(_ context.Context, r bucket.UsageRequest) (bucket.Usage, error) {
	return bucket.Usage{Calls: 4, Amount: 9, RolledBack: 2}, f.note("usage %+v", r)
}

func (f *fake) Override(_ context.Context, r bucket.OverrideRequest) (bucket.Overrides, error) {
	return bucket.Overrides{List: r.Set, Count: 3}, f.note("override %+v", r)
}

func (f *fake) Overrides(_ context.Context, r bucket.OverridesRequest) (bucket.Overrides, error) {
	return bucket.Overrides{List: []budget.Override{{Value: "staff", Exempt: true}, {Values: []string{"vip", "a+b"}, Max: 7}}[:min(2, r.Most)],
		Count: 2, Last: "k"}, f.note("overrides %+v", r)
}

func (f *fake) Nearest(_ context.Context, r bucket.NearestRequest) (bucket.Nearest, error) {
	return bucket.Nearest{Values: someStates[:1], Read: 7, Complete: true}, f.note("nearest %+v", r)
}

func (f *fake) Rollback(_ context.Context, r bucket.RollbackRequest) (bucket.DeductionView, error) {
	return aDeduction, f.note("rollback %+v", r)
}

func (f *fake) Cancel(_ context.Context, r bucket.RollbackRequest) (bucket.DeductionView, error) {
	return bucket.DeductionView{RequestID: r.RequestID, State: ledger.StateVoid}, f.note("cancel %+v %q", r.Budget, r.RequestID)
}

func (f *fake) Deduction(_ context.Context, r bucket.RollbackRequest) (bucket.DeductionView, error) {
	view := aDeduction
	if r.RequestID == "held" {
		view.State, view.HoldUntil = ledger.StateHeld, at.Add(2*time.Second)
	}
	return view, f.note("deduction %+v %q", r.Budget, r.RequestID)
}
