package bucket_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// outage is a cache of budget 1 in store mode and budget 2 in ledger mode, and their definitions.
type outage struct {
	*testing.T
	*defined
	cache *bucket.Budgets
}

// withOutage runs a test in which both budgets were read just now.
func withOutage(t *testing.T, without time.Duration, test func(o *outage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDefined(2)
		d.edit(1, func(b *bucket.Budget) { b.Durability = budget.Store })
		c, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: d, Without: without})
		if err != nil {
			t.Fatal(err)
		}
		o := &outage{T: t, defined: d, cache: c}
		for id := range int64(2) {
			if _, err := o.find(id + 1); err != nil {
				t.Fatal(err)
			}
		}
		test(o)
		synctest.Wait()
	})
}

var errDown = &budget.Error{Code: budget.Unavailable}

// down lets every statement take that long, and then fail unless fails is nil.
func (o *outage) down(took time.Duration, fails error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.took, o.fail = took, fails
}

func (o *outage) find(id int64) (*bucket.Budget, error) {
	return o.cache.Find(o.Context(), bucket.BudgetRef{ID: id})
}

// is checks what the cache says about the database and about budget 1.
func (o *outage) is(when string, silent, current bool) {
	o.Helper()
	b, err := o.find(1)
	if err != nil {
		o.Errorf("%s: %v", when, err)
		return
	}
	if s, c := o.cache.IsSilent(), o.cache.IsCurrent(b); s != silent || c != current {
		o.Errorf("%s: silent %v, current %v", when, s, c)
	}
}

// TestServesWithoutDatabase checks that a budget in store mode is served for Without by its last
// definition, which is not current, while the database fails at once or answers nothing; one in
// ledger mode is not. When the database is back, a change holds within a second.
func TestServesWithoutDatabase(t *testing.T) {
	for name, took := range map[string]time.Duration{"refuses": 0, "hangs": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			withOutage(t, time.Minute, func(o *outage) {
				o.is("before", false, true)
				began := time.Now()
				o.down(took, errDown)
				for time.Since(began) < 58*time.Second {
					time.Sleep(50 * time.Millisecond)
					asked := time.Now()
					if _, err := o.find(1); err != nil {
						o.Fatalf("after %s: %v", time.Since(began), err)
					}
					if waited := time.Since(asked); waited > 1200*time.Millisecond {
						o.Fatalf("waited for %s", waited)
					}
				}
				o.is("without", true, false)
				if _, err := o.find(2); !errors.Is(err, errDown) {
					o.Errorf("in ledger mode: %v", err)
				}
				o.pause(1)
				time.Sleep(time.Minute - time.Since(began))
				if _, err := o.find(1); !errors.Is(err, errDown) {
					o.Errorf("after a minute: %v", err)
				}
				o.down(0, nil)
				time.Sleep(3 * time.Second) // what hangs has ended
				o.is("after", false, true)
				if b, err := o.find(1); err != nil || !b.Paused {
					o.Errorf("after: %+v, %v", b, err)
				}
			})
		})
	}
}

// TestServesNothingWithout checks that no old budget is served if Without is 0.
func TestServesNothingWithout(t *testing.T) {
	withOutage(t, 0, func(o *outage) {
		o.down(0, errDown)
		time.Sleep(time.Second)
		if _, err := o.find(1); !errors.Is(err, errDown) {
			o.Errorf("after a second: %v", err)
		}
	})
}

// TestOldOutage checks that an outage that nobody has seen the end of lets no old budget be served
// once the database answers again.
func TestOldOutage(t *testing.T) {
	withOutage(t, time.Hour, func(o *outage) {
		o.down(0, errDown)
		time.Sleep(2 * time.Second)
		o.is("without", true, false)
		o.down(30*time.Millisecond, nil)
		o.pause(1)
		time.Sleep(10 * time.Minute)
		const callers = 8
		found := make(chan *bucket.Budget, callers)
		for range callers {
			go func() {
				b, _ := o.find(1)
				found <- b
			}()
		}
		time.Sleep(5 * time.Millisecond) // their statement has no answer yet
		if b := o.cache.Fresh(bucket.BudgetRef{ID: 1}); b != nil {
			o.Errorf("served meanwhile: %+v", b)
		}
		for range callers {
			if b := <-found; b == nil || !b.Paused {
				o.Errorf("served %+v", b)
			}
		}
	})
}

// TestKnownChange checks that a budget is not served without the database if it said that there is
// another version, which could not be read.
func TestKnownChange(t *testing.T) {
	withOutage(t, time.Minute, func(o *outage) {
		o.pause(1)
		o.mu.Lock()
		o.unread = true
		o.mu.Unlock()
		time.Sleep(600 * time.Millisecond)
		_, _ = o.find(1) // begins to compare
		synctest.Wait()
		o.down(0, errDown)
		time.Sleep(time.Second)
		if b, err := o.find(1); err == nil {
			o.Errorf("served %+v", b)
		}
		if !o.cache.IsSilent() {
			o.Error("the database is not taken for silent")
		}
	})
}

// TestCurrentAfterMovements checks that a budget stays current when only its buckets change, as they
// do with every movement, and that it does not when its definition changes.
func TestCurrentAfterMovements(t *testing.T) {
	withOutage(t, time.Minute, func(o *outage) {
		before, err := o.find(1)
		if err != nil {
			o.Fatal(err)
		}
		for i, change := range []func(b *bucket.Budget){func(b *bucket.Budget) { b.ListVersion++ },
			func(b *bucket.Budget) { b.Version++ }} {
			o.edit(1, change)
			if _, err := o.cache.Reload(o.Context(), 1); err != nil {
				o.Fatal(err)
			}
			if got := o.cache.IsCurrent(before); got != (i == 0) {
				o.Errorf("change %d: current %v", i, got)
			}
		}
	})
}

// hanging is definitions that answer nothing, on a clock that a read moves by two seconds.
type hanging struct {
	*defined
	bucket.SystemClock
	passed, begun atomic.Int64
}

func (h *hanging) Now() time.Time { return time.Unix(0, 0).Add(time.Duration(h.passed.Load())) }

func (h *hanging) Budget(context.Context, bucket.BudgetRef) (bucket.Budget, error) {
	h.begun.Add(1)
	time.Sleep(50 * time.Millisecond) // the others wait behind it
	h.passed.Add(int64(2 * time.Second))
	return bucket.Budget{}, errDown
}

// TestReloadsEnd checks that callers who reload a budget while the database hangs do not wait for
// the reads of all callers before them.
func TestReloadsEnd(t *testing.T) {
	h := &hanging{defined: newDefined(1)}
	c, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: h, Clock: h})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Learn(func() (bucket.Budget, error) { return h.budgets[1], nil }); err != nil {
		t.Fatal(err)
	}
	const callers = 20
	errs := make(chan error, callers)
	for range callers {
		go func() {
			_, err := c.Reload(t.Context(), 1)
			errs <- err
		}()
	}
	for range callers {
		if err := <-errs; !budget.Is(err, budget.Unavailable) {
			t.Error(err)
		}
	}
	if begun := h.begun.Load(); begun > callers/2 {
		t.Errorf("%d reads for %d callers", begun, callers)
	}
}
