package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var departureTests = []sqlTest{
	{"drain/no epoch begins on the lane", drainKeepsOut},
	{"drain/a lane that was never reached", drainUnknownLane},
	{"move/an ended bucket with its units", moveEnded},
	{"move/what does not move", moveNot},
	{"move/offline and retired buckets", moveOffline},
	{"move/by many at once", moveAtOnce},
	{"move/the keys left behind", moveClears},
	{"move/keys stay while somebody may acknowledge", moveWaitsForUses},
	{"move/quarantine stays with the old lane", moveQuarantined},
}

// drain marks lanes as being drained.
func (w *sqlWorld) drain(lanes ...bucket.Lane) {
	w.Helper()
	w.ok(w.db.SetDraining(w.ctx, lanes, true))
}

// move moves a bucket whose epoch has ended; it must move.
func (w *sqlWorld) move(budgetID, bucketID int64, from, to bucket.Lane) bucket.Handout {
	w.Helper()
	h, moved, err := w.db.Move(w.ctx, bucket.Moving{Budget: budgetID, Bucket: bucketID, From: from, To: to})
	if err != nil || !moved {
		w.Fatalf("move: moved %v, %v", moved, err)
	}
	return h
}

func (w *sqlWorld) load(lane bucket.Lane) bucket.LaneLoad {
	w.Helper()
	return must(w.db.LaneLoads(w.ctx, []bucket.Lane{lane}))(w)[lane]
}

func drainKeepsOut(w *sqlWorld) {
	b := w.create("b", 90, 3)
	lane := laneOf(0)
	w.drain(lane)
	w.drain(lane)
	equal(w, "draining", must(w.db.LaneRows(w.ctx, []bucket.Lane{lane}))(w)[lane].Draining, true)
	equal(w, "another", must(w.db.LaneRows(w.ctx, []bucket.Lane{laneOf(1)}))(w)[laneOf(1)].Draining, false)
	equal(w, "known lanes", len(must(w.db.KnownLanes(w.ctx))(w)), 3)
	_, _, err := w.db.Create(w.ctx, definition("there", 10, 1), []bucket.Lane{lane})
	w.refused(err, budget.Unavailable)
	if !errors.Is(err, bucket.ErrDraining) {
		w.Errorf("create on a lane that is being drained: %v", err)
	}
	w.offline(b.ID, b.Buckets[0].Ref(), bucket.ByService, true, nil)
	w.unchanged(b.ID, "reopening it there", func() {
		equal(w, "opened", len(must(w.db.Reopen(w.ctx, b.ID, b.Buckets[0].ID))(w).Opened), 0)
	})
	h := must(w.db.Settle(w.ctx, []int64{b.ID}))(w)
	equal(w, "opened by settle", len(h.Opened), 0)
	for _, g := range h.Grants {
		equal(w, "granted elsewhere", g.Lane == lane, false)
	}
	equal(w, "handed out to the others", w.figures(b.ID).Undistributed, 0)
	equal(w, "to settle", len(must(w.db.Unfinished(w.ctx, 10))(w).Offline), 0)
	w.ok(w.db.SetDraining(w.ctx, []bucket.Lane{lane}, false))
	equal(w, "to settle, once it is over", slices.Contains(must(w.db.Unfinished(w.ctx, 10))(w).Offline, b.ID), true)
	equal(w, "opened again", len(must(w.db.Settle(w.ctx, []int64{b.ID}))(w).Opened), 1)
}

func drainUnknownLane(w *sqlWorld) {
	lane := bucket.Lane{Instance: "new", Index: 2}
	w.ok(w.db.SetDraining(w.ctx, []bucket.Lane{lane}, false))
	equal(w, "rows", len(must(w.db.KnownLanes(w.ctx))(w)), 0)
	w.drain(lane)
	row := must(w.db.Lane(w.ctx, lane, "somebody"))(w)
	equal(w, "its row", row, bucket.LaneRow{Lane: lane, Activation: 1, Draining: true})
	row = must(w.db.NextActivation(w.ctx, lane, 1, "somebody"))(w)
	equal(w, "once it is met", row, bucket.LaneRow{Lane: lane, Identity: "somebody", Activation: 2, Draining: true})
}

