package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// defined is definitions in memory.
type defined struct {
	mu              sync.Mutex
	budgets         map[int64]bucket.Budget
	reads, versions int
	asked           []int // budgets of each statement
	fail            error
	took            time.Duration // by each statement for versions
	unread          bool          // budgets cannot be read, only versions
}

func newDefined(n int) *defined {
	d := &defined{budgets: map[int64]bucket.Budget{}}
	for i := range n {
		b := bucket.Budget{ListVersion: 1}
		b.ID, b.Tenant, b.Name, b.Version = int64(i+1), "default", fmt.Sprint("b", i+1), 1
		for o := range 4 {
			b.Buckets = append(b.Buckets, bucket.Bucket{ID: int64(100*i + o + 1), Ordinal: o, Online: true})
		}
		d.budgets[b.ID] = b
	}
	return d
}

func (d *defined) Budget(_ context.Context, ref bucket.BudgetRef) (bucket.Budget, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	for _, b := range d.budgets {
		if d.fail == nil && !d.unread && (b.ID == ref.ID || ref.ID == 0 && b.Name == ref.Name) && (ref.Tenant == "" || ref.Tenant == b.Tenant) {
			return b, nil
		}
	}
	if d.fail != nil {
		return bucket.Budget{}, d.fail
	}
	if d.unread {
		return bucket.Budget{}, errDown
	}
	return bucket.Budget{}, budget.Refuse(budget.BudgetNotFound, "find", "no %v", ref)
}

func (d *defined) Versions(_ context.Context, ids []int64) (map[int64]bucket.Version, error) {
	d.mu.Lock()
	took := d.took
	d.mu.Unlock()
	time.Sleep(took)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.versions++
	d.asked = append(d.asked, len(ids))
	out := map[int64]bucket.Version{}
	for _, id := range ids {
		if b, known := d.budgets[id]; known {
			out[id] = bucket.Version{Definition: b.Version, List: b.ListVersion}
		}
	}
	return out, d.fail
}

func (d *defined) VersionSum(ctx context.Context, ids []int64) (exist int, sum bucket.Version, err error) {
	versions, err := d.Versions(ctx, ids)
	for _, v := range versions {
		sum.Definition += v.Definition
		sum.List += v.List
	}
	return len(versions), sum, err
}

func (d *defined) pause(id int64) {
	d.edit(id, func(b *bucket.Budget) { b.Paused, b.Version = true, b.Version+1 })
}

func (d *defined) edit(id int64, change func(*bucket.Budget)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.budgets[id]
	change(&b)
	d.budgets[id] = b
}

