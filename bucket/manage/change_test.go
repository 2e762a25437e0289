package manage_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// judgedBy checks the definition version of all live epochs of a budget.
func (w *world) judgedBy(id, version int64) {
	w.Helper()
	for _, one := range w.read(id).Buckets {
		if one.Epoch.Status.Live() {
			equal(w, "definition version of "+one.Key, one.Epoch.DefinitionVersion, version)
		}
	}
}

func TestChangeHoldsForLaterCommits(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 100, 3))
		w.later(time.Second)
		paused, sharding, applies, end := true, int64(7), 3, w.db.Now().Add(time.Hour)
		changed := w.change(b.ID, bucket.Change{Paused: &paused, ShardingQuantity: &sharding,
			AdjustCnt: &applies, EndAt: &end})
		after := w.read(b.ID)
		equal(w, "answer", changed.Budget, after)
		seen, err := w.part.View(w.ctx, bucket.BudgetRef{ID: b.ID})
		w.ok(err)
		equal(w, "view", changed.View, seen)
		want := b.Definition
		want.Paused, want.ShardingQuantity, want.AdjustCnt, want.EndAt = true, 7, 3, end
		want.Version, want.UpdatedAt = 2, after.UpdatedAt
		equal(w, "definition", after.Definition, want)
		equal(w, "due", changed.IsDue, false)
		w.judgedBy(b.ID, 2)
		for _, one := range after.Buckets {
			equal(w, "end of the epoch", one.Epoch.EndAt, end)
		}
		if after.ListVersion == b.ListVersion {
			t.Error("an end that moved did not change the list's version")
		}
		limits := []budget.Limit{{Name: "per-user", Dimension: "user", Max: 5, Enforce: true,
			Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}
		w.change(b.ID, bucket.Change{Limits: &limits})
		w.judgedBy(b.ID, 3)
		got := w.read(b.ID).Limits
		equal(w, "limits", got.List[0].Max, 5)
		equal(w, "changed in", got.List[0].ChangedVersion, got.Version)
		limits[0].Max = 9
		w.change(b.ID, bucket.Change{Limits: &limits})
		w.judgedBy(b.ID, 4)
		equal(w, "what counts the same goes on", w.read(b.ID).Limits.List[0].ChangedVersion, got.Version)
		none := []budget.Limit{}
		w.change(b.ID, bucket.Change{Limits: &none})
		last := w.read(b.ID)
		equal(w, "none", last.HasLimits(), false)
	})
}

func TestChangeIsRefused(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 100, 3))
		w.unchanged(b.ID, "refused changes", func() {
			paused, early, many := true, time.Time{}.Add(time.Hour), budget.MaxBuckets+1
			_, err := w.part.Change(w.ctx, b.ID, bucket.Change{IfVersion: 2, Paused: &paused})
			w.refused(err, budget.VersionConflict)
			_, err = w.part.Change(w.ctx, b.ID, bucket.Change{EndAt: &early})
			w.refused(err, budget.Invalid)
			_, err = w.part.Change(w.ctx, b.ID, bucket.Change{BucketQuantity: &many})
			w.refused(err, budget.Invalid)
			_, err = w.part.Change(w.ctx, b.ID+1, bucket.Change{Paused: &paused})
			w.refused(err, budget.BudgetNotFound)
		})
		paused := true
		_, err := w.part.Change(w.ctx, b.ID, bucket.Change{IfVersion: 1, Paused: &paused})
		w.ok(err)
		_, err = w.part.Budget(w.ctx, bucket.BudgetRef{ID: b.ID, Tenant: "games"})
		w.refused(err, budget.BudgetNotFound)
	})
}

func TestChangeOfARule(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(daily("days", 100, 10, budget.Spread))
		w.use(b.Buckets[0], 4)
		rule := *b.Rule
		rule.Quantity = 30
		changed := w.change(b.ID, bucket.Change{Rule: &rule})
		equal(w, "due", changed.IsDue, false) // the day goes on and gets more
		w.has(b.ID, ledger.Figures{Total: 100, Unfunded: 70, InBuckets: 26,
			Used: 4, Online: 2})
		rule.Quantity = 5
		changed = w.change(b.ID, bucket.Change{Rule: &rule})
		equal(w, "due", changed.IsDue, true) // the day ends now, and another one counts what it used
		w.judgedBy(b.ID, 3)
		if end := w.read(b.ID).Buckets[0].Epoch.EndAt; end.After(w.db.Now()) {
			t.Errorf("the epochs end at %v", end)
		}
	})
}

