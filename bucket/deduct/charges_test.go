package deduct_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// charging creates a budget that also charges others.
func (d *database) charging(t testing.TB, def budget.Definition, others ...string) bucket.BudgetRef {
	t.Helper()
	def.AlsoCharges = d.charges(t, others...)
	return d.create(t, def)
}

// charges finds budgets.
func (d *database) charges(t testing.TB, names ...string) (c budget.Charges) {
	t.Helper()
	for _, name := range names {
		b, err := d.definitions.Budget(context.Background(), bucket.BudgetRef{Tenant: budget.DefaultTenant, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		c.Names, c.IDs = append(c.Names, name), append(c.IDs, b.ID)
	}
	return c
}

// recharge changes what a budget charges.
func (d *database) recharge(t testing.TB, name string, others ...string) {
	t.Helper()
	c := d.charges(t, others...)
	if _, err := d.definitions.Change(context.Background(), d.charges(t, name).IDs[0],
		bucket.Change{AlsoCharges: &c}); err != nil {
		t.Fatal(err)
	}
}

// one asks for units of one budget.
func one(ref bucket.BudgetRef, id string, amount int64) bucket.DeductRequest {
	return bucket.DeductRequest{Budget: ref, RequestID: id, Amount: amount}
}

// legsTold is an answer with the legs in charged budgets.
func legsTold(a bucket.DeductAnswer) string {
	out := fmt.Sprint(a.RequestID, " ", a.Amount, " ", a.State, " ", a.Replayed)
	for _, l := range a.Legs {
		out += fmt.Sprintf(" %s %d %t", l.Budget, l.Amount, l.IsCharged)
	}
	return out
}

// TestCharges checks that a deduction from a budget that charges others is one from all of them, that
// a repeat follows what was recorded, whatever the definition says, and that the charged budgets know
// no such id.
func TestCharges(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		org, team := d.create(t, promo("org", 100, 2)), d.create(t, promo("team", 50, 2))
		user := d.charging(t, promo("user", 30, 2), "org", "team")
		other := d.charging(t, promo("other", 30, 2), "org")
		s, _ := d.withHolds(t)
		ctx := context.Background()
		told := func(r bucket.DeductRequest, want string) {
			t.Helper()
			got, err := s.Deduct(ctx, r)
			if err != nil || legsTold(got) != want {
				t.Errorf("%s, %v, want %s", legsTold(got), err, want)
			}
		}
		told(one(user, "a", 3), "a 3 used false org 3 true team 3 true")
		told(one(user, "a", 3), "a 3 used true org 3 true team 3 true")
		told(one(other, "a", 4), "a 4 used false org 4 true") // of the same id under the same parent
		told(one(org, "a", 5), "a 5 used false")
		d.uses(t, map[string]int64{"org": 12, "team": 3, "user": 3, "other": 4})
		if _, err := s.Deduct(ctx, one(user, "a", 4)); !budget.Is(err, budget.RequestConflict) {
			t.Errorf("another amount: %v", err)
		}
		d.recharge(t, "user", "team")
		told(one(user, "a", 3), "a 3 used true org 3 true team 3 true")
		told(one(user, "b", 1), "b 1 used false team 1 true")
		d.uses(t, map[string]int64{"org": 12, "team": 4, "user": 4})
		for _, ref := range []bucket.BudgetRef{team, org} {
			if _, err := s.Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: "b"}); !budget.Is(err, budget.DeductionNotFound) {
				t.Errorf("a rollback in %s: %v", ref.Name, err)
			}
		}
		if _, err := s.Rollback(ctx, bucket.RollbackRequest{Budget: user, RequestID: "a", RollbackID: "r", Amount: 1}); err != nil {
			t.Error(err)
		}
		d.uses(t, map[string]int64{"org": 11, "team": 3, "user": 3})
		v, err := s.Rollback(ctx, bucket.RollbackRequest{Budget: user, RequestID: "a"})
		if err != nil || v.RolledBack != 3 || v.State != "rolled_back" {
			t.Errorf("%+v, %v", v, err)
		}
		d.uses(t, map[string]int64{"org": 9, "team": 1, "user": 1})
		if _, err := s.Deduct(ctx, one(user, "a", 3)); !budget.Is(err, budget.AlreadyRolledBack) {
			t.Errorf("repeated after the rollback: %v", err)
		}
		if _, err := s.Cancel(ctx, bucket.RollbackRequest{Budget: user, RequestID: "c"}); err != nil {
			t.Error(err)
		}
		if _, err := s.Deduct(ctx, one(user, "c", 1)); !budget.Is(err, budget.RequestVoid) {
			t.Errorf("a cancelled id: %v", err)
		}
		if _, err := s.Cancel(ctx, bucket.RollbackRequest{Budget: user, RequestID: "b"}); err != nil {
			t.Error(err)
		}
		d.uses(t, map[string]int64{"org": 9, "team": 0, "user": 0})
	})
}

