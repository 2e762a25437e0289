package sqlstore

import (
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// feedAndArchive reads the feed of deductions, rollbacks and holds, and archives a part of it.
func (s *scenario) feedAndArchive() {
	ctx := s.Context()
	v := s.create(budget.Definition{Name: "feed", TotalQuantity: 100}, lanes("sql", 1)...)
	ref, log := v.Buckets[0].Ref(), s.log(&v.Buckets[0])
	log.deduct(10, "a")
	log.deduct(20, "b")
	log.ask(5, hold(5, "held", ""))
	s.commit(log)
	d, _, err := s.db.Rollback(ctx, bucket.RollbackOrder{Budget: v.ID, RequestID: "a", RollbackID: "r", Amount: 4})
	s.note("rollback", d, err)
	told(s.db.Confirm(ctx, bucket.HoldOrder{Budget: v.ID, RequestID: "held"}, 2))(s, "confirm")
	bounds := told(s.db.FeedBounds(ctx, v.ID))(s, "feed bounds")
	is(s, "last entry", bounds[0].Last, 5)
	s.entries(ref, "deduct a", "deduct b", "deduct held", "rollback a", "confirm held")

	all := told(s.db.ArchiveBounds(ctx, ref.Bucket-1, 1))(s, "archive bounds")
	is(s, "can be archived", all[0].Last, 5)
	for range 2 { // whoever comes later does the same entries
		is(s, "begun", told(s.db.BeginArchive(ctx, ref.Bucket, 0, 5))(s, "begin archive"), 5)
	}
	for _, archived := range []bool{true, false} {
		is(s, "archived", told(s.db.EndArchive(ctx, bucket.FeedSpan{Bucket: ref.Bucket, UpTo: 5}))(s, "end archive"), archived)
	}
	s.entries(ref)
	d, _, err = s.db.Rollback(ctx, bucket.RollbackOrder{Budget: v.ID, RequestID: "b"})
	s.note("rollback of an archived one", d, err)
	s.entries(ref, "rollback b")
	s.books(v.ID, ledger.Figures{Total: 100, Remaining: 65, Used: 8, Returning: 27, Online: 1})
}

// entries compares what the feed of a bucket still has.
func (s *scenario) entries(ref bucket.Ref, want ...string) {
	s.Helper()
	got := []string{}
	for _, e := range told(s.db.FeedEntries(s.Context(), []bucket.FeedSpan{{Bucket: ref.Bucket, UpTo: 100}}))(s, "feed") {
		got = append(got, fmt.Sprint(e.Kind, " ", e.RequestID))
	}
	is(s, "entries", fmt.Sprint(got), fmt.Sprint(want))
}
