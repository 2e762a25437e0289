package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var holdTests = []sqlTest{
	{"hold/confirmed as a whole", holdConfirmed},
	{"hold/confirmed in part", holdPart},
	{"hold/expires", holdExpires},
	{"hold/many expire in batches", holdBatches},
	{"hold/extended", holdExtended},
	{"hold/rolled back and cancelled", holdBack},
	{"hold/what is none", holdNone},
	{"hold/in an ended epoch and beside a newer one", holdHome},
	{"hold/feed and archive", holdFeed},
	{"hold/recounted", holdRecounted},
	{"hold/limits", holdLimits},
	{"hold/group confirmed", groupConfirmed},
	{"hold/group with one that expired", groupExpired},
	{"hold/group rolled back", groupBack},
	{"hold/group in store mode", groupInStore},
	{"race/confirms against expiries", raceConfirmExpire},
	{"race/confirm of a group against late members", raceGroup},
	{"race/confirms of one hold", raceConfirms},
}

// hold deducts a hold and commits it; it must be accepted.
func (w *sqlWorld) hold(ref bucket.Ref, id, group string, amount int64, ttl time.Duration) ledger.Deduction {
	w.Helper()
	outcome := w.tryHold(ref, id, group, amount, ttl)
	if outcome.Duplicate != nil {
		w.Fatalf("hold %q became %+v", id, outcome.Duplicate)
	}
	return inUTC(*outcome.Deduction)
}

func (w *sqlWorld) tryHold(ref bucket.Ref, id, group string, amount int64, ttl time.Duration) ledger.Outcome {
	w.Helper()
	book := w.book(ref)
	book.nonces++
	r := sqlRequest(id, amount, fmt.Sprintf("%d/%d/%d", ref.Bucket, ref.Epoch, book.nonces))
	r.HoldTTL, r.Group = ttl.Milliseconds(), group
	entry := book.admit(amount, r)
	for _, o := range w.commit(book)[0].Outcomes {
		if o.Position.Seq == entry.Seq {
			return o
		}
	}
	w.Fatalf("no outcome of %q", id)
	return ledger.Outcome{}
}

func one(budgetID int64, id string) bucket.HoldOrder {
	return bucket.HoldOrder{Budget: budgetID, RequestID: id}
}

func groupOf(budgetID int64, name string) bucket.HoldOrder {
	return bucket.HoldOrder{Budget: budgetID, Group: name}
}

// confirms confirms one hold and compares what became of it with its row.
func (w *sqlWorld) confirms(budgetID int64, id string, amount int64, want ledger.Deduction, replayed bool) {
	w.Helper()
	got := must(w.db.Confirm(w.ctx, one(budgetID, id), amount))(w)
	if len(got) != 1 || inUTC(got[0].Deduction) != want || got[0].Replayed != replayed {
		w.Fatalf("confirm %q: %+v, want %+v, %v", id, got, want, replayed)
	}
	row, _ := w.recorded(budgetID, id)
	equal(w, "row", inUTC(row), want)
}

// columns compares H, S and R of an epoch.
func (w *sqlWorld) columns(ref bucket.Ref, held, used, returning int64) {
	w.Helper()
	row := w.epoch(ref)
	equal(w, "held", row.Held, held)
	equal(w, "used", row.Used, used)
	equal(w, "returning", row.Returning, returning)
}

