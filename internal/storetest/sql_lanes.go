package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var laneDownTests = []sqlTest{
	{"lane/reached, every note changes the row", laneReached},
	{"lane/declared down, compare and set", laneDeclared},
	{"lane/declared down by many at once", laneDeclaredAtOnce},
	{"lose/many of several budgets", loseMany},
	{"lose/nothing", loseNothing},
	{"settle/reopens what has ended and hands out", settleReopens},
	{"settle/leaves lanes alone", settleWithout},
	{"settle/nothing to hand out", settleEmpty},
	{"settle/pending shrinks and many budgets", settleMany},
	{"unfinished/budgets to settle", unfinishedSettle},
	{"unfinished/open runs", unfinishedRuns},
}

func laneReached(w *sqlWorld) {
	lanes := w.lanes(3)
	rows := func() map[bucket.Lane]bucket.LaneRow { return must(w.db.LaneRows(w.ctx, lanes))(w) }
	for _, lane := range lanes {
		equal(w, "never reached", rows()[lane], bucket.LaneRow{Lane: lane, Identity: "run-1", Activation: 1})
	}
	unknown := bucket.Lane{Instance: "nowhere", Index: 3}
	w.ok(w.db.Reached(w.ctx, []bucket.Lane{lanes[1], unknown, lanes[0], lanes[1]}))
	now := w.db.Now().UnixMilli()
	equal(w, "reached", rows()[lanes[0]].ReachedMS, now)
	equal(w, "named twice", rows()[lanes[1]].ReachedMS, now)
	equal(w, "not reached", rows()[lanes[2]].ReachedMS, 0)
	w.ok(w.db.Reached(w.ctx, lanes[:1]))
	w.ok(w.db.Reached(w.ctx, lanes[:1]))
	equal(w, "twice more in the same millisecond", rows()[lanes[0]].ReachedMS, now+2)
	w.clock.Advance(time.Second)
	w.ok(w.db.Reached(w.ctx, lanes[:1]))
	equal(w, "a second later", rows()[lanes[0]].ReachedMS, now+1000)
	equal(w, "read alone", must(w.db.Lane(w.ctx, lanes[0], "x"))(w), rows()[lanes[0]])
	equal(w, "of no lanes", len(must(w.db.LaneRows(w.ctx, nil))(w)), 0)
	w.ok(w.db.Reached(w.ctx, nil))
	got := must(w.db.LaneRows(w.ctx, []bucket.Lane{unknown, lanes[2]}))(w)
	equal(w, "of an unknown lane", len(got), 1)
}

func laneDeclared(w *sqlWorld) {
	lane := w.lanes(2)[0]
	row := func() bucket.LaneRow { return must(w.db.Lane(w.ctx, lane, "run-1"))(w) }
	declare := func(what string, seen bucket.LaneRow, want bool) {
		w.Helper()
		before := row()
		after, declared, err := w.db.DeclareDown(w.ctx, seen)
		w.ok(err)
		equal(w, what, declared, want)
		if want {
			before.Activation++
		}
		equal(w, what+": the row", after, before)
		equal(w, what+": the row read", row(), before)
	}
	first := row()
	w.ok(w.db.Reached(w.ctx, []bucket.Lane{lane}))
	declare("reached since", first, false)
	seen := row()
	w.clock.Advance(time.Hour)
	declare("not reached for an hour", seen, true)
	declare("again", seen, false)
	must(w.db.NextActivation(w.ctx, lane, 2, "run-2"))(w)
	declare("moved on since", bucket.LaneRow{Lane: lane, Activation: 2, ReachedMS: seen.ReachedMS}, false)
	declare("as it is now", row(), true)
	equal(w, "its identity", row().Identity, "run-2")
	equal(w, "another lane", must(w.db.Lane(w.ctx, laneOf(1), "run-1"))(w).Activation, 1)
	_, _, err := w.db.DeclareDown(w.ctx, bucket.LaneRow{Lane: bucket.Lane{Instance: "nowhere"}, Activation: 1})
	w.refused(err, budget.InstanceNotFound)
}

func laneDeclaredAtOnce(w *sqlWorld) {
	lane := w.lanes(1)[0]
	seen := must(w.db.Lane(w.ctx, lane, "run-1"))(w)
	var declared atomic.Int64
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			row, mine, err := w.db.DeclareDown(w.ctx, seen)
			if err != nil || row.Activation != 2 {
				w.Errorf("%+v, %v", row, err)
			}
			if mine {
				declared.Add(1)
			}
		})
	}
	all.Wait()
	equal(w, "declared", declared.Load(), 1)
}

