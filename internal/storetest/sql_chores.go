package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var laneTests = []sqlTest{
	{"lane/made once", laneMade},
	{"lane/next activation, compare and set", laneNext},
	{"lane/stale epochs", laneStale},
}

var choreTests = []sqlTest{
	{"live/in pages", livePages},
	{"unfinished/epochs", unfinishedEpochs},
	{"unfinished/grants", unfinishedGrants},
	{"unfinished/budgets and shrinks", unfinishedBudgets},
	{"unfinished/without lanes and fenced epochs", unfinishedWithout},
	{"unfinished/budgets without an online bucket", unfinishedOffline},
	{"unfinished/of one budget", unfinishedOf},
	{"runs/one at a time", runsOne},
	{"now/follows the clock in whole milliseconds", nowFollows},
	{"context/one that is over", contextOver},
}

func laneMade(w *sqlWorld) {
	for _, lane := range []bucket.Lane{
		{Instance: "a", Index: 0}, {Instance: "a", Index: 1}, {Instance: "A", Index: 0},
	} {
		row := must(w.db.Lane(w.ctx, lane, "run "+lane.Instance))(w)
		equal(w, "row", row, bucket.LaneRow{Lane: lane, Identity: "run " + lane.Instance, Activation: 1})
		equal(w, "read again, with another identity", must(w.db.Lane(w.ctx, lane, "other"))(w), row)
	}
}

func laneNext(w *sqlWorld) {
	lane := w.lanes(2)[0]
	row := must(w.db.NextActivation(w.ctx, lane, 1, "run-2"))(w)
	equal(w, "row", row, bucket.LaneRow{Lane: lane, Identity: "run-2", Activation: 2})
	equal(w, "late", must(w.db.NextActivation(w.ctx, lane, 1, "run-3"))(w), row)
	equal(w, "early", must(w.db.NextActivation(w.ctx, lane, 3, "run-3"))(w), row)
	equal(w, "read", must(w.db.Lane(w.ctx, lane, "run-2"))(w), row)
	equal(w, "same identity", must(w.db.NextActivation(w.ctx, lane, 2, "run-2"))(w).Activation, 3)
	equal(w, "other lane", must(w.db.Lane(w.ctx, laneOf(1), "run-1"))(w).Activation, 1)
}

func laneStale(w *sqlWorld) {
	d := definition("b", 60, 6)
	lane := w.lanes(1)[0]
	elsewhere := w.create("elsewhere", 30, 2)
	b, _, err := w.db.Create(w.ctx, d, []bucket.Lane{lane, lane, lane, lane, lane, lane})
	w.ok(err)
	w.budgets = append(w.budgets, b.ID)
	refs := make([]bucket.Ref, 6)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	for _, ref := range refs[1:] {
		w.open(ref)
	}
	w.deliver()
	must(w.db.Ending(w.ctx, b.ID, refs[2], bucket.ByService, false))(w)
	w.offline(b.ID, refs[3], bucket.ByService, false, nil)
	must(w.db.Lose(w.ctx, refs[4]))(w)
	stale := func(activation int64, limit int) (found []bucket.Ref) {
		for _, e := range must(w.db.Stale(w.ctx, lane, activation, limit))(w) {
			ref := bucket.Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
			if e.Lane != lane || e.Row != w.epoch(ref) || e.Budget != e.Row.Budget {
				w.Errorf("stale %+v", e)
			}
			found = append(found, ref)
		}
		slices.SortFunc(found, func(a, b bucket.Ref) int { return int(a.Bucket - b.Bucket) })
		return found
	}
	equal(w, "of the present activation", len(stale(1, 100)), 0)
	must(w.db.NextActivation(w.ctx, lane, 1, "run-2"))(w)
	want := []bucket.Ref{elsewhere.Buckets[0].Ref(), refs[0], refs[1], refs[2], refs[5]}
	if got := stale(2, 100); !slices.Equal(got, want) {
		w.Errorf("stale %+v, want %+v", got, want)
	}
	equal(w, "limited", len(stale(2, 2)), 2)
	w.ok(w.db.Fence(w.ctx, refs[5], "its books do not agree"))
	want = want[:len(want)-1]
	for n := len(want); n > 0; n-- {
		equal(w, "left", len(stale(2, 100)), n)
		equal(w, "lost", must(w.db.Lose(w.ctx, stale(2, 1)[0]))(w), true)
	}
	equal(w, "the fenced one", must(w.db.Lose(w.ctx, refs[5]))(w), true)
	opened := must(w.db.Reopen(w.ctx, b.ID, refs[0].Bucket))(w).Opened[0]
	equal(w, "activation", opened.Epoch.Activation, 2)
	equal(w, "left", len(stale(2, 100)), 0)
	equal(w, "another lane's", len(must(w.db.Stale(w.ctx, laneOf(1), 1, 10))(w)), 0)
}