func moveEnded(w *sqlWorld) {
	b := w.create("b", 90, 3)
	from, to := laneOf(0), laneOf(1)
	must(w.db.NextActivation(w.ctx, to, 1, "run-2"))(w)
	must(w.db.NextActivation(w.ctx, to, 2, "run-3"))(w)
	w.drain(from)
	w.use(b.Buckets[0].Ref(), "a", 4)
	w.offline(b.ID, b.Buckets[0].Ref(), bucket.ByService, true, nil)
	list := w.read(b.ID).ListVersion
	h := w.move(b.ID, b.Buckets[0].ID, from, to)
	after := w.read(b.ID)
	moved := after.Buckets[0]
	equal(w, "list version grew", after.ListVersion > list, true)
	equal(w, "lane", moved.Lane, to)
	equal(w, "epoch", moved.Epoch.Number, 2)
	equal(w, "status", moved.Epoch.Status, ledger.Opening)
	equal(w, "counters", moved.CountersFrom, 2)
	equal(w, "counters of another", after.Buckets[1].CountersFrom, 1)
	equal(w, "activation", moved.Epoch.Activation, 3)
	equal(w, "outstanding", moved.Epoch.Outstanding, 26)
	if len(h.Opened) != 1 || h.Opened[0] != moved {
		w.Fatalf("opened %+v, read %+v", h.Opened, moved)
	}
	if len(h.Grants) != 1 || h.Grants[0] != (bucket.PendingGrant{Lane: to,
		Order: bucket.GrantOrder{Ref: moved.Ref(), Number: 1, Amount: 26}}) {
		w.Errorf("granted %+v", h.Grants)
	}
	equal(w, "left", w.load(from), bucket.LaneLoad{Moved: 1, Uncleared: 1, Held: 1})
	equal(w, "there", w.load(to), bucket.LaneLoad{Buckets: 2})
	page := must(w.db.OnLane(w.ctx, to, 0, 10))(w)
	equal(w, "on the lane", len(page), 2)
	equal(w, "epoch on the lane", page[0].Row, moved.Epoch)
	equal(w, "after the first", len(must(w.db.OnLane(w.ctx, to, page[0].Row.Bucket, 10))(w)), 1)
	w.open(moved.Ref())
	w.deliver()
	equal(w, "entry", w.use(moved.Ref(), "b", 1).Entry, 2)
	w.unchanged(b.ID, "moving it again", func() {
		_, again, err := w.db.Move(w.ctx, bucket.Moving{Budget: b.ID, Bucket: moved.ID, From: from, To: to})
		w.ok(err)
		equal(w, "moved again", again, false)
	})
}

func moveNot(w *sqlWorld) {
	b, other := w.create("b", 90, 3), w.create("other", 3, 1)
	ref := b.Buckets[0].Ref()
	try := func(what string, m bucket.Moving, code budget.Code) {
		w.Helper()
		w.unchanged(b.ID, what, func() {
			w.Helper()
			_, moved, err := w.db.Move(w.ctx, m)
			equal(w, what, moved, false)
			if code == "" {
				w.ok(err)
				return
			}
			w.refused(err, code)
		})
	}
	m := bucket.Moving{Budget: b.ID, Bucket: ref.Bucket, From: laneOf(0), To: laneOf(1)}
	w.drain(laneOf(0))
	try("a live epoch", m, "")
	must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByService, true))(w)
	try("a closing epoch", m, "")
	must(w.db.CloseEpoch(w.ctx, b.ID, ref, w.closing(ref), nil))(w)
	wrong := m
	wrong.Budget = other.ID
	try("another budget's", wrong, "")
	wrong = m
	wrong.From = laneOf(2)
	try("from another lane", wrong, "")
	wrong = m
	wrong.To = bucket.Lane{Instance: "nowhere"}
	try("to a lane that was never reached", wrong, budget.Unavailable)
	w.drain(laneOf(1))
	try("to a lane that is being drained", m, budget.Unavailable)
	w.ok(w.db.SetDraining(w.ctx, []bucket.Lane{laneOf(0), laneOf(1)}, false))
	try("from a lane that is not being drained", m, "")
}

func moveOffline(w *sqlWorld) {
	b := w.create("b", 90, 3)
	from, to := laneOf(0), laneOf(2)
	w.drain(from)
	w.offline(b.ID, b.Buckets[0].Ref(), bucket.ByOperator, false, nil)
	h := w.move(b.ID, b.Buckets[0].ID, from, to)
	equal(w, "opened", len(h.Opened)+len(h.Grants), 0)
	after := w.read(b.ID).Buckets[0]
	equal(w, "lane", after.Lane, to)
	equal(w, "online", after.Online, false)
	equal(w, "by", after.OfflineBy, bucket.ByOperator)
	equal(w, "epoch", after.Epoch.Number, 1)
	h = must(w.db.Reopen(w.ctx, b.ID, after.ID))(w)
	equal(w, "opened there", h.Opened[0].Lane, to)
	equal(w, "counters of the next epoch", h.Opened[0].CountersFrom, 2)
}

func moveAtOnce(w *sqlWorld) {
	b := w.create("b", 90, 3)
	from := laneOf(0)
	w.drain(from)
	w.offline(b.ID, b.Buckets[0].Ref(), bucket.ByService, true, nil)
	done := make(chan bool)
	for i := range 8 {
		go func() {
			_, moved, err := w.db.Move(w.ctx, bucket.Moving{Budget: b.ID, Bucket: b.Buckets[0].ID, From: from, To: laneOf(1 + i%2)})
			if err != nil {
				w.Errorf("move: %v", err)
			}
			done <- moved
		}()
	}
	times := 0
	for range 8 {
		if <-done {
			times++
		}
	}
	equal(w, "moved", times, 1)
	equal(w, "epoch", w.read(b.ID).Buckets[0].Epoch.Number, 2)
}