func loseMany(w *sqlWorld) {
	b, other := w.create("b", 70, 7), w.create("other", 20, 2)
	refs := make([]bucket.Ref, 7)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	w.use(refs[0], "order", 4)
	w.offline(b.ID, refs[1], bucket.ByService, false, nil) // ended
	must(w.db.Lose(w.ctx, refs[2]))(w)                     // ended
	equal(w, "ended", w.ends(b.ID, refs[3], false), true)  // closing
	w.ok(w.db.Fence(w.ctx, refs[4], "broken"))
	again := must(w.db.Reopen(w.ctx, b.ID, refs[1].Bucket))(w).Opened[0].Ref() // opening
	before, wasOther := w.read(b.ID), w.read(other.ID)
	named := []bucket.Ref{other.Buckets[1].Ref(), refs[4], refs[0], refs[1], again, refs[3], refs[2],
		{Bucket: 1 << 40, Epoch: 1, Activation: 1}, refs[0]}
	lost := must(w.db.LoseAll(w.ctx, named))(w)
	if want := []bucket.Ref{refs[0], again, refs[3], refs[4], other.Buckets[1].Ref()}; !slices.Equal(lost, want) {
		w.Errorf("lost %+v, want %+v", lost, want)
	}
	after := w.read(b.ID)
	for i, want := range []ledger.Status{ledger.Lost, ledger.Lost, ledger.Lost, ledger.Lost, ledger.Lost, ledger.Open, ledger.Open} {
		equal(w, "status", after.Buckets[i].Epoch.Status, want)
		if want == ledger.Lost {
			equal(w, "outstanding", after.Buckets[i].Epoch.Outstanding, 0)
			equal(w, "out_cnt", after.Buckets[i].OutCnt, 0)
		}
	}
	equal(w, "figures", w.figures(b.ID), ledger.Figures{Total: 70, Undistributed: 46, Remaining: 20, Used: 4,
		Online: 6, Offline: 1})
	equal(w, "figures of the other", w.figures(other.ID),
		ledger.Figures{Total: 20, Undistributed: 10, Remaining: 10, Online: 2})
	equal(w, "changes of the list", after.ListVersion-before.ListVersion, 4)
	equal(w, "changes of the other's list", w.read(other.ID).ListVersion-wasOther.ListVersion, 1)
	for _, g := range must(w.db.Unfinished(w.ctx, 100))(w).Grants {
		if slices.Contains(lost, g.Order.Ref) {
			w.Errorf("a grant of a lost epoch is pending: %+v", g)
		}
	}
	w.unchanged(b.ID, "losing again", func() {
		equal(w, "lost", len(must(w.db.LoseAll(w.ctx, named))(w)), 0)
	})
}

func loseNothing(w *sqlWorld) {
	equal(w, "nothing named", len(must(w.db.LoseAll(w.ctx, nil))(w)), 0)
	equal(w, "nobody's", len(must(w.db.LoseAll(w.ctx, []bucket.Ref{{Bucket: 9, Epoch: 1, Activation: 1}}))(w)), 0)
}