// TestChargesRefused checks that a refusal names the budgets that refuse, with figures of the one that
// the request names alone, and changes nothing; that a dry run and a check foresee it; and that an id
// that was refused is accepted later.
func TestChargesRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		d.create(t, promo("org", 5, 2))
		limited := promo("team", 100, 2)
		limited.Limits = &budget.Limits{List: []budget.Limit{{Name: "daily", Dimension: "user", Max: 6,
			Measure: budget.MeasureAmount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}, Enforce: true}}}
		d.create(t, limited)
		user := d.charging(t, promo("user", 7, 2), "org", "team")
		s, _ := d.withHolds(t)
		ctx := context.Background()
		ask := func(amount int64, dimensions map[string]string) bucket.DeductRequest {
			r := one(user, "a", amount)
			r.Dimensions = dimensions
			return r
		}
		u := map[string]string{"user": "u"}
		refused := func(what string, err error, want string) {
			t.Helper()
			var e *budget.Error
			if !errors.As(err, &e) || e.Code != budget.LegRefused {
				t.Fatalf("%s: %v", what, err)
			}
			got := ""
			for _, r := range e.Refusals {
				got += fmt.Sprintf("%s %s", r.Budget, r.Reason.Code)
				if r.Reason.Available != nil {
					got += fmt.Sprint(" ", *r.Reason.Available)
				}
				if r.Reason.Limit != nil {
					got += fmt.Sprint(" limit ", r.Reason.Limit.Max)
				}
				got += ", "
			}
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
			for _, figure := range []string{"5", "6"} {
				if strings.Contains(e.Message, figure) {
					t.Errorf("%s shows a figure of a charged budget: %s", what, e.Message)
				}
			}
		}
		before := d.rows(t)
		for range 2 {
			_, err := s.Deduct(ctx, ask(8, u))
			refused("deduct", err, "user budget_exhausted 7, org budget_exhausted, team limit_exceeded, ")
		}
		seen, err := s.DryRun(ctx, ask(7, u))
		if err != nil {
			t.Fatal(err)
		}
		refused("dry run", seen.Err, "org budget_exhausted, team limit_exceeded, ")
		checked := s.Check(ctx, []bucket.CheckRequest{{Budget: user, Amount: 7, Dimensions: u}, {Budget: user, Amount: 5, Dimensions: u}})
		refused("check", checked[0].Err, "org budget_exhausted, team limit_exceeded, ")
		if checked[1].Err != nil {
			t.Error(checked[1].Err)
		}
		if _, err := s.Deduct(ctx, ask(1, nil)); !budget.Is(err, budget.Invalid) || !strings.Contains(fmt.Sprint(err), "limits") {
			t.Errorf("without the dimension of a limit of a charged budget: %v", err)
		}
		if after := d.rows(t); after != before {
			t.Errorf("refusals have changed\n%s\ninto\n%s", before, after)
		}
		d.recharge(t, "user", "team") // the request arrives once more, and now it fits
		if got, err := s.Deduct(ctx, ask(6, u)); err != nil || legsTold(got) != "a 6 used false team 6 true" {
			t.Errorf("%s, %v", legsTold(got), err)
		}
		d.uses(t, map[string]int64{"org": 0, "team": 6, "user": 6})
	})
}

