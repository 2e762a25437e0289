package commit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestClockGoesBack uses up limits, sets the clock back by an hour, and lets it come again to where
// it was. Meanwhile each refusal names an instant within the window's length. The minute and the
// span in which the maximum was used before are still used up.
func TestClockGoesBack(t *testing.T) {
	const most = 2
	for _, window := range []budget.LimitWindow{
		{Kind: budget.WindowCalendar, Every: budget.Minute},
		{Kind: budget.WindowSliding, Length: time.Minute, Slot: time.Second},
		{Kind: budget.WindowFirstHit, Length: time.Minute},
	} {
		t.Run(string(window.Kind), func(t *testing.T) {
			limits := []budget.Limit{{Name: "l", Dimension: "user", Max: most, Measure: budget.MeasureCount,
				Enforce: true, Window: window}}
			each(t, 1000, 2, limits, func(w *world) {
				w.Clock.Advance(time.Minute - time.Duration(w.DB.Now().Second())*time.Second)
				n := 0
				take := func(want int) {
					w.Helper()
					for took := 0; ; took++ {
						n++
						out := w.commit(w.asks(n%2, fmt.Sprint("d", n), 1, user("u")))[0]
						switch {
						case out.Verdict == bucket.Accepted && took < want:
							continue
						case out.Verdict != bucket.Limited || took != want:
							w.Fatalf("took %d, then %d; want %d", took, out.Verdict, want)
						}
						wait := out.Refused[0].ResetAt.Sub(w.DB.Now())
						if wait <= 0 || wait > time.Minute+time.Second {
							w.Fatalf("wait %v", wait)
						}
						return
					}
				}
				take(most)
				w.Clock.Advance(-time.Hour)
				take(most)
				w.Clock.Advance(2 * time.Minute)
				take(most)
				w.Clock.Advance(58 * time.Minute)
				take(0)
				w.Clock.Advance(2 * time.Minute)
				take(most)
			})
		})
	}
}
