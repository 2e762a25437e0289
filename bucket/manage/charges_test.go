package manage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// TestAlsoCharges checks which budgets a budget may charge, that the names are those of now, what it can
// still use, and that a budget that others charge stays.
func TestAlsoCharges(t *testing.T) {
	w := newCaller(t)
	ctx := t.Context()
	create := func(d budget.Definition) (bucket.View, error) {
		v, _, err := w.Create(ctx, d)
		return v, err
	}
	charging := func(name string, names ...string) budget.Definition {
		d := promo(name, 50, 1)
		d.AlsoCharges.Names = names
		return d
	}
	must := func(v bucket.View, err error) bucket.View {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	refused := func(what string, err error, want budget.Code) {
		t.Helper()
		if !budget.Is(err, want) {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	must(create(promo("org", 100, 2)))
	must(create(promo("team", 40, 2)))
	money := promo("money", 40, 1)
	money.Unit = budget.Amount
	must(create(money))
	stored := promo("stored", 40, 1)
	stored.Durability = budget.Store
	must(create(stored))
	carved := promo("child", 10, 1)
	carved.ParentName = "org"
	must(create(carved))
	user := must(create(charging("user", "org", "team")))
	if again := must(create(charging("user", "team", "org"))); again.Definition.ID != user.Definition.ID {
		t.Errorf("in another order: %+v", again)
	}
	for what, d := range map[string]budget.Definition{"itself": charging("x", "x"), "twice": charging("x", "org", "org"),
		"another unit": charging("x", "money"), "in a store": charging("x", "stored"), "two levels": charging("x", "user")} {
		_, err := create(d)
		refused(what, err, budget.Invalid)
	}
	_, err := create(charging("x", "none"))
	refused("none", err, budget.BudgetNotFound)
	d := charging("x", "org")
	d.ParentName = "org"
	_, err = create(d)
	refused("its parent", err, budget.Invalid)
	ref := func(name string) bucket.BudgetRef {
		return bucket.BudgetRef{Tenant: promo("", 1, 1).Tenant, Name: name}
	}
	change := func(name string, names ...string) error {
		_, err := w.Change(ctx, ref(name), bucket.Change{AlsoCharges: &budget.Charges{Names: names}})
		return err
	}
	refused("a descendant", change("org", "child"), budget.Invalid)
	refused("one that is charged", change("team", "money"), budget.Invalid)
	refused("one that is charged, of its unit", change("team", "child"), budget.Invalid)
	_, err = w.Delete(ctx, ref("team"))
	refused("deleted", err, budget.InUse)
	cents := budget.Amount
	_, err = w.Change(ctx, ref("user"), bucket.Change{Unit: &cents})
	refused("another unit", err, budget.Invalid)
	squad := "squad"
	must(w.Change(ctx, ref("team"), bucket.Change{Name: &squad}))
	v := must(w.View(ctx, ref("user")))
	if got := fmt.Sprint(v.Definition.AlsoCharges.Names, *v.Usable); got != "[org squad] 40" {
		t.Errorf("the view has %s", got)
	}
	if list, err := w.List(ctx, bucket.Page{Size: 10, Tenant: promo("", 1, 1).Tenant}); err != nil || fmt.Sprint(
		list[len(list)-1].Definition.AlsoCharges.Names) != "[org squad]" {
		t.Errorf("the list has %+v, %v", list, err)
	}
	past := time.Now().Add(-time.Second)
	must(w.Change(ctx, ref("squad"), bucket.Change{EndAt: &past, AllowPast: true}))
	yes := true
	_, err = w.Change(ctx, ref("squad"), bucket.Change{Archived: &yes})
	refused("archived", err, budget.InUse)
	if err := change("user", "org"); err != nil {
		t.Fatal(err)
	}
	must(w.Change(ctx, ref("squad"), bucket.Change{Archived: &yes}))
	refused("an archived budget", change("user", "org", "squad"), budget.Invalid)
	must(w.Delete(ctx, ref("squad")))
	must(w.Delete(ctx, ref("user")))
	var left int64
	if err := w.db.Read(ctx, "charges", func(r *engine.Reader) error {
		_, err := r.Get(&left, `SELECT SUM(charged_by) FROM budget_management_bucket`)
		return err
	}); err != nil || left != 0 {
		t.Errorf("%d charges are left, %v", left, err)
	}
}
