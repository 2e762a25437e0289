package api

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bucket is one shard of a budget. Quantities are minor units.
type Bucket struct {
	// Key names the bucket within its budget.
	Key     string `json:"key"`
	Ordinal int    `json:"ordinal"`
	// Status is "online" or "offline".
	Status string `json:"status"`
	// OfflineBy is "operator" or "service" while offline.
	OfflineBy string `json:"offline_by,omitzero"`
	Home      Home   `json:"home"`
	Epoch     int64  `json:"epoch"`
	// EpochStatus is opening, open, closing, closed or lost.
	EpochStatus string `json:"epoch_status,omitzero"`
	// Incarnation is the partition's incarnation under which the epoch was opened.
	Incarnation int64 `json:"incarnation,omitzero"`
	// Remaining is what the bucket holds according to the ledger.
	Remaining int64 `json:"remaining"`
	// OutQuantity is all that it ever got. OutCnt is how often it applied for units that no bucket had
	// (adjust_cnt bounds it), CollectCnt how often it got units of other buckets; both since its last
	// recycle or the beginning of its period.
	OutQuantity int64 `json:"out_quantity"`
	OutCnt      int   `json:"out_cnt"`
	CollectCnt  int   `json:"collect_cnt"`
	// Outstanding, Held, Used and Returning are the newest epoch's in the database.
	Outstanding int64 `json:"outstanding"`
	Held        int64 `json:"held"`
	Used        int64 `json:"used"`
	Returning   int64 `json:"returning"`
	// Halted says why nothing may move on this bucket until Resume; "" means that it may.
	Halted string `json:"halted,omitzero"`
	// Problem says why its store does not answer the server; "" if it does.
	Problem   string    `json:"problem,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// BucketList is the buckets of one budget, in order of creation.
type BucketList struct {
	Buckets []Bucket `json:"buckets"`
}

// Home is where the balance of a bucket is: SQL in ledger mode, a partition of a store in store
// mode. The zero Home is SQL.
type Home struct {
	// Instance names the store; "" means SQL.
	Instance string `json:"instance"`
	// Partition is the number of the partition within the instance, from 0.
	Partition int `json:"partition"`
}

// inSQL is the JSON form of the zero Home.
const inSQL = "sql"

// plainHome is a Home without its methods, which would otherwise call themselves.
type plainHome Home

// String returns "sql", or the instance and the partition, such as "redis-a/0".
func (h Home) String() string {
	if h.Instance == "" {
		return inSQL
	}
	return fmt.Sprintf("%s/%d", h.Instance, h.Partition)
}

// MarshalJSONTo implements json.MarshalerTo.
func (h Home) MarshalJSONTo(out *jsontext.Encoder) error {
	if h.Instance == "" {
		return out.WriteToken(jsontext.String(inSQL))
	}
	return json.MarshalEncode(out, plainHome(h))
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. It returns an error for a text that is not
// "sql", and for an object without an instance.
func (h *Home) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	*h = Home{}
	if in.PeekKind() != '"' {
		if err := json.UnmarshalDecode(in, (*plainHome)(h)); err != nil {
			return err
		}
		if h.Instance == "" {
			return fmt.Errorf("home of a bucket: no instance")
		}
		return nil
	}
	text, err := in.ReadToken()
	if err == nil && text.String() != inSQL {
		err = fmt.Errorf("home of a bucket: %q is neither %s nor a partition", text.String(), inSQL)
	}
	return err
}

// Quarantine is what a bucket in store mode still held according to SQL when its store lost its
// memory. Quantities are in minor units.
type Quarantine struct {
	Bucket   string `json:"bucket"`
	Epoch    int64  `json:"epoch"`
	Quantity int64  `json:"quantity"`
	Released int64  `json:"released"`
	// Held is quantity − released: the units still in quarantine.
	Held int64 `json:"held"`
	// Cause says why it is unknown whether the units were sold.
	Cause string    `json:"cause"`
	At    time.Time `json:"at"`
	// Releases are the decisions by which units left it, the oldest first.
	Releases []Decision `json:"releases"`
}

// Decision is an operator's decision on quarantined units: how many, whether they count as used or
// went back to the total, why, and who decided it.
type Decision struct {
	RequestID string    `json:"request_id"`
	Quantity  int64     `json:"quantity"`
	Used      bool      `json:"used"`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

// QuarantineList lists all quarantines of a budget, including those that are empty by now.
type QuarantineList struct {
	Held        int64        `json:"held"`
	Quarantines []Quarantine `json:"quarantines"`
}

// ReleaseRequest is an operator's decision on quarantined units.
type ReleaseRequest struct {
	// RequestID makes the release take effect once.
	RequestID string `json:"request_id" check:"required id"`
	// Quantity is the number of units; 0 means all that are held.
	Quantity int64 `json:"quantity,omitzero" check:"1..max"`
	// Used counts the units as used, because they were sold. Otherwise they return to the total.
	Used bool `json:"used,omitzero"`
	// Reason and By are stored with the release.
	Reason string `json:"reason" check:"required key"`
	By     string `json:"by,omitzero" check:"id"`
}

// ReleaseAnswer is the result of a release. Quantities are in minor units.
type ReleaseAnswer struct {
	RequestID   string `json:"request_id"`
	Released    int64  `json:"released"`
	Quarantined int64  `json:"quarantined"`
	Replayed    bool   `json:"replayed"`
}

// Recycle is a run that brings the units of a budget's buckets together and hands them out again by
// recent demand. Quantities are in minor units.
type Recycle struct {
	// Run is its number among the budget's runs.
	Run int64 `json:"run"`
	// Cause is "operator", "schedule" or "automatic".
	Cause string `json:"cause"`
	// Skipped of the Buckets could not be recycled.
	Buckets int `json:"buckets"`
	Skipped int `json:"skipped"`
	// Moved is the number of units that came back to the total.
	Moved int64 `json:"moved"`
	// The units of buckets and total at the beginning and the end, and how many of them were in
	// buckets with little demand.
	UnitsBefore    int64 `json:"units_before"`
	StrandedBefore int64 `json:"stranded_before"`
	UnitsAfter     int64 `json:"units_after"`
	StrandedAfter  int64 `json:"stranded_after"`

	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at"`
}

// RecyclePage is a part of a budget's recycles, newest first.
type RecyclePage struct {
	Recycles []Recycle `json:"recycles"`
	// NextPageToken requests the next page; "" on the last page.
	NextPageToken string `json:"next_page_token,omitzero"`
}