// TestChangeOfAnEndThatHasPassed checks that units given back after the end are no longer late once
// the end is postponed.
func TestChangeOfAnEndThatHasPassed(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := promo("b", 100, 1)
		d.EndAt = w.db.Now().Add(time.Minute)
		b := w.create(d)
		w.use(b.Buckets[0], 9)
		w.later(time.Hour)
		w.back(b.Buckets[0], 5)
		w.exec(`UPDATE bucket_epoch SET late_quantity = 5 WHERE bucket_id = ?`, b.Buckets[0].ID)
		later := w.db.Now().Add(time.Hour)
		w.change(b.ID, bucket.Change{EndAt: &later})
		equal(w, "late", w.read(b.ID).Buckets[0].Epoch.Late, 0)
		never := time.Time{}
		w.change(b.ID, bucket.Change{EndAt: &never})
		equal(w, "end", w.read(b.ID).Buckets[0].Epoch.EndAt, never)
	})
}

// TestChangesRace checks that one of several concurrent changes of the same version succeeds and
// the others return version_conflict.
func TestChangesRace(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 100, 3))
		done := make(chan error, 6)
		for i := range cap(done) {
			go func() {
				n := i + 1
				_, err := w.part.Change(w.ctx, b.ID, bucket.Change{IfVersion: 1, AdjustCnt: &n})
				done <- err
			}()
		}
		accepted := 0
		for range cap(done) {
			if err := <-done; err == nil {
				accepted++
			} else {
				w.refused(err, budget.VersionConflict)
			}
		}
		equal(w, "accepted", accepted, 1)
		w.judgedBy(b.ID, 2)
	})
}

func (w *world) resize(id int64, n int) bucket.Budget {
	w.Helper()
	w.change(id, bucket.Change{BucketQuantity: &n})
	b := w.read(id)
	equal(w, "bucket_quantity", b.BucketQuantity, n)
	equal(w, "ring", len(b.Ring()), n)
	w.judgedBy(id, b.Version)
	return b
}

func TestResizeToMore(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 90, 2))
		n := 4
		w.change(b.ID, bucket.Change{BucketQuantity: &n})
		after := w.read(b.ID)
		for _, one := range after.Buckets {
			equal(w, "home", one.Partition, bucket.Partition{})
			equal(w, "online", one.Online, true)
			equal(w, "status", one.Epoch.Status, ledger.Open)
		}
		w.has(b.ID, ledger.Figures{Total: 90, InBuckets: 90, Online: 4})
		w.adjusts(b.ID, "more", 8)
		equal(w, "new bucket", w.read(b.ID).Buckets[3].Epoch.Outstanding, 2)
	})
}

func TestResizeToFewerAndBack(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 90, 3))
		w.use(b.Buckets[2], 4)
		w.hold(b.Buckets[1], 3)
		after := w.resize(b.ID, 1)
		equal(w, "rows", len(after.Buckets), 3)
		w.has(b.ID, ledger.Figures{Total: 90, InBuckets: 83, Held: 3, Used: 4,
			Online: 1})
		retired := after.Buckets[2]
		equal(w, "by", retired.OfflineBy, bucket.ByResize)
		equal(w, "status", retired.Epoch.Status, ledger.Closed)
		again := w.resize(b.ID, 3)
		equal(w, "rows", len(again.Buckets), 3)
		back := again.Buckets[2]
		equal(w, "online", back.Online, true)
		equal(w, "epoch", back.Epoch.Number, 2)
		equal(w, "status", back.Epoch.Status, ledger.Open)
		w.resize(b.ID, 5)
	})
}

// TestResizeKeepsOneOnline checks that a resize brings a bucket online if it retires the only one
// that was online.
func TestResizeKeepsOneOnline(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 90, 3))
		for _, one := range b.Buckets[:2] {
			w.exec(`UPDATE bucket_epoch SET status = 'closed', closed_quantity = outstanding_quantity,
				outstanding_quantity = 0 WHERE bucket_id = ?`, one.ID)
			w.exec(`UPDATE sharding_budget_management_bucket SET status = 'offline',
				offline_by = 'operator' WHERE id = ?`, one.ID)
			w.exec(`UPDATE budget_management_bucket SET undistributed_quantity =
				undistributed_quantity + 30, out_quantity = out_quantity - 30 WHERE id = ?`, b.ID)
		}
		w.conserved(b.ID)
		after := w.resize(b.ID, 2)
		w.has(b.ID, ledger.Figures{Total: 90, InBuckets: 90, Online: 1,
			Offline: 1})
		equal(w, "outstanding", after.Buckets[0].Epoch.Outstanding, 90)
	})
}

