package storetest

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

func createStores(w *sqlWorld) {
	start := w.db.Now().Add(-time.Hour).Truncate(time.Second)
	d := budget.Definition{
		Tenant: "shop", Name: "spring-sale", GLCode: "4711 É", Unit: budget.Amount,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: 1_000_000, BucketQuantity: 3,
		ShardingQuantity: 5_000, AdjustCnt: 7, StartAt: start, EndAt: start.Add(48 * time.Hour),
	}
	made := w.createOnly(d)
	read := w.read(made.ID)
	equal(w, "read back", fmt.Sprintf("%+v", read), fmt.Sprintf("%+v", made))
	if made.ID < 1 || made.Version < 1 || !made.CreatedAt.Equal(w.db.Now()) ||
		!made.UpdatedAt.Equal(w.db.Now()) {
		w.Errorf("id %d, version %d, created %v, updated %v at %v", made.ID, made.Version,
			made.CreatedAt, made.UpdatedAt, w.db.Now())
	}
	if !read.StartAt.Equal(d.StartAt) || !read.EndAt.Equal(d.EndAt) {
		w.Errorf("from %v to %v, want %v to %v", read.StartAt, read.EndAt, d.StartAt, d.EndAt)
	}
	equal(w, "definition", untimed(read.Definition), untimed(d))
	for i, b := range read.Buckets {
		equal(w, "ordinal", b.Ordinal, i)
		equal(w, "key", b.Key, fmt.Sprintf("spring-sale:bucket-%d", i))
		equal(w, "lane", b.Lane, laneOf(i))
		if !b.Online || b.OfflineBy != "" || b.ID < 1 {
			w.Errorf("bucket %+v", b)
		}
		if !b.Epoch.EndAt.Equal(d.EndAt) {
			w.Errorf("epoch ends at %v, want %v", b.Epoch.EndAt, d.EndAt)
		}
	}
}

// untimed is what was decided of a budget, without its number and times.
func untimed(d budget.Definition) budget.Definition {
	d.ID, d.Version = 0, 0
	d.StartAt, d.EndAt, d.CreatedAt, d.UpdatedAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return d
}

func createSpreads(w *sqlWorld) {
	b := w.createOnly(definition("promo", 11, 4))
	for i, want := range []int64{3, 3, 3, 2} {
		shard := b.Buckets[i]
		equal(w, "handed out", shard.OutQuantity, want)
		equal(w, "applications", shard.OutCnt, 1)
		equal(w, "epoch", shard.Epoch, ledger.Epoch{
			Budget: b.ID, Bucket: shard.ID, Number: 1, Status: ledger.Opening, Activation: 1, Period: 1,
			Outstanding: want, NextGrant: 2, NextEntry: 1,
			DrainedChain: ledger.OpenChain(shard.ID, 1, 1),
		})
	}
	equal(w, "figures", w.figures(b.ID), ledger.Figures{Total: 11, Unsettled: 11, Online: 4})
	grants := must(w.db.Unfinished(w.ctx, 100))(w).Grants
	equal(w, "pending grants", len(grants), 4)
	for i, g := range grants {
		equal(w, "grant", g, bucket.PendingGrant{Lane: laneOf(i), Order: bucket.GrantOrder{
			Ref: b.Buckets[i].Ref(), Number: 1, Amount: b.Buckets[i].OutQuantity}})
	}
}

func createFewerUnits(w *sqlWorld) {
	b := w.createOnly(definition("few", 2, 5))
	for i, want := range []int64{1, 1, 0, 0, 0} {
		shard := b.Buckets[i]
		equal(w, "handed out", shard.OutQuantity, want)
		equal(w, "applications", int64(shard.OutCnt), want)
		equal(w, "outstanding", shard.Epoch.Outstanding, want)
		equal(w, "next grant", shard.Epoch.NextGrant, 1+want)
		equal(w, "status", shard.Epoch.Status, ledger.Opening)
		equal(w, "online", shard.Online, true)
	}
	equal(w, "pending grants", len(must(w.db.Unfinished(w.ctx, 100))(w).Grants), 2)
}

