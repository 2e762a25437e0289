package crashpoints

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
)

// counting are about limits. Both are optional, so that the rest can be sold without them, and their windows
// last longer than any run: afterwards what they count is what the ledger has (see fill).
var counting = []operation{
	{name: "deduct within two limits", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 4,
		only: budget.Ledger, define: twoLimits,
		prepare: func(w *world) { w.must(carrying("y", 4, "u")) },
		calls:   []call{carrying("x", 4, "u")}},
	{name: "deduct above a second limit", shapes: []shape{narrow, inRows}, total: 90, final: 90, base: 8,
		only: budget.Ledger, define: twoLimits,
		prepare: func(w *world) { w.must(carrying("y", 8, "u")) },
		calls:   []call{carrying("x", 4, "u").answered(budget.LimitExceeded)}},
	{name: "two for the last one that a limit allows", shapes: []shape{narrow}, total: 90, final: 90,
		base: 2, define: oneLimit, together: true,
		prepare: func(w *world) {
			w.must(carrying("y", 1, "u"))
			w.must(carrying("z", 1, "u"))
		},
		calls: []call{carrying("x", 4, "u"), carrying("v", 4, "v")}},
	{name: "deduct above a limit", shapes: []shape{narrow, inRows}, total: 90, final: 90, base: 3,
		define: oneLimit, prepare: useUp,
		calls: []call{carrying("x", 4, "u").answered(budget.LimitExceeded)}},
	{name: "rollback of what a limit counts", shapes: []shape{narrow, inRows}, total: 90, final: 90, base: 3,
		define: oneLimit, prepare: useUp,
		calls: []call{rollingBack("y0", "", 0, 1), carrying("x", 4, "u")}},
	{name: "change of a limit in mid-period", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 3,
		define: oneLimit, prepare: useUp,
		calls: []call{longerLimit, carrying("x", 4, "u").answered(budget.LimitExceeded)}},
	{name: "a hold that a limit counts expires", shapes: []shape{narrow}, total: 90, final: 90, base: 2,
		only: budget.Ledger, define: oneLimit,
		prepare: func(w *world) {
			w.must(carrying("y", 1, "u"))
			w.must(carrying("z", 1, "u"))
			w.must(call{what: "hold", do: func(ctx context.Context, w *world) (bool, error) {
				_, err := w.node.Deduct(ctx, bucket.DeductRequest{Budget: w.budget, RequestID: "h", Amount: 1,
					Dimensions: valued("u"), HoldTTL: time.Second})
				return false, err
			}})
			time.Sleep(2 * choresEvery)
		},
		calls: []call{carrying("x", 4, "u")}},
	{name: "counters of a store that lost them", shapes: []shape{wide}, total: 90, final: 90, base: 3,
		only: budget.Store, loses: true, define: oneLimit,
		prepare: func(w *world) {
			useUp(w)
			w.follow()
			for _, server := range w.servers {
				server.Lose()
			}
		},
		calls: []call{carrying("x", 4, "u").answered(budget.LimitExceeded), carrying("v", 4, "v")},
		until: (*world).quiet},
	{name: "counters of buckets that got another number", shapes: []shape{narrow}, total: 90, final: 90, base: 3,
		only: budget.Store, define: oneLimit,
		prepare: useUp,
		calls: []call{changing("resize", bucket.Change{BucketQuantity: pointer(5)}, nil),
			carrying("x", 4, "u").answered(budget.LimitExceeded), carrying("v", 4, "v")},
		until: (*world).quiet},
}

// perUser lets each user have 3.
func perUser() budget.Limit {
	return budget.Limit{Name: "per-user", Dimension: "user", Optional: true, Max: 3, Enforce: true,
		Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Year}}
}

func oneLimit(d *budget.Definition) {
	d.RoutingDimension, d.Limits = "user", &budget.Limits{List: []budget.Limit{perUser()}}
}

// twoLimits lets each user have 10 units of each ad as well.
func twoLimits(d *budget.Definition) {
	oneLimit(d)
	d.Limits.List = append(d.Limits.List, budget.Limit{Name: "per-ad", Dimension: "user+ad", Optional: true, Max: 10,
		Enforce: true, Measure: budget.MeasureAmount,
		Window: budget.LimitWindow{Kind: budget.WindowSliding, Length: ages, Slot: ages / 100}})
}

// longerLimit makes the limit count for good instead of for the year.
var longerLimit = func() call {
	l := perUser()
	l.Window = budget.LimitWindow{Kind: budget.WindowLifetime}
	return changing("limits", bucket.Change{Limits: &[]budget.Limit{l}}, func(d budget.Definition) bool {
		return d.Limits.List[0].Window.Kind == budget.WindowLifetime
	})
}()

func valued(user string) map[string]string { return map[string]string{"user": user, "ad": "a"} }

// carrying is a deduction for a user.
func carrying(id string, amount int64, user string) call {
	return call{what: "deduct " + id, worth: amount, replays: true, behind: true,
		do: func(ctx context.Context, w *world) (bool, error) {
			answer, err := w.node.Deduct(ctx, bucket.DeductRequest{Budget: w.budget, RequestID: id, Amount: amount,
				Dimensions: valued(user)})
			return answer.Replayed, err
		},
		did: func(b *memstore.BudgetRow) bool { return b != nil && b.Deductions[id].Amount > 0 }}
}

// useUp takes all that u may have.
func useUp(w *world) {
	for i := range 3 {
		w.must(carrying(fmt.Sprint("y", i), 1, "u"))
	}
	w.follow()
}

// fill deducts for each user until a limit refuses it: as often as the ledger's rows leave room for, counted
// here, and not once more. The windows hold the whole run.
func (w *world) fill() {
	row := w.row()
	if row == nil || row.Definition.Limits == nil {
		return
	}
	for _, user := range []string{"u", "v", "new"} {
		room := int64(3)
		units, perAd := int64(10), len(row.Definition.Limits.List) > 1
		for _, d := range row.Deductions {
			if d.Dimensions == fmt.Sprintf(`{"ad":"a","user":%q}`, user) && d.Amount > d.RolledBack {
				room--
				units -= d.Amount - d.RolledBack
			}
		}
		if perAd {
			room = min(room, units)
		}
		if room < 0 {
			w.fault("%s is above a limit by %d", user, -room)
		}
		for i := range room + 1 {
			_, err := w.try(new(carrying(fmt.Sprint("fill ", user, i), 1, user)))
			if want := i == room; budget.Is(err, budget.LimitExceeded) != want || !want && err != nil {
				w.fault("%s had room for %d: the deduction after %d: %v", user, room, i, err)
			}
		}
	}
	w.settle()
}

// TestLimitsUndisturbed runs the operations about limits to their ends, for docs/MUTANTS.md.
func TestLimitsUndisturbed(t *testing.T) {
	for _, s := range settings() {
		if !slices.ContainsFunc(counting, func(op operation) bool { return op.name == s.name }) {
			continue
		}
		found := s.inBubble(t, func(w *world, op *operation) trial { return w.discover(op) })
		for _, f := range found.faults {
			t.Errorf("%s: %s", s, f)
		}
	}
}