func cache(t *testing.T, d *defined) *bucket.Budgets {
	t.Helper()
	c, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: d, Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFindIsFresh checks that a change applies within a second to a budget in use, and at once to
// one that was not used for long (I8), and that one statement reads the versions of all used
// budgets.
func TestFindIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		d := newDefined(n)
		c := cache(t, d)
		find := func(id int64) *bucket.Budget {
			b, err := c.Find(t.Context(), bucket.BudgetRef{Tenant: "default", Name: fmt.Sprint("b", id)})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		for range 100 { // five seconds
			for id := range int64(n) {
				find(id + 1)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if d.reads != n {
			t.Errorf("%d reads of %d budgets that never changed", d.reads, n)
		}
		if d.versions > 20 || d.versions < 5 {
			t.Errorf("%d statements for versions in 5 s", d.versions)
		}
		d.pause(7)
		time.Sleep(time.Second)
		if !find(7).Paused {
			t.Error("a budget in use: the change is not seen after a second")
		}
		for i := range 40 { // two seconds
			if _, _ = find(3), find(4); i == 20 {
				d.edit(3, func(b *bucket.Budget) { b.ListVersion++ })
			}
			time.Sleep(50 * time.Millisecond)
		}
		if find(3).ListVersion != 2 {
			t.Error("a budget in use: the change of its buckets is not seen after a second")
		}
		d.mu.Lock()
		delete(d.budgets, 5)
		d.mu.Unlock()
		time.Sleep(time.Second)
		if _, err := c.Find(t.Context(), bucket.BudgetRef{ID: 5}); !budget.Is(err, budget.BudgetNotFound) {
			t.Errorf("a budget that no longer exists: %v", err)
		}
		time.Sleep(time.Hour)
		d.pause(8)
		if !find(8).Paused {
			t.Error("an idle budget: the change is not seen")
		}
		if old := find(9); old.LimitSet() == nil || old.Route("key") == nil {
			t.Error("a budget is not prepared")
		}
		synctest.Wait()
	})
}

// TestStaleTogether checks that many callers of budgets that were not used for long share
// statements.
func TestStaleTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 60
		d := newDefined(n)
		d.took = time.Millisecond
		c := cache(t, d)
		refs := make([]bucket.BudgetRef, n)
		for i := range refs {
			refs[i] = bucket.BudgetRef{ID: int64(i + 1)}
		}
		for range 2 {
			found, errs := c.FindAll(t.Context(), refs)
			for i, b := range found {
				if errs[i] != nil || b.ID != refs[i].ID {
					t.Fatalf("%d: %v, %v", i, b, errs[i])
				}
			}
			time.Sleep(time.Minute)
		}
		if d.reads != n || d.versions > n/4 {
			t.Errorf("%d reads and %d statements for versions: %v", d.reads, d.versions, d.asked)
		}
	})
}

// TestFindErrors covers a missing budget, a budget of another tenant, and a database that is down.
func TestFindErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDefined(2)
		c := cache(t, d)
		for _, ref := range []bucket.BudgetRef{{ID: 3}, {Tenant: "other", ID: 1}, {Tenant: "default", Name: "b3"}} {
			for range 2 {
				if _, err := c.Find(t.Context(), ref); !budget.Is(err, budget.BudgetNotFound) {
					t.Errorf("%v: %v", ref, err)
				}
			}
		}
		if _, err := c.Find(t.Context(), bucket.BudgetRef{ID: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Find(t.Context(), bucket.BudgetRef{Tenant: "other", ID: 1}); !budget.Is(err, budget.BudgetNotFound) {
			t.Errorf("of another tenant: %v", err)
		}
		d.fail = &budget.Error{Code: budget.Unavailable}
		time.Sleep(999 * time.Millisecond)
		if _, err := c.Find(t.Context(), bucket.BudgetRef{ID: 1}); err != nil {
			t.Errorf("within a second: %v", err)
		}
		synctest.Wait()
		time.Sleep(time.Millisecond)
		if _, err := c.Find(t.Context(), bucket.BudgetRef{ID: 1}); !errors.Is(err, d.fail) {
			t.Errorf("after a second: %v", err)
		}
		d.fail = nil
		delete(d.budgets, 1)
		if _, err := c.Find(t.Context(), bucket.BudgetRef{ID: 1}); !budget.Is(err, budget.BudgetNotFound) {
			t.Errorf("deleted: %v", err)
		}
	})
}

// TestReload checks that a reload sees what was written before the call, and that a slower read of
// an older version changes nothing.
func TestReload(t *testing.T) {
	d := newDefined(1)
	c := cache(t, d)
	if _, err := c.Find(t.Context(), bucket.BudgetRef{ID: 1}); err != nil {
		t.Fatal(err)
	}
	d.pause(1)
	if b, err := c.Reload(t.Context(), 1); err != nil || !b.Paused {
		t.Errorf("%+v, %v", b, err)
	}
	d.mu.Lock()
	old := d.budgets[1]
	old.Paused, old.Version = false, 1
	d.budgets[1] = old
	d.mu.Unlock()
	if b, err := c.Reload(t.Context(), 1); err != nil || !b.Paused {
		t.Errorf("an older version: %+v, %v", b, err)
	}
}

