package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// noon advances the clock to noon, UTC, of the next Monday whose week is within one month.
func (w *limitWorld) noon() {
	at := w.clock.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour)
	for at.Weekday() != time.Monday || at.Day() < 2 || at.AddDate(0, 0, 8).Day() < at.Day() {
		at = at.AddDate(0, 0, 1)
	}
	w.clock.Advance(at.Sub(w.clock.Now()))
}

// TestAdsWithAWindowEach caps two ads with first_hit windows of their own and shows an ad without a
// limit always.
func TestAdsWithAWindowEach(t *testing.T) {
	eachDatabase(t, func(w *limitWorld) {
		w.create("ad-1", 0, firstHit("cap", "user", "3s", 2))
		w.create("ad-2", 0, firstHit("cap", "user", "5s", 5))
		w.create("ad-3", 0)
		show := func(ad string, want ...string) {
			w.Helper()
			for i, outcome := range want {
				if got := w.deduct(ad, 1, "user=u1"); got != outcome {
					w.Errorf("%s, time %d: %s, want %s", ad, i+1, got, outcome)
				}
			}
		}
		show("ad-1", "accepted", "accepted", "cap")
		show("ad-2", "accepted", "accepted", "accepted", "accepted", "accepted", "cap")
		w.clock.Advance(2999 * time.Millisecond)
		show("ad-1", "cap")
		w.clock.Advance(time.Millisecond)
		w.mayShow("u1", "ad-1 ad-3")
		show("ad-1", "accepted")
		show("ad-2", "cap")
		w.expect("accepted", "ad-2", 1, "user=u2")
		w.clock.Advance(2 * time.Second)
		w.mayShow("u1", "ad-1 ad-2 ad-3")
		show("ad-2", "accepted")
		show("ad-3", slices.Repeat([]string{"accepted"}, 10)...)
		for _, ad := range []string{"ad-1", "ad-2", "ad-3"} {
			for _, quantity := range []int64{1, -1} {
				_, err := w.c.Append(w.ctx, ad, client.AppendRequest{RequestID: fmt.Sprint(quantity), Quantity: quantity})
				if client.CodeOf(err) != budget.Invalid {
					w.Errorf("%d more for an unlimited budget: %v", quantity, err)
				}
			}
			w.audit(ad)
		}
	})
}

// mayShow asks twice which of the ads a user may see. Asking must count nothing.
func (w *limitWorld) mayShow(user, want string) {
	w.Helper()
	var items []client.CheckItem
	for _, ad := range []string{"ad-1", "ad-2", "ad-3", "ad-4"} {
		items = append(items, client.CheckItem{Budget: ad, Amount: 1, Dimensions: map[string]string{"user": user}})
	}
	for range 2 {
		results, err := w.c.Check(w.ctx, items)
		if err != nil {
			w.Fatal(err)
		}
		var may []string
		for i, r := range results {
			switch outcome := w.outcome(r.Err); {
			case outcome == "accepted":
				may = append(may, items[i].Budget)
			case outcome != "cap" && (items[i].Budget != "ad-4" || outcome != "budget_not_found"):
				w.Errorf("%s: %s", items[i].Budget, outcome)
			}
		}
		if got := strings.Join(may, " "); got != want {
			w.Errorf("%s may see %s, want %s", user, got, want)
		}
	}
}