func holdConfirmed(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	d := w.hold(ref, "order", "", 30, time.Minute)
	equal(w, "state", d.State, ledger.StateHeld)
	equal(w, "until", d.HoldUntil, w.db.Now().UTC().Add(time.Minute))
	w.columns(ref, 30, 0, 0)
	w.clock.Advance(time.Minute - time.Millisecond)
	d.State, d.Confirmed = ledger.StateUsed, 30
	w.confirms(b.ID, "order", 0, d, false)
	w.columns(ref, 0, 30, 0)
	w.clock.Advance(time.Hour)
	w.unchanged(b.ID, "a repeated confirm", func() {
		w.confirms(b.ID, "order", 0, d, true)
		w.confirms(b.ID, "order", 30, d, true)
		_, err := w.db.Confirm(w.ctx, one(b.ID, "order"), 29)
		w.refused(err, budget.RequestConflict)
		equal(w, "expired", must(w.db.ExpireHolds(w.ctx, 10, 0))(w).Holds, 0)
	})
	w.gives(b.ID, "order", "", 12, 12, false) // a confirmed one is used: it can be rolled back
	w.columns(ref, 0, 18, 12)
}

func holdPart(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	d := w.hold(ref, "order", "", 30, time.Minute)
	must2(w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "order", RollbackID: "r", Amount: 5}))(w)
	w.columns(ref, 25, 0, 5)
	w.unchanged(b.ID, "a confirm of too much", func() {
		_, err := w.db.Confirm(w.ctx, one(b.ID, "order"), 26)
		if e := w.refused(err, budget.AmountExceedsRemaining); e.Available == nil || *e.Available != 25 {
			w.Errorf("available %v", e.Available)
		}
	})
	d.State, d.Confirmed, d.RolledBack = ledger.StateUsed, 10, 20
	w.confirms(b.ID, "order", 10, d, false)
	w.columns(ref, 0, 10, 20)
	w.unchanged(b.ID, "a repeated part", func() {
		w.confirms(b.ID, "order", 10, d, true)
		for _, amount := range []int64{0, 11, 25} {
			_, err := w.db.Confirm(w.ctx, one(b.ID, "order"), amount)
			w.refused(err, budget.RequestConflict)
		}
	})
	equal(w, "swept", must(w.db.Sweep(w.ctx, b.ID))(w), 20)
}

func holdExpires(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	d := w.hold(ref, "order", "", 30, time.Second)
	w.hold(ref, "later", "", 5, time.Hour)
	must2(w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "order", RollbackID: "r", Amount: 5}))(w)
	w.clock.Advance(time.Second - time.Millisecond)
	equal(w, "too early", must(w.db.ExpireHolds(w.ctx, 10, 0))(w).Found, 0)
	w.clock.Advance(time.Millisecond)
	w.unchanged(b.ID, "a confirm after the end", func() {
		_, err := w.db.Confirm(w.ctx, one(b.ID, "order"), 0)
		w.refused(err, budget.HoldExpired)
		_, err = w.db.Extend(w.ctx, one(b.ID, "order"), time.Hour)
		w.refused(err, budget.HoldExpired)
	})
	got := must(w.db.ExpireHolds(w.ctx, 10, 0))(w)
	if got.Found != 1 || got.Holds != 1 || got.Units != 25 || !slices.Equal(got.Budgets, []int64{b.ID}) {
		w.Errorf("expired: %+v", got)
	}
	w.columns(ref, 5, 0, 30)
	d.State, d.RolledBack = ledger.StateExpired, 30
	row, _ := w.recorded(b.ID, "order")
	equal(w, "row", inUTC(row), d)
	w.unchanged(b.ID, "what comes after the expiry", func() {
		equal(w, "again", must(w.db.ExpireHolds(w.ctx, 10, 0))(w).Found, 0)
		_, err := w.db.Confirm(w.ctx, one(b.ID, "order"), 0)
		w.refused(err, budget.HoldExpired)
		_, _, err = w.give(b.ID, "order", "x", 0)
		w.refused(err, budget.AlreadyRolledBack)
		equal(w, "cancelled", must(w.db.Cancel(w.ctx, b.ID, "order"))(w).State, ledger.StateExpired)
	})
}