func createLargest(w *sqlWorld) {
	b := w.createOnly(definition("largest", budget.MaxAmount, 1024))
	f := w.figures(b.ID)
	equal(w, "figures", f,
		ledger.Figures{Total: budget.MaxAmount, Unsettled: budget.MaxAmount, Online: 1024})
	last := b.Buckets[1023]
	equal(w, "key", last.Key, "largest:bucket-1023")
	equal(w, "last share", last.OutQuantity, budget.MaxAmount/1024)
}

func createRepeated(w *sqlWorld) {
	start := w.db.Now().Add(time.Hour)
	with := func(d *budget.Definition) {
		d.StartAt, d.EndAt, d.GLCode = start, start.Add(time.Hour), "9"
	}
	b := w.create("again", 100, 3, with)
	d := definition("again", 100, 3)
	with(&d)
	repeat := func(when string) {
		w.Helper()
		w.unchanged(b.ID, "a repeated create "+when, func() {
			again, made, err := w.db.Create(w.ctx, d, w.lanes(3))
			w.ok(err)
			equal(w, "created "+when, made, false)
			equal(w, "budget "+when, fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", w.read(b.ID)))
		})
	}
	repeat("at once")
	d.ID, d.Version, d.CreatedAt, d.UpdatedAt = 99, 7, start, start
	w.clock.Advance(time.Hour)
	repeat("with another id, version and times")
	paused, end := true, start.Add(9*time.Hour)
	must(w.db.Change(w.ctx, b.ID, bucket.Change{Paused: &paused, EndAt: &end}))(w)
	must(w.append(b.ID, "more", 50))(w)
	repeat("after a change and an append")
	w.use(b.Buckets[0].Ref(), "order", 5)
	repeat("after a deduction")
}

// append changes a total.
func (w *sqlWorld) append(budgetID int64, id string, quantity int64) (
	bucket.AdjustmentState, error) {
	state, _, err := w.db.Adjust(w.ctx, bucket.Adjustment{
		Budget: budgetID, RequestID: id, Quantity: quantity, Deadline: w.db.Now().Add(time.Minute)})
	return state, err
}

func createNameTaken(w *sqlWorld) {
	b := w.create("taken", 100, 3)
	for field, edit := range map[string]func(*budget.Definition){
		"gl_code":           func(d *budget.Definition) { d.GLCode = "1" },
		"unit":              func(d *budget.Definition) { d.Unit = budget.Amount },
		"total_quantity":    func(d *budget.Definition) { d.TotalQuantity++ },
		"bucket_quantity":   func(d *budget.Definition) { d.BucketQuantity++ },
		"sharding_quantity": func(d *budget.Definition) { d.ShardingQuantity = 1 },
		"adjust_cnt":        func(d *budget.Definition) { d.AdjustCnt = 1 },
		"start_at":          func(d *budget.Definition) { d.StartAt = w.db.Now() },
		"end_at":            func(d *budget.Definition) { d.EndAt = w.db.Now().Add(time.Hour) },
	} {
		w.unchanged(b.ID, "a create with another "+field, func() {
			d := definition("taken", 100, 3)
			edit(&d)
			_, _, err := w.db.Create(w.ctx, d, w.lanes(d.BucketQuantity))
			if !budget.Is(err, budget.NameTaken) {
				w.Errorf("another %s: %v, want name_taken", field, err)
			}
		})
	}
	must(w.append(b.ID, "more", 1))(w)
	d := definition("taken", 101, 3)
	_, _, err := w.db.Create(w.ctx, d, w.lanes(3))
	w.refused(err, budget.NameTaken) // the present total is not the one it was created with
}

// createOfAnyNumber: where no number of buckets is asked for there are as many as lanes, and the same definition with
// other lanes is the same budget, but with a number of its own another one.
func createOfAnyNumber(w *sqlWorld) {
	d := definition("any", 100, 0)
	made, created, err := w.db.Create(w.ctx, d, w.lanes(2))
	if err != nil || !created || made.BucketQuantity != 2 || len(made.Buckets) != 2 {
		w.Fatalf("%+v, created %v, %v", made, created, err)
	}
	w.unchanged(made.ID, "the same again with more lanes", func() {
		again, created, err := w.db.Create(w.ctx, d, w.lanes(3))
		if err != nil || created || again.ID != made.ID || len(again.Buckets) != 2 {
			w.Errorf("%+v, created %v, %v", again, created, err)
		}
		d.BucketQuantity = 2
		_, _, err = w.db.Create(w.ctx, d, w.lanes(2))
		w.refused(err, budget.NameTaken)
	})
}

// createUnlimited: what a bucket was given in all its epochs is never more than an amount can be, though each of them gets
// everything.
func createUnlimited(w *sqlWorld) {
	b := w.create("unlimited", budget.MaxAmount, 1, func(d *budget.Definition) { d.Unlimited = true })
	for range 3 {
		ref := w.read(b.ID).Buckets[0].Ref()
		equal(w, "ending", w.ends(b.ID, ref, true), true)
		must(w.db.CloseEpoch(w.ctx, b.ID, ref, w.closing(ref), nil))(w)
		w.open(must(w.db.Reopen(w.ctx, b.ID, b.Buckets[0].ID))(w).Opened[0].Ref())
		must(w.db.HandOut(w.ctx, b.ID))(w)
		w.deliver()
		after := w.read(b.ID).Buckets[0]
		equal(w, "epoch", after.Epoch.Number, ref.Epoch+1)
		equal(w, "outstanding", after.Epoch.Outstanding, budget.MaxAmount)
		equal(w, "out_quantity", after.OutQuantity, budget.MaxAmount)
	}
}

func createUnknownLane(w *sqlWorld) {
	d := definition("nowhere", 100, 2)
	lanes := append(w.lanes(1), bucket.Lane{Instance: "store-0", Index: 9})
	_, _, err := w.db.Create(w.ctx, d, lanes)
	w.refused(err, budget.Unavailable)
	_, err = w.db.Budget(w.ctx, bucket.BudgetRef{Tenant: d.Tenant, Name: d.Name})
	w.refused(err, budget.BudgetNotFound)
	must(w.db.Lane(w.ctx, lanes[1], "run-1"))(w)
	_, made, err := w.db.Create(w.ctx, d, lanes)
	w.ok(err)
	equal(w, "created once the lane is there", made, true)
}

func createTwoTenants(w *sqlWorld) {
	ours := w.create("sale", 10, 1)
	theirs := w.create("sale", 30, 2, func(d *budget.Definition) { d.Tenant = "games" })
	if ours.ID == theirs.ID {
		w.Fatalf("both are budget %d", ours.ID)
	}
	w.use(ours.Buckets[0].Ref(), "order", 3)
	w.use(theirs.Buckets[0].Ref(), "order", 4) // the same id is another request there
	equal(w, "used here", w.figures(ours.ID).Used, 3)
	equal(w, "used there", w.figures(theirs.ID).Used, 4)
	for tenant, id := range map[string]int64{budget.DefaultTenant: ours.ID, "games": theirs.ID} {
		b := must(w.db.Budget(w.ctx, bucket.BudgetRef{Tenant: tenant, Name: "sale"}))(w)
		equal(w, "id of "+tenant, b.ID, id)
	}
}

func createActivation(w *sqlWorld) {
	w.lanes(2)
	must(w.db.NextActivation(w.ctx, laneOf(1), 1, "run-2"))(w)
	b := w.createOnly(definition("later", 10, 2))
	for i, activation := range []int64{1, 2} {
		e := b.Buckets[i].Epoch
		equal(w, "activation", e.Activation, activation)
		equal(w, "chain", e.DrainedChain, ledger.OpenChain(e.Bucket, 1, activation))
	}
}
