package storetest

import (
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var quarantineTests = []sqlTest{
	{"lane use/until the next activation", useUntilNext},
	{"lane use/ended when its node is silent", useSilent},
	{"settle/returns what is proven", settleProven},
	{"settle/waits for every node", settleWaits},
	{"settle/quarantines what was acknowledged and is not in the ledger", settleUnknown},
	{"settle/forced, and proven later", settleForced},
	{"settle/an opening and a fenced epoch", settleOthers},
	{"release/in parts, replayed, refused", releaseParts},
	{"cancel/only among the epochs known", cancelKnown},
	{"cancel/voids are listed", cancelListed},
}

// inStoreMode makes a budget in store mode with one open bucket that has deducted 10 for "d".
func (w *sqlWorld) inStoreMode(name string) (bucket.Budget, bucket.Ref) {
	w.Helper()
	d := definition(name, 100, 1)
	d.Durability = budget.Store
	b := w.createOnly(d)
	ref := b.Buckets[0].Ref()
	w.open(ref)
	w.deliver()
	w.use(ref, "d", 10)
	return b, ref
}

// lease is how long a use is good for, silence how long its lease must have been over.
const lease, silence = 10 * time.Second, 20 * time.Second

func (w *sqlWorld) uses(node string, lane bucket.Lane, activation int64) bucket.UseState {
	w.Helper()
	return must(w.db.UseLane(w.ctx, node, lane, activation, lease))(w)
}

func useUntilNext(w *sqlWorld) {
	_, ref := w.inStoreMode("b")
	lane := laneOf(0)
	equal(w, "before it is known", w.uses("n1", bucket.Lane{Instance: "none"}, 1), bucket.UseOver)
	equal(w, "noted", w.uses("n1", lane, 1), bucket.UseNoted)
	equal(w, "again", w.uses("n1", lane, 1), bucket.UseNoted)
	equal(w, "too early", w.uses("n1", lane, 2), bucket.UseOver)
	uses := must(w.db.LaneUses(w.ctx, "n1"))(w)
	if len(uses) != 1 || uses[0] != (bucket.LaneUse{Node: "n1", Lane: lane, Activation: 1}) {
		w.Fatalf("uses %+v", uses)
	}
	must(w.db.NextActivation(w.ctx, lane, 1, "run-2"))(w)
	equal(w, "too late", w.uses("n2", lane, 1), bucket.UseOver)
	uses = must(w.db.LaneUses(w.ctx, "n1"))(w)
	if len(uses) != 1 || !uses[0].Over {
		w.Fatalf("uses %+v after the next activation", uses)
	}
	equal(w, "of another node", len(must(w.db.LaneUses(w.ctx, "n2"))(w)), 0)
	w.ok(w.db.ReportLane(w.ctx, "n1", lane, 1, map[bucket.Ref]int64{ref: 3}))
	w.ok(w.db.ReportLane(w.ctx, "n1", lane, 1, map[bucket.Ref]int64{ref: 1}))
	equal(w, "after the report", len(must(w.db.LaneUses(w.ctx, "n1"))(w)), 0)
	equal(w, "used again after the report", w.uses("n1", lane, 1), bucket.UseOver)
}

func useSilent(w *sqlWorld) {
	w.inStoreMode("b")
	lane := laneOf(0)
	w.uses("n1", lane, 1)
	w.uses("n2", lane, 1)
	const longer = time.Minute
	equal(w, "used, with a longer lease", must(w.db.UseLane(w.ctx, "n3", lane, 1, longer))(w), bucket.UseNoted)
	silent := func() []bucket.LaneUse {
		w.Helper()
		return must(w.db.SilentUses(w.ctx, silence, 10))(w)
	}
	w.clock.Advance(lease + silence)
	equal(w, "silent, not long enough", len(silent()), 0)
	w.clock.Advance(time.Millisecond)
	equal(w, "alive", len(must(w.db.SeeUses(w.ctx, "n1", lease))(w)), 1)
	found := silent()
	if len(found) != 1 || found[0] != (bucket.LaneUse{Node: "n2", Lane: lane, Activation: 1}) {
		w.Fatalf("silent: %+v", found)
	}
	alive := bucket.LaneUse{Node: "n1", Lane: lane, Activation: 1}
	w.ok(w.db.EndSilent(w.ctx, alive, silence))
	equal(w, "one that is alive is not ended", len(must(w.db.SeeUses(w.ctx, "n1", lease))(w)), 1)
	w.ok(w.db.EndSilent(w.ctx, found[0], silence))
	w.ok(w.db.EndSilent(w.ctx, found[0], silence))
	equal(w, "ended", len(must(w.db.SeeUses(w.ctx, "n2", lease))(w)), 0)
	equal(w, "used again", w.uses("n2", lane, 1), bucket.UseEnded)
	equal(w, "nobody is silent", len(silent()), 0)
	w.clock.Advance(longer - lease)
	must(w.db.SeeUses(w.ctx, "n1", lease))(w)
	if found = silent(); len(found) != 1 || found[0].Node != "n3" {
		w.Fatalf("silent after a longer lease: %+v", found)
	}
	w.ok(w.db.ReportLane(w.ctx, "n3", lane, 1, nil))
	must(w.db.NextActivation(w.ctx, lane, 1, "run-2"))(w)
	w.clock.Advance(time.Minute)
	if found = silent(); len(found) != 0 { // n1 of the activation before, who has to report
		w.Errorf("silent: %+v", found)
	}
}

func settleProven(w *sqlWorld) {
	b, ref := w.inStoreMode("b")
	lane := laneOf(0)
	w.uses("n1", lane, 1)
	must(w.db.NextActivation(w.ctx, lane, 1, "run-2"))(w)
	w.ok(w.db.ReportLane(w.ctx, "n1", lane, 1, map[bucket.Ref]int64{ref: w.epoch(ref).DrainedSeq}))
	s := must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: ref}))(w)
	if !s.Ended || s.Returned != 90 || s.Quarantined != 0 || len(s.Unheard) != 0 {
		w.Fatalf("settled %+v", s)
	}
	w.unchanged(b.ID, "a second settlement", func() {
		if s := must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: ref, Force: true}))(w); s.Ended {
			w.Errorf("settled again: %+v", s)
		}
	})
	equal(w, "status", w.epoch(ref).Status, ledger.Lost)
	equal(w, "figures", w.figures(b.ID), ledger.Figures{Total: 100, Undistributed: 90, Used: 10, Online: 1})
}