// TestChargesHeld checks holds that are sets: single ones, groups of which some members have legs
// elsewhere, and their ends.
func TestChargesHeld(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		d.create(t, promo("org", 100, 2))
		user := d.charging(t, promo("user", 100, 2), "org")
		s, holds := d.withHolds(t)
		ctx := context.Background()
		held := func(id, group string, amount int64, ttl time.Duration) {
			t.Helper()
			r := one(user, id, amount)
			r.HoldTTL, r.Group = ttl, group
			if _, err := s.Deduct(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		held("a", "", 10, time.Minute)
		if _, err := holds.Confirm(ctx, bucket.ConfirmRequest{Budget: user, RequestID: "a", Amount: 7}); err != nil {
			t.Fatal(err)
		}
		d.uses(t, map[string]int64{"org": 7, "user": 7})
		for i, group := range []string{"g", "h"} {
			held("b"+group, group, 4, time.Minute)
			if i == 0 {
				d.recharge(t, "user") // one member has a leg elsewhere, and one has none
			}
			held("c"+group, group, 2, time.Minute)
			d.recharge(t, "user", "org")
		}
		d.uses(t, map[string]int64{"org": 7 + 4 + 4 + 2, "user": 7 + 6 + 6})
		if views, err := holds.Extend(ctx, bucket.ExtendRequest{Budget: user, Group: "g", HoldTTL: time.Hour}); err != nil || len(views) != 2 {
			t.Errorf("extended: %+v, %v", views, err)
		}
		for range 2 {
			if views, err := holds.Confirm(ctx, bucket.ConfirmRequest{Budget: user, Group: "g"}); err != nil || len(views) != 2 {
				t.Errorf("confirmed: %+v, %v", views, err)
			}
			if views, err := holds.RollbackGroup(ctx, bucket.RollbackRequest{Budget: user, Group: "h"}); err != nil || len(views) != 2 {
				t.Errorf("rolled back: %+v, %v", views, err)
			}
		}
		d.uses(t, map[string]int64{"org": 11, "user": 13})
		d.held(t, 0)
		held("d", "", 5, 200*time.Millisecond)
		if _, err := holds.Extend(ctx, bucket.ExtendRequest{Budget: user, RequestID: "d", HoldTTL: 300 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		d.held(t, 10)
		ends := hold.NewLedger(d.db)
		time.Sleep(350 * time.Millisecond)
		if got, err := ends.ExpireHolds(ctx, 10, 0); err != nil || got != (hold.Expired{Found: 1, Holds: 2, Units: 10}) {
			t.Errorf("after the end: %+v, %v", got, err)
		}
		d.uses(t, map[string]int64{"org": 11, "user": 13})
	})
}

// held compares H of all epochs.
func (d *database) held(t testing.TB, want int64) {
	t.Helper()
	if got := d.number(t, `SELECT SUM(held_quantity) FROM bucket_epoch`); got != want {
		t.Errorf("%d are held, want %d", got, want)
	}
}

// TestChargesTogether checks that what legs of a set charge to one budget is one leg with their sum,
// and that a repeat has the legs that were recorded.
func TestChargesTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		d.create(t, promo("org", 100, 2))
		d.charging(t, promo("a", 100, 2), "org")
		d.charging(t, promo("b", 100, 2), "org")
		s, _ := d.withHolds(t)
		ctx := context.Background()
		for _, test := range []struct {
			r    bucket.DeductRequest
			want string
		}{{set("x", "a", 3, "b", 4), "x 0 used false a 3 false b 4 false org 7 true"},
			{set("y", "b", 1, "org", 5), "y 0 used false b 1 false org 6 false"}} {
			got, err := s.Deduct(ctx, test.r)
			if err != nil || legsTold(got) != test.want {
				t.Errorf("%s, %v, want %s", legsTold(got), err, test.want)
			}
		}
		d.recharge(t, "b")
		got, err := s.Deduct(ctx, set("x", "b", 4, "a", 3))
		if want := "x 0 used true b 4 false a 3 false org 7 true"; err != nil || legsTold(got) != want {
			t.Errorf("%s, %v, want %s", legsTold(got), err, want)
		}
		d.uses(t, map[string]int64{"org": 13, "a": 3, "b": 5})
		r := set("z", "a", 1, "org", 1)
		r.Legs[0].Dimensions, r.Legs[1].Dimensions = map[string]string{"user": "u"}, map[string]string{"user": "v"}
		if _, err := s.Deduct(ctx, r); !budget.Is(err, budget.Invalid) {
			t.Errorf("two values of a dimension: %v", err)
		}
		for _, name := range []string{"a", "b", "org"} {
			part := whole("x")
			part.RollbackID, part.Amounts = "part", map[string]int64{name: 1}
			if _, err := s.Rollback(ctx, part); !budget.Is(err, budget.Invalid) {
				t.Errorf("a part of %s alone: %v", name, err)
			}
		}
		if v, err := s.Rollback(ctx, whole("x")); err != nil || len(v.Legs) != 3 {
			t.Errorf("%+v, %v", v, err)
		}
		d.uses(t, map[string]int64{"org": 6, "a": 0, "b": 1})
	})
}

// TestChargesSellOut sells an organisation out through its teams, from two nodes: every unit is sold,
// each id once, and the teams have what the organisation has.
func TestChargesSellOut(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		const total, teams, callers = 300, 3, 6
		d.create(t, promo("org", total, 4))
		var refs []bucket.BudgetRef
		for i := range teams {
			refs = append(refs, d.charging(t, promo(fmt.Sprint("team-", i), total, 2), "org"))
		}
		nodes := []*deduct.Service{d.node(t, nil), d.node(t, nil)}
		var run sync.WaitGroup
		for n := range callers {
			run.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(n)))
				for i := range 100 {
					r := one(refs[random.IntN(teams)], fmt.Sprint(n, "-", i), 1+random.Int64N(3))
					_, err := nodes[random.IntN(2)].Deduct(context.Background(), r)
					if err != nil && !budget.Is(err, budget.LegRefused) {
						t.Error(err)
					}
				}
			})
		}
		run.Wait()
		d.uses(t, map[string]int64{"org": total})
		if units := d.number(t, `SELECT SUM(amount) FROM deduction d JOIN budget_management_bucket b ON b.id = d.budget_id
			WHERE b.charged_by = 0`); units != total {
			t.Errorf("the teams have %d of %d", units, total)
		}
	})
}

// number reads one number.
func (d *database) number(t testing.TB, query string) (n int64) {
	t.Helper()
	if err := d.db.Read(context.Background(), "number", func(r *engine.Reader) error {
		_, err := r.Get(&n, query)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