func livePages(w *sqlWorld) {
	lane := w.lanes(1)[0]
	b := w.createOn(definition("b", 70, 7), lane)
	refs := make([]bucket.Ref, 7)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	for _, ref := range refs[1:] { // the first stays opening
		w.open(ref)
	}
	w.deliver()
	must(w.db.Ending(w.ctx, b.ID, refs[2], bucket.ByService, false))(w)
	w.offline(b.ID, refs[3], bucket.ByService, false, nil)
	must(w.db.Lose(w.ctx, refs[4]))(w)
	again := must(w.db.Reopen(w.ctx, b.ID, refs[3].Bucket))(w).Opened[0].Ref()
	w.open(again)
	w.create("elsewhere", 10, 2) // one more on this lane
	w.ok(w.db.Fence(w.ctx, refs[5], "broken"))
	var got []bucket.Ref
	after := bucket.Ref{}
	for range 10 {
		page := must(w.db.Live(w.ctx, lane, after, 2))(w)
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			after = bucket.Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
			equal(w, "row", e.Row, w.epoch(after))
			equal(w, "lane", e.Lane, lane)
			got = append(got, after)
		}
	}
	elsewhere := must(w.db.Budget(w.ctx, bucket.BudgetRef{Tenant: "default", Name: "elsewhere"}))(w)
	want := []bucket.Ref{refs[1], refs[2], again, refs[5], refs[6], elsewhere.Buckets[0].Ref()}
	if !slices.Equal(got, want) {
		w.Errorf("live %+v, want %+v", got, want)
	}
	late := must(w.db.Live(w.ctx, lane, bucket.Ref{Bucket: refs[3].Bucket, Epoch: 1}, 1))(w)
	equal(w, "after an epoch of the same bucket", late[0].Row.Number, 2)
}

// createOn makes a budget with all its buckets on one lane, and leaves its epochs opening.
func (w *sqlWorld) createOn(d budget.Definition, lane bucket.Lane) bucket.Budget {
	w.Helper()
	b, _, err := w.db.Create(w.ctx, d, slices.Repeat([]bucket.Lane{lane}, d.BucketQuantity))
	w.ok(err)
	w.budgets = append(w.budgets, b.ID)
	return b
}

func refsOf(epochs []bucket.EpochOf) (refs []bucket.Ref) {
	for _, e := range epochs {
		refs = append(refs, bucket.Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number,
			Activation: e.Row.Activation})
	}
	slices.SortFunc(refs, func(a, b bucket.Ref) int { return int(a.Bucket - b.Bucket) })
	return refs
}

func unfinishedEpochs(w *sqlWorld) {
	b := w.create("b", 60, 6)
	opening := w.createOnly(definition("opening", 10, 2))
	refs := make([]bucket.Ref, 6)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	must(w.db.Ending(w.ctx, b.ID, refs[1], bucket.ByService, false))(w)
	w.offline(b.ID, refs[2], bucket.ByService, false, nil)
	w.ok(w.db.Fence(w.ctx, refs[3], "broken"))
	w.ok(w.db.Fence(w.ctx, refs[4], "broken"))
	must(w.db.Lose(w.ctx, refs[4]))(w)
	u := must(w.db.Unfinished(w.ctx, 100))(w)
	want := []bucket.Ref{refs[1], opening.Buckets[0].Ref(), opening.Buckets[1].Ref()}
	if got := refsOf(u.Epochs); !slices.Equal(got, want) {
		w.Errorf("epochs %+v, want %+v", got, want)
	}
	if got := refsOf(u.Fenced); !slices.Equal(got, refs[3:4]) {
		w.Errorf("fenced %+v, want bucket 3's", got)
	}
	for _, e := range append(u.Epochs, u.Fenced...) {
		equal(w, "row", e.Row, w.epoch(bucket.Ref{Bucket: e.Row.Bucket, Epoch: 1, Activation: 1}))
		equal(w, "budget", e.Budget, e.Row.Budget)
	}
	equal(w, "lane", u.Fenced[0].Lane, laneOf(3))
	limited := must(w.db.Unfinished(w.ctx, 2))(w)
	equal(w, "limited", len(limited.Epochs), 2)
}