// TestLearn checks that a node decides by the budget that a movement returns without reading it,
// that an older one is not kept, and that a budget that is forgotten is read again.
func TestLearn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDefined(1)
		c := cache(t, d)
		if _, err := c.Find(t.Context(), bucket.BudgetRef{ID: 1}); err != nil {
			t.Fatal(err)
		}
		old := d.budgets[1]
		d.pause(1)
		reads := d.reads
		for _, b := range []bucket.Budget{d.budgets[1], old} {
			if got, err := c.Learn(func() (bucket.Budget, error) { return b, nil }); err != nil || !got.Paused {
				t.Errorf("learnt %+v, %v", got, err)
			}
		}
		refused := errors.New("refused")
		if _, err := c.Learn(func() (bucket.Budget, error) { return bucket.Budget{}, refused }); !errors.Is(err, refused) {
			t.Error(err)
		}
		got, err := c.Find(t.Context(), bucket.BudgetRef{ID: 1})
		if err != nil || !got.Paused || d.reads != reads {
			t.Errorf("%+v, %v after %d reads", got, err, d.reads-reads)
		}
		c.Forget(1)
		if _, err := c.Find(t.Context(), bucket.BudgetRef{ID: 1}); err != nil || d.reads == reads {
			t.Errorf("forgotten: %v after %d reads", err, d.reads-reads)
		}
	})
}

// TestRoute checks that keys go to buckets that are online, that a key keeps its bucket, and that
// only the keys of a bucket that goes offline move.
func TestRoute(t *testing.T) {
	d := newDefined(1)
	all := find(t, d)
	b := d.budgets[1]
	b.Buckets = append([]bucket.Bucket{}, b.Buckets...)
	b.Buckets[2].Online = false
	d.budgets[1] = b
	some := find(t, d)
	used := map[int]int{}
	for i := range 1000 {
		key := fmt.Sprint("key", i)
		before, after := all.Route(key), some.Route(key)
		used[after.Ordinal]++
		if after.Ordinal == 2 || before.Ordinal != 2 && before.Ordinal != after.Ordinal {
			t.Fatalf("%s went from %d to %d", key, before.Ordinal, after.Ordinal)
		}
	}
	if len(used) != 3 {
		t.Errorf("keys by bucket: %v", used)
	}
}

func find(t *testing.T, d *defined) *bucket.Budget {
	t.Helper()
	b, err := cache(t, d).Find(t.Context(), bucket.BudgetRef{ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReceipt(t *testing.T) {
	if b, e, ok := bucket.ParseReceipt(bucket.Receipt(12, 345)); b != 12 || e != 345 || !ok {
		t.Errorf("%d, %d, %v", b, e, ok)
	}
	for _, text := range []string{"", "1", "1.", ".1", "01.2", "1.2.3", "-1.2", "0.1", "a.b", "99999999999999999999.1"} {
		if _, _, ok := bucket.ParseReceipt(text); ok {
			t.Errorf("%q is taken for a receipt", text)
		}
	}
}

// TestRenamed checks that a renamed budget is found by its new name, and after a second no longer
// by its former one, which another budget may then have.
func TestRenamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDefined(2)
		c := cache(t, d)
		find := func(name string) (*bucket.Budget, error) {
			return c.Find(t.Context(), bucket.BudgetRef{Tenant: "default", Name: name})
		}
		for _, name := range []string{"b1", "b2"} {
			if _, err := find(name); err != nil {
				t.Fatal(err)
			}
		}
		d.mu.Lock()
		for id, name := range map[int64]string{1: "new", 2: "b1"} {
			b := d.budgets[id]
			b.Name, b.Version = name, 2
			d.budgets[id] = b
		}
		d.mu.Unlock()
		time.Sleep(time.Second)
		for name, id := range map[string]int64{"new": 1, "b1": 2} {
			if b, err := find(name); err != nil || b.ID != id {
				t.Errorf("%s: %+v, %v; want budget %d", name, b, err, id)
			}
		}
		if b, err := find("b2"); !budget.Is(err, budget.BudgetNotFound) {
			t.Errorf("b2 is still %+v, %v", b, err)
		}
	})
}