func holdBatches(w *sqlWorld) {
	b, other := w.create("b", 1000, 3), w.create("other", 100, 1)
	for i := range 12 {
		w.hold(b.Buckets[i%3].Ref(), fmt.Sprint("order-", i), "", int64(i+1), time.Second)
	}
	w.hold(other.Buckets[0].Ref(), "order-0", "", 50, 2*time.Second)
	equal(w, "open", must(w.db.OpenHolds(w.ctx, 1000))(w), 13)
	equal(w, "open, at most", must(w.db.OpenHolds(w.ctx, 12))(w), 12)
	w.clock.Advance(3 * time.Second)
	equal(w, "open though their time is over", must(w.db.OpenHolds(w.ctx, 1000))(w), 13)
	var holds int
	var units int64
	last := must(w.db.ExpireHolds(w.ctx, 5, 12))(w) // it is the other budget's
	equal(w, "behind twelve", last.Found, 1)
	equal(w, "units of the last", last.Units, 50)
	holds, units = 1, 50
	for _, want := range []int{5, 5, 2, 0} {
		got := must(w.db.ExpireHolds(w.ctx, 5, 0))(w)
		equal(w, "found", got.Found, want)
		holds, units = holds+got.Holds, units+got.Units
	}
	equal(w, "holds", holds, 13)
	equal(w, "open", must(w.db.OpenHolds(w.ctx, 1000))(w), 0)
	equal(w, "units", units, 78+50)
	equal(w, "returning", w.figures(b.ID).Returning, 78)
	equal(w, "held", w.figures(b.ID).Held, 0)
	equal(w, "entries", len(w.feed(b.ID)), 24)
}

func holdExtended(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	d := w.hold(ref, "order", "", 30, time.Minute)
	for _, ttl := range []time.Duration{2 * time.Minute, time.Second, time.Hour} {
		w.clock.Advance(500 * time.Millisecond)
		got := must(w.db.Extend(w.ctx, one(b.ID, "order"), ttl))(w)
		d.HoldUntil = w.db.Now().UTC().Add(ttl)
		if len(got) != 1 || inUTC(got[0].Deduction) != d {
			w.Fatalf("extended: %+v, want %+v", got, d)
		}
	}
	row, _ := w.recorded(b.ID, "order")
	equal(w, "row", inUTC(row), d)
	w.clock.Advance(2 * time.Minute)
	equal(w, "expired", must(w.db.ExpireHolds(w.ctx, 5, 0))(w).Found, 0)
	d.State, d.Confirmed = ledger.StateUsed, 30
	w.confirms(b.ID, "order", 0, d, false)
	_, err := w.db.Extend(w.ctx, one(b.ID, "order"), time.Hour)
	w.refused(err, budget.NotHeld)
}

func holdBack(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	for i, back := range []func(id string){
		func(id string) { must2(w.give(b.ID, id, "", 0))(w) },
		func(id string) { must(w.db.Cancel(w.ctx, b.ID, id))(w) },
	} {
		id := fmt.Sprint("order-", i)
		w.hold(ref, id, "", 30, time.Minute)
		back(id)
		w.columns(ref, 0, 0, int64(30*(i+1)))
		w.unchanged(b.ID, "what is held no more", func() {
			_, err := w.db.Confirm(w.ctx, one(b.ID, id), 0)
			w.refused(err, budget.NotHeld)
			_, err = w.db.Extend(w.ctx, one(b.ID, id), time.Hour)
			w.refused(err, budget.NotHeld)
		})
	}
	w.clock.Advance(time.Hour)
	equal(w, "expired", must(w.db.ExpireHolds(w.ctx, 5, 0))(w).Found, 0)
}

