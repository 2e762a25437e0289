package deduct_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
)

// from asks for a set of one leg with sources.
func from(id string, amount int64, whole bool, names ...string) bucket.DeductRequest {
	leg := bucket.DeductRequest{Amount: amount, Whole: whole}
	for _, name := range names {
		leg.From = append(leg.From, bucket.BudgetRef{Tenant: budget.DefaultTenant, Name: name})
	}
	return bucket.DeductRequest{Budget: bucket.BudgetRef{Tenant: budget.DefaultTenant}, RequestID: id,
		Legs: []bucket.DeductRequest{leg}}
}

// parts tells what the sources of an answer gave.
func parts(a bucket.DeductAnswer) (out string) {
	for _, leg := range a.Legs {
		out += fmt.Sprint(leg.Budget, " ", leg.Amount, ":")
		for _, p := range leg.Parts {
			out += fmt.Sprint(" ", p.Budget, " ", p.Amount)
		}
	}
	return out
}

// TestSources takes from the first source while it has something, then from the others, and passes a
// source over at once on the node that has found it empty, until units come back.
func TestSources(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		for _, name := range []string{"free", "plan", "paid"} {
			d.create(t, promo(name, 10, 2))
		}
		s, _ := d.withHolds(t)
		ask := func(id string, amount int64, whole bool, want string) {
			t.Helper()
			a, err := s.Deduct(context.Background(), from(id, amount, whole, "free", "plan", "paid"))
			if err != nil || parts(a) != want {
				t.Errorf("%s: %s, %v, want %s", id, parts(a), err, want)
			}
		}
		ask("a", 4, false, "free 4: free 4")
		ask("b", 9, true, "free 9: plan 9")
		ask("c", 8, false, "free 8: free 6 plan 1 paid 1")
		ask("a", 4, false, "free 4: free 4")
		ask("d", 2, false, "free 2: paid 2")
		if _, err := s.Rollback(context.Background(), whole("a")); err != nil {
			t.Fatal(err)
		}
		ask("e", 5, false, "free 5: free 4 paid 1")
		d.uses(t, map[string]int64{"free": 10, "plan": 10, "paid": 4})
		before := d.rows(t)
		_, err := s.Deduct(context.Background(), from("f", 7, false, "free", "plan", "paid"))
		var e *budget.Error
		if !errors.As(err, &e) || e.Code != budget.LegRefused || len(e.Refusals) != 3 {
			t.Fatalf("7 of 6: %v", err)
		}
		if e.Never {
			t.Error("7 of 6, and of 30 in all, can never fit")
		}
		var never *budget.Error
		_, err = s.Deduct(context.Background(), from("n", 31, false, "free", "plan", "paid"))
		if !errors.As(err, &never) || !never.Never {
			t.Errorf("31 of 30 in all: %v", err)
		}
		for i, r := range e.Refusals {
			if want := []string{"free", "plan", "paid"}[i]; r.Budget != want ||
				*r.Reason.Available != []int64{0, 0, 6}[i] {
				t.Errorf("source %d: %s has %d", i, r.Budget, *r.Reason.Available)
			}
		}
		if _, err := s.Deduct(context.Background(), from("a", 4, false, "free", "paid", "plan")); !budget.Is(err,
			budget.RequestConflict) {
			t.Errorf("the same id with another order of sources: %v", err)
		}
		if after := d.rows(t); after != before {
			t.Errorf("refusals change rows:\n%s\n%s", before, after)
		}
	})
}

// TestSourcesEnd sells three sources through two nodes to many callers: each unit is sold, and none
// twice.
func TestSourcesEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		names := []string{"free", "plan", "paid"}
		for _, name := range names {
			d.create(t, promo(name, 50, 4))
		}
		nodes := []*deduct.Service{d.node(t, nil), d.node(t, nil)}
		var run sync.WaitGroup
		var mu sync.Mutex
		sold := int64(0)
		for caller := range 8 {
			run.Go(func() {
				for n := 0; ; n++ {
					amount := int64(1 + (caller+n)%3)
					_, err := nodes[caller%2].Deduct(context.Background(),
						from(fmt.Sprint(caller, "-", n), amount, caller == 7, names...))
					mu.Lock()
					if err == nil {
						sold += amount
					} else if !budget.Is(err, budget.LegRefused) {
						t.Errorf("caller %d: %v", caller, err)
					}
					mu.Unlock()
					if err != nil && amount == 1 || budget.CodeOf(err).Kind() == budget.NotDone {
						return
					}
				}
			})
		}
		run.Wait()
		if sold != 150 {
			t.Errorf("%d of 150 are sold", sold)
		}
		d.uses(t, map[string]int64{"free": 50, "plan": 50, "paid": 50})
	})
}

// reference follows the rules of sources without the code of the service.
type reference struct {
	left  [3]int64
	used  map[string]int64 // of the limit of the first source
	taken map[string]*taken
}

type taken struct {
	user  string
	parts [3]int64
	held  bool
}

const freePerUser = 40

// take returns what each source gives, or false.
func (r *reference) take(id, user string, amount int64, whole, hold bool) (parts [3]int64, ok bool) {
	need := amount
	for i := range r.left {
		give := min(need, r.left[i])
		if whole && give < need || i == 0 && r.used[user]+give > freePerUser {
			give = 0
		}
		parts[i], need = give, need-give
	}
	if need > 0 {
		return parts, false
	}
	r.taken[id] = &taken{user, parts, hold}
	for i, units := range parts {
		r.left[i] -= units
	}
	r.used[user] += parts[0]
	return parts, true
}

