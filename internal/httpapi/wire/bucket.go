package wire

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// BucketView is the JSON form of a bucket. Quantities are in minor units. Outstanding, held, used
// and returning are the columns of its newest epoch.
type BucketView struct {
	Key     string `json:"key"`
	Ordinal int    `json:"ordinal"`
	Status  string `json:"status"`
	// OfflineBy is "operator" or "service".
	OfflineBy   bucket.OfflineBy `json:"offline_by,omitzero"`
	Home        Home             `json:"home"`
	Epoch       int64            `json:"epoch"`
	EpochStatus ledger.Status    `json:"epoch_status,omitzero"`
	Incarnation int64            `json:"incarnation,omitzero"`
	Remaining   int64            `json:"remaining"`
	OutQuantity int64            `json:"out_quantity"`
	OutCnt      int              `json:"out_cnt"`
	CollectCnt  int              `json:"collect_cnt"`
	Outstanding int64            `json:"outstanding"`
	Held        int64            `json:"held"`
	Used        int64            `json:"used"`
	Returning   int64            `json:"returning"`
	// Halted says why the bucket is halted.
	Halted string `json:"halted,omitzero"`
	// Problem says why its store does not answer this node.
	Problem   string    `json:"problem,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// Home is where the balance of a bucket is. Its JSON form is "sql" if it is zero, and otherwise an
// object that names a partition.
type Home struct {
	Instance  string `json:"instance"`
	Partition int    `json:"partition"`
}

// HomeOf returns the home of a bucket of a budget with that durability. Only store mode keeps
// balances in partitions.
func HomeOf(d budget.Durability, p bucket.Partition) Home {
	if d != budget.Store {
		return Home{}
	}
	return Home{p.Instance, p.Index}
}

// MarshalJSONTo implements json.MarshalerTo.
func (h Home) MarshalJSONTo(out *jsontext.Encoder) error {
	if h.Instance == "" {
		return out.WriteToken(jsontext.String("sql"))
	}
	type plain Home // without this method
	return json.MarshalEncode(out, plain(h))
}

// BucketList is the answer of GET /v1/budgets/NAME/buckets.
type BucketList struct {
	Buckets []BucketView `json:"buckets"`
}

// BucketOf returns the body that shows b.
func BucketOf(b *bucket.BucketView) BucketView {
	e := &b.Epoch
	status := "offline"
	if b.Online {
		status = "online"
	}
	return BucketView{
		Key: b.Key, Ordinal: b.Ordinal, Status: status, OfflineBy: b.OfflineBy,
		Home:  HomeOf(b.Durability, b.Partition),
		Epoch: e.Number, EpochStatus: e.Status, Incarnation: e.Incarnation,
		Remaining: b.Remaining, OutQuantity: b.OutQuantity, OutCnt: b.OutCnt,
		CollectCnt:  b.CollectCnt,
		Outstanding: e.Outstanding, Held: e.Held, Used: e.Used, Returning: e.Returning,
		Halted: e.Halted, Problem: b.Problem, UpdatedAt: InUTC(b.UpdatedAt),
	}
}