func settleWaits(w *sqlWorld) {
	b, ref := w.inStoreMode("b")
	lane := laneOf(0)
	w.uses("n1", lane, 1)
	w.uses("n2", lane, 1)
	w.ok(w.db.ReportLane(w.ctx, "n1", lane, 1, nil))
	w.unchanged(b.ID, "a settlement without all reports", func() {
		s := must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: ref}))(w)
		if s.Ended || len(s.Unheard) != 1 || s.Unheard[0] != "n2" {
			w.Errorf("settled %+v", s)
		}
	})
	w.ok(w.db.ReportLane(w.ctx, "n2", lane, 1, nil))
	equal(w, "returned", must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: ref}))(w).Returned, 90)
}

func settleUnknown(w *sqlWorld) {
	b, ref := w.inStoreMode("b")
	lane := laneOf(0)
	w.uses("n1", lane, 1)
	w.ok(w.db.ReportLane(w.ctx, "n1", lane, 1, map[bucket.Ref]int64{ref: w.epoch(ref).DrainedSeq + 1}))
	w.unchanged(b.ID, "a settlement before its log was drained anew", func() {
		for _, force := range []bool{false, true} {
			s := must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: ref, Force: force}))(w)
			if s.Ended || !s.Beyond || len(s.Unheard) != 0 {
				w.Errorf("force %v: settled %+v", force, s)
			}
		}
	})
	s := must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: ref, Drained: true}))(w)
	if !s.Ended || s.Quarantined != 90 || s.Returned != 0 {
		w.Fatalf("settled %+v", s)
	}
	equal(w, "figures", w.figures(b.ID), ledger.Figures{Total: 100, Quarantined: 90, Used: 10, Online: 1})
	equal(w, "cover", must(w.db.Judge(w.ctx, b.ID, nil))(w).Cover.Sum(), 0)
	q := must(w.db.Quarantined(w.ctx, b.ID, 10))(w)
	if len(q) != 1 || q[0].Quantity != 90 || q[0].Held() != 90 || q[0].Key != "b:bucket-0" || q[0].Epoch != ref.Epoch ||
		!strings.Contains(q[0].Cause, "log position") {
		w.Errorf("quarantine %+v", q)
	}
	equal(w, "released without proof", must(w.db.ReleaseProven(w.ctx, 10))(w), 0)
}

