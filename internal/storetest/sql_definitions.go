package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

var definitionTests = []sqlTest{
	{"create/stores the definition", createStores},
	{"create/spreads the total, remainders to the first", createSpreads},
	{"create/fewer units than buckets", createFewerUnits},
	{"create/the largest total", createLargest},
	{"create/repeated", createRepeated},
	{"create/the name with another definition", createNameTaken},
	{"create/no number of buckets", createOfAnyNumber},
	{"create/unlimited, given everything again", createUnlimited},
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
	equal(w, "definition", fmt.Sprintf("%+v", page[0]),
		fmt.Sprintf("%+v", w.read(start.ID).Definition))
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
