package deduct_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
)

// TestReasons checks that an answer that something was not done says why, and when to try again.
func TestReasons(t *testing.T) {
	down := func(string) error {
		return &budget.Error{Code: budget.Unavailable, Op: "commit", Err: errors.New("it is down")}
	}
	for name, test := range map[string]struct {
		change func(b *books, a *account)
		want   budget.Reason
	}{
		"the database is down": {func(b *books, _ *account) { b.before = down }, budget.ReasonDatabaseDown},
		"it goes down": {func(b *books, _ *account) {
			b.before = func(call string) error {
				if call == "commit" {
					return down(call)
				}
				return nil
			}
		}, budget.ReasonDatabaseDown},
		"every bucket is offline": {func(b *books, a *account) {
			b.change(a.ID, func(a *account) {
				for i := range a.Buckets {
					a.Buckets[i].Online = false
				}
			})
		}, budget.ReasonOffline},
		"units do not come together": {func(b *books, a *account) {
			b.before = func(call string) error {
				if call == "twice" {
					time.Sleep(80 * time.Millisecond)
				}
				return nil
			}
		}, budget.ReasonCollecting},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks()
			a := b.add("b", 100, 2, 50)
			s := node(t, b, func(c *deduct.Config) {
				c.Settings = deduct.Settings{Deadline: 40 * time.Millisecond, Grace: 20 * time.Millisecond}
			})
			test.change(b, a)
			_, err := s.Deduct(context.Background(), request(a, "r", 60))
			var e *budget.Error
			if !errors.As(err, &e) || e.Code != budget.Unavailable {
				t.Fatal(err)
			}
			if e.Reason != test.want || e.Message == "" || e.RetryAfter <= 0 {
				t.Errorf("%v: reason %q, retry after %s, want %q", e, e.Reason, e.RetryAfter, test.want)
			}
		})
	}
}
