package wire

import (
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/limit"
)

// Definition is the body of a create.
type Definition struct{ budget.Definition }

func (d *Definition) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "name":
		r.Text(name, &d.Name, nil)
	case "tenant":
		r.Text(name, &d.Tenant, nil)
	case "gl_code":
		r.Text(name, &d.GLCode, nil)
	case "unit":
		r.Text(name, (*string)(&d.Unit), nil)
	case "durability":
		r.Text(name, (*string)(&d.Durability), nil)
	case "type":
		r.Text(name, (*string)(&d.Type), nil)
	case "total_quantity":
		r.Amount(name, &d.TotalQuantity)
	case "bucket_quantity":
		r.Int(name, &d.BucketQuantity, 1, budget.MaxBuckets)
	case "sharding_quantity":
		r.Integer(name, &d.ShardingQuantity, 0, budget.MaxAmount)
	case "adjust_cnt":
		r.Int(name, &d.AdjustCnt, 0, maxAdjustCnt)
	case "start_at":
		r.Time(name, &d.StartAt)
	case "end_at":
		r.Time(name, &d.EndAt)
	case "allow_past":
		r.Bool(name, &d.AllowPast)
	case "dry_run":
		r.Bool(name, &d.DryRun)
	case "timezone":
		r.Text(name, &d.Timezone, checkZone)
	case "type_rule":
		d.Rule = readRule(r, name)
	case "late_refund":
		r.Text(name, (*string)(&d.LateRefund), notEmpty)
	case "on_loss":
		r.Text(name, (*string)(&d.OnLoss), notEmpty)
	case "limits":
		if list := readLimits(r, name); len(list) > 0 {
			d.Limits = &budget.Limits{List: list}
		}
	case "unlimited":
		r.Bool(name, &d.Unlimited)
	case "routing_dimension":
		r.Text(name, &d.RoutingDimension, budget.CheckKey)
	default:
		return false
	}
	return true
}

// maxAdjustCnt is the largest number of applies that a bucket may be allowed.
const maxAdjustCnt = 1_000_000_000

// Check fills in the defaults and checks the whole. It leaves a missing number of buckets to the
// service.
func (d *Definition) Check(r *strictjson.Reader) {
	r.Require("name", "unit")
	switch {
	case !d.Unlimited:
		r.Require("type", "total_quantity")
	case r.Seen("total_quantity"):
		r.Invalid("total_quantity", "does not go together with unlimited: leave it out")
	}
	if d.Unlimited && !r.Seen("type") {
		d.Type = budget.Promo
	}
	if !r.Seen("tenant") && d.Tenant == "" {
		d.Tenant = budget.DefaultTenant
	}
	if !r.Seen("durability") {
		d.Durability = budget.Ledger
	}
	whole := d.Definition
	if !r.Seen("bucket_quantity") {
		whole.BucketQuantity = 1
	}
	if !d.Unlimited && whole.TotalQuantity == 0 && !r.Seen("total_quantity") {
		whole.TotalQuantity = 1
	}
	whole.Rule = judged(r, whole.Rule)
	mergeBelow(r, limit.CheckDefinition(whole))
	mergeBelow(r, allocation.CheckDefinition(whole))
}

// Change is the body of a PATCH.
type Change struct{ bucket.Change }

func (d *Change) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "status":
		d.Paused = new(bool)
		r.Text(name, new(string), func(status string) string {
			*d.Paused = status == string(budget.Paused)
			if !*d.Paused && status != string(budget.Effective) {
				return `must be "paused" or "effective"`
			}
			return ""
		})
	case "name":
		d.Name = new(string)
		r.Text(name, d.Name, budget.CheckName)
	case "gl_code":
		d.GLCode = new(string)
		r.Text(name, d.GLCode, nil)
	case "unit":
		d.Unit = new(budget.Unit)
		r.Text(name, (*string)(d.Unit), nil)
	case "archived":
		d.Archived = new(bool)
		r.Bool(name, d.Archived)
	case "start_at":
		d.StartAt = new(time.Time)
		if !r.Null() {
			r.Time(name, d.StartAt)
		}
	case "end_at":
		d.EndAt = new(time.Time)
		if !r.Null() {
			r.Time(name, d.EndAt)
		}
	case "allow_past":
		r.Bool(name, &d.AllowPast)
	case "sharding_quantity":
		d.ShardingQuantity = new(int64)
		r.Integer(name, d.ShardingQuantity, 0, budget.MaxAmount)
	case "adjust_cnt":
		d.AdjustCnt = new(int)
		r.Int(name, d.AdjustCnt, 0, maxAdjustCnt)
	case "bucket_quantity":
		d.BucketQuantity = new(int)
		r.Int(name, d.BucketQuantity, 1, budget.MaxBuckets)
	case "type_rule":
		d.Rule = readRule(r, name)
	case "timezone":
		d.Timezone = new(string)
		r.Text(name, d.Timezone, checkZone)
	case "late_refund":
		d.LateRefund = new(budget.Where)
		r.Text(name, (*string)(d.LateRefund), checkLateRefund)
	case "limits":
		list := readLimits(r, name)
		d.Limits = &list
	default:
		return false
	}
	return true
}

func (d *Change) Check(r *strictjson.Reader) {
	if d.EndAt != nil {
		r.Merge(budget.CheckSpan(time.Time{}, *d.EndAt))
	}
	if d.Rule != nil {
		r.Merge(allocation.CheckRule(*judged(r, d.Rule)))
	}
	if d.Limits != nil {
		mergeBelow(r, limit.CheckDefinition(budget.Definition{Limits: &budget.Limits{List: *d.Limits}}))
	}
	if len(r.Members) == 0 {
		r.Invalid("", "names nothing to change")
	}
}

// Adjustment is the body of an append.
type Adjustment struct {
	RequestID string
	Quantity  int64
}

func (d *Adjustment) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "request_id":
		r.Text(name, &d.RequestID, budget.CheckRequestID)
	case "quantity":
		r.Integer(name, &d.Quantity, -budget.MaxAmount, budget.MaxAmount)
	default:
		return false
	}
	return true
}

func (d *Adjustment) Check(r *strictjson.Reader) {
	r.Require("request_id", "quantity")
	if d.Quantity == 0 && !r.Has("quantity") {
		r.Invalid("quantity", "must not be 0: positive appends, negative shrinks")
	}
}
