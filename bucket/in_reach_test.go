package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestAfterTheLastWindow: between the last window and the end of the budget nothing can be deducted any more: that is
// said at once and for good, and an id that was accepted has its answer still (I3, I4).
func TestAfterTheLastWindow(t *testing.T) {
	inEveryWorld(t, afterTheLastWindow)
	t.Run("memory in store mode", func(t *testing.T) { afterTheLastWindow(t, newStoreWorld(t).world) })
}

func afterTheLastWindow(t *testing.T, w *world) {
	s := w.node(quick)
	now := time.Now().UTC()
	const noon = 12 // it is always that hour in this zone
	zone := fmt.Sprintf("Etc/GMT%+d", now.Hour()-noon)
	ref := w.create(s, budget.Definition{Tenant: budget.DefaultTenant, Name: "windows", Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Daily, TotalQuantity: 900, BucketQuantity: 3, Timezone: zone,
		StartAt: now.Add(-6 * time.Hour), EndAt: now.Add(6 * time.Hour),
		Rule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day}})
	if _, err := deduct(s, ref, "a", 7); err != nil {
		t.Fatal(err)
	}
	rule := budget.Rule{Kind: budget.Windows, Windows: []budget.Window{{From: "09:00", To: "11:00", Quantity: 500}}}
	if _, err := s.Change(context.Background(), ref, bucket.Change{Rule: &rule}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the last period is over", func() error {
		v, err := s.View(context.Background(), ref)
		if err == nil && !v.Period.Over {
			err = fmt.Errorf("period %+v", v.Period)
		}
		return err
	})
	for _, s := range []*bucket.Service{s, w.node(quick)} {
		began := time.Now()
		_, err := deduct(s, ref, "b", 1)
		var e *budget.Error
		if !errors.As(err, &e) || e.Code != budget.BudgetExhausted || e.Available == nil || *e.Available != 0 || e.RetryAfter != 0 {
			t.Errorf("after the last window: %v", err)
		}
		if took := time.Since(began); took > quick.Deadline/2 {
			t.Errorf("it took %s to say so", took)
		}
		if a, err := deduct(s, ref, "a", 7); err != nil || !a.Replayed {
			t.Errorf("accepted before: replayed %v, %v", a.Replayed, err)
		}
	}
	w.settled(s, ref, 7)
}

// TestOlderUnitsOutOfReach: what a fenced bucket holds of an earlier period is not missing in the open one: its units are
// collected as if it was not there (I3). An audit that finds its books in order may end it meanwhile.
func TestOlderUnitsOutOfReach(t *testing.T) { inEveryWorld(t, olderUnitsOutOfReach) }

func olderUnitsOutOfReach(t *testing.T, w *world) {
	s, ctx := w.node(quick), context.Background()
	ref := w.create(s, budget.Definition{Tenant: budget.DefaultTenant, Name: "days", Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Daily, TotalQuantity: 9_000, BucketQuantity: 3, EndAt: time.Now().AddDate(1, 0, 0),
		Rule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 900}})
	b, err := w.sql.Budget(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	fenced := b.Buckets[0].Ref()
	if err := w.sql.Fence(ctx, fenced, "a test"); err != nil {
		t.Fatal(err)
	}
	rule := budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 100}
	if _, err := s.Change(ctx, ref, bucket.Change{Rule: &rule}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next period has its units", func() error {
		b, err := w.sql.Budget(ctx, ref)
		if err == nil && (b.Period.Number != 2 || b.Buckets[1].Epoch.Outstanding+b.Buckets[2].Epoch.Outstanding != 100) {
			err = fmt.Errorf("period %+v, %+v", b.Period, b.Buckets)
		}
		return err
	})
	if _, err := deduct(s, ref, "most", 90); err != nil {
		t.Errorf("most of the period: %v", err)
	}
	if _, err := deduct(s, ref, "more", 11); !budget.Is(err, budget.PeriodExhausted) {
		t.Errorf("more than is left: %v", err)
	}
}

// TestAllTakenOffline: a budget whose buckets an operator took offline while it was paused is not sold out when it goes on:
// its units are there as soon as one is brought online (I3).
func TestAllTakenOffline(t *testing.T) { inEveryWorld(t, allTakenOffline) }

func allTakenOffline(t *testing.T, w *world) {
	s, ctx := w.node(quick), context.Background()
	ref := w.create(s, promo("offline", 90, 2))
	pause := func(paused bool) {
		t.Helper()
		if _, err := s.Change(ctx, ref, bucket.Change{Paused: &paused}); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	for _, key := range []string{"offline:bucket-0", "offline:bucket-1"} {
		if _, err := s.Offline(ctx, ref, key); err != nil {
			t.Fatal(err)
		}
	}
	pause(false)
	if _, err := deduct(s, ref, "none", 1); !budget.Is(err, budget.Unavailable) {
		t.Errorf("with all offline: %v", err)
	}
	if _, err := s.Online(ctx, ref, "offline:bucket-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := deduct(s, ref, "all", 90); err != nil {
		t.Errorf("with one online again: %v", err)
	}
	w.settled(s, ref, 90)
}
