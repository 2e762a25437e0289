package console

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestPageIsSmall checks that the compressed page has at most 120 KiB, and no inline script or
// style and no absolute address, which its content security policy forbids.
func TestPageIsSmall(t *testing.T) {
	const most = 120 << 10
	total := 0
	err := fs.WalkDir(dist, "dist/assets", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var text []byte
			text, err = dist.ReadFile(name)
			total += len(compressed(text))
		}
		return err
	})
	index, e := dist.ReadFile("dist/index.html")
	if err != nil || e != nil {
		t.Fatal(err, e)
	}
	if total += len(compressed(index)); total > most || total < 1000 {
		t.Errorf("%d bytes compressed, at most %d", total, most)
	}
	for _, inline := range []string{"<style", "style=", "onclick", "<script>", "http:", "https:"} {
		if bytes.Contains(index, []byte(inline)) {
			t.Errorf("the page has %s", inline)
		}
	}
}

// hundred thousand budgets, of which one in ten is used.
func dashboardOf(n int, now *time.Time) *Dashboard {
	o := &Dashboard{Now: func() time.Time { return *now }, Known: func() (int, int64) { return 0, 0 }}
	pass := func(used int64) {
		o.Begin()
		books := make([]bucket.Snapshot, n)
		for i := range books {
			books[i] = bucket.Snapshot{Definition: budget.Definition{ID: int64(i + 1), Tenant: "default",
				Name: fmt.Sprintf("campaign-%06d", i)}, Figures: ledger.Figures{Total: 1000, InBuckets: 1000}}
			if i%10 == 3 {
				books[i].Figures.Used = used * int64(i) / int64(n)
				books[i].Figures.InBuckets -= books[i].Figures.Used
			}
		}
		_ = o.Page(context.Background(), books)
		o.End()
	}
	pass(0)
	*now = now.Add(time.Minute)
	pass(600)
	return o
}