func TestResizeInStoreModeIsRefused(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		w.partition("store-0")
		d := promo("b", 10, 1)
		d.Durability = budget.Store
		b := w.create(d)
		w.unchanged(b.ID, "another number of buckets", func() {
			n := 2
			_, err := w.part.Change(w.ctx, b.ID, bucket.Change{BucketQuantity: &n})
			w.refused(err, budget.LedgerModeOnly)
		})
	})
}

// TestChangeInStoreMode checks that a change in store mode sends units out as pending grants.
func TestChangeInStoreMode(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		w.partition("store-0")
		d := daily("days", 100, 10, budget.Spread)
		d.Durability, d.BucketQuantity = budget.Store, 1
		b := w.create(d)
		w.exec(`UPDATE bucket_epoch SET status = 'open' WHERE bucket_id = ?`, b.Buckets[0].ID)
		rule := *b.Rule
		rule.Quantity = 30
		w.change(b.ID, bucket.Change{Rule: &rule})
		w.adjusts(b.ID, "more", 5)
		w.has(b.ID, ledger.Figures{Total: 105, Unfunded: 75, InBuckets: 30,
			Online: 1})
		w.exec(`UPDATE grant_log SET status = 'done' WHERE bucket_id = ? AND number = 2 AND amount = 20
			AND status = 'pending'`, b.Buckets[0].ID)
	})
}

// TestResizeAfterTheLastPeriod checks that a resize after the last period brings no bucket online
// and begins no epoch.
func TestResizeAfterTheLastPeriod(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := promo("b", 90, 2)
		d.StartAt, d.EndAt = w.db.Now().Add(-2*time.Hour), w.db.Now().Add(-time.Hour)
		d.AllowPast = true
		b := w.create(d)
		equal(w, "over", b.Period.Over, true)
		after := w.resize(b.ID, 4)
		for _, one := range after.Buckets[2:] {
			equal(w, "live", one.Epoch.Status.Live(), false)
			equal(w, "online", one.Online, false)
		}
	})
}

func TestBudgetsByPage(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		limited := promo("limited", 10, 1)
		limited.Limits = &budget.Limits{List: []budget.Limit{{Name: "per-user", Dimension: "user", Max: 5,
			Enforce: true, Measure: budget.MeasureCount,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}
		ended := promo("ended", 20, 1)
		ended.EndAt = w.db.Now().Add(time.Minute)
		pending := promo("pending", 30, 1)
		pending.StartAt = w.db.Now().Add(time.Hour)
		paused := daily("paused", 40, 10, "")
		paused.Paused = true
		theirs := promo("theirs", 50, 1)
		theirs.Tenant = "games"
		for _, d := range []budget.Definition{limited, ended, pending, paused, theirs} {
			w.create(d)
		}
		w.later(time.Minute)
		names := func(page bucket.Page) (out []string) {
			t.Helper()
			page.Size = max(page.Size, 2)
			views, err := w.part.Budgets(w.ctx, page)
			w.ok(err)
			for _, v := range views {
				one, err := w.part.View(w.ctx, bucket.BudgetRef{ID: v.Definition.ID})
				w.ok(err)
				equal(w, "view of "+v.Definition.Name, v, one)
				out = append(out, v.Definition.Name)
			}
			return out
		}
		equal(w, "first page", names(bucket.Page{}), []string{"theirs", "ended"})
		equal(w, "next page", names(bucket.Page{Size: 9,
			After: bucket.BudgetRef{Tenant: "shop", Name: "ended"}}),
			[]string{"limited", "paused", "pending"})
		equal(w, "tenant", names(bucket.Page{Tenant: "games"}), []string{"theirs"})
		equal(w, "type", names(bucket.Page{Type: budget.Daily}), []string{"paused"})
		for status, want := range map[budget.Status][]string{
			budget.Expired: {"ended"}, budget.Pending: {"pending"}, budget.Paused: {"paused"},
			budget.Effective: {"theirs", "limited"},
		} {
			equal(w, string(status), names(bucket.Page{Status: status}), want)
		}
		_, err := w.part.Budgets(w.ctx, bucket.Page{Status: "odd", Size: 1})
		w.refused(err, budget.Invalid)
		versions, err := w.part.Versions(w.ctx, []int64{1, 2, 99})
		w.ok(err)
		equal(w, "versions", versions, map[int64]bucket.Version{1: {Definition: 1, List: 1},
			2: {Definition: 1, List: 1}})
		exist, sum, err := w.part.VersionSum(w.ctx, []int64{1, 2, 99})
		w.ok(err)
		equal(w, "budgets", exist, 2)
		equal(w, "sum of versions", sum, bucket.Version{Definition: 2, List: 2})
	})
}
