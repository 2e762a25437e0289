package sqlstore

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// resizeAndMove gives a budget more and then fewer buckets, and takes one off a lane that is being drained.
func (s *scenario) resizeAndMove() {
	ctx := s.Context()
	on := lanes("move", 3)
	v := s.create(budget.Definition{Name: "moves", TotalQuantity: 90}, on[:2]...)
	s.resize(v.ID, on)
	done(s.db.HandOut(ctx, v.ID))(s, "hand out")
	s.open(v.ID)
	v = s.read(v.ID)
	is(s, "buckets", len(v.Ring()), 3)
	third := v.Buckets[2].Ref()
	s.resize(v.ID, on[:2])
	s.end(v.ID, third, false)
	s.drain(v.ID, on[0], on[1])
	s.books(v.ID, ledger.Figures{Total: 90, Remaining: 90, Online: 2})
}

// resize brings a budget to a bucket on each of the lanes, and opens what it begins.
func (s *scenario) resize(id int64, on []bucket.Lane) {
	s.Helper()
	for _, lane := range on {
		done(s.db.Lane(s.Context(), lane, "one"))(s, "lane")
	}
	n := len(on)
	told(s.db.Change(s.Context(), id, bucket.Change{BucketQuantity: &n}))(s, "want buckets")
	is(s, "target", done(s.db.Resize(s.Context(), id, on))(s, "resize").Target, 0)
	s.open(id)
}

func (s *scenario) drain(id int64, from, to bucket.Lane) {
	ctx := s.Context()
	s.ok("drain", s.db.SetDraining(ctx, []bucket.Lane{from}, true))
	s.ok("drain again", s.db.SetDraining(ctx, []bucket.Lane{from}, true))
	leaving := told(s.db.OnLane(ctx, from, 0, 10))(s, "on lane")
	is(s, "leaving", len(leaving), 1)
	ref := bucket.Ref{Bucket: leaving[0].Row.Bucket, Epoch: leaving[0].Row.Number, Activation: leaving[0].Row.Activation}
	s.end(id, ref, true)
	for range 2 { // the hand-out of a move that is done again is in what is unfinished
		_, _, err := s.db.Move(ctx, bucket.Moving{Budget: id, Bucket: ref.Bucket, From: from, To: to})
		s.ok("move", err)
	}
	s.open(id)
	loads := told(s.db.LaneLoads(ctx, []bucket.Lane{from, to}))(s, "lane loads")
	is(s, "left", loads[from], bucket.LaneLoad{Moved: 1, Uncleared: 1, Held: 1})
	is(s, "there", loads[to], bucket.LaneLoad{Buckets: 2})
	is(s, "departed too early", len(told(s.db.Departed(ctx, from, time.Minute, 10))(s, "departed")), 0)
	told(s.db.NextActivation(ctx, from, 1, "two"))(s, "next activation")
	gone := told(s.db.Departed(ctx, from, time.Minute, 10))(s, "departed")
	is(s, "departed", gone[0], ref)
	s.ok("cleared", s.db.Cleared(ctx, from, gone))
	is(s, "departed and cleared", len(told(s.db.Departed(ctx, from, time.Minute, 10))(s, "departed")), 0)
	s.ok("drain no more", s.db.SetDraining(ctx, []bucket.Lane{from}, false))
	rows := done(s.db.KnownLanes(ctx))(s, "known lanes")
	for _, row := range rows {
		is(s, "draining", row.Draining, false)
	}
}

// laneDown takes a lane for lost: its epochs end, and their bucket gets another.
func (s *scenario) laneDown() {
	ctx := s.Context()
	on := lanes("down", 2)
	v := s.create(budget.Definition{Name: "down", TotalQuantity: 60}, on...)
	first := s.log(&v.Buckets[0])
	first.deduct(4, "a")
	s.commit(first, s.log(&v.Buckets[1]))
	s.ok("reached", s.db.Reached(ctx, on))
	seen := done(s.db.LaneRows(ctx, on))(s, "lane rows")
	is(s, "stranded", told(s.db.Stranded(ctx, on[:1]))(s, "stranded"), 26)
	row, _, err := s.db.DeclareDown(ctx, seen[on[0]]) // one that is done again finds it moved
	s.ok("declare down", err)
	is(s, "activation", row.Activation, 2)
	stale := told(s.db.Stale(ctx, on[0], 2, 10))(s, "stale")
	is(s, "stale", len(stale), 1)
	is(s, "live", len(told(s.db.Live(ctx, on[0], bucket.Ref{}, 10))(s, "live")), 1)
	lost := told(s.db.LoseAll(ctx, []bucket.Ref{v.Buckets[0].Ref(), {Bucket: 999, Epoch: 1, Activation: 1}}))(s, "lose all")
	is(s, "lost", lost[0], v.Buckets[0].Ref())
	done(s.db.Settle(ctx, []int64{v.ID}))(s, "settle") // one that is done again finds it settled
	s.open(v.ID)
	v = s.read(v.ID)
	log := s.log(&v.Buckets[0])
	log.deduct(5, "b")
	s.commit(log)
	s.books(v.ID, ledger.Figures{Total: 60, Remaining: 51, Used: 9, Online: 2})
}