func holdNone(w *sqlWorld) {
	b := w.create("b", 100, 1)
	w.use(b.Buckets[0].Ref(), "used", 30)
	must(w.db.Cancel(w.ctx, b.ID, "void"))(w)
	w.unchanged(b.ID, "what is no hold", func() {
		for order, code := range map[bucket.HoldOrder]budget.Code{
			one(b.ID, "used"): budget.NotHeld, one(b.ID, "void"): budget.RequestVoid,
			one(b.ID, "absent"): budget.DeductionNotFound, groupOf(b.ID, "absent"): budget.DeductionNotFound,
			one(b.ID+7, "used"): budget.BudgetNotFound, groupOf(b.ID+7, "g"): budget.BudgetNotFound,
		} {
			_, err := w.db.Confirm(w.ctx, order, 0)
			w.refused(err, code)
			_, err = w.db.Extend(w.ctx, order, time.Hour)
			w.refused(err, code)
			if order.Group != "" {
				_, err = w.db.RollbackGroup(w.ctx, order.Budget, order.Group)
				w.refused(err, code)
			}
		}
	})
}

func holdHome(w *sqlWorld) {
	b := w.create("b", 100, 2)
	ref := b.Buckets[0].Ref()
	for i, id := range []string{"confirmed", "expired", "part"} {
		w.hold(ref, id, "", int64(i+5), time.Minute)
	}
	w.offline(b.ID, ref, bucket.ByService, false, nil)
	must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w)
	must(w.db.Confirm(w.ctx, one(b.ID, "confirmed"), 0))(w)
	must(w.db.Confirm(w.ctx, one(b.ID, "part"), 2))(w)
	w.clock.Advance(time.Minute)
	equal(w, "expired", must(w.db.ExpireHolds(w.ctx, 5, 0))(w).Units, 6)
	w.columns(ref, 0, 7, 11)
	feed := w.feed(b.ID)
	equal(w, "entries", len(feed), 6)
	equal(w, "their epoch", feed[5].Epoch, 1)
}

func holdFeed(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	w.hold(ref, "order", "", 30, time.Minute)
	w.hold(ref, "second", "", 5, time.Minute)
	w.use(ref, "used", 1)
	must(w.db.Confirm(w.ctx, one(b.ID, "order"), 20))(w)
	w.clock.Advance(time.Minute)
	must(w.db.ExpireHolds(w.ctx, 5, 0))(w)
	at := w.db.Now().UTC()
	type seen struct {
		kind   ledger.FeedKind
		id     string
		amount int64
		held   bool
	}
	want := []seen{{ledger.FeedDeduct, "order", 30, true}, {ledger.FeedDeduct, "second", 5, true},
		{ledger.FeedDeduct, "used", 1, false}, {ledger.FeedConfirm, "order", 20, false},
		{ledger.FeedExpire, "second", 5, false}}
	for i, e := range w.feed(b.ID) {
		equal(w, "entry", seen{e.Kind, e.RequestID, e.Amount, e.Held}, want[i])
		equal(w, "its number", e.Entry, int64(i+1))
		if i == 4 {
			equal(w, "its time", e.At.UTC(), at)
		}
	}
	w.offline(b.ID, ref, bucket.ByService, true, nil)
	equal(w, "begun", must(w.db.BeginArchive(w.ctx, ref.Bucket, 0, 5))(w), 5)
	if !must(w.db.EndArchive(w.ctx, bucket.FeedSpan{Bucket: ref.Bucket, UpTo: 5}))(w) {
		w.Error("not archived")
	}
	equal(w, "entries left", len(must(w.db.FeedEntries(w.ctx, []bucket.FeedSpan{{Bucket: ref.Bucket, UpTo: 9}}))(w)), 0)
	if got := must(w.db.Confirm(w.ctx, one(b.ID, "order"), 20))(w); !got[0].Replayed || got[0].Deduction.Confirmed != 20 {
		w.Errorf("replayed after it was archived: %+v", got)
	}
}

