package bucket_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestRestoredBackup: the database comes back as it was before units were added, granted and deducted, while the stores
// have gone on. Their logs have grants that SQL never made, so nothing more is granted to those epochs and they end.
// In ledger mode SQL's total is given out to the unit. In store mode no more than the window is accepted by then, and
// nothing after.
func TestRestoredBackup(t *testing.T) {
	const total, before, more, buckets, window = 300, 30, 300, 3, 20
	for _, test := range []struct {
		durability budget.Durability
		recycled   bool // every bucket got a new epoch, whose number the restored database gives out again
	}{{budget.Ledger, false}, {budget.Ledger, true}, {budget.Store, false}, {budget.Store, true}} {
		durability := test.durability
		t.Run(fmt.Sprintf("%s, recycled %t", durability, test.recycled), func(t *testing.T) {
			dir := t.TempDir()
			file := func(name string) string { return filepath.Join(dir, name) }
			w := newWorld(t)
			w.model, w.durability = nil, durability
			settings := storeQuick()
			settings.WindowUnits = window
			w.sql = openSQL(t, "sqlite", file("a.db"))
			s := w.node(settings)
			ref := w.create(s, promo("restored", total, buckets))
			take := func(name string, n int) (accepted int64) {
				t.Helper()
				for i := range n {
					switch _, err := deduct(s, ref, fmt.Sprint(name, i), 1); {
					case err == nil:
						accepted++
					case !budget.Is(err, budget.BudgetExhausted) && !budget.Is(err, budget.Unavailable):
						t.Fatalf("%s %d: %v", name, i, err)
					}
				}
				return accepted
			}
			take("before", before)
			w.settled(s, ref, before)
			stop(t, s)
			for _, end := range []string{"", "-wal"} {
				copyFile(t, file("a.db"+end), file("b.db"+end))
			}

			s = w.node(settings)
			if _, err := s.Adjust(context.Background(),
				bucket.AdjustRequest{Budget: ref, RequestID: "more", Quantity: more}); err != nil {
				t.Fatal(err)
			}
			if n := take("lost", 200); n != 200 {
				t.Fatalf("%d accepted before the restoration, want 200", n)
			}
			w.settled(s, ref, before+200)
			if test.recycled {
				for _, b := range w.budget(ref).Buckets {
					for _, do := range []func(context.Context, bucket.BudgetRef, string) (bucket.BucketView, error){
						s.Offline, s.Online} {
						if _, err := do(context.Background(), ref, b.Key); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			stop(t, s)
			if test.recycled { // servers that restart with what they hold: the lanes' next activation
				for _, server := range w.servers {
					server.Restore(server.Snapshot(), false)
				}
			}

			w.sql = openSQL(t, "sqlite", file("b.db"))
			s = w.node(settings)
			accepted := take("after", total+more)
			w.until("settled", func() bool {
				f := w.quiet(s, ref).Figures
				return f.Remaining+f.Unsettled+f.Returning == 0
			})
			f := w.quiet(s, ref).Figures
			if f.Total != total || f.Sum() != total {
				t.Errorf("the books say %+v", f)
			}
			if durability == budget.Ledger && (f.Used != total || accepted != total-before) {
				t.Errorf("%d accepted after the restoration, %d used of %d", accepted, f.Used, total)
			}
			if lost := before + accepted - f.Used; durability == budget.Store && (lost < 0 || lost > buckets*window) {
				t.Errorf("%d accepted after the restoration are not in the ledger, the window is %d", lost, buckets*window)
			}
			if n := take("late", 20); n != 0 {
				t.Errorf("%d more were accepted", n)
			}
		})
	}
}

func stop(t *testing.T, s *bucket.Service) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
