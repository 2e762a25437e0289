package sqlstore

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// storeMode goes through what store mode needs: nodes use a lane, one is silent, the lane loses its memory, its
// epochs end with and without proof, and what is in quarantine is released.
func (s *scenario) storeMode() {
	on := lanes("store", 2)
	lane := on[0]
	v := s.create(budget.Definition{Name: "stored", Durability: budget.Store, TotalQuantity: 90}, lane, lane, lane)
	var logs []*testLog
	for i := range v.Buckets {
		log := s.log(&v.Buckets[i])
		log.deduct(int64(10+i), fmt.Sprint("d", i))
		logs = append(logs, log)
	}
	s.commit(logs...)
	s.uses(lane)
	s.voids(&v)
	s.reports(&v, lane)
	s.releases(v.ID)
	s.resize(v.ID, append([]bucket.Lane{lane, lane, lane}, on[1]))
	done(s.db.HandOut(s.Context(), v.ID))(s, "hand out")
	s.open(v.ID)
	s.resizeInStoreMode(v.ID, on[:2])
}

const lease, quiet = 10 * time.Second, 20 * time.Second

// uses of a lane are noted, seen, and ended where a node is silent.
func (s *scenario) uses(lane bucket.Lane) {
	ctx := s.Context()
	for _, node := range []string{"n1", "n2", "n3", "n1"} {
		is(s, node, told(s.db.UseLane(ctx, node, lane, 1, lease))(s, "use lane"), bucket.UseNoted)
	}
	s.later(lease + quiet + time.Second)
	for _, node := range []string{"n1", "n2"} {
		is(s, "uses of "+node, len(told(s.db.SeeUses(ctx, node, lease))(s, "see uses")), 1)
	}
	silent := told(s.db.SilentUses(ctx, quiet, 10))(s, "silent uses")
	is(s, "silent", silent[0].Node, "n3")
	s.ok("end silent", s.db.EndSilent(ctx, silent[0], quiet))
	is(s, "silent", len(told(s.db.SilentUses(ctx, quiet, 10))(s, "silent uses")), 0)
	is(s, "used again", told(s.db.UseLane(ctx, "n3", lane, 1, lease))(s, "use lane"), bucket.UseEnded)
	is(s, "uses of n3", len(told(s.db.LaneUses(ctx, "n3"))(s, "lane uses")), 0)
}

// voids are ids that were cancelled before anything was deducted for them.
func (s *scenario) voids(v *bucket.Budget) {
	ctx := s.Context()
	var known []bucket.Ref
	for i := range v.Buckets {
		known = append(known, v.Buckets[i].Ref())
	}
	for _, cancel := range []struct {
		id    string
		known []bucket.Ref
		stale bool
		state ledger.State
	}{
		{"void", known[:1], true, ""}, {"void", known, false, ledger.StateVoid}, {"void", known, false, ledger.StateVoid},
		{"d2", known, false, ledger.StateRolledBack},
	} {
		d, stale, err := s.db.CancelKnown(ctx, v.ID, cancel.id, cancel.known)
		s.note("cancel known", []any{d, stale}, err)
		is(s, "stale", stale, cancel.stale)
		is(s, "state", d.State, cancel.state)
	}
	is(s, "voids", fmt.Sprint(told(s.db.Voids(ctx, v.ID, 0, 10))(s, "voids")), "[void]")
}

// reports of the nodes decide how the epochs of a lane end that lost its memory.
func (s *scenario) reports(v *bucket.Budget, lane bucket.Lane) {
	ctx := s.Context()
	told(s.db.NextActivation(ctx, lane, 1, "two"))(s, "next activation")
	is(s, "unsettled", len(told(s.db.Unsettled(ctx, lane, 2, 10))(s, "unsettled")), 3)
	refs := []bucket.Ref{v.Buckets[0].Ref(), v.Buckets[1].Ref(), v.Buckets[2].Ref()}
	s.ok("report lane", s.db.ReportLane(ctx, "n1", lane, 1, map[bucket.Ref]int64{refs[0]: 2, refs[1]: 3}))
	waits := told(s.db.EndLost(ctx, bucket.LostOrder{Ref: refs[0]}))(s, "end lost, unheard")
	is(s, "unheard", fmt.Sprint(waits.Unheard), "[n2]")
	// One that is done again finds that it has ended.
	done(s.db.EndLost(ctx, bucket.LostOrder{Ref: refs[2], Force: true}))(s, "end lost by force")
	s.ok("report lane", s.db.ReportLane(ctx, "n2", lane, 1, nil))
	done(s.db.EndLost(ctx, bucket.LostOrder{Ref: refs[0]}))(s, "end lost")
	is(s, "beyond", told(s.db.EndLost(ctx, bucket.LostOrder{Ref: refs[1]}))(s, "end lost, beyond").Beyond, true)
	done(s.db.EndLost(ctx, bucket.LostOrder{Ref: refs[1], Drained: true}))(s, "end lost, drained")
	is(s, "unsettled", len(told(s.db.Unsettled(ctx, lane, 2, 10))(s, "unsettled")), 0)
	s.books(v.ID, ledger.Figures{Total: 90, Undistributed: 20, Quarantined: 19 + 18, Used: 21, Returning: 12, Online: 3})
}

// releases bring back what is in quarantine: 18 units by proof, 19 by an operator, in two parts.
func (s *scenario) releases(id int64) {
	ctx := s.Context()
	done(s.db.ReleaseProven(ctx, 10))(s, "release proven") // one that is done again finds none
	is(s, "released before", told(s.db.ReleaseProven(ctx, 10))(s, "release proven again"), 0)
	for _, order := range []struct {
		id       string
		quantity int64
		replayed bool
		units    int64
	}{{"part", 9, false, 9}, {"part", 9, true, 9}, {"rest", 0, false, 10}} {
		units, replayed, err := s.db.Release(ctx, bucket.ReleaseOrder{Budget: id, RequestID: order.id,
			Quantity: order.quantity, Reason: "looked", By: "op"})
		s.note("release", []any{units, replayed}, err)
		is(s, "units released", units, order.units)
		is(s, "replayed", replayed, order.replayed)
	}
	for _, q := range told(s.db.Quarantined(ctx, id, 10))(s, "quarantined") {
		is(s, "held in quarantine", q.Held(), 0)
	}
	s.books(id, ledger.Figures{Total: 90, Undistributed: 57, Used: 21, Returning: 12, Online: 3})
}

// resizeInStoreMode ends every epoch before the number of buckets is another one.
func (s *scenario) resizeInStoreMode(id int64, on []bucket.Lane) {
	ctx := s.Context()
	n := len(on)
	told(s.db.Change(ctx, id, bucket.Change{BucketQuantity: &n}))(s, "want buckets")
	ending := told(s.db.Resize(ctx, id, on))(s, "resize, while epochs are open")
	is(s, "target", ending.Target, n)
	for _, e := range ending.Ending {
		s.end(id, bucket.Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}, false)
	}
	done(s.db.Resize(ctx, id, on))(s, "resize")
	s.open(id)
	v := s.read(id)
	is(s, "buckets", len(v.Ring()), n)
	s.books(id, ledger.Figures{Total: 90, Undistributed: 57, Used: 21, Returning: 12, Online: n})
}
