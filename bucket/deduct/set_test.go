package deduct_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// withHolds is node with what gives deductions back.
func (d *database) withHolds(t testing.TB) (*deduct.Service, *hold.Service) {
	t.Helper()
	var holds *hold.Service
	s := d.node(t, func(c *deduct.Config) {
		c.States = deduct.NewStates(0)
		returns := hold.NewLedger(d.db)
		returns.Returned = c.States.Returned
		holds = hold.New(hold.Config{Budgets: c.Budgets, Ledger: returns})
		c.Returns = holds
	})
	return s, holds
}

// set asks for a set. legs are names with amounts.
func set(id string, legs ...any) bucket.DeductRequest {
	r := bucket.DeductRequest{Budget: bucket.BudgetRef{Tenant: budget.DefaultTenant}, RequestID: id}
	for i := 0; i < len(legs); i += 2 {
		r.Legs = append(r.Legs, bucket.DeductRequest{Amount: int64(legs[i+1].(int)),
			Budget: bucket.BudgetRef{Tenant: budget.DefaultTenant, Name: legs[i].(string)}})
	}
	return r
}

// whole names a set of the tenant.
func whole(id string) bucket.RollbackRequest {
	return bucket.RollbackRequest{Budget: bucket.BudgetRef{Tenant: budget.DefaultTenant}, RequestID: id}
}

