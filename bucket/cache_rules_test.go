package bucket

import (
	"context"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// still is a clock that stands.
type still struct{ at time.Time }

func (c still) Now() time.Time                           { return c.at }
func (still) Sleep(context.Context, time.Duration) error { return nil }

// TestMayWait: a budget that is used is compared with SQL each time, an idle one only in store mode, so that it stays
// known well within the window.
func TestMayWait(t *testing.T) {
	const window = 4 * time.Second
	for _, c := range []struct {
		name         string
		durability   budget.Durability
		used, looked time.Duration // ago
		want         bool
	}{
		{"just used", budget.Ledger, time.Second, 300 * time.Millisecond, false},
		{"used, in store mode", budget.Store, 59 * time.Second, 0, false},
		{"used after the clock stepped back", budget.Ledger, -time.Hour, 0, false},
		{"idle", budget.Ledger, time.Minute, time.Hour, true},
		{"idle in store mode, just compared", budget.Store, time.Minute, 999 * time.Millisecond, true},
		{"idle in store mode", budget.Store, time.Minute, time.Second, false},
		{"idle in store mode, compared after the clock stepped back", budget.Store, time.Hour, -time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := time.Unix(1_700_000_000, 0)
			const now = 24 * time.Hour
			s := &Service{clock: still{base.Add(now)}, base: base, set: Settings{WindowTime: window}}
			known, err := newCache(s, 10)
			if err != nil {
				t.Fatal(err)
			}
			entry := known.put(&Budget{Definition: budget.Definition{ID: 7, Durability: c.durability}}, now)
			entry.usedAt.Store(int64(now - c.used))
			entry.checkedAt.Store(int64(now - c.looked))
			if got := known.mayWait(7); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
			known.use(7)
			if known.mayWait(7) {
				t.Error("it may wait while it is used")
			}
			if !known.mayWait(8) {
				t.Error("one that is not known is compared")
			}
		})
	}
}
