package httpapi

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// budgetView is a budget as answered: definition and live view. Quantities are minor units; members
// that do not apply are left out.
type budgetView struct {
	ID               int64             `json:"id"`
	Tenant           string            `json:"tenant"`
	Name             string            `json:"name"`
	GLCode           string            `json:"gl_code,omitzero"`
	Unit             budget.Unit       `json:"unit"`
	Durability       budget.Durability `json:"durability"`
	Type             budget.Type       `json:"type"`
	BucketQuantity   int               `json:"bucket_quantity"`
	ShardingQuantity int64             `json:"sharding_quantity,omitzero"`
	AdjustCnt        int               `json:"adjust_cnt,omitzero"`
	StartAt          time.Time         `json:"start_at,omitzero"`
	EndAt            time.Time         `json:"end_at,omitzero"`
	CreatedAt        time.Time         `json:"created_at,omitzero"`
	UpdatedAt        time.Time         `json:"updated_at,omitzero"`
	Status           budget.Status     `json:"status"`
	Version          int64             `json:"version"`

	TotalQuantity int64 `json:"total_quantity"`
	OutQuantity   int64 `json:"out_quantity"`
	Undistributed int64 `json:"undistributed"`
	PendingShrink int64 `json:"pending_shrink,omitzero"`
	Remaining     int64 `json:"remaining"`
	Held          int64 `json:"held"`
	Used          int64 `json:"used"`
	InTransit     int64 `json:"in_transit"`
	Quarantined   int64 `json:"quarantined"`
	Forfeited     int64 `json:"forfeited"`

	Buckets bucketCount `json:"buckets"`
	// Limits are part of the contract; there are none in this version.
	Limits []struct{} `json:"limits"`
}

type bucketCount struct {
	Online  int `json:"online"`
	Offline int `json:"offline"`
}

// budgetPage is a part of the list of budgets.
type budgetPage struct {
	Budgets       []budgetView `json:"budgets"`
	NextPageToken string       `json:"next_page_token,omitzero"`
}

// adjusted is what an append or shrink did, and the budget after it.
type adjusted struct {
	RequestID  string                 `json:"request_id"`
	Quantity   int64                  `json:"quantity"`
	State      bucket.AdjustmentState `json:"state"`
	Replayed   bool                   `json:"replayed"`
	budgetView `json:",inline"`
}

func budgetOf(v *bucket.View) budgetView {
	d, f := &v.Definition, &v.Figures
	return budgetView{
		ID: d.ID, Tenant: d.Tenant, Name: d.Name, GLCode: d.GLCode, Unit: d.Unit,
		Durability: d.Durability, Type: d.Type, BucketQuantity: d.BucketQuantity,
		ShardingQuantity: d.ShardingQuantity, AdjustCnt: d.AdjustCnt,
		StartAt: inUTC(d.StartAt), EndAt: inUTC(d.EndAt),
		CreatedAt: inUTC(d.CreatedAt), UpdatedAt: inUTC(d.UpdatedAt),
		Status: v.Status, Version: d.Version,
		TotalQuantity: f.Total, OutQuantity: f.OutQuantity(), Undistributed: f.Undistributed,
		PendingShrink: f.PendingShrink, Remaining: f.Remaining, Held: f.Held, Used: f.Used,
		InTransit: f.InTransit(), Quarantined: f.Quarantined, Forfeited: f.Forfeited,
		Buckets: bucketCount{Online: f.Online, Offline: f.Offline}, Limits: []struct{}{},
	}
}

// inUTC keeps the zero time zero, so that it is left out.
func inUTC(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