func unfinishedGrants(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 3)
	opening := w.createOnly(definition("opening", 10, 1))
	refs := []bucket.Ref{b.Buckets[0].Ref(), b.Buckets[1].Ref(), b.Buckets[2].Ref()}
	for _, ref := range refs {
		w.commit(w.book(ref)) // their first grants have arrived
		for range 3 {
			w.apply(b.ID, bucket.Want{Ref: ref, Need: 1, Units: 2})
		}
	}
	must(w.db.Ending(w.ctx, b.ID, refs[1], bucket.ByService, false))(w)
	must(w.db.Lose(w.ctx, refs[2]))(w)
	grants := must(w.db.Unfinished(w.ctx, 100))(w).Grants
	numbers := map[bucket.Ref][]int64{}
	for _, g := range grants {
		numbers[g.Order.Ref] = append(numbers[g.Order.Ref], g.Order.Number)
		if ref := g.Order.Ref; ref == refs[0] {
			equal(w, "amount", g.Order.Amount, 2)
			equal(w, "lane", g.Lane, laneOf(0))
		}
	}
	if got := numbers[refs[0]]; !slices.Equal(got, []int64{2, 3, 4}) {
		w.Errorf("numbers %v, want 2 to 4", got)
	}
	equal(w, "of an opening epoch", len(numbers[opening.Buckets[0].Ref()]), 1)
	equal(w, "all", len(grants), 4)
	first := must(w.db.Unfinished(w.ctx, 2))(w).Grants
	equal(w, "limited", len(first), 2)
	last := map[bucket.Ref]int64{refs[0]: 1}
	for _, g := range first { // a limit cuts at the end, so that none is sent before its predecessor
		equal(w, "number", g.Order.Number, last[g.Order.Ref]+1)
		last[g.Order.Ref]++
	}
}

func unfinishedBudgets(w *sqlWorld) {
	var ids []int64
	for i := range 3 {
		b := w.create(fmt.Sprintf("b%d", i), 30, 1)
		w.use(b.Buckets[0].Ref(), "order", 9)
		w.gives(b.ID, "order", "part", 1, 1, false)
		w.adjusts(w.adjustment(b, "a", -5), bucket.AdjustmentPending, false)
		w.adjusts(w.adjustment(b, "b", -6), bucket.AdjustmentPending, false)
		ids = append(ids, b.ID)
	}
	fine := w.create("fine", 30, 2)
	w.use(fine.Buckets[0].Ref(), "order", 9)
	u := must(w.db.Unfinished(w.ctx, 100))(w)
	slices.Sort(u.Returning)
	if !slices.Equal(u.Returning, ids) {
		w.Errorf("returning %v, want %v", u.Returning, ids)
	}
	equal(w, "shrinks", len(u.Shrinks), 6)
	equal(w, "offline", len(u.Offline), 0)
	limited := must(w.db.Unfinished(w.ctx, 2))(w)
	equal(w, "returning, limited", len(limited.Returning), 2)
	equal(w, "shrinks, limited", len(limited.Shrinks), 2)
	must(w.db.Sweep(w.ctx, ids[0]))(w)
	equal(w, "returning after a sweep", len(must(w.db.Unfinished(w.ctx, 100))(w).Returning), 2)

	ref := w.read(ids[0]).Buckets[0].Ref()
	w.offline(ids[0], ref, bucket.ByService, true, nil) // in the list, ended
	lost := w.read(ids[1]).Buckets[0].Ref()
	must(w.db.Lose(w.ctx, lost))(w)
	paused := true
	must(w.db.Change(w.ctx, ids[2], bucket.Change{Paused: &paused}))(w)
	last := w.read(ids[2]).Buckets[0].Ref()
	w.offline(ids[2], last, bucket.ByService, false, nil) // no bucket online and U
	w.offline(fine.ID, fine.Buckets[0].Ref(), bucket.ByService, false, nil)
	offline := must(w.db.Unfinished(w.ctx, 100))(w).Offline
	slices.Sort(offline)
	if !slices.Equal(offline, ids) {
		w.Errorf("offline %v, want %v", offline, ids)
	}
	must(w.db.Reopen(w.ctx, ids[1], lost.Bucket))(w)
	equal(w, "offline after a reopen", len(must(w.db.Unfinished(w.ctx, 100))(w).Offline), 2)
	equal(w, "offline, limited", len(must(w.db.Unfinished(w.ctx, 1))(w).Offline), 1)
}