func settleForced(w *sqlWorld) {
	b, ref := w.inStoreMode("b")
	lane := laneOf(0)
	w.uses("n1", lane, 1)
	w.uses("n2", lane, 1)
	must(w.db.NextActivation(w.ctx, lane, 1, "run-2"))(w)
	s := must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: ref, Force: true}))(w)
	if !s.Ended || s.Quarantined != 90 || len(s.Unheard) != 2 {
		w.Fatalf("settled %+v", s)
	}
	w.ok(w.db.ReportLane(w.ctx, "n1", lane, 1, map[bucket.Ref]int64{ref: 1}))
	equal(w, "with one report", must(w.db.ReleaseProven(w.ctx, 10))(w), 0)
	w.ok(w.db.ReportLane(w.ctx, "n2", lane, 1, map[bucket.Ref]int64{ref: w.epoch(ref).DrainedSeq}))
	equal(w, "with a limit of none", must(w.db.ReleaseProven(w.ctx, 0))(w), 0)
	equal(w, "with both", must(w.db.ReleaseProven(w.ctx, 10))(w), 90)
	equal(w, "again", must(w.db.ReleaseProven(w.ctx, 10))(w), 0)
	equal(w, "figures", w.figures(b.ID), ledger.Figures{Total: 100, Undistributed: 90, Used: 10, Online: 1})
}

func settleOthers(w *sqlWorld) {
	d := definition("opening", 50, 1)
	d.Durability = budget.Store
	b := w.createOnly(d)
	w.uses("n1", laneOf(0), 1)
	equal(w, "opening", must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: b.Buckets[0].Ref()}))(w).Returned, 50)

	d.Name = "opening and fenced"
	b = w.createOnly(d)
	w.ok(w.db.Fence(w.ctx, b.Buckets[0].Ref(), "a test"))
	equal(w, d.Name, must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: b.Buckets[0].Ref()}))(w).Returned, 50)

	_, ref := w.inStoreMode("fenced")
	w.ok(w.db.ReportLane(w.ctx, "n1", laneOf(0), 1, nil))
	w.ok(w.db.Fence(w.ctx, ref, "a test"))
	equal(w, "fenced", must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: ref}))(w).Quarantined, 90)
	equal(w, "no proof for a fenced one", must(w.db.ReleaseProven(w.ctx, 10))(w), 0)
}

func releaseParts(w *sqlWorld) {
	b, ref := w.inStoreMode("b")
	w.uses("n1", laneOf(0), 1)
	must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: ref, Force: true}))(w)
	order := bucket.ReleaseOrder{Budget: b.ID, RequestID: "r1", Quantity: 40, Reason: "looked", By: "op"}
	release := func(order bucket.ReleaseOrder) (int64, bool) {
		w.Helper()
		units, replayed, err := w.db.Release(w.ctx, order)
		w.ok(err)
		return units, replayed
	}
	if units, replayed := release(order); units != 40 || replayed {
		w.Errorf("released %d, %v", units, replayed)
	}
	w.unchanged(b.ID, "what is refused or replayed", func() {
		if units, replayed := release(order); units != 40 || !replayed {
			w.Errorf("released again %d, %v", units, replayed)
		}
		other := order
		other.Quantity = 41
		_, _, err := w.db.Release(w.ctx, other)
		w.refused(err, budget.RequestConflict)
		_, _, err = w.db.Release(w.ctx, bucket.ReleaseOrder{Budget: b.ID, RequestID: "r2", Quantity: 51})
		if e := w.refused(err, budget.AmountExceedsRemaining); e.Available == nil || *e.Available != 50 {
			w.Errorf("available %v", e.Available)
		}
		_, _, err = w.db.Release(w.ctx, bucket.ReleaseOrder{Budget: b.ID + 99, RequestID: "r2"})
		w.refused(err, budget.BudgetNotFound)
	})
	equal(w, "held", must(w.db.Quarantined(w.ctx, b.ID, 10))(w)[0].Held(), 50)
	all := bucket.ReleaseOrder{Budget: b.ID, RequestID: "r3", Reason: "the rest", By: "op"}
	if units, replayed := release(all); units != 50 || replayed {
		w.Errorf("released the rest: %d, %v", units, replayed)
	}
	if units, replayed := release(all); units != 50 || !replayed {
		w.Errorf("released the rest again: %d, %v", units, replayed)
	}
	equal(w, "figures", w.figures(b.ID), ledger.Figures{Total: 100, Undistributed: 90, Used: 10, Online: 1})
	w.unchanged(b.ID, "a release of all there is, which is nothing", func() { // its id would release what comes later
		_, _, err := w.db.Release(w.ctx, bucket.ReleaseOrder{Budget: b.ID, RequestID: "r4", Reason: "early", By: "op"})
		if e := w.refused(err, budget.AmountExceedsRemaining); e.Available == nil || *e.Available != 0 || e.Message != "nothing is in quarantine" {
			w.Errorf("%v, available %v", e, e.Available)
		}
	})
}

