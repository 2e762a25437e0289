package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

func (f *fake) deduct(b *fakeBudget, r *http.Request) (int, any) {
	var request client.DeductRequest
	if err := decode(r, &request); err != nil {
		return refuse(400, budget.Malformed, "%v", err)
	}
	return b.deduct(request)
}

func (b *fakeBudget) deduct(request client.DeductRequest) (int, any) {
	payload := fmt.Sprintf("%d %s %v", request.Amount, request.Key, request.Dimensions)
	if known := b.deductions[request.RequestID]; known != nil {
		switch {
		case known.State == "void":
			return refuse(409, budget.RequestVoid, "the id was cancelled")
		case known.request != payload:
			return refuse(409, budget.RequestConflict, "the id was used for another request")
		}
		return 200, b.accepted(known, true)
	}
	switch {
	case b.Status == budget.Paused:
		return refuse(409, budget.BudgetPaused, "budget %s is paused", b.Name)
	case b.Status == budget.Pending:
		return refuse(409, budget.BudgetNotEffective, "budget %s has not begun", b.Name)
	case b.Status == budget.Expired:
		return refuse(409, budget.BudgetExpired, "budget %s has ended", b.Name)
	case request.Amount > *b.InBuckets && request.Amount <= *b.InBuckets+*b.NotFunded:
		available := *b.InBuckets
		return 409, struct {
			problem    `json:",inline"`
			RetryAfter float64 `json:"retry_after"`
		}{problem{409, budget.PeriodExhausted, "this period has less left", nil, &available}, 5399.5}
	case request.Amount > *b.InBuckets:
		available := *b.InBuckets
		return 409, problem{409, budget.BudgetExhausted, "the budget does not cover the amount", nil, &available}
	}
	*b.InBuckets -= request.Amount
	b.Used += request.Amount
	if b.Period != nil {
		b.Period.Used += request.Amount
	}
	d := &fakeDeduction{Deduction: client.Deduction{RequestID: request.RequestID, State: "used",
		Amount: request.Amount, Bucket: b.Name + ":bucket-0", Reference: request.Reference,
		Dimensions: request.Dimensions, CountedAt: fakeNow, Group: request.Group}, request: payload,
		rollbacks: map[string]int64{}}
	if request.HoldTTL != "" {
		d.State, d.HoldUntil = "held", fakeNow.Add(15*time.Minute)
	}
	b.deductions[request.RequestID] = d
	return 200, b.accepted(d, false)
}

func (b *fakeBudget) accepted(d *fakeDeduction, replayed bool) client.DeductAnswer {
	answer := client.DeductAnswer{RequestID: d.RequestID, Outcome: "accepted", Amount: d.Amount,
		State: d.State, Bucket: d.Bucket, BucketRemaining: new(*b.InBuckets),
		BudgetRemaining: new(*b.InBuckets + *b.NotFunded),
		Receipt:         "r1", Replayed: replayed, HoldUntil: d.HoldUntil}
	if b.Period != nil {
		answer.PeriodRemaining = new(*b.InBuckets)
	}
	return answer
}

func (f *fake) batch(r *http.Request) (int, any) {
	var request struct {
		Deductions []client.BatchItem `json:"deductions"`
	}
	if err := decode(r, &request); err != nil {
		return refuse(400, budget.Malformed, "%v", err)
	}
	results := []any{}
	for _, item := range request.Deductions {
		_, result := refuse(404, budget.BudgetNotFound, "there is no budget %q", item.Budget)
		if b := f.find(r.URL.Query().Get("tenant"), item.Budget); b != nil {
			_, result = b.deduct(item.DeductRequest)
		}
		results = append(results, result)
	}
	return 200, map[string]any{"results": results}
}

func (f *fake) rollback(b *fakeBudget, r *http.Request) (int, any) {
	var request client.RollbackRequest
	if err := decode(r, &request); err != nil {
		return refuse(400, budget.Malformed, "%v", err)
	}
	d := b.deductions[request.RequestID]
	if d == nil {
		return refuse(404, budget.DeductionNotFound, "there is no deduction %q", request.RequestID)
	}
	left := d.Amount - d.RolledBack
	if _, known := d.rollbacks[request.RollbackID]; known {
		answer := d.Deduction
		answer.Replayed = true
		return 200, answer
	}
	if left == 0 {
		return refuse(409, budget.AlreadyRolledBack, "nothing is left to give back")
	}
	if request.Amount > left {
		return 409, problem{409, budget.AmountExceedsRemaining, "less is left", nil, &left}
	}
	if request.Amount == 0 {
		request.Amount = left
	}
	d.rollbacks[request.RollbackID] = request.Amount
	d.RolledBack += request.Amount
	b.Used -= request.Amount
	*b.InBuckets += request.Amount
	if d.RolledBack == d.Amount {
		d.State = "rolled_back"
	}
	return 200, d.Deduction
}

