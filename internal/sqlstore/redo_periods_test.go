package sqlstore

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// periods follow each other, get back what is late, move their end, and come to the last one.
func (s *scenario) periods() {
	ctx := s.Context()
	start := s.db.Now().Truncate(day)
	v := s.create(budget.Definition{Name: "periods", Type: budget.Daily, TotalQuantity: 200, StartAt: start,
		Rule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 40, Unused: budget.Next},
	}, lanes("sql", 2)...)
	a := s.log(&v.Buckets[0])
	a.deduct(10, "a")
	a.deduct(3, "b")
	s.commit(a)
	is(s, "over", len(told(s.db.Over(ctx, 10))(s, "over")), 0)
	s.later(day)
	is(s, "over", told(s.db.Over(ctx, 10))(s, "over")[0], v.ID)
	done(s.db.RollOver(ctx, v.ID))(s, "roll over") // one that is done again finds it done
	again := told(s.db.RollOver(ctx, v.ID))(s, "roll over again")
	is(s, "rolled over before", again.Done, false)
	is(s, "period", again.Period.Number, 2)
	s.open(v.ID)
	s.books(v.ID, ledger.Figures{Total: 200, Unfunded: 120, Remaining: 67, Used: 13, Online: 2})
	s.lateReturns(v.ID)
	s.lastPeriod(v.ID)
}

// lateReturns gives back units of the first period, in the second.
func (s *scenario) lateReturns(id int64) {
	ctx := s.Context()
	d, replayed, err := s.db.Rollback(ctx, bucket.RollbackOrder{Budget: id, RequestID: "a", RollbackID: "r", Amount: 4})
	s.note("late rollback", []any{d, replayed}, err)
	told(s.db.Cancel(ctx, id, "b"))(s, "late cancel")
	done(s.db.Sweep(ctx, id))(s, "sweep") // one that is done again finds none
	is(s, "swept before", told(s.db.Sweep(ctx, id))(s, "sweep again"), 0)
	v := s.read(id)
	b := s.log(&v.Buckets[1])
	b.deduct(6, "c")
	s.commit(b)
	state, replayed, err := s.db.Adjust(ctx, bucket.Adjustment{Budget: id, RequestID: "more", Nonce: "nonce-11", Quantity: 50})
	s.note("append", []any{state, replayed}, err)
	state, replayed, err = s.db.Adjust(ctx, bucket.Adjustment{Budget: id, RequestID: "less", Nonce: "nonce-12", Quantity: -20})
	s.note("shrink", []any{state, replayed}, err)
	s.books(id, ledger.Figures{Total: 230, Unfunded: 157, Remaining: 61, Used: 12, Online: 2})
}

// lastPeriod ends the budget within its period, later, and then for good.
func (s *scenario) lastPeriod(id int64) {
	ctx := s.Context()
	end := s.db.Now().Add(time.Hour)
	told(s.db.Change(ctx, id, bucket.Change{EndAt: &end}))(s, "end it sooner")
	s.later(2 * time.Hour)
	d, replayed, err := s.db.Rollback(ctx, bucket.RollbackOrder{Budget: id, RequestID: "c", RollbackID: "r", Amount: 2})
	s.note("rollback after the end", []any{d, replayed}, err)
	end = end.Add(5 * time.Hour)
	told(s.db.Change(ctx, id, bucket.Change{EndAt: &end}))(s, "end it later")
	done(s.db.Sweep(ctx, id))(s, "sweep")
	s.books(id, ledger.Figures{Total: 230, Unfunded: 157, Undistributed: 2, Remaining: 61, Used: 10, Online: 2})
	s.later(day)
	done(s.db.RollOver(ctx, id))(s, "roll over")
	is(s, "period", told(s.db.RollOver(ctx, id))(s, "roll over again").Period.Over, true)
	s.books(id, ledger.Figures{Total: 230, Unfunded: 220, Used: 10, Offline: 2})
}