func settleReopens(w *sqlWorld) {
	b := w.create("b", 80, 8)
	refs := make([]bucket.Ref, 8)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	must(w.db.NextActivation(w.ctx, laneOf(1), 1, "run-2"))(w)
	must(w.db.LoseAll(w.ctx, refs[1:3]))(w)                             // idle
	w.offline(b.ID, refs[3], bucket.ByService, false, nil)              // may take
	w.offline(b.ID, refs[4], bucket.ByOperator, false, nil)             // stays
	w.ok(w.db.Fence(w.ctx, refs[5], "broken"))                          // stays
	must(w.db.Ending(w.ctx, b.ID, refs[6], bucket.ByService, false))(w) // closing: stays
	before := w.read(b.ID)                                              // U is 40
	h := must(w.db.Settle(w.ctx, []int64{b.ID}))(w)
	if got, want := amounts(b, h), []int64{8, 8, 8, 8, 0, 0, 0, 8}; !slices.Equal(got, want) {
		w.Errorf("granted %v, want %v", got, want)
	}
	after := w.read(b.ID)
	for i, at := range []int{1, 2, 3} {
		opened := h.Opened[i]
		equal(w, "opened as read", opened, after.Buckets[at])
		equal(w, "online", opened.Online, true)
		equal(w, "out_cnt", opened.OutCnt, 1)
		equal(w, "activation", opened.Epoch.Activation, []int64{2, 1, 1}[i])
		equal(w, "epoch", opened.Epoch.Number, 2)
		equal(w, "counters", opened.CountersFrom, []int64{2, 2, 1}[i])
		equal(w, "status", opened.Epoch.Status, ledger.Opening)
		equal(w, "outstanding", opened.Epoch.Outstanding, 8)
	}
	equal(w, "opened", len(h.Opened), 3)
	equal(w, "changes of the list", after.ListVersion-before.ListVersion, 3)
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 0)
	equal(w, "to settle", len(must(w.db.Unfinished(w.ctx, 100))(w).Offline), 0)
	w.unchanged(b.ID, "settling again", func() {
		h := must(w.db.Settle(w.ctx, []int64{b.ID}))(w)
		equal(w, "made", len(h.Opened)+len(h.Grants), 0)
	})
	for i := range h.Opened {
		w.open(h.Opened[i].Ref())
	}
	w.deliver()
	w.use(h.Opened[0].Ref(), "order", 8)
}

func settleWithout(w *sqlWorld) {
	b := w.create("b", 60, 6)
	refs := make([]bucket.Ref, 6)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	must(w.db.LoseAll(w.ctx, refs[:2]))(w)
	w.offline(b.ID, refs[2], bucket.ByService, false, nil)
	h := must(w.db.Settle(w.ctx, []int64{b.ID}, laneOf(0), laneOf(2), laneOf(5)))(w) // U is 30
	if got, want := amounts(b, h), []int64{0, 10, 0, 10, 10, 0}; !slices.Equal(got, want) {
		w.Errorf("granted %v, want %v", got, want)
	}
	if len(h.Opened) != 1 || h.Opened[0].ID != refs[1].Bucket {
		w.Errorf("opened %+v, want bucket 1", h.Opened)
	}
	left := w.read(b.ID)
	equal(w, "left alone", left.Buckets[0].Epoch.Status, ledger.Lost)
	equal(w, "in the list", left.Buckets[0].Online, true)
	h = must(w.db.Settle(w.ctx, []int64{b.ID}))(w)
	equal(w, "opened once the lane is back", len(h.Opened), 1)
	equal(w, "without units", len(h.Grants), 0)
}

func settleEmpty(w *sqlWorld) {
	b := w.create("b", 3, 3)
	w.use(b.Buckets[0].Ref(), "order", 1)
	must(w.db.Lose(w.ctx, b.Buckets[0].Ref()))(w)
	h := must(w.db.Settle(w.ctx, []int64{b.ID, b.ID, b.ID + 1}))(w)
	equal(w, "grants", len(h.Grants), 0)
	equal(w, "opened", len(h.Opened), 1)
	none := must(w.db.Settle(w.ctx, nil))(w)
	equal(w, "of no budgets", len(none.Opened)+len(none.Grants), 0)
	none = must(w.db.Settle(w.ctx, []int64{b.ID + 7}))(w)
	equal(w, "of an unknown one", len(none.Opened)+len(none.Grants), 0)
}

func settleMany(w *sqlWorld) {
	var ids []int64
	var lose []bucket.Ref
	for i := range 5 {
		b := w.create(string(rune('a'+i)), 40, 4)
		ids = append(ids, b.ID)
		lose = append(lose, b.Buckets[i%4].Ref(), b.Buckets[(i+1)%4].Ref())
	}
	w.adjusts(w.adjustment(w.read(ids[1]), "less", -15), bucket.AdjustmentPending, false)
	must(w.db.LoseAll(w.ctx, lose))(w)
	h := must(w.db.Settle(w.ctx, []int64{ids[4], ids[0], ids[3], ids[1]}))(w)
	equal(w, "opened", len(h.Opened), 8)
	for i, id := range ids {
		got := amounts(w.read(id), h)
		want := map[int][]int64{1: {2, 1, 1, 1}, 2: {0, 0, 0, 0}}[i]
		if want == nil {
			want = []int64{5, 5, 5, 5}
		}
		if !slices.Equal(got, want) {
			w.Errorf("budget %d: granted %v, want %v", i, got, want)
		}
	}
	equal(w, "pending shrink kept", w.figures(ids[1]).Undistributed, 15)
	equal(w, "not named", w.figures(ids[2]).Undistributed, 20)
	if got := must(w.db.Unfinished(w.ctx, 100))(w).Offline; !slices.Equal(got, ids[2:3]) {
		w.Errorf("to settle %v, want %v", got, ids[2:3])
	}
}