func holdRecounted(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	for i := range 4 {
		w.hold(ref, fmt.Sprint("order-", i), "", int64(10+i), time.Duration(i+1)*time.Minute)
	}
	must(w.db.Confirm(w.ctx, one(b.ID, "order-1"), 3))(w)
	w.clock.Advance(time.Minute)
	must(w.db.ExpireHolds(w.ctx, 5, 0))(w)
	first, _, err := w.db.Recount(w.ctx, bucket.Part{Ref: ref, UpTo: 3})
	w.ok(err)
	equal(w, "noted of the first", first.Figures.Noted, 18)
	equal(w, "returned of the first", first.Returned, 18)
	all, found, err := w.db.Recount(w.ctx, bucket.Part{Ref: ref, UpTo: 9, End: true})
	w.ok(err)
	equal(w, "found", found, true)
	equal(w, "held", all.Figures.Held, 25)
	equal(w, "rolled back", all.Figures.RolledBack, 18)
	for _, d := range ledger.CheckEpoch(&all.Figures) {
		w.Errorf("%v", d)
	}
}

func holdLimits(w *sqlWorld) {
	b := w.create("b", 1000, 1, func(d *budget.Definition) {
		d.Limits = &budget.Limits{List: []budget.Limit{{Name: "each", Dimension: "user", Max: 50,
			Measure: budget.MeasureAmount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}
	})
	ref := b.Buckets[0].Ref()
	take := func(id string, amount int64) {
		r := sqlRequest(id, amount, id)
		r.HoldTTL, r.Group, r.Dimensions = 60_000, "g", `{"user":"u1"}`
		w.book(ref).admit(amount, r)
		w.commit(w.book(ref))
	}
	counted := func(want int64) {
		w.Helper()
		got := must(w.db.CheckLimits(w.ctx, b.ID, []bucket.LimitAsk{{Amount: 1,
			Dimensions: map[string]string{"user": "u1"}}}))(w)
		equal(w, "counted", got[0].States[0].Used, want)
	}
	for i := range 5 {
		take(fmt.Sprint("order-", i), 10)
	}
	counted(50)
	must(w.db.Confirm(w.ctx, one(b.ID, "order-0"), 4))(w)
	counted(44)
	must(w.db.RollbackGroup(w.ctx, b.ID, "g"))(w)
	counted(0)
	w.ok(nil)
	r := sqlRequest("last", 50, "last")
	r.HoldTTL, r.Dimensions = 1000, `{"user":"u1"}`
	w.book(ref).admit(50, r)
	w.commit(w.book(ref))
	counted(50)
	w.clock.Advance(time.Second)
	equal(w, "expired", must(w.db.ExpireHolds(w.ctx, 5, 0))(w).Units, 50)
	counted(0)
}

func groupConfirmed(w *sqlWorld) {
	b := w.create("b", 100, 2)
	first, second := b.Buckets[0].Ref(), b.Buckets[1].Ref()
	w.hold(first, "b", "g", 5, time.Minute)
	w.hold(second, "a", "g", 7, time.Minute)
	w.hold(second, "c", "g", 3, time.Minute)
	w.hold(second, "other", "G", 2, time.Minute)
	must(w.db.Extend(w.ctx, groupOf(b.ID, "g"), time.Hour))(w)
	must2(w.give(b.ID, "c", "", 0))(w)
	w.clock.Advance(time.Minute)
	got := must(w.db.Confirm(w.ctx, groupOf(b.ID, "g"), 0))(w)
	states := func(list []bucket.Held) (out []string) {
		for _, h := range list {
			out = append(out, fmt.Sprint(h.Deduction.RequestID, " ", h.Deduction.State, " ", h.Deduction.Confirmed, " ", h.Replayed))
		}
		return out
	}
	if want := []string{"a used 7 false", "b used 5 false", "c rolled_back 0 false"}; !slices.Equal(states(got), want) {
		w.Errorf("%q, want %q", states(got), want)
	}
	w.columns(first, 0, 5, 0)
	w.columns(second, 2, 7, 3)
	again := must(w.db.Confirm(w.ctx, groupOf(b.ID, "g"), 0))(w)
	if want := []string{"a used 7 true", "b used 5 true", "c rolled_back 0 true"}; !slices.Equal(states(again), want) {
		w.Errorf("%q, want %q", states(again), want)
	}
	late := w.tryHold(first, "late", "g", 4, time.Minute)
	if late.Duplicate == nil || late.Duplicate.Reason != ledger.ReasonGroup {
		w.Errorf("a late member became %+v", late)
	}
	at := must(w.db.At(w.ctx, []ledger.Position{late.Position}))(w)[late.Position]
	if at.Duplicate == nil || at.Duplicate.Reason != ledger.ReasonGroup || at.Deduction != nil {
		w.Errorf("read again: %+v", at)
	}
	w.columns(first, 0, 5, 4)
	w.hold(first, "late", "", 4, time.Minute) // its id stayed free
}

func groupExpired(w *sqlWorld) {
	b := w.create("b", 100, 2)
	w.hold(b.Buckets[0].Ref(), "a", "g", 5, time.Minute)
	w.hold(b.Buckets[1].Ref(), "b", "g", 7, time.Second)
	for _, swept := range []bool{false, true} {
		w.clock.Advance(time.Second)
		if swept {
			equal(w, "expired", must(w.db.ExpireHolds(w.ctx, 5, 0))(w).Holds, 1)
		}
		w.unchanged(b.ID, "a group of which one has expired", func() {
			_, err := w.db.Confirm(w.ctx, groupOf(b.ID, "g"), 0)
			w.refused(err, budget.HoldExpired)
			_, err = w.db.Extend(w.ctx, groupOf(b.ID, "g"), time.Hour)
			w.refused(err, budget.HoldExpired)
		})
	}
	w.hold(b.Buckets[0].Ref(), "c", "g", 1, time.Minute) // nothing has closed it
	equal(w, "held", w.figures(b.ID).Held, 6)
	must(w.db.RollbackGroup(w.ctx, b.ID, "g"))(w)
	equal(w, "returning", w.figures(b.ID).Returning, 13)
}

func groupBack(w *sqlWorld) {
	b := w.create("b", 100, 2)
	w.hold(b.Buckets[0].Ref(), "a", "g", 5, time.Minute)
	w.hold(b.Buckets[1].Ref(), "b", "g", 7, time.Minute)
	must(w.db.Confirm(w.ctx, one(b.ID, "a"), 2))(w)
	got := must(w.db.RollbackGroup(w.ctx, b.ID, "g"))(w)
	for _, h := range got {
		if h.Deduction.State != ledger.StateRolledBack || h.Replayed {
			w.Errorf("%+v", h)
		}
	}
	equal(w, "returning", w.figures(b.ID).Returning, 12)
	w.unchanged(b.ID, "a repeated rollback", func() {
		for _, h := range must(w.db.RollbackGroup(w.ctx, b.ID, "g"))(w) {
			equal(w, "replayed", h.Replayed, true)
		}
		_, err := w.db.Confirm(w.ctx, groupOf(b.ID, "g"), 0)
		w.refused(err, budget.NotHeld)
	})
	if late := w.tryHold(b.Buckets[0].Ref(), "late", "g", 4, time.Minute); late.Duplicate == nil {
		w.Error("a late member is held")
	}
}

// groupInStore: its caller has been told "accepted", so a late member is a hold by itself.
func groupInStore(w *sqlWorld) {
	b := w.create("b", 100, 1, func(d *budget.Definition) { d.Durability = budget.Store })
	ref := b.Buckets[0].Ref()
	w.hold(ref, "a", "g", 5, time.Minute)
	must(w.db.Confirm(w.ctx, groupOf(b.ID, "g"), 0))(w)
	w.hold(ref, "late", "g", 4, time.Minute)
	w.columns(ref, 4, 5, 0)
	w.clock.Advance(time.Minute)
	equal(w, "expired", must(w.db.ExpireHolds(w.ctx, 5, 0))(w).Units, 4)
}

// raceConfirmExpire: of each hold either the confirm or the expiry goes through.
func raceConfirmExpire(w *sqlWorld) {
	b := w.create("b", 1000, 2)
	const n = 24
	for i := range n {
		w.hold(b.Buckets[i%2].Ref(), fmt.Sprint("order-", i), "", 3, time.Duration(i%2)*time.Minute+time.Millisecond)
	}
	w.clock.Advance(time.Second)
	var confirmed, expired atomic.Int64
	together(racers, func(i int) {
		if i%4 == 0 {
			got, err := w.db.ExpireHolds(w.ctx, 5, 0)
			if err != nil {
				w.Errorf("expire: %v", err)
			}
			expired.Add(int64(got.Holds))
			return
		}
		for j := range n {
			if (j+i)%4 != 1 {
				continue
			}
			switch got, err := w.db.Confirm(w.ctx, one(b.ID, fmt.Sprint("order-", j)), 0); {
			case budget.Is(err, budget.HoldExpired):
			case err != nil:
				w.Errorf("confirm: %v", err)
			case !got[0].Replayed:
				confirmed.Add(1)
			}
		}
	})
	expired.Add(int64(must(w.db.ExpireHolds(w.ctx, n, 0))(w).Holds))
	equal(w, "expired", expired.Load(), n/2)
	f := w.figures(b.ID)
	equal(w, "used", f.Used, 3*confirmed.Load())
	equal(w, "returning", f.Returning, 3*n/2)
	equal(w, "entries", int64(len(w.feed(b.ID))), n+n/2+confirmed.Load())
}

// raceGroup: a late member is either confirmed with the group or refused, never held beside it.
func raceGroup(w *sqlWorld) {
	const rounds, late = 6, 4
	b := w.create("b", 10_000, late+1)
	for round := range rounds {
		name := fmt.Sprint("g", round)
		w.hold(b.Buckets[late].Ref(), fmt.Sprint("first-", round), name, 3, time.Hour)
		logs := make([]ledger.Log, late)
		for i := range late {
			ref := b.Buckets[i].Ref()
			book := w.book(ref)
			r := sqlRequest(fmt.Sprint("late-", round, "-", i), 3, fmt.Sprint(round, i))
			r.HoldTTL, r.Group = 3_600_000, name
			book.admit(3, r)
			logs[i] = book.log(w.epoch(ref).DrainedSeq)
		}
		together(late+2, func(i int) {
			var err error
			switch {
			case i < late:
				_, err = w.db.Commit(w.ctx, logs[i:i+1])
			case i == late:
				_, err = w.db.Confirm(w.ctx, groupOf(b.ID, name), 0)
			default:
				_, err = w.db.Confirm(w.ctx, groupOf(b.ID, name), 0)
			}
			if err != nil {
				w.Errorf("round %d, call %d: %v", round, i, err)
			}
		})
		f := w.figures(b.ID)
		equal(w, "held beside a confirmed group", f.Held, 0)
		equal(w, "used and returning", f.Used+f.Returning, int64((round+1)*(late+1)*3))
	}
}

func raceConfirms(w *sqlWorld) {
	b := w.create("b", 1000, 1)
	for round := range 4 {
		id := fmt.Sprint("order-", round)
		w.hold(b.Buckets[0].Ref(), id, "", 10, time.Hour)
		var done, replayed, conflicts atomic.Int64
		together(racers, func(i int) {
			switch got, err := w.db.Confirm(w.ctx, one(b.ID, id), int64(4+i%2)); {
			case budget.Is(err, budget.RequestConflict):
				conflicts.Add(1)
			case err != nil:
				w.Errorf("confirm: %v", err)
			case got[0].Replayed:
				replayed.Add(1)
			default:
				done.Add(1)
			}
		})
		equal(w, "done", done.Load(), 1)
		equal(w, "replayed", replayed.Load(), racers/2-1)
		equal(w, "conflicts", conflicts.Load(), racers/2)
	}
}
