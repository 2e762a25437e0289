package faultstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/redisstore/faultstore"
)

// TestFaults checks what the caller of a deduction sees of each fault, and what the store has done,
// also after what was held back is released.
func TestFaults(t *testing.T) {
	partition := bucket.Partition{Instance: "m"}
	redis, err := redisstore.New(redisstore.Config{Name: "m", Addr: testservers.SharedRedis(t).Addr(),
		Partitions: 1, InstallationID: testservers.UniqueName(), ReadTimeout: 10 * time.Second})
	must(t, err)
	defer func() { must(t, redis.Disconnect()) }()
	network := &faultstore.Network{}
	store := faultstore.Store{Store: redis, Network: network}
	identity, err := store.Identity(t.Context(), partition)
	must(t, err)
	m := bucket.Memory{Partition: partition, Incarnation: 1, Identity: identity}
	must(t, store.Mark(t.Context(), m, 1))
	for i, test := range []struct {
		fault       faultstore.Fault
		code        budget.Code
		verdict     bucket.Verdict
		taken, late int64 // at once, and after Release
	}{
		{faultstore.None, "", bucket.Accepted, 1, 1},
		{faultstore.LoseCall, budget.Unavailable, 0, 0, 0},
		{faultstore.LoseReply, budget.OutcomeUnknown, 0, 1, 1},
		{faultstore.Delay, "", bucket.Accepted, 1, 1},
		{faultstore.HoldBack, budget.OutcomeUnknown, 0, 0, 1},
		{faultstore.Double, "", bucket.Known, 1, 1},
	} {
		t.Run(fmt.Sprint("fault ", test.fault), func(t *testing.T) {
			refs := []bucket.Ref{{Bucket: int64(i + 1), Epoch: 1}}
			_, err := store.Open(t.Context(), m, []bucket.Opening{{Ref: refs[0]}})
			must(t, err)
			_, err = store.Grant(t.Context(), m, []bucket.StoreGrant{{Ref: refs[0], Number: 1, Amount: 5}})
			must(t, err)
			all := []bucket.StoreDeduction{{RecordID: bucket.RecordID{Bucket: refs[0].Bucket, ID: "a"}, Epoch: 1,
				Amount: 1, NotAfterMS: 1 << 52, Terms: &bucket.Terms{}}}
			network.Inject(func(string, bucket.Partition) faultstore.Fault { return test.fault })
			answer, err := store.Deduct(t.Context(), m, all)
			network.Inject(nil)
			all[0].Amount = 5 // the caller uses its list again
			if budget.CodeOf(err) != test.code {
				t.Errorf("%v, want %s", err, test.code)
			}
			if err == nil && answer.Outcomes[0].Verdict != test.verdict {
				t.Errorf("verdict %d, want %d", answer.Outcomes[0].Verdict, test.verdict)
			}
			for n, want := range []int64{test.taken, test.late} {
				entries, err := store.Read(t.Context(), m, refs)
				must(t, err)
				if entries[0].Taken != want {
					t.Errorf("%d taken, want %d", entries[0].Taken, want)
				}
				if held := network.Release(); int64(held) != test.late-test.taken && n == 0 {
					t.Errorf("%d calls were held back", held)
				}
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