// rows lists what a set changes, in all budgets.
func (d *database) rows(t testing.TB) string {
	t.Helper()
	var out strings.Builder
	if err := d.db.Read(context.Background(), "rows", func(r *engine.Reader) error {
		for _, query := range []string{
			`SELECT bucket_id AS a, outstanding_quantity AS b, used_quantity AS c, held_quantity AS d FROM bucket_epoch ORDER BY 1`,
			`SELECT id AS a, undistributed_quantity AS b, version AS c, list_version AS d FROM budget_management_bucket ORDER BY 1`,
			`SELECT budget_id AS a, amount AS b, bucket_id AS c, epoch AS d FROM deduction ORDER BY 1, request_id`,
			`SELECT bucket_id AS a, first_entry AS b, entries AS c, units AS d FROM feed ORDER BY 1, 2`,
			`SELECT budget_id AS a, version AS b, expires_ms AS c, LENGTH(counts) AS d FROM limit_counter ORDER BY 1, dimension, value`,
			`SELECT budget_id AS a, amount AS b, is_whole AS c, epoch AS d FROM give_back ORDER BY 1, request_id, rollback_id`,
		} {
			var found []struct{ A, B, C, D int64 }
			if err := r.List(&found, query); err != nil {
				return err
			}
			fmt.Fprintln(&out, found)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// uses compares S and H of budgets with their deductions, and O with the rest of the total.
func (d *database) uses(t testing.TB, want map[string]int64) {
	t.Helper()
	var found []struct {
		Name                           string
		Total, Free, Taken, Rows, Back int64
	}
	if err := d.db.Read(context.Background(), "uses", func(r *engine.Reader) error {
		found = nil
		return r.List(&found, `SELECT u.name AS name, u.total_quantity AS total,
			u.undistributed_quantity + (SELECT SUM(e.outstanding_quantity + e.returning_quantity) FROM bucket_epoch e
				WHERE e.budget_id = u.id) AS free,
			(SELECT SUM(e.used_quantity + e.held_quantity) FROM bucket_epoch e WHERE e.budget_id = u.id) AS taken,
			(SELECT COALESCE(SUM(x.amount), 0) FROM deduction x WHERE x.budget_id = u.id) AS `+"`rows`"+`,
			(SELECT COALESCE(SUM(g.amount), 0) FROM give_back g WHERE g.budget_id = u.id) AS back
			FROM budget_management_bucket u`)
	}); err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Free+f.Taken != f.Total || f.Taken != f.Rows-f.Back {
			t.Errorf("%s: %d of %d are free, %d taken, %d in rows, %d came back", f.Name, f.Free, f.Total, f.Taken,
				f.Rows, f.Back)
		}
		if units, named := want[f.Name]; named && units != f.Taken {
			t.Errorf("%s: %d are taken, want %d", f.Name, f.Taken, units)
		}
	}
}

// told is an answer without what depends on the bucket.
func told(a bucket.DeductAnswer) string {
	out := fmt.Sprint(a.RequestID, " ", a.State, " ", a.Replayed, ":")
	for _, l := range a.Legs {
		out += fmt.Sprintf(" %s %s %d of %d", l.RequestID, l.Budget, l.Amount, l.BudgetRemaining)
	}
	return out
}

func TestSet(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		for _, name := range []string{"org", "team", "user"} {
			d.create(t, promo(name, 100, 2))
		}
		s, _ := d.withHolds(t)
		ctx := context.Background()
		got, err := s.Deduct(ctx, set("a", "org", 3, "team", 2, "user", 1))
		if want := "a used false: a org 3 of 97 a team 2 of 98 a user 1 of 99"; err != nil || told(got) != want {
			t.Fatalf("%s, %v", told(got), err)
		}
		got, err = s.Deduct(ctx, set("a", "user", 1, "org", 3, "team", 2))
		if want := "a used true: a user 1 of 99 a org 3 of 97 a team 2 of 98"; err != nil || told(got) != want {
			t.Errorf("in another order: %s, %v", told(got), err)
		}
		for _, other := range []bucket.DeductRequest{set("a", "org", 3, "team", 2), set("a", "org", 3, "team", 2, "user", 2),
			set("a", "user", 1)} {
			if _, err := s.Deduct(ctx, other); !budget.Is(err, budget.RequestConflict) {
				t.Errorf("%+v: %v", other, err)
			}
		}
		org := bucket.BudgetRef{Tenant: budget.DefaultTenant, Name: "org"}
		plain, err := s.Deduct(ctx, bucket.DeductRequest{Budget: org, RequestID: "a", Amount: 5})
		if err != nil || plain.Replayed {
			t.Errorf("a deduction of one budget with the id: %+v, %v", plain, err)
		}
		d.uses(t, map[string]int64{"org": 8, "team": 2, "user": 1})
		for _, faulty := range []struct {
			r    bucket.DeductRequest
			code budget.Code
		}{{set("b", "org", 1, "org", 2), budget.Invalid}, {set("b", "org", 1, "none", 2), budget.BudgetNotFound}} {
			before := d.rows(t)
			_, err := s.Deduct(ctx, faulty.r)
			var e *budget.Error
			if !errors.As(err, &e) || e.Code != faulty.code || len(e.Fields) != 1 || e.Fields[0].Field != "legs[1].budget" {
				t.Errorf("%v, want %s", err, faulty.code)
			}
			if after := d.rows(t); after != before {
				t.Errorf("%s has changed\n%s\ninto\n%s", faulty.code, before, after)
			}
		}
	})
}

// TestSetRefused checks that a refusal names every leg that refuses, with its figures, and changes
// no row of any budget (I6).
func TestSetRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		d.create(t, promo("short", 10, 2))
		d.create(t, promo("free", 100, 2))
		limited := promo("limited", 100, 2)
		limited.Limits = &budget.Limits{List: []budget.Limit{{Name: "daily", Dimension: "user", Max: 5,
			Measure: budget.MeasureAmount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}, Enforce: true}}}
		d.create(t, limited)
		s, _ := d.withHolds(t)
		ctx := context.Background()
		ask := func(id string) error {
			r := set(id, "short", 11, "free", 1, "limited", 6)
			r.Legs[2].Dimensions = map[string]string{"user": "u"}
			_, err := s.Deduct(ctx, r)
			return err
		}
		before := d.rows(t)
		for _, id := range []string{"a", "b"} {
			var e *budget.Error
			if err := ask(id); !errors.As(err, &e) || e.Code != budget.LegRefused || !e.Never || len(e.Refusals) != 2 {
				t.Fatalf("%v", err)
			}
			first, second := e.Refusals[0], e.Refusals[1]
			if first.Budget != "short" || first.Reason.Code != budget.BudgetExhausted || *first.Reason.Available != 10 ||
				second.Budget != "limited" || second.Reason.Code != budget.LimitExceeded || second.Reason.Limit.Max != 5 {
				t.Errorf("%+v, %+v", first, second)
			}
		}
		if after := d.rows(t); after != before {
			t.Errorf("refusals have changed\n%s\ninto\n%s", before, after)
		}
		pausedRef := bucket.BudgetRef{Tenant: budget.DefaultTenant, Name: "free"}
		b, err := d.definitions.Budget(ctx, pausedRef)
		if err != nil {
			t.Fatal(err)
		}
		yes := true
		if _, err := d.definitions.Change(ctx, b.ID, bucket.Change{Paused: &yes}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond) // I8
		var e *budget.Error
		if err := ask("c"); !errors.As(err, &e) || len(e.Refusals) != 3 || e.Refusals[1].Reason.Code != budget.BudgetPaused ||
			*e.Refusals[0].Reason.Available != 10 {
			t.Errorf("with a paused leg: %v", err)
		}
	})
}