func TestRank(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := dashboardOf(100, &now)
	o.summaries = append(o.summaries, summary{id: 101, tenant: "default", name: "campaign-000100",
		key: "default/campaign-000100", terms: budget.Definition{Archived: true}})
	for _, test := range []struct {
		s     bucket.Selection
		total int
		first int64
	}{
		{bucket.Selection{By: bucket.ByName}, 100, 1},
		{bucket.Selection{By: bucket.ByName, Descending: true}, 100, 100},
		{bucket.Selection{By: bucket.ByName, Skip: 40}, 100, 41},
		{bucket.Selection{By: bucket.ByRemaining}, 100, 94},
		{bucket.Selection{By: bucket.ByUsedShare, Descending: true}, 100, 94},
		{bucket.Selection{By: bucket.ByUsed, Descending: true}, 100, 94},
		{bucket.Selection{By: bucket.ByExhaustion}, 100, 94},
		{bucket.Selection{By: bucket.ByExhaustion, Descending: true}, 100, 4},
		{bucket.Selection{By: bucket.ByEnd}, 100, 1},
		{bucket.Selection{Search: "Campaign-00001"}, 10, 11},
		{bucket.Selection{Search: "default/campaign-000099"}, 1, 100},
		{bucket.Selection{Tenant: "acme"}, 0, 0},
		{bucket.Selection{Status: budget.Paused}, 0, 0},
		{bucket.Selection{Covers: func(_, name string) bool { return name == "campaign-000007" }}, 1, 8},
		{bucket.Selection{Skip: 200}, 100, 0},
		{bucket.Selection{Skip: 90}, 100, 91},
		{bucket.Selection{Skip: 90, Archived: true}, 101, 91},
		{bucket.Selection{Search: "campaign-000100"}, 0, 0},
		{bucket.Selection{Search: "campaign-000100", Archived: true}, 1, 101},
	} {
		test.s.Size = 10
		got := o.Rank(test.s)
		if got.Total != test.total || test.first == 0 && len(got.Budgets) > 0 ||
			test.first != 0 && (len(got.Budgets) == 0 || got.Budgets[0].ID != test.first) {
			t.Errorf("%+v: %+v", test.s, got)
		}
	}
	for i, days := range []int{3, -2, 1, -1, 2} { // the first five end, two of them in the past
		o.summaries[i].terms.EndAt = now.AddDate(0, 0, days)
	}
	for descending, want := range map[bool][]int64{false: {3, 5, 1, 6, 2, 4}, true: {1, 5, 3, 6, 4, 2}} {
		list := o.Rank(bucket.Selection{By: bucket.ByEnd, Descending: descending, Size: 100}).Budgets
		var got []int64
		for _, i := range []int{0, 1, 2, 3, 98, 99} {
			got = append(got, list[i].ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("by the end, descending %v: %v, want %v: those that ended come last", descending, got, want)
		}
	}
	for i := range 5 {
		o.summaries[i].terms.EndAt = time.Time{}
	}
	top := o.Rank(bucket.Selection{By: bucket.ByExhaustion, Size: 100}).Budgets
	if soonest := now.Add(47526 * time.Millisecond); !top[0].ExhaustedAt.Truncate(time.Millisecond).Equal(soonest) ||
		!top[99].ExhaustedAt.IsZero() || top[0].Refusals != nil {
		t.Errorf("the first %+v, the last %+v", top[0], top[99])
	}
	const shut = 99 // nothing can be deducted before its window opens
	o.summaries[shut].figures.Period.Start = now.Add(time.Hour)
	poorest := o.Rank(bucket.Selection{By: bucket.ByRemaining, Size: 1}).Budgets[0].ID
	if poorest != o.summaries[shut].id {
		t.Errorf("the least remains of budget %d, want %d, whose window has not opened", poorest, o.summaries[shut].id)
	}
	o.summaries[shut].figures.Period.Start = time.Time{}
	s := o.Overview(3)
	o.summaries[49].figures.Held, o.summaries[98].figures.Total, o.summaries[7].terms.Unlimited = 5, 2000, true
	for by, want := range map[bucket.RankBy][2]int64{bucket.ByHeld: {50, 100}, bucket.ByTotal: {99, 8}} {
		list := o.Rank(bucket.Selection{By: by, Descending: true, Size: 100}).Budgets
		if got := [2]int64{list[0].ID, list[99].ID}; got != want {
			t.Errorf("by %s, the most first: first and last %v, want %v", by, got, want)
		}
	}
	if len(s.Next) != 3 || s.Next[0].Name != "campaign-000093" || s.Next[0].Used != 558 ||
		s.Next[0].Rate != 9.3 || s.Statuses[budget.Effective] != 100 {
		t.Errorf("%+v", s)
	}
}

// TestRecent checks that refusals are kept with their requests, counted per budget, and no longer
// counted after the window.
func TestRecent(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := dashboardOf(10, &now)
	o.Find = func(_ context.Context, ref bucket.BudgetRef) (*bucket.Budget, error) {
		return &bucket.Budget{Definition: budget.Definition{ID: 3, Tenant: ref.Tenant,
			Name: "campaign-000002"}}, nil
	}
	request := func(n int) *bucket.DeductRequest {
		r := &bucket.DeductRequest{RequestID: fmt.Sprint("r", n), Amount: 5,
			Budget: bucket.BudgetRef{Tenant: "default", Name: "campaign-000002"}}
		if n%2 == 0 {
			r.Budget = bucket.BudgetRef{Tenant: "default", ID: 3}
		}
		return r
	}
	for n := range 2 * shards * kept {
		o.Deducted(request(n), budget.Refuse(budget.BudgetExhausted, "deduct", "x"))
	}
	o.Deducted(request(1), nil)
	o.Deducted(nil, budget.Refuse(budget.Malformed, "deduct", "x"))
	found := o.Refused(context.Background(), func(r *bucket.Refusal) bool {
		return r.Request.RequestID == fmt.Sprint("r", 2*shards*kept-1)
	}, 10)
	if len(found) != 1 || found[0].Request.Budget.Name != "campaign-000002" {
		t.Errorf("%+v", found)
	}
	all := o.Refused(context.Background(), func(*bucket.Refusal) bool { return true }, 1<<20)
	if len(all) != shards*kept {
		t.Errorf("%d are remembered", len(all))
	}
	refused := o.Overview(5).Refused
	if len(refused) != 1 || refused[0].Refusals[budget.BudgetExhausted] != 2*shards*kept {
		t.Errorf("%+v", refused)
	}
	most := o.Rank(bucket.Selection{By: bucket.ByRefusals, Descending: true, Size: 2}).Budgets
	if most[0].ID != 3 || *most[0].Refusals != 2*shards*kept || *most[1].Refusals != 0 {
		t.Errorf("%+v", most)
	}
	now = now.Add(time.Second)
	if got := o.Outcomes(1)[0]; got.Accepted != 1 || got.Refused != 2*shards*kept || got.Faulty != 1 {
		t.Errorf("%+v", got)
	}
	now = now.Add(2 * halfWindow)
	if got := o.Overview(5).Refused; len(got) != 0 {
		t.Errorf("after the window: %+v", got)
	}
}

// TestRefusalsOfOneTenant checks that a tenant with many refusals does not push out those of others.
func TestRefusalsOfOneTenant(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := dashboardOf(1, &now)
	o.Find = func(_ context.Context, ref bucket.BudgetRef) (*bucket.Budget, error) {
		return &bucket.Budget{Definition: budget.Definition{ID: 3, Tenant: ref.Tenant, Name: ref.Name}}, nil
	}
	refuse := func(tenant string, n int) {
		now = now.Add(time.Millisecond)
		o.Deducted(&bucket.DeductRequest{RequestID: fmt.Sprint(tenant, n), Budget: bucket.BudgetRef{Tenant: tenant, Name: "sale"}},
			budget.Refuse(budget.BudgetExhausted, "deduct", "x"))
	}
	for n := range 50 {
		refuse("quiet", n)
	}
	for n := range 3 * shards * kept {
		refuse("loud", n)
	}
	of := func(tenant string) int {
		return len(o.Refused(context.Background(), func(r *bucket.Refusal) bool { return r.Request.Budget.Tenant == tenant }, 1<<20))
	}
	if quiet, loud := of("quiet"), of("loud"); quiet != 50 || quiet+loud != shards*kept {
		t.Errorf("%d refusals of the quiet tenant and %d of the loud one are remembered", quiet, loud)
	}
	newest := o.Refused(context.Background(), func(r *bucket.Refusal) bool { return r.Request.Budget.Tenant == "loud" }, 1)
	if want := fmt.Sprint("loud", 3*shards*kept-1); newest[0].Request.RequestID != want {
		t.Errorf("the newest is %s, want %s", newest[0].Request.RequestID, want)
	}
}

// TestCountsOfOneTenant lets a tenant have refusals of more budgets than are counted. Those of another
// tenant are counted all the same.
func TestCountsOfOneTenant(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := dashboardOf(1, &now)
	refuse := func(n int, tenant, name string) {
		o.Deducted(&bucket.DeductRequest{RequestID: fmt.Sprint(n), Budget: bucket.BudgetRef{Tenant: tenant, Name: name}},
			budget.Refuse(budget.BudgetExhausted, "deduct", "x"))
	}
	for n := range 2 * shards * counted {
		refuse(n, "loud", fmt.Sprint(n))
	}
	for n := range 100 {
		refuse(n, "default", "campaign-000000")
	}
	for n := range 2 * shards * counted {
		refuse(n, "loud", fmt.Sprint("more", n))
	}
	refused := o.Overview(5).Refused
	if len(refused) != 1 || refused[0].Refusals[budget.BudgetExhausted] != 100 {
		t.Errorf("%+v, want 100 refusals", refused)
	}
	for i := range o.recent.shards {
		n := 0
		for _, budgets := range o.recent.shards[i].counts[0] {
			n += len(budgets)
		}
		if n > counted {
			t.Errorf("shard %d counts for %d budgets", i, n)
		}
	}
}

// BenchmarkRank measures a page of a hundred thousand budgets.
func BenchmarkRank(b *testing.B) {
	now := time.Unix(1_800_000_000, 0)
	o := dashboardOf(100_000, &now)
	for _, by := range []bucket.RankBy{bucket.ByName, bucket.ByRemaining, bucket.ByExhaustion} {
		b.Run(string(by), func(b *testing.B) {
			for b.Loop() {
				o.Rank(bucket.Selection{By: by, Search: "campaign", Size: 50})
			}
		})
	}
	b.Run("overview", func(b *testing.B) {
		for b.Loop() {
			o.Overview(10)
		}
	})
}

// TestCalls checks that the calls of a budget are those of the last minute, by name and by id, with what
// is the caller's cause apart, and that a budget which refuses more than a twentieth comes before one
// that serves.
func TestCalls(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := dashboardOf(10, &now)
	by := func(n int, ref bucket.BudgetRef, refused *budget.Error) {
		for i := range n {
			o.Deducted(&bucket.DeductRequest{RequestID: fmt.Sprint(i), Budget: ref}, refused)
		}
	}
	named := bucket.BudgetRef{Tenant: "default", Name: "campaign-000006"}
	never := budget.Refuse(budget.BudgetExhausted, "deduct", "x")
	never.Never = true
	by(80, named, nil)
	by(10, bucket.BudgetRef{Tenant: "default", ID: 7}, budget.Refuse(budget.Unavailable, "deduct", "x"))
	by(5, named, budget.Refuse(budget.LimitExceeded, "deduct", "x"))
	by(3, named, never)
	by(9, named, budget.Refuse(budget.Malformed, "deduct", "x"))
	if got := o.Calls(7, "default", "campaign-000006"); got != (bucket.Answered{Accepted: 80, Refused: 8, Unserved: 10}) {
		t.Errorf("%+v", got)
	}
	worst := func() int64 { return o.Rank(bucket.Selection{By: bucket.ByServing, Size: 1}).Budgets[0].ID }
	if got := worst(); got != 7 {
		t.Errorf("budget %d hurts most, want 7, which refuses", got)
	}
	o.summaries[3].terms.Paused, o.summaries[4].away = true, bucket.Away{Buckets: 1 << 20}
	if got := worst(); got != 5 {
		t.Errorf("budget %d hurts most, want 5, whose store is down", got)
	}
	now = now.Add(70 * time.Second)
	if got := o.Calls(7, "default", "campaign-000006"); got != (bucket.Answered{}) {
		t.Errorf("a minute later: %+v", got)
	}
}

// TestCallsAreBounded checks that no more budgets are counted than there is room for, and that those
// without a call give way.
func TestCallsAreBounded(t *testing.T) {
	now, c := time.Unix(1_800_000_000, 0), callCounts{}
	for n := range counted + 10 {
		c.count(now, bucket.BudgetRef{ID: int64(n)}, nil)
	}
	if len(c) != counted {
		t.Errorf("%d budgets are counted, want %d", len(c), counted)
	}
	c.count(now.Add(2*time.Minute), bucket.BudgetRef{ID: -1}, nil)
	if len(c) != 1 {
		t.Errorf("%d budgets are counted after two minutes, want 1", len(c))
	}
}

// TestTroubles checks what needs a person: by cause, the worst first, with the budgets that hurt most,
// since when, and that a list can be restricted to it.
func TestTroubles(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := dashboardOf(10, &now)
	if got := o.Overview(3).Troubles; len(got) != 0 {
		t.Errorf("nothing is wrong: %+v", got)
	}
	for i := range 4 {
		o.summaries[i].away = bucket.Away{Instances: []string{"redis-b"}, Buckets: 2}
		for n := range i {
			o.Deducted(&bucket.DeductRequest{RequestID: fmt.Sprint(n), Budget: bucket.BudgetRef{
				Tenant: "default", Name: o.summaries[i].name}}, budget.Refuse(budget.Unavailable, "deduct", "x"))
		}
	}
	o.summaries[5].figures.Quarantined, o.summaries[6].halted, o.summaries[7].terms.Archived = 9, 1, true
	o.summaries[7].figures.Quarantined = 9
	first := now
	show := func() (out []string) {
		for _, one := range o.Overview(3).Troubles {
			names := ""
			for _, ref := range one.Worst {
				names += ref.Name[len(ref.Name)-1:]
			}
			out = append(out, fmt.Sprint(one.Cause, one.Instance, " ", one.Budgets, one.Buckets, one.Unserved, " ",
				names, " ", one.Since.Sub(first)))
		}
		return out
	}
	want := []string{"store_down" + "redis-b 4 8 6 321 0s", "quarantined 1 0 0 5 0s", "halted 1 1 0 6 0s"}
	if got := show(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	now = now.Add(20 * time.Second)
	o.summaries[5].figures.Quarantined = 0
	want = []string{"store_down" + "redis-b 4 8 6 321 0s", "halted 1 1 0 6 0s"}
	if got := show(); !slices.Equal(got, want) {
		t.Errorf("later: %q, want %q", got, want)
	}
	found := o.Rank(bucket.Selection{Trouble: bucket.LostStore, Instance: "redis-b", Tenant: "acme", Size: 10})
	if found.Total != 0 || found.Tenants["default"] != 4 {
		t.Errorf("of another tenant: %+v", found)
	}
	if found = o.Rank(bucket.Selection{Trouble: bucket.LostStore, Instance: "redis-a", Size: 10}); found.Total != 0 {
		t.Errorf("of another store: %+v", found)
	}
}