// TestQuotasOfOneBuyer limits user, device, phone and ID card at once. A deduction counts in all of
// them or in none, a refund lowers only the window in which its deduction was counted, and a repeat
// counts once.
func TestQuotasOfOneBuyer(t *testing.T) {
	eachDatabase(t, func(w *limitWorld) {
		w.noon()
		w.create("phones", 1000, each(budget.Day, "user", "user", 3), each(budget.Day, "device", "device", 3),
			each(budget.Week, "phone", "phone", 5), ever("card", "id_card+product", 2))
		const u1 = "user=u1 device=d1 phone=p1 id_card=c1 product=x"
		w.expect("accepted", "phones", 1, u1)
		w.expect("accepted", "phones", 1, u1)
		for range 3 { // refused by the card, so no other limit counts it
			w.expect("card", "phones", 1, u1)
		}
		w.expect("accepted", "phones", 1, "user=u1 device=d1 phone=p1 id_card=c1 product=y")
		w.expect("user", "phones", 1, "user=u1 device=d2 phone=p2 id_card=c2 product=x")
		w.expect("device", "phones", 1, "user=u2 device=d1 phone=p2 id_card=c2 product=x")
		w.expect("accepted", "phones", 1, "user=u2 device=d2 phone=p2 id_card=c2 product=x")
		w.expect("invalid", "phones", 1, "user=u3 device=d3 phone=p3")
		if got := w.deductAs("r1", "phones", 1, u1); got != "replayed" {
			w.Errorf("a repetition: %s", got)
		}
		if _, err := w.c.Rollback(w.ctx, "phones", client.RollbackRequest{RequestID: "r1"}); err != nil {
			w.Fatal(err)
		}
		w.expect("accepted", "phones", 1, u1)
		w.expect("user", "phones", 1, "user=u1 device=d9 phone=p9 id_card=c9 product=x")
		w.clock.Advance(24 * time.Hour)
		for i, want := range []string{"accepted", "accepted"} {
			if got := w.deduct("phones", 1, fmt.Sprintf("user=u1 device=d1 phone=p1 id_card=c%d product=z", i)); got != want {
				w.Errorf("the next day: %s, want %s", got, want)
			}
		}
		// A refund of yesterday's deduction lowers the phone's week and the card, and nothing of today.
		if _, err := w.c.Rollback(w.ctx, "phones", client.RollbackRequest{RequestID: "r2"}); err != nil {
			w.Fatal(err)
		}
		w.expect("accepted", "phones", 1, u1)
		w.expect("user", "phones", 1, "user=u1 device=d8 phone=p8 id_card=c8 product=x")
		w.expect("phone", "phones", 1, "user=u8 device=d8 phone=p1 id_card=c8 product=x")
		usage, err := w.c.Usage(w.ctx, "phones", client.UsageRequest{Dimensions: dimensionsOf("user=u1")})
		if err != nil || usage.Calls != 7 || usage.Amount != 7 || usage.RolledBack != 2 {
			w.Errorf("usage of u1: %+v, %v", usage, err)
		}
		usage, err = w.c.Usage(w.ctx, "phones", client.UsageRequest{Dimensions: dimensionsOf("user=u1 product=x"),
			From: w.clock.Now().Add(-time.Hour)})
		if err != nil || usage.Calls != 1 || usage.RolledBack != 0 {
			w.Errorf("usage of u1 today for x: %+v, %v", usage, err)
		}
		w.audit("phones")
	})
}

// TestCoupons limits coupons by stock, by day, by user, and by user and day. Each refusal must name
// its limit, and a coupon's id must count once.
func TestCoupons(t *testing.T) {
	eachDatabase(t, func(w *limitWorld) {
		w.noon()
		w.create("coupons", 8, each(budget.Day, "batch-day", "batch", 6), ever("user", "user", 3),
			each(budget.Day, "user-day", "user", 2))
		get := func(want, user string) { w.Helper(); w.expect(want, "coupons", 1, "batch=b1 user="+user) }
		get("accepted", "u1")
		get("accepted", "u1")
		get("user-day", "u1")
		get("accepted", "u2")
		get("accepted", "u2")
		get("accepted", "u3")
		get("accepted", "u3")
		get("batch-day", "u4")
		w.clock.Advance(24 * time.Hour)
		answer, err := w.c.Deduct(w.ctx, "coupons", client.DeductRequest{RequestID: "c1", Amount: 1, Dimensions: dimensionsOf("batch=b1 user=u1")})
		if err != nil || *answer.BudgetRemaining > 2 || len(answer.Limits) != 3 {
			w.Fatalf("%+v, %v", answer, err)
		}
		var used []string
		for _, s := range answer.Limits {
			used = append(used, fmt.Sprintf("%s %d of %d", s.Name, s.Used, *s.Max))
		}
		if got := strings.Join(used, ", "); got != "batch-day 1 of 6, user 3 of 3, user-day 1 of 2" {
			w.Errorf("the answer says %s", got)
		}
		get("user", "u1")
		if got := w.deductAs("c1", "coupons", 1, "batch=b1 user=u1"); got != "replayed" {
			w.Errorf("the coupon again: %s", got)
		}
		if got := w.deductAs("c1", "coupons", 1, "batch=b1 user=u2"); got != "request_conflict" {
			w.Errorf("the coupon for another user: %s", got)
		}
		get("accepted", "u5")
		get("budget_exhausted", "u6")
		w.audit("coupons")
	})
}