// hold confirms holds, or extends them where the request says for how long.
func (f *fake) hold(b *fakeBudget, r *http.Request) (int, any) {
	var request struct {
		RequestID string `json:"request_id"`
		Group     string `json:"group"`
		Receipt   string `json:"receipt"`
		HoldTTL   string `json:"hold_ttl"`
		Amount    int64  `json:"amount"`
	}
	if err := decode(r, &request); err != nil {
		return refuse(400, budget.Malformed, "%v", err)
	}
	var found []client.Deduction
	for _, id := range slices.Sorted(maps.Keys(b.deductions)) {
		d := b.deductions[id]
		if d.RequestID != request.RequestID && (request.Group == "" || d.Group != request.Group) {
			continue
		}
		if d.State != "held" {
			return refuse(409, budget.NotHeld, "%q is not held", id)
		}
		if request.HoldTTL != "" {
			d.HoldUntil = fakeNow.Add(time.Hour)
		} else {
			d.State, d.Confirmed = "used", cmp.Or(request.Amount, d.Amount)
			d.Extra = max(0, d.Confirmed-d.Amount)
		}
		found = append(found, d.Deduction)
	}
	if request.Group != "" {
		return 200, client.Group{Group: request.Group, Deductions: found}
	}
	return 200, found[0]
}

func (f *fake) cancel(b *fakeBudget, r *http.Request) (int, any) {
	var request client.CancelRequest
	if err := decode(r, &request); err != nil {
		return refuse(400, budget.Malformed, "%v", err)
	}
	d := b.deductions[request.RequestID]
	if d == nil {
		d = &fakeDeduction{Deduction: client.Deduction{RequestID: request.RequestID, State: "void"}}
		b.deductions[request.RequestID] = d
	}
	if d.State == "used" {
		b.Used -= d.Amount - d.RolledBack
		*b.InBuckets += d.Amount - d.RolledBack
		d.RolledBack, d.State = d.Amount, "rolled_back"
	}
	return 200, d.Deduction
}

func (b *fakeBudget) bucket() client.Bucket {
	shard := client.Bucket{Key: b.Name + ":bucket-0", Status: "online", Epoch: 1,
		EpochStatus: "open", Incarnation: 1, Remaining: *b.InBuckets, Outstanding: *b.InBuckets,
		Used: b.Used, OutQuantity: *b.TotalQuantity, OutCnt: 1, UpdatedAt: fakeNow}
	if b.offline {
		shard.Status, shard.OfflineBy, shard.EpochStatus = "offline", "operator", "closed"
		shard.Remaining, shard.Outstanding = 0, 0
	}
	return shard
}

func (b *fakeBudget) bucketVerb(verb string, r *http.Request) (int, any) {
	key := r.PathValue("key")
	switch {
	case key != b.Name+":bucket-0":
		return refuse(404, budget.BucketNotFound, "there is no bucket %q", key)
	case verb == "offline" && b.Status == budget.Effective:
		return refuse(409, budget.LastBucket, "bucket %s is the last one online", key)
	}
	if verb == "offline" || verb == "online" {
		b.offline = verb == "offline"
	}
	return 200, b.bucket()
}

func (b *fakeBudget) audit() client.AuditReport {
	report := client.AuditReport{OK: !b.broken, Total: b.TotalQuantity, InBuckets: b.InBuckets,
		Undistributed: b.Undistributed, NotFunded: b.NotFunded,
		Used: b.Used, Discrepancies: []client.Discrepancy{}}
	if b.broken {
		report.Discrepancies = append(report.Discrepancies, client.Discrepancy{
			Bucket: b.Name + ":bucket-0", Epoch: 1, What: "outstanding", Recorded: *b.InBuckets, Counted: 12345})
		report.Unchecked = []string{b.Name + ":bucket-1"}
	}
	return report
}