// unfinishedSettle: what lies on lanes that cannot be used neither hides others nor is looked at again
// and again, but the units that came back from there find a home.
func unfinishedSettle(w *sqlWorld) {
	idle := func(name string, total int64, buckets int, lost ...int) bucket.Budget {
		b := w.create(name, total, buckets)
		for _, i := range lost {
			must(w.db.Lose(w.ctx, b.Buckets[i].Ref()))(w)
		}
		return b
	}
	w.create("fine", 30, 3)
	one := idle("one", 30, 3, 0)         // lane 0 lost, others could take
	whole := idle("whole", 10, 1, 0)     // all of it was on lane 0
	both := idle("both", 20, 2, 0, 1)    // on lanes 0 and 1
	retired := idle("retired", 20, 2, 0) // the other one was taken offline by the service
	w.offline(retired.ID, retired.Buckets[1].Ref(), bucket.ByService, true, nil)
	paused := true
	must(w.db.Change(w.ctx, retired.ID, bucket.Change{Paused: &paused}))(w)
	empty := w.create("empty", 2, 2) // nothing to hand out
	w.use(empty.Buckets[0].Ref(), "order", 1)
	must(w.db.Lose(w.ctx, empty.Buckets[0].Ref()))(w)
	operator := idle("operator", 20, 2, 0)
	w.offline(operator.ID, operator.Buckets[1].Ref(), bucket.ByOperator, false, nil)
	read := func(limit int, without ...bucket.Lane) []int64 {
		got := must(w.db.Unfinished(w.ctx, limit, without...))(w).Offline
		slices.Sort(got)
		return got
	}
	for _, c := range []struct {
		name    string
		without []bucket.Lane
		want    []int64
	}{
		{"all lanes", nil, []int64{one.ID, whole.ID, both.ID, retired.ID, empty.ID, operator.ID}},
		{"without the lost lane", []bucket.Lane{laneOf(0)}, []int64{one.ID, both.ID, retired.ID}},
		{"without both lanes", []bucket.Lane{laneOf(0), laneOf(1)}, []int64{one.ID}},
		{"without any", []bucket.Lane{laneOf(0), laneOf(1), laneOf(2)}, nil},
	} {
		if got := read(100, c.without...); !slices.Equal(got, c.want) {
			w.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	equal(w, "limited", len(read(2)), 2)
	must(w.db.Settle(w.ctx, []int64{one.ID, both.ID, retired.ID}, laneOf(0)))(w)
	equal(w, "settled without the lost lane", len(read(100, laneOf(0))), 0)
	must(w.db.Settle(w.ctx, read(100)))(w)
	equal(w, "settled", len(read(100)), 0)
}

func unfinishedRuns(w *sqlWorld) {
	first, second := w.create("first", 30, 2), w.create("second", 30, 1)
	equal(w, "runs", len(must(w.db.Unfinished(w.ctx, 100))(w).Runs), 0)
	began := w.db.Now()
	must(w.db.BeginRun(w.ctx, bucket.Run{Budget: second.ID, Target: second.Buckets[0].Ref(), Units: 3}))(w)
	w.clock.Advance(time.Minute)
	must(w.db.BeginRun(w.ctx, bucket.Run{Budget: first.ID, Target: first.Buckets[0].Ref(), Units: 3}))(w)
	want := []bucket.OpenRun{{Budget: second.ID, Number: 1, Since: began},
		{Budget: first.ID, Number: 1, Since: began.Add(time.Minute)}}
	if got := must(w.db.Unfinished(w.ctx, 100))(w).Runs; !slices.Equal(got, want) {
		w.Errorf("runs %+v, want %+v", got, want)
	}
	equal(w, "limited", len(must(w.db.Unfinished(w.ctx, 1))(w).Runs), 1)
	w.ok(w.db.EndRun(w.ctx, second.ID, 1, 0))
	equal(w, "one was ended", len(must(w.db.Unfinished(w.ctx, 100))(w).Runs), 1)
}