func cancelKnown(w *sqlWorld) {
	b, ref := w.inStoreMode("b")
	cancel := func(id string, known ...bucket.Ref) (ledger.Deduction, bool) {
		w.Helper()
		d, stale, err := w.db.CancelKnown(w.ctx, b.ID, id, known)
		w.ok(err)
		return d, stale
	}
	w.unchanged(b.ID, "a cancel that knows too little", func() {
		if _, stale := cancel("x"); !stale {
			w.Error("no epoch was named")
		}
		before := ref
		before.Epoch--
		if _, stale := cancel("x", before); !stale {
			w.Error("an epoch has begun since")
		}
	})
	if _, found := w.recorded(b.ID, "x"); found {
		w.Error("a stale cancel left a tombstone")
	}
	if d, stale := cancel("x", ref); stale || d.State != ledger.StateVoid {
		w.Errorf("cancelled %+v, stale %v", d, stale)
	}
	if d, stale := cancel("x"); stale || d.State != ledger.StateVoid {
		w.Errorf("cancelled again %+v, stale %v", d, stale)
	}
	equal(w, "voids", strings.Join(must(w.db.Voids(w.ctx, b.ID, 0, 10))(w), " "), "x")
	if d, stale := cancel("d"); stale || d.State != ledger.StateRolledBack || d.RolledBack != 10 {
		w.Errorf("a deduction is given back whatever is known: %+v, stale %v", d, stale)
	}
	_, _, err := w.db.CancelKnown(w.ctx, b.ID+99, "x", nil)
	w.refused(err, budget.BudgetNotFound)
}

// cancelListed: what got a tombstone is listed once, in the order in which it did, page by page, byte by
// byte; a deduction that was given back is not, nor another budget's.
func cancelListed(w *sqlWorld) {
	b, ref := w.inStoreMode("b")
	other, otherRef := w.inStoreMode("other")
	ids := []string{"z", "a", "A", "a ", "007", "7", "\xff\x00", strings.Repeat("x", 128)}
	for _, id := range append(ids, "d", "a") {
		_, _, err := w.db.CancelKnown(w.ctx, b.ID, id, []bucket.Ref{ref})
		w.ok(err)
	}
	_, _, err := w.db.CancelKnown(w.ctx, other.ID, "theirs", []bucket.Ref{otherRef})
	w.ok(err)
	for after := range len(ids) + 2 {
		for _, limit := range []int{1, 3, 100} {
			want := ids[min(after, len(ids)):]
			want = want[:min(limit, len(want))]
			got := must(w.db.Voids(w.ctx, b.ID, int64(after), limit))(w)
			equal(w, "voids", strings.Join(got, "|"), strings.Join(want, "|"))
		}
	}
	equal(w, "voids of the other", strings.Join(must(w.db.Voids(w.ctx, other.ID, 0, 10))(w), "|"), "theirs")
}