func (w *sqlWorld) departed(lane bucket.Lane) []bucket.Ref {
	w.Helper()
	return must(w.db.Departed(w.ctx, lane, silence, 10))(w)
}

func moveClears(w *sqlWorld) {
	b := w.create("b", 90, 3)
	from, to := laneOf(0), laneOf(1)
	w.drain(from)
	ref := b.Buckets[0].Ref()
	w.offline(b.ID, ref, bucket.ByService, true, nil)
	w.move(b.ID, ref.Bucket, from, to)
	equal(w, "under the same activation", len(w.departed(from)), 0)
	must(w.db.NextActivation(w.ctx, from, 1, "run-1"))(w)
	equal(w, "held", w.load(from), bucket.LaneLoad{Moved: 1, Uncleared: 1})
	if got := w.departed(from); !slices.Equal(got, []bucket.Ref{ref}) {
		w.Fatalf("departed %+v, want %+v", got, ref)
	}
	w.ok(w.db.Cleared(w.ctx, from, []bucket.Ref{{Bucket: ref.Bucket, Epoch: 9, Activation: 1}}))
	equal(w, "another epoch's", w.load(from).Uncleared, 1)
	w.ok(w.db.Cleared(w.ctx, from, []bucket.Ref{ref}))
	w.ok(w.db.Cleared(w.ctx, from, nil))
	equal(w, "cleared", w.load(from), bucket.LaneLoad{Moved: 1})
	equal(w, "departed", len(w.departed(from)), 0)
	w.drain(from)
	equal(w, "drained again, while it is", w.load(from).Moved, 1)
	w.ok(w.db.SetDraining(w.ctx, []bucket.Lane{from}, false))
	equal(w, "once it is over", w.load(from), bucket.LaneLoad{})
	// It comes back, and leaves again.
	w.drain(to)
	w.open(w.read(b.ID).Buckets[0].Ref())
	w.deliver()
	w.offline(b.ID, w.read(b.ID).Buckets[0].Ref(), bucket.ByService, true, nil)
	w.move(b.ID, ref.Bucket, to, from)
	w.open(w.read(b.ID).Buckets[0].Ref())
	w.deliver()
	w.ok(w.db.SetDraining(w.ctx, []bucket.Lane{to}, false))
	w.drain(from)
	w.offline(b.ID, w.read(b.ID).Buckets[0].Ref(), bucket.ByService, true, nil)
	w.move(b.ID, ref.Bucket, from, to)
	must(w.db.NextActivation(w.ctx, from, 2, "run-1"))(w)
	if got := w.departed(from); len(got) != 1 || got[0].Epoch != 3 || got[0].Activation != 2 {
		w.Errorf("departed the second time: %+v", got)
	}
}

func moveWaitsForUses(w *sqlWorld) {
	b, ref := w.inStoreMode("b")
	from, to := laneOf(0), w.lanes(2)[1]
	w.uses("n1", from, 1)
	w.uses("n2", from, 1)
	w.drain(from)
	w.offline(b.ID, ref, bucket.ByService, true, nil)
	w.move(b.ID, ref.Bucket, from, to)
	must(w.db.NextActivation(w.ctx, from, 1, "run-1"))(w)
	w.uses("n3", from, 2)
	equal(w, "two have not reported", len(w.departed(from)), 0)
	w.ok(w.db.ReportLane(w.ctx, "n1", from, 1, nil))
	equal(w, "one has not reported", len(w.departed(from)), 0)
	w.clock.Advance(lease + silence)
	equal(w, "and is not silent for long enough", len(w.departed(from)), 0)
	w.clock.Advance(time.Millisecond)
	equal(w, "it is silent", len(w.departed(from)), 1)
	must(w.db.SeeUses(w.ctx, "n2", lease))(w)
	equal(w, "it is alive", len(w.departed(from)), 0)
	w.ok(w.db.ReportLane(w.ctx, "n2", from, 1, nil))
	equal(w, "all have reported", len(w.departed(from)), 1)
}

func moveQuarantined(w *sqlWorld) {
	b, ref := w.inStoreMode("b")
	from, to := laneOf(0), w.lanes(2)[1]
	w.uses("n1", from, 1)
	must(w.db.NextActivation(w.ctx, from, 1, "run-2"))(w)
	s := must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: ref, Force: true}))(w)
	equal(w, "quarantined", s.Quarantined, 90)
	w.drain(from)
	w.move(b.ID, ref.Bucket, from, to)
	w.unchanged(b.ID, "a look at the new lane, which nobody used", func() {
		equal(w, "released without a report", must(w.db.ReleaseProven(w.ctx, 10))(w), 0)
	})
	w.ok(w.db.ReportLane(w.ctx, "n1", from, 1, nil))
	equal(w, "released by the report", must(w.db.ReleaseProven(w.ctx, 10))(w), 90)
}