// TestExceptions checks an override, an exempt value, a limit that only counts, and a limit that
// becomes monthly without starting from 0.
func TestExceptions(t *testing.T) {
	eachDatabase(t, func(w *limitWorld) {
		w.noon()
		four, none, off := int64(4), int64(0), false
		day := each(budget.Day, "day", "user", 2)
		day.Overrides = []client.Override{{Value: "vip", Max: &four}, {Value: "thief", Max: &none}, {Value: "staff", Exempt: true}}
		seen := each(budget.Day, "seen", "user", 1)
		seen.Enforce = &off
		b := w.create("sale", 1000, day, seen)
		if len(b.Limits) != 2 || b.Limits[0].OverrideCount != 3 || *b.Limits[1].Enforce {
			w.Fatalf("as created: %+v", b.Limits)
		}
		for user, most := range map[string]int{"u1": 2, "vip": 4, "thief": 0, "staff": 9} {
			for range most {
				w.expect("accepted", "sale", 1, "user="+user)
			}
			if user != "staff" {
				w.expect("day", "sale", 1, "user="+user)
			}
		}
		w.clock.Advance(24 * time.Hour)
		w.expect("accepted", "sale", 1, "user=u1")
		month := day
		month.Window.Every, month.Max = budget.Month, 4
		if _, err := w.c.Patch(w.ctx, "sale", client.PatchRequest{Limits: []client.Limit{month, seen}, IfVersion: b.Version + 7}); problem(err) == nil ||
			problem(err).Code != budget.VersionConflict {
			w.Errorf("another version: %v", err)
		}
		if _, err := w.c.Patch(w.ctx, "sale", client.PatchRequest{Limits: []client.Limit{month, seen}, IfVersion: b.Version}); err != nil {
			w.Fatal(err)
		}
		w.expect("accepted", "sale", 1, "user=u1") // the 4th of the month
		w.expect("day", "sale", 1, "user=u1")
		w.expect("day", "sale", 1, "user=vip")
		if _, err := w.c.Patch(w.ctx, "sale", client.PatchRequest{Limits: []client.Limit{}}); err != nil {
			w.Fatal(err)
		}
		w.expect("accepted", "sale", 1, "user=u1")
		w.audit("sale")
	})
}

// TestDryRun checks that a dry run gives the answer that a deduct would get, and counts nothing.
func TestDryRun(t *testing.T) {
	eachDatabase(t, func(w *limitWorld) {
		w.create("sale", 5, ever("cap", "user", 2))
		ask := func(id string, amount int64, dimensions string) (string, *client.Foreseen) {
			w.Helper()
			answer, err := w.c.DryRun(w.ctx, "sale", client.DeductRequest{RequestID: id, Amount: amount, Dimensions: dimensionsOf(dimensions)})
			if err == nil && answer.Outcome != "would_be_accepted" {
				return answer.Outcome, answer
			}
			return w.outcome(err), answer
		}
		for range 3 {
			if got, answer := ask("r1", 1, "user=u1"); got != "accepted" || *answer.BudgetRemaining != 5 || len(answer.Limits) != 1 ||
				answer.Limits[0].Used != 0 {
				w.Errorf("%s, %+v", got, answer)
			}
		}
		w.expect("accepted", "sale", 1, "user=u1") // r1
		w.expect("accepted", "sale", 1, "user=u1")
		for _, c := range []struct {
			id, dimensions string
			amount         int64
			want           string
		}{{"r9", "user=u1", 1, "cap"}, {"r9", "user=u2", 4, "budget_exhausted"}, {"r9", "device=d1", 1, "invalid"},
			{"r9", "user=u2", 3, "accepted"}, {"r1", "user=u2", 1, "request_conflict"}} {
			if got, _ := ask(c.id, c.amount, c.dimensions); got != c.want {
				w.Errorf("%+v: %s", c, got)
			}
		}
		if got, answer := ask("r1", 1, "user=u1"); got != "accepted" || !answer.Replayed {
			w.Errorf("a repetition: %s, %+v", got, answer)
		}
		results, err := w.c.DeductBatch(w.ctx, []client.BatchItem{
			{Budget: "sale", DeductRequest: client.DeductRequest{RequestID: "b1", Amount: 1, Dimensions: dimensionsOf("user=u1")}},
			{Budget: "sale", DeductRequest: client.DeductRequest{RequestID: "b2", Amount: 1, Dimensions: dimensionsOf("user=u2"),
				Counts: map[string]int64{"cap": 2}}},
			{Budget: "sale", DeductRequest: client.DeductRequest{RequestID: "b3", Amount: 1, Dimensions: dimensionsOf("user=u3"),
				Counts: map[string]int64{"other": 1}}}})
		if err != nil || w.outcome(results[0].Err) != "cap" || results[1].Err != nil || w.outcome(results[2].Err) != "invalid" {
			w.Fatal(err, results)
		}
		w.expect("cap", "sale", 1, "user=u2") // its own count of 2 has reached the maximum
		w.audit("sale")
	})
}

