package sqlstore

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// allWindows has a limit of each kind.
var allWindows = []budget.Limit{
	{Name: "daily", Dimension: "user", Max: 3, Measure: budget.MeasureCount, Enforce: true,
		Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Day}},
	{Name: "ever", Dimension: "user", Max: 100, Measure: budget.MeasureAmount, Enforce: true,
		Window: budget.LimitWindow{Kind: budget.WindowLifetime}},
	{Name: "hourly", Dimension: "user+ad", Max: 50, Measure: budget.MeasureCount, Enforce: true,
		Window: budget.LimitWindow{Kind: budget.WindowSliding, Length: 6 * time.Hour, Slot: time.Minute}},
	{Name: "burst", Dimension: "ad", Max: 50, Measure: budget.MeasureCount, Enforce: true,
		Window: budget.LimitWindow{Kind: budget.WindowFirstHit, Length: time.Hour}},
}

var viewer = map[string]string{"user": "u", "ad": "a"}

// view is a request that carries values of all dimensions.
func view(units int64, id string) ledger.Request {
	r := request(units, id)
	r.Dimensions = ledger.Dimensions(viewer)
	return r
}

// limits are counted, refuse, are lowered by what comes back, change, and their counters go.
func (s *scenario) limits() {
	ctx := s.Context()
	v := s.create(budget.Definition{Name: "limits", TotalQuantity: 1000, Limits: &budget.Limits{List: allWindows}},
		lanes("sql", 2)...)
	a, b := s.log(&v.Buckets[0]), s.log(&v.Buckets[1])
	a.ask(10, view(10, "a"))
	s.commit(a)
	s.later(2 * time.Hour) // another slot, and another first hit
	a.ask(20, view(20, "b"))
	b.ask(5, view(5, "c"))
	b.ask(5, view(5, "refused"))
	s.commit(a, b)
	at := done(s.db.At(ctx, []ledger.Position{b.at(3)}))(s, "at")[b.at(3)]
	s.note("refused", []any{at.Duplicate}, nil)
	is(s, "reason", at.Duplicate.Reason, ledger.ReasonLimit)
	d, replayed, err := s.db.Rollback(ctx, bucket.RollbackOrder{Budget: v.ID, RequestID: "a"})
	s.note("rollback", []any{d, replayed}, err)
	told(s.db.Cancel(ctx, v.ID, "b"))(s, "cancel")
	s.counted(v.ID, 1, 5, 1, 1)
	is(s, "usage", told(s.db.Usage(ctx, v.ID, viewer, time.Time{}, time.Time{}))(s, "usage"),
		bucket.Usage{Calls: 3, Amount: 35, RolledBack: 30})
	s.changeLimits(&v, a)
	s.later(3 * day)
	done(s.db.ExpireCounters(ctx, 100))(s, "expire counters") // one that is done again finds fewer
	is(s, "expired before", told(s.db.ExpireCounters(ctx, 100))(s, "expire counters again"), 0)
	s.counted(v.ID, 2, 12, 0, 0)
	s.books(v.ID, ledger.Figures{Total: 1000, Remaining: 1000 - 10 - 20 - 5 - 5 - 7, Used: 12, Returning: 35, Online: 2})
}

// countedAhead commits what limits allow, which are counted before they are judged, and what one refuses.
func (s *scenario) countedAhead() {
	s.db.lookUps.Store(0)
	s.db.judgeFirst.Store(0)
	v := s.create(budget.Definition{Name: "ahead", TotalQuantity: 1000, Limits: &budget.Limits{List: allWindows[:2]}},
		lanes("sql", 2)...)
	a, b := s.log(&v.Buckets[0]), s.log(&v.Buckets[1])
	a.ask(10, view(10, "a"))
	b.ask(5, view(5, "b"))
	s.commit(a, b)
	s.counted(v.ID, 2, 15)
	a.ask(20, view(20, "c"))
	b.ask(5, view(5, "refused"))
	s.commit(a, b)
	s.counted(v.ID, 3, 35)
	at := done(s.db.At(s.Context(), []ledger.Position{b.at(3)}))(s, "at")[b.at(3)]
	is(s, "reason", at.Duplicate.Reason, ledger.ReasonLimit)
}

// changeLimits makes the first limit one for ever, whose true count the next commit has to find.
func (s *scenario) changeLimits(v *bucket.Budget, log *testLog) {
	list := append([]budget.Limit(nil), allWindows...)
	list[0].Window = budget.LimitWindow{Kind: budget.WindowLifetime}
	changed := told(s.db.Change(s.Context(), v.ID, bucket.Change{Limits: &list}))(s, "change")
	s.counted(v.ID, 1, 5, 1, 1)
	log.ask(7, view(7, "d"))
	s.commit(log)
	s.counted(v.ID, 2, 12, 2, 2)
	set, err := limit.Compile(changed.Limits)
	if err != nil {
		s.Fatal(err)
	}
	touches, _ := set.Touches(1, viewer, nil)
	tallies := done(s.db.LoadLimits(s.Context(), v.ID, touches, s.db.Now()))(s, "load limits")
	for i, want := range []int64{2, 12, 2, 2} {
		is(s, "loaded of "+touches[i].Limit.Name, touches[i].State(tallies[i]).Used, want)
	}
}

// counted compares what limits count, in their order.
func (s *scenario) counted(id int64, want ...int64) {
	s.Helper()
	answers := done(s.db.CheckLimits(s.Context(), id, []bucket.LimitAsk{{RequestID: "x", Amount: 1,
		Dimensions: viewer}}))(s, "check limits")
	for i, state := range answers[0].States {
		is(s, "counted by "+state.Limit, state.Used, want[i])
	}
}
