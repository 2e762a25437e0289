package sqlstore

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// hold is a request for a hold of a group, "" of none, for one user.
func hold(units int64, id, group string) ledger.Request {
	r := request(units, id)
	r.Group, r.HoldTTL = group, time.Hour.Milliseconds()
	r.Dimensions = ledger.Dimensions(map[string]string{"user": "u"})
	return r
}

// holds are confirmed, extended, given back and expire, one by one and as groups, under a limit.
func (s *scenario) holds() {
	ctx := s.Context()
	v := s.create(budget.Definition{Name: "holds", TotalQuantity: 1000, Limits: &budget.Limits{List: []budget.Limit{
		{Name: "ever", Dimension: "user", Max: 500, Measure: budget.MeasureAmount, Enforce: true,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}},
	}}}, lanes("sql", 2)...)
	a, b := s.log(&v.Buckets[0]), s.log(&v.Buckets[1])
	a.ask(30, hold(30, "whole", ""))
	a.ask(20, hold(20, "part", ""))
	a.ask(10, hold(10, "used 1", "used"))
	b.ask(11, hold(11, "used 2", "used"))
	a.ask(5, hold(5, "back 1", "back"))
	b.ask(6, hold(6, "back 2", "back"))
	a.ask(7, hold(7, "late 1", ""))
	b.ask(8, hold(8, "late 2", ""))
	b.ask(9, hold(9, "longer", ""))
	s.commit(a, b)
	is(s, "open holds", told(s.db.OpenHolds(ctx, 100))(s, "open holds"), 9)
	s.confirms(v.ID)
	s.endHolds(v.ID)
	s.books(v.ID, ledger.Figures{Total: 1000, Remaining: 894, Used: 30 + 12 + 21 + 6, Returning: 8 + 11 + 15 + 3,
		Online: 2})
	is(s, "open holds", told(s.db.OpenHolds(ctx, 100))(s, "open holds"), 0)
	answers := done(s.db.CheckLimits(ctx, v.ID, []bucket.LimitAsk{{Amount: 1,
		Dimensions: map[string]string{"user": "u"}}}))(s, "check limits")
	is(s, "counted", answers[0].States[0].Used, 30+12+21+6)
}

func (s *scenario) confirms(id int64) {
	ctx := s.Context()
	whole := bucket.HoldOrder{Budget: id, RequestID: "whole"}
	for _, again := range []bool{false, true} {
		is(s, "replayed", told(s.db.Confirm(ctx, whole, 0))(s, "confirm")[0].Replayed, again)
	}
	told(s.db.Confirm(ctx, bucket.HoldOrder{Budget: id, RequestID: "part"}, 12))(s, "confirm a part")
	group := bucket.HoldOrder{Budget: id, Group: "used"}
	for _, again := range []bool{false, true} {
		is(s, "replayed", told(s.db.Confirm(ctx, group, 0))(s, "confirm a group")[1].Replayed, again)
	}
	longer := bucket.HoldOrder{Budget: id, RequestID: "longer"}
	told(s.db.Extend(ctx, longer, day))(s, "extend")
	told(s.db.Extend(ctx, bucket.HoldOrder{Budget: id, Group: "back"}, day))(s, "extend a group")
}

func (s *scenario) endHolds(id int64) {
	ctx := s.Context()
	for _, again := range []bool{false, true} {
		back := told(s.db.RollbackGroup(ctx, id, "back"))(s, "rollback a group")
		is(s, "replayed", back[0].Replayed, again)
	}
	s.later(2 * time.Hour)
	done(s.db.ExpireHolds(ctx, 10, 0))(s, "expire") // one that is done again finds none
	is(s, "expired before", told(s.db.ExpireHolds(ctx, 10, 0))(s, "expire again").Found, 0)
	rows := told(s.db.Recorded(ctx, []bucket.ID{{Budget: id, RequestID: "late 1"}}))(s, "recorded")
	is(s, "state", rows[bucket.ID{Budget: id, RequestID: "late 1"}].State, ledger.StateExpired)
	d, replayed, err := s.db.Rollback(ctx, bucket.RollbackOrder{Budget: id, RequestID: "longer", RollbackID: "r", Amount: 3})
	s.note("rollback", []any{d, replayed}, err)
	told(s.db.Confirm(ctx, bucket.HoldOrder{Budget: id, RequestID: "longer"}, 0))(s, "confirm the rest")
}