// back gives units of a deduction back, the last source first.
func (r *reference) back(id string, units int64) {
	d := r.taken[id]
	for _, i := range []int{2, 1, 0} {
		n := min(units, d.parts[i])
		d.parts[i], r.left[i], units = d.parts[i]-n, r.left[i]+n, units-n
		if i == 0 {
			r.used[d.user] -= n
		}
	}
}

func (d *taken) sum() int64 { return d.parts[0] + d.parts[1] + d.parts[2] }

var sourceSteps = flag.Int("deduct.steps", 1_000, "steps of TestSourcesReference")

// TestSourcesReference compares random deductions, holds, confirms and rollbacks with the
// reference, in four families of sources at once.
func TestSourcesReference(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		const worlds = 4
		steps := *sourceSteps / worlds
		s, holds := d.withHolds(t)
		var run sync.WaitGroup
		for w := range worlds {
			names := []string{fmt.Sprint("free-", w), fmt.Sprint("plan-", w), fmt.Sprint("paid-", w)}
			for i, name := range names {
				b := promo(name, []int64{120, 80, 60}[i], 2)
				if i == 0 {
					b.Limits = &budget.Limits{List: []budget.Limit{{Name: "ever", Dimension: "user", Max: freePerUser,
						Measure: budget.MeasureAmount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}, Enforce: true}}}
				}
				d.create(t, b)
			}
			run.Go(func() {
				world := &sourceWorld{t, s, holds, names, rand.New(rand.NewPCG(uint64(w), 11)), nil,
					&reference{left: [3]int64{120, 80, 60}, used: map[string]int64{}, taken: map[string]*taken{}}}
				for n := range steps {
					world.step(fmt.Sprint("w", w, "-", n))
				}
			})
		}
		run.Wait()
		d.uses(t, nil)
	})
}

type sourceWorld struct {
	t     *testing.T
	s     *deduct.Service
	holds *hold.Service
	names []string
	*rand.Rand
	open []string // ids of which something is left
	*reference
}

// step takes something, or gives back or confirms a part of what was taken.
func (w *sourceWorld) step(id string) {
	if len(w.open) > 0 && w.IntN(2) == 0 {
		w.stepBack(id)
		return
	}
	r := from(id, 1+w.Int64N(30), w.IntN(4) == 0, w.names...)
	user := fmt.Sprint("u", w.IntN(5))
	r.Legs[0].Dimensions = map[string]string{"user": user}
	if w.IntN(3) == 0 {
		r.HoldTTL = time.Hour
	}
	got, err := w.s.Deduct(context.Background(), r)
	want, fits := w.take(id, user, r.Legs[0].Amount, r.Legs[0].Whole, r.HoldTTL > 0)
	switch {
	case fits != (err == nil), !fits && !budget.Is(err, budget.LegRefused):
		w.t.Errorf("%s: %v, and the reference: %t", id, err, fits)
		return
	case !fits:
		return
	}
	told := ""
	for i, units := range want {
		if units > 0 {
			told += fmt.Sprint(" ", w.names[i], " ", units)
		}
	}
	if told = fmt.Sprint(w.names[0], " ", r.Legs[0].Amount, ":") + told; parts(got) != told {
		w.t.Errorf("%s: %s, and the reference: %s", id, parts(got), told)
	}
	w.open = append(w.open, id)
}

// stepBack gives back or confirms, twice.
func (w *sourceWorld) stepBack(id string) {
	at := w.IntN(len(w.open))
	of := w.open[at]
	d := w.taken[of]
	tenant := bucket.BudgetRef{Tenant: budget.DefaultTenant}
	units := 1 + w.Int64N(d.sum())
	amounts := map[string]int64{w.names[0]: units}
	var act func() (bucket.DeductionView, error)
	if confirm := d.held && w.IntN(2) == 0; confirm {
		act = func() (bucket.DeductionView, error) {
			got, err := w.holds.Confirm(context.Background(),
				bucket.ConfirmRequest{Budget: tenant, RequestID: of, Amounts: amounts})
			return append(got, bucket.DeductionView{})[0], err
		}
		d.held = false
		w.back(of, d.sum()-units)
	} else {
		act = func() (bucket.DeductionView, error) {
			return w.s.Rollback(context.Background(), bucket.RollbackRequest{Budget: tenant, RequestID: of,
				RollbackID: id, Amounts: amounts})
		}
		w.back(of, units)
	}
	for n := range 2 {
		view, err := act()
		if err != nil || view.Replayed != (n == 1) {
			w.t.Errorf("%s of %s: replayed %t, %v", id, of, view.Replayed, err)
			return
		}
		left := [3]int64{}
		for _, p := range view.Legs[0].Parts {
			left[slices.Index(w.names, p.Budget)] = p.Amount - p.RolledBack
		}
		if left != d.parts {
			w.t.Errorf("%s of %s: %v is left, and by the reference %v", id, of, left, d.parts)
		}
	}
	if d.sum() == 0 {
		w.open = slices.Delete(w.open, at, at+1)
	}
}
