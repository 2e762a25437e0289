package counter_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// firstHits is a world with a limit in a first_hit window of an hour, and its budget.
type firstHits struct {
	*world
	b *bucket.Budget
}

func newFirstHits(t *testing.T, most int64) *firstHits {
	w := onRedis(t, "sqlite", 1)
	d := limited(1_000_000)
	d.Limits.List = []budget.Limit{{Name: "calls", Dimension: "user", Enforce: true, Max: most,
		Measure: budget.MeasureCount,
		Window:  budget.LimitWindow{Kind: budget.WindowFirstHit, Length: time.Hour}}}
	return &firstHits{w, w.create(d)}
}

// take deducts, in a millisecond of its own, and returns when that was.
func (w *firstHits) take(id string) time.Time {
	w.Helper()
	time.Sleep(3 * time.Millisecond)
	_, err := w.node.Deduct(w.Context(), bucket.DeductRequest{Budget: ref(w.b), RequestID: id,
		Amount: 4, Dimensions: map[string]string{"user": "ann"}})
	w.ok(err)
	v, err := w.node.Deduction(w.Context(), bucket.RollbackRequest{Budget: ref(w.b), RequestID: id,
		Key: "ann"})
	w.ok(err)
	return v.CountedAt
}

// back rolls back a part of a deduction; 0 means what is left.
func (w *firstHits) back(id string, amount int64) {
	w.Helper()
	_, err := w.node.Rollback(w.Context(), bucket.RollbackRequest{Budget: ref(w.b), RequestID: id,
		RollbackID: fmt.Sprint(amount), Amount: amount, Key: "ann"})
	w.ok(err)
}

func (w *firstHits) cancel(id string) {
	w.Helper()
	_, err := w.node.Cancel(w.Context(), bucket.RollbackRequest{Budget: ref(w.b), RequestID: id,
		Key: "ann"})
	w.ok(err)
}

// began checks that the limit is used up, and returns when its window began.
func (w *firstHits) began() time.Time {
	w.Helper()
	_, err := w.node.Deduct(w.Context(), bucket.DeductRequest{Budget: ref(w.b), RequestID: "over",
		Amount: 4, Dimensions: map[string]string{"user": "ann"}})
	var e *budget.Error
	if !errors.As(err, &e) || e.Code != budget.LimitExceeded {
		w.Fatalf("the limit is not used up: %v", err)
	}
	return e.Limit.ResetAt.Add(-time.Hour)
}

// TestFirstHitBeginsAgain checks that a first_hit window begins with the oldest deduction that
// still counts. Otherwise one that was taken back ends the window early, and more than the maximum
// passes within its length.
func TestFirstHitBeginsAgain(t *testing.T) {
	w := newFirstHits(t, 2)
	from := func(what string, want time.Time) {
		t.Helper()
		if got := w.began(); !got.Equal(want) {
			t.Errorf("%s: the window began at %v, want %v", what, got, want)
		}
	}
	a, b := w.take("a"), w.take("b")
	from("both count", a)
	w.back("a", 3)
	from("a part of the first counts", a)
	w.back("a", 0)
	c := w.take("c")
	from("the first was rolled back", b)
	w.cancel("b")
	w.take("d")
	from("the second was cancelled", c)
	w.cancel("d")
	e := w.take("e")
	from("the last was cancelled", c)
	w.cancel("c")
	w.cancel("e")
	f := w.take("f")
	w.take("g")
	from("nothing counted", f)
	if f.Before(e) {
		t.Errorf("%v, then %v", e, f)
	}
}

// TestFirstHitOfMany checks that a window with more deductions than it keeps apart counts all of
// them, and begins at most a 32nd of its length later than the oldest that still counts.
func TestFirstHitOfMany(t *testing.T) {
	const most, gone = 100, 90
	w := newFirstHits(t, most)
	var at []time.Time
	for i := range most {
		at = append(at, w.take(name(i)))
	}
	if got := w.began(); !got.Equal(at[0]) {
		t.Errorf("it began at %v, want %v", got, at[0])
	}
	for i := range gone {
		w.cancel(name(i))
	}
	for i := range gone {
		w.take(name(most + i))
	}
	if got := w.began(); got.Before(at[gone]) || got.After(at[gone].Add(time.Hour/32)) {
		t.Errorf("it began at %v, want %v or soon after", got, at[gone])
	}
}
