package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var definitionTests = []sqlTest{
	{"create/stores the definition", createStores},
	{"create/spreads the total, remainders to the first", createSpreads},
	{"create/fewer units than buckets", createFewerUnits},
	{"create/the largest total", createLargest},
	{"create/repeated", createRepeated},
	{"create/the name with another definition", createNameTaken},
	{"create/on a lane that was never reached", createUnknownLane},
	{"create/one name in two tenants", createTwoTenants},
	{"create/under the lane's present activation", createActivation},
	{"budget/by id and by name", budgetByRef},
	{"budgets/pages and filters", budgetsPages},
	{"versions/grow with changes", versionsGrow},
	{"change/each field", changeEachField},
	{"change/end reaches the live epochs only", changeEnd},
	{"change/refused changes nothing", changeRefused},
}

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
			Budget: b.ID, Bucket: shard.ID, Number: 1, Status: ledger.Opening, Activation: 1,
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
	equal(w, "figures", f, ledger.Figures{Total: budget.MaxAmount, Unsettled: budget.MaxAmount, Online: 1024})
	last := b.Buckets[1023]
	equal(w, "key", last.Key, "largest:bucket-1023")
	equal(w, "last share", last.OutQuantity, budget.MaxAmount/1024)
}

func createRepeated(w *sqlWorld) {
	start := w.db.Now().Add(time.Hour)
	with := func(d *budget.Definition) { d.StartAt, d.EndAt, d.GLCode = start, start.Add(time.Hour), "9" }
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
func (w *sqlWorld) append(budgetID int64, id string, quantity int64) (bucket.AdjustmentState, error) {
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

func budgetByRef(w *sqlWorld) {
	b := w.create("here", 10, 1)
	for _, ref := range []bucket.BudgetRef{
		{ID: b.ID}, {Tenant: b.Tenant, Name: b.Name}, {ID: b.ID, Tenant: "other", Name: "other"},
	} {
		equal(w, fmt.Sprintf("%+v", ref), must(w.db.Budget(w.ctx, ref))(w).ID, b.ID)
	}
	for _, ref := range []bucket.BudgetRef{
		{ID: b.ID + 1}, {ID: -1}, {Tenant: b.Tenant, Name: "her"}, {Tenant: b.Tenant, Name: "here "},
		{Tenant: b.Tenant, Name: "Here"}, {Tenant: "games", Name: b.Name}, {Tenant: b.Tenant},
	} {
		_, err := w.db.Budget(w.ctx, ref)
		if !budget.Is(err, budget.BudgetNotFound) {
			w.Errorf("%+v: %v, want budget_not_found", ref, err)
		}
	}
}

func budgetsPages(w *sqlWorld) {
	now := w.db.Now()
	var ids []int64
	for i := range 7 {
		b := w.createOnly(definition(fmt.Sprintf("b%d", 9-i), 10, 1))
		ids = append(ids, b.ID)
	}
	future := w.createOnly(definition("future", 10, 1))
	start := definition("starts", 10, 1)
	start.StartAt, start.Tenant = now.Add(time.Hour), "games"
	start.ID = w.createOnly(start).ID
	end := definition("ends", 10, 1)
	end.EndAt = now.Add(time.Minute)
	end.ID = w.createOnly(end).ID
	paused := true
	must(w.db.Change(w.ctx, future.ID, bucket.Change{Paused: &paused}))(w)
	w.clock.Advance(time.Minute)
	all := append(slices.Clone(ids), future.ID, start.ID, end.ID)
	for _, test := range []struct {
		name string
		page bucket.Page
		want []int64
	}{
		{"all", bucket.Page{Size: 1_000}, all},
		{"first", bucket.Page{Size: 3}, all[:3]},
		{"second", bucket.Page{Size: 3, AfterID: all[2]}, all[3:6]},
		{"behind the last", bucket.Page{Size: 3, AfterID: all[9]}, nil},
		{"tenant", bucket.Page{Size: 9, Tenant: "games"}, []int64{start.ID}},
		{"no such tenant", bucket.Page{Size: 9, Tenant: "Games"}, nil},
		{"type", bucket.Page{Size: 1_000, Type: budget.Promo}, all},
		{"no such type", bucket.Page{Size: 9, Type: "daily"}, nil},
		{"effective", bucket.Page{Size: 9, Status: budget.Effective}, ids},
		{"effective, after", bucket.Page{Size: 2, AfterID: ids[1], Status: budget.Effective}, ids[2:4]},
		{"pending", bucket.Page{Size: 9, Status: budget.Pending}, []int64{start.ID}},
		{"paused", bucket.Page{Size: 9, Status: budget.Paused}, []int64{future.ID}},
		{"expired", bucket.Page{Size: 9, Status: budget.Expired}, []int64{end.ID}},
		{"expired of another tenant",
			bucket.Page{Size: 9, Status: budget.Expired, Tenant: "games"}, nil},
	} {
		var got []int64
		for _, d := range must(w.db.Budgets(w.ctx, test.page))(w) {
			got = append(got, d.ID)
		}
		if !slices.Equal(got, test.want) {
			w.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	page := must(w.db.Budgets(w.ctx, bucket.Page{Size: 1, Tenant: "games"}))(w)
	equal(w, "definition", fmt.Sprintf("%+v", page[0]), fmt.Sprintf("%+v", w.read(start.ID).Definition))
}

func versionsGrow(w *sqlWorld) {
	b, other := w.create("b", 100, 2), w.create("other", 100, 2)
	versions := func() (of, theirs bucket.Version) {
		found := must(w.db.Versions(w.ctx, []int64{b.ID, other.ID, other.ID + 1, 0}))(w)
		equal(w, "found", len(found), 2)
		return found[b.ID], found[other.ID]
	}
	read := w.read(b.ID)
	last, theirs := versions()
	equal(w, "versions", last, bucket.Version{Definition: read.Version, List: read.ListVersion})
	equal(w, "of none", len(must(w.db.Versions(w.ctx, nil))(w)), 0)
	ref := b.Buckets[0].Ref()
	paused := true
	for _, step := range []struct {
		name             string
		definition, list bool
		do               func()
	}{
		{"change", true, false, func() {
			must(w.db.Change(w.ctx, b.ID, bucket.Change{Paused: &paused}))(w)
		}},
		{"append", true, false, func() { must(w.append(b.ID, "a", 20))(w) }},
		{"a repeated append", false, false, func() { must(w.append(b.ID, "a", 20))(w) }},
		{"shrink", true, false, func() { must(w.append(b.ID, "s", -1))(w) }},
		{"deduction", false, false, func() { w.use(ref, "order", 1) }},
		{"ending", false, true, func() {
			must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByOperator, false))(w)
		}},
		{"close", false, true, func() {
			must(w.db.CloseEpoch(w.ctx, b.ID, ref, w.closing(ref), nil))(w)
		}},
		{"reopen", false, true, func() { must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w) }},
		{"open", false, true, func() {
			w.ok(w.db.MarkOpen(w.ctx, []bucket.Ref{{Bucket: ref.Bucket, Epoch: 2, Activation: 1}}))
		}},
		{"open again", false, false, func() {
			w.ok(w.db.MarkOpen(w.ctx, []bucket.Ref{{Bucket: ref.Bucket, Epoch: 2, Activation: 1}}))
		}},
		{"fence", false, true, func() {
			w.ok(w.db.Fence(w.ctx, bucket.Ref{Bucket: ref.Bucket, Epoch: 2, Activation: 1}, "broken"))
		}},
		{"lose", false, true, func() {
			must(w.db.Lose(w.ctx, bucket.Ref{Bucket: ref.Bucket, Epoch: 2, Activation: 1}))(w)
		}},
	} {
		step.do()
		now, others := versions()
		if (now.Definition > last.Definition) != step.definition || now.Definition < last.Definition ||
			(now.List > last.List) != step.list || now.List < last.List {
			w.Errorf("%s: versions %+v became %+v", step.name, last, now)
		}
		equal(w, "versions of another budget after "+step.name, others, theirs)
		last = now
	}
}

func changeEachField(w *sqlWorld) {
	b := w.create("b", 100, 2)
	w.clock.Advance(time.Second)
	end := w.db.Now().Add(time.Hour).Truncate(time.Second)
	sharding, cnt, yes, no, none := int64(7), 9, true, false, int64(0)
	want := b.Definition
	for _, step := range []struct {
		name   string
		change bucket.Change
		apply  func(d *budget.Definition)
	}{
		{"pause", bucket.Change{Paused: &yes}, func(d *budget.Definition) { d.Paused = true }},
		{"resume", bucket.Change{Paused: &no}, func(d *budget.Definition) { d.Paused = false }},
		{"sharding", bucket.Change{ShardingQuantity: &sharding},
			func(d *budget.Definition) { d.ShardingQuantity = 7 }},
		{"adjust_cnt", bucket.Change{AdjustCnt: &cnt}, func(d *budget.Definition) { d.AdjustCnt = 9 }},
		{"end", bucket.Change{EndAt: &end}, func(d *budget.Definition) { d.EndAt = end }},
		{"no end", bucket.Change{EndAt: &time.Time{}},
			func(d *budget.Definition) { d.EndAt = time.Time{} }},
		{"several", bucket.Change{Paused: &yes, ShardingQuantity: &none},
			func(d *budget.Definition) { d.Paused, d.ShardingQuantity = true, 0 }},
	} {
		step.change.IfVersion = want.Version
		got := must(w.db.Change(w.ctx, b.ID, step.change))(w)
		step.apply(&want)
		if got.Version <= want.Version || !got.UpdatedAt.Equal(w.db.Now()) ||
			!got.CreatedAt.Equal(b.CreatedAt) || !got.EndAt.Equal(want.EndAt) || got.ID != b.ID {
			w.Errorf("%s: %+v", step.name, got)
		}
		equal(w, step.name, untimed(got), untimed(want))
		equal(w, step.name+", read", fmt.Sprint(w.read(b.ID).Definition), fmt.Sprint(got))
		want = got
	}
}

func changeEnd(w *sqlWorld) {
	b := w.create("b", 30, 3)
	refs := []bucket.Ref{b.Buckets[0].Ref(), b.Buckets[1].Ref(), b.Buckets[2].Ref()}
	w.offline(b.ID, refs[0], bucket.ByOperator, false, nil)
	must(w.db.Ending(w.ctx, b.ID, refs[1], bucket.ByOperator, false))(w)
	end := w.db.Now().Add(time.Hour)
	must(w.db.Change(w.ctx, b.ID, bucket.Change{EndAt: &end}))(w)
	for i, want := range []time.Time{{}, end, end} {
		if got := w.epoch(refs[i]).EndAt; !got.Equal(want) {
			w.Errorf("the epoch of bucket %d ends at %v, want %v", i, got, want)
		}
	}
	reopened := must(w.db.Reopen(w.ctx, b.ID, refs[0].Bucket))(w).Opened[0]
	if !reopened.Epoch.EndAt.Equal(end) {
		w.Errorf("a new epoch ends at %v, want %v", reopened.Epoch.EndAt, end)
	}
	must(w.db.Change(w.ctx, b.ID, bucket.Change{EndAt: &time.Time{}}))(w)
	if got := w.epoch(refs[2]).EndAt; !got.IsZero() {
		w.Errorf("the epoch still ends at %v", got)
	}
}

func changeRefused(w *sqlWorld) {
	b := w.create("b", 100, 2, func(d *budget.Definition) { d.StartAt = w.db.Now() })
	yes, huge, negative, cnt := true, budget.MaxAmount+1, int64(-1), -1
	before := b.StartAt.Add(-time.Second)
	w.unchanged(b.ID, "a refused change", func() {
		_, err := w.db.Change(w.ctx, b.ID+1, bucket.Change{Paused: &yes})
		w.refused(err, budget.BudgetNotFound)
		_, err = w.db.Change(w.ctx, b.ID, bucket.Change{IfVersion: b.Version + 1, Paused: &yes})
		w.refused(err, budget.VersionConflict)
		_, err = w.db.Change(w.ctx, b.ID, bucket.Change{IfVersion: b.Version + 1, AdjustCnt: &cnt})
		w.refused(err, budget.VersionConflict) // goes before Invalid
		for field, change := range map[string]bucket.Change{
			"sharding_quantity": {Paused: &yes, ShardingQuantity: &huge},
			"adjust_cnt":        {Paused: &yes, AdjustCnt: &cnt},
			"end_at":            {Paused: &yes, EndAt: &before},
		} {
			_, err := w.db.Change(w.ctx, b.ID, change)
			if e := w.refused(err, budget.Invalid); len(e.Fields) != 1 || e.Fields[0].Field != field {
				w.Errorf("%s: faults %+v", field, e.Fields)
			}
		}
		_, err = w.db.Change(w.ctx, b.ID, bucket.Change{ShardingQuantity: &negative, AdjustCnt: &cnt})
		if e := w.refused(err, budget.Invalid); len(e.Fields) != 2 {
			w.Errorf("faults %+v, want both", e.Fields)
		}
	})
}
