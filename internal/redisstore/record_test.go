package redisstore

import (
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
)

// FuzzRecord checks that a record from a store is either unreadable or has no negative figure.
func FuzzRecord(f *testing.F) {
	d := bucket.StoreDeduction{Amount: 5, Epoch: 3, Terms: &bucket.Terms{LimitsVersion: 2}, Value: "u", Counts: []int64{7}}
	written := appendRecord(nil, 4, &d, []uint32{9})
	f.Add(string(written.number(1_700_000_000_000)))
	f.Add(string(written.number(1).number(2).array(2).text("back").number(2)))
	f.Add(string(written))
	f.Add("\xd3" + strings.Repeat("\xff", 8) + string(written.number(1))[1:])
	f.Add("\xd3\xff\xff\xff\xff\xff\xff\xff\xff")
	f.Add("\xdb\xff\xff\xff\xff")
	f.Add("\x01\x02\x03\xdc\xff\xff")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := readRecord(text)
		low := min(r.Amount, r.Epoch, r.Incarnation, r.AtMS, r.RolledBack)
		for _, back := range r.Rollbacks {
			low = min(low, back.Amount)
		}
		if low < 0 || err != nil && r.Fingerprint != "" {
			t.Errorf("%x: %+v, %v", text, r, err)
		}
	})
}