// TestTenants checks that tenants with the same names, ids and values do not affect each other.
func TestTenants(t *testing.T) {
	eachDatabase(t, func(w *limitWorld) {
		shop, games := w.tenant("shop"), w.tenant("games")
		lines := []*client.Client{shop, games}
		for _, c := range lines {
			w.c = c
			w.create("sale", 100, ever("cap", "user", 2))
		}
		for i, c := range lines {
			w.c = c
			for n, want := range []string{"accepted", "accepted", "cap"} {
				if got := w.deductAs(fmt.Sprintf("r%d", n), "sale", int64(i+1), "user=u1"); got != want {
					w.Errorf("line %d, deduct %d: %s, want %s", i, n, got, want)
				}
			}
		}
		for i, c := range lines {
			w.c = c
			id := int64(0)
			if b, err := c.Budget(w.ctx, "sale"); err != nil || b.Used != int64(2*(i+1)) {
				w.Errorf("line %d: %+v, %v", i, b, err)
			} else {
				id = b.ID
			}
			if d, err := c.Deduction(w.ctx, "sale", "r0"); err != nil || d.Amount != int64(i+1) {
				w.Errorf("line %d: %+v, %v", i, d, err)
			}
			if u, err := c.Usage(w.ctx, "sale", client.UsageRequest{Dimensions: dimensionsOf("user=u1")}); err != nil || u.Amount != int64(2*(i+1)) {
				w.Errorf("line %d: %+v, %v", i, u, err)
			}
			page, err := c.List(w.ctx, client.Filter{})
			if err != nil || len(page.Budgets) != 1 || page.Budgets[0].ID != id {
				w.Errorf("line %d lists %+v, %v", i, page, err)
			}
			w.strangers(lines[1-i], strconv.FormatInt(id, 10))
		}
		for _, c := range []*client.Client{w.tenant("")} {
			w.strangers(c, "sale")
		}
	})
}

// strangers checks that no call of a tenant finds another tenant's budget.
func (w *limitWorld) strangers(c *client.Client, ref string) {
	w.Helper()
	one := client.DeductRequest{RequestID: "r0", Amount: 1, Dimensions: dimensionsOf("user=u1")}
	calls := map[string]func() error{
		"get":      func() error { _, err := c.Budget(w.ctx, ref); return err },
		"deduct":   func() error { _, err := c.Deduct(w.ctx, ref, one); return err },
		"dry run":  func() error { _, err := c.DryRun(w.ctx, ref, one); return err },
		"rollback": func() error { _, err := c.Rollback(w.ctx, ref, client.RollbackRequest{RequestID: "r0"}); return err },
		"cancel":   func() error { _, err := c.Cancel(w.ctx, ref, client.CancelRequest{RequestID: "r0"}); return err },
		"read":     func() error { _, err := c.Deduction(w.ctx, ref, "r0"); return err },
		"append": func() error {
			_, err := c.Append(w.ctx, ref, client.AppendRequest{RequestID: "a", Quantity: 1})
			return err
		},
		"patch": func() error {
			_, err := c.Patch(w.ctx, ref, client.PatchRequest{Limits: []client.Limit{}})
			return err
		},
		"buckets": func() error { _, err := c.Buckets(w.ctx, ref); return err },
		"audit":   func() error { _, err := c.Audit(w.ctx, ref); return err },
		"usage": func() error {
			_, err := c.Usage(w.ctx, ref, client.UsageRequest{Dimensions: dimensionsOf("user=u1")})
			return err
		},
		"series": func() error { _, err := c.Series(w.ctx, ref, client.SeriesSpan{}); return err },
		"check": func() error {
			results, err := c.Check(w.ctx, []client.CheckItem{{Budget: ref, Amount: 1}})
			if err == nil {
				err = results[0].Err
			}
			return err
		},
		"batch": func() error {
			results, err := c.DeductBatch(w.ctx, []client.BatchItem{{Budget: ref, DeductRequest: one}})
			if err == nil {
				err = results[0].Err
			}
			return err
		},
	}
	for name, call := range calls {
		if err := call(); client.CodeOf(err) != budget.BudgetNotFound {
			w.Errorf("%s of another tenant's budget %s: %v", name, ref, err)
		}
	}
}