// unfinishedWithout: what nobody can go on with must not hide the rest.
func unfinishedWithout(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 5) // on lanes 0 to 4
	opening := w.createOnly(definition("opening", 30, 3))
	refs := make([]bucket.Ref, 5)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
		w.commit(w.book(refs[i]))
	}
	for _, i := range []int{0, 1, 2} {
		w.apply(b.ID, bucket.Want{Ref: refs[i], Need: 1, Units: 1})
	}
	equal(w, "ended", w.ends(b.ID, refs[3], false), true)
	equal(w, "ended", w.ends(b.ID, refs[4], false), true)
	w.ok(w.db.Fence(w.ctx, refs[2], "broken"))
	w.ok(w.db.Fence(w.ctx, refs[3], "broken"))
	w.ok(w.db.Fence(w.ctx, opening.Buckets[2].Ref(), "broken"))
	read := func(limit int, without ...bucket.Lane) string {
		u := must(w.db.Unfinished(w.ctx, limit, without...))(w)
		var epochs, grants []int64
		for _, e := range u.Epochs {
			epochs = append(epochs, e.Row.Bucket-refs[0].Bucket)
		}
		for _, g := range u.Grants {
			grants = append(grants, g.Order.Ref.Bucket-refs[0].Bucket)
		}
		slices.Sort(epochs)
		slices.Sort(grants)
		return fmt.Sprint(epochs, grants, len(u.Fenced))
	}
	equal(w, "all", read(100), "[4 5 6] [0 1 5 6] 3")
	equal(w, "without a lane", read(100, laneOf(0)), "[4 6] [1 6] 3")
	equal(w, "without two", read(100, laneOf(1), laneOf(4)), "[5] [0 5] 3")
	equal(w, "limited to what is left", read(1, laneOf(0), laneOf(4)), "[6] [1] 1")
	none := bucket.Lane{Instance: laneOf(0).Instance, Index: 99}
	equal(w, "without another lane of an instance", read(100, none), "[4 5 6] [0 1 5 6] 3")
}

func unfinishedOffline(w *sqlWorld) {
	paused := true
	offline := func(name string, by ...bucket.OfflineBy) int64 {
		b := w.create(name, 30, len(by))
		must(w.db.Change(w.ctx, b.ID, bucket.Change{Paused: &paused}))(w)
		for i := range by {
			w.offline(b.ID, b.Buckets[i].Ref(), by[i], false, nil)
		}
		return b.ID
	}
	offline("operator", bucket.ByOperator, bucket.ByOperator) // nobody may bring those online
	service := offline("service", bucket.ByService)
	both := offline("both", bucket.ByOperator, bucket.ByService)
	empty := w.create("empty", 30, 1)
	w.use(empty.Buckets[0].Ref(), "order", 30)
	must(w.db.Change(w.ctx, empty.ID, bucket.Change{Paused: &paused}))(w)
	w.offline(empty.ID, empty.Buckets[0].Ref(), bucket.ByService, false, nil) // U is 0
	got := must(w.db.Unfinished(w.ctx, 100))(w).Offline
	slices.Sort(got)
	if want := []int64{service, both}; !slices.Equal(got, want) {
		w.Errorf("offline %v, want %v", got, want)
	}
	must(w.append(empty.ID, "more", 1))(w)
	equal(w, "after an append", len(must(w.db.Unfinished(w.ctx, 100))(w).Offline), 3)
	must(w.db.HandOut(w.ctx, service))(w)
	equal(w, "after a hand-out", len(must(w.db.Unfinished(w.ctx, 100))(w).Offline), 2)
}