// TestSetVerbs checks the verbs of a set: all legs follow, or none.
func TestSetVerbs(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		for _, name := range []string{"org", "team"} {
			d.create(t, promo(name, 100, 2))
		}
		s, holds := d.withHolds(t)
		ctx := context.Background()
		must := func(v bucket.DeductionView, err error) string {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			out := fmt.Sprint(v.State, " ", v.Replayed, ":")
			for _, l := range v.Legs {
				out += fmt.Sprintf(" %s %s %d-%d", l.Budget, l.State, l.Amount, l.RolledBack)
			}
			return out
		}
		check := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		deduct := func(r bucket.DeductRequest) {
			t.Helper()
			if _, err := s.Deduct(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		deduct(set("a", "org", 10, "team", 5))
		check("read", must(s.Deduction(ctx, whole("a"))), "used false: org used 10-0 team used 5-0")
		part := whole("a")
		part.RollbackID, part.Amounts = "r", map[string]int64{"org": 4}
		check("part", must(s.Rollback(ctx, part)), "used false: org used 10-4 team used 5-0")
		check("part, again", must(s.Rollback(ctx, part)), "used true: org used 10-4 team used 5-0")
		part.Amounts = map[string]int64{"org": 4, "team": 1}
		if _, err := s.Rollback(ctx, part); !budget.Is(err, budget.RequestConflict) {
			t.Errorf("other parts: %v", err)
		}
		part.RollbackID, part.Amounts = "s", map[string]int64{"org": 7, "team": 1}
		if _, err := s.Rollback(ctx, part); !budget.Is(err, budget.AmountExceedsRemaining) {
			t.Errorf("too large a part: %v", err)
		}
		d.uses(t, map[string]int64{"org": 6, "team": 5})
		check("rollback", must(s.Rollback(ctx, whole("a"))), "rolled_back false: org rolled_back 10-10 team rolled_back 5-5")
		check("rollback, again", must(s.Rollback(ctx, whole("a"))), "rolled_back true: org rolled_back 10-10 team rolled_back 5-5")
		if _, err := s.Deduct(ctx, set("a", "org", 10, "team", 5)); !budget.Is(err, budget.AlreadyRolledBack) {
			t.Errorf("repeated after the rollback: %v", err)
		}
		if _, err := s.Rollback(ctx, whole("b")); !budget.Is(err, budget.DeductionNotFound) {
			t.Errorf("unknown: %v", err)
		}
		check("cancel", must(s.Cancel(ctx, whole("b"))), "void false:")
		if _, err := s.Deduct(ctx, set("b", "org", 1, "team", 1)); !budget.Is(err, budget.RequestVoid) {
			t.Errorf("a cancelled id: %v", err)
		}
		held := func(id string, ttl time.Duration) bucket.DeductRequest {
			r := set(id, "org", 10, "team", 5)
			r.HoldTTL = ttl
			return r
		}
		deduct(held("c", time.Minute))
		d.uses(t, map[string]int64{"org": 10, "team": 5})
		confirm := bucket.ConfirmRequest{Budget: whole("c").Budget, RequestID: "c", Amounts: map[string]int64{"org": 7}}
		views, err := holds.Confirm(ctx, confirm)
		check("confirm", must(views[0], err), "used false: org used 10-3 team used 5-0")
		views, err = holds.Confirm(ctx, confirm)
		check("confirm, again", must(views[0], err), "used true: org used 10-3 team used 5-0")
		deduct(held("d", 200*time.Millisecond))
		if _, err := holds.Extend(ctx, bucket.ExtendRequest{Budget: whole("d").Budget, RequestID: "d",
			HoldTTL: 300 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		ends := hold.NewLedger(d.db)
		if got, err := ends.ExpireHolds(ctx, 10, 0); err != nil || got.Found != 0 {
			t.Errorf("before the end: %+v, %v", got, err)
		}
		time.Sleep(350 * time.Millisecond)
		if got, err := ends.ExpireHolds(ctx, 10, 0); err != nil || got != (hold.Expired{Found: 1, Holds: 2, Units: 15}) {
			t.Errorf("after the end: %+v, %v", got, err)
		}
		check("expired", must(s.Deduction(ctx, whole("d"))), "expired false: org expired 10-10 team expired 5-5")
		used := held("e", 200*time.Millisecond)
		used.ExpiresAs = ledger.ExpiresUsed
		deduct(used)
		deduct(held("f", 200*time.Millisecond))
		views, err = holds.Extend(ctx, bucket.ExtendRequest{Budget: whole("f").Budget, RequestID: "f",
			HoldTTL: 200 * time.Millisecond, ExpiresAs: ledger.ExpiresUsed})
		if err != nil || views[0].ExpiresAs != ledger.ExpiresUsed {
			t.Errorf("extended: %+v, %v", views, err)
		}
		time.Sleep(250 * time.Millisecond)
		if got, err := ends.ExpireHolds(ctx, 10, 0); err != nil || got != (hold.Expired{Found: 2, Holds: 4}) {
			t.Errorf("used by the expiry: %+v, %v", got, err)
		}
		for _, id := range []string{"e", "f"} {
			got, err := s.Deduction(ctx, whole(id))
			check("used", must(got, err), "used false: org used 10-0 team used 5-0")
			if got.ExpiresAs != ledger.ExpiresUsed {
				t.Errorf("%q expires as %q", id, got.ExpiresAs)
			}
		}
		confirm.RequestID = "f"
		views, err = holds.Confirm(ctx, confirm)
		check("corrected", must(views[0], err), "used false: org used 10-3 team used 5-0")
		d.uses(t, map[string]int64{"org": 24, "team": 15})
	})
}