func unfinishedOf(w *sqlWorld) {
	b := w.createOnly(definition("b", 30, 3))
	w.createOnly(definition("other", 30, 3))
	refs := []bucket.Ref{b.Buckets[0].Ref(), b.Buckets[1].Ref(), b.Buckets[2].Ref()}
	u := must(w.db.UnfinishedOf(w.ctx, b.ID))(w)
	if got := refsOf(u.Epochs); !slices.Equal(got, refs) {
		w.Errorf("epochs %+v, want %+v", got, refs)
	}
	equal(w, "grants", len(u.Grants), 3)
	for i := range refs {
		w.open(refs[i])
	}
	w.deliver()
	w.commit(w.book(refs[0]))
	must(w.db.Ending(w.ctx, b.ID, refs[1], bucket.ByService, false))(w)
	u = must(w.db.UnfinishedOf(w.ctx, b.ID))(w)
	if got := refsOf(u.Epochs); !slices.Equal(got, refs[1:2]) {
		w.Errorf("epochs %+v, want the closing one", got)
	}
	if len(u.Grants) != 1 || u.Grants[0] != (bucket.PendingGrant{Lane: laneOf(2),
		Order: bucket.GrantOrder{Ref: refs[2], Number: 1, Amount: 10}}) {
		w.Errorf("grants %+v, want bucket 2's", u.Grants)
	}
}

func runsOne(w *sqlWorld) {
	b, other := w.create("b", 30, 2), w.create("other", 30, 1)
	run := bucket.Run{Budget: b.ID, Target: b.Buckets[1].Ref(), Units: 25}
	first := must(w.db.BeginRun(w.ctx, run))(w)
	run.Number = 1
	equal(w, "first", first, run)
	second := bucket.Run{Budget: b.ID, Target: b.Buckets[0].Ref(), Units: 7}
	equal(w, "while it goes on", must(w.db.BeginRun(w.ctx, second))(w), first)
	theirs := bucket.Run{Budget: other.ID, Target: other.Buckets[0].Ref()}
	elsewhere := must(w.db.BeginRun(w.ctx, theirs))(w)
	equal(w, "another budget's", elsewhere.Number, 1)
	w.ok(w.db.EndRun(w.ctx, b.ID, 2, 5)) // not that one
	equal(w, "still", must(w.db.BeginRun(w.ctx, second))(w), first)
	w.ok(w.db.EndRun(w.ctx, b.ID, 1, 5))
	w.ok(w.db.EndRun(w.ctx, b.ID, 1, 5))
	second.Number = 2
	equal(w, "second", must(w.db.BeginRun(w.ctx, second))(w), second)
	w.ok(w.db.EndRun(w.ctx, b.ID, 1, 9)) // late
	equal(w, "second, after a late end", must(w.db.BeginRun(w.ctx, run))(w), second)
	equal(w, "another budget's still", must(w.db.BeginRun(w.ctx, theirs))(w), elsewhere)
	_, err := w.db.BeginRun(w.ctx, bucket.Run{Budget: other.ID + 1})
	w.refused(err, budget.BudgetNotFound)
}

func nowFollows(w *sqlWorld) {
	before := w.db.Now()
	w.clock.Advance(1500*time.Microsecond + time.Hour)
	if got := w.db.Now(); !got.Equal(got.Truncate(time.Millisecond)) ||
		got.Sub(before) < time.Hour+time.Millisecond || got.Sub(before) > time.Hour+2*time.Millisecond {
		w.Errorf("%v after %v and 1h 1.5 ms", got, before)
	}
}

// contextOver: a caller that has given up gets a certain answer.
func contextOver(w *sqlWorld) {
	b := w.create("b", 30, 2)
	ref := b.Buckets[0].Ref()
	w.use(ref, "order", 1)
	book := w.book(ref)
	book.deduct("late", 1)
	over, cancel := context.WithCancel(w.ctx)
	cancel()
	w.unchanged(b.ID, "a call whose context is over", func() {
		for name, call := range map[string]func() error{
			"commit": func() error {
				_, err := w.db.Commit(over, []ledger.Log{book.log(0)})
				return err
			},
			"rollback": func() error {
				_, _, err := w.db.Rollback(over, bucket.RollbackOrder{Budget: b.ID, RequestID: "order"})
				return err
			},
			"adjust": func() error {
				_, _, err := w.db.Adjust(over, w.adjustment(b, "more", 1))
				return err
			},
			"ending": func() error {
				_, err := w.db.Ending(over, b.ID, ref, bucket.ByService, false)
				return err
			},
			"figures": func() error {
				_, err := w.db.Figures(over, b.ID)
				return err
			},
		} {
			if err := call(); !budget.Is(err, budget.Unavailable) {
				w.Errorf("%s: %v, want unavailable", name, err)
			}
		}
	})
}
