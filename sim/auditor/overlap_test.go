package auditor

import (
	"slices"
	"testing"
	"time"
)

// TestConfirmBesideItsDeduct: a confirm need not find a hold that was accepted while it was under way, and has to find one
// that was accepted before.
func TestConfirmBesideItsDeduct(t *testing.T) {
	for _, before := range []bool{true, false} {
		rows := map[string]Row{}
		a := New(func(_ int64, id string) (Row, bool) { row, known := rows[id]; return row, known }, time.Hour)
		write := func(e EpochColumns) {
			a.Written(Columns{Budget: 1, Total: 100, Epochs: slices.Values([]EpochColumns{e}),
				Buckets: slices.Values([]BucketColumns{{}}), Fresh: slices.Values([]Fresh(nil)),
				Counted: func(id string) bool { _, known := rows[id]; return known }})
		}
		write(EpochColumns{Number: 1, Outstanding: 100, Live: true})
		c := &Call{Budget: 1, ID: "x", Amount: 3, Payload: "p", Began: time.Unix(1000, 0)}
		a.Began(c)
		end := func() {
			rows["x"] = Row{ID: "x", State: "held", Payload: "p", Amount: 3, Epoch: 1, Seq: 1}
			write(EpochColumns{Number: 1, Outstanding: 97, Held: 3, Live: true})
			a.Ended(c, Answer{ID: "x", Amount: 3, Epoch: 1, Seq: 1}, c.Began)
		}
		if before {
			end()
		}
		accepted := a.Settling(1, "x", "")
		if !before {
			end()
		}
		a.Confirmed(1, "x", "deduction_not_found", 0, 0, accepted)
		if got := a.Faults(); accepted != before || len(got) > 0 != before {
			t.Errorf("accepted before %v: Settling says %v, faults %q", before, accepted, got)
		}
	}
}

// TestFirstHitOfARepetition: a window may have begun with an entry that its store counted and the ledger had already.
// Otherwise more than the maximum in one window is a fault.
func TestFirstHitOfARepetition(t *testing.T) {
	for name, test := range map[string]struct {
		repeated int64 // when the store counted an id that the ledger has; 0: never
		want     int
	}{
		"a window that a repetition began":      {1_000, 0},
		"no repetition":                         {0, 1},
		"a repetition whose window was too old": {500, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(func(int64, string) (Row, bool) { return Row{}, false }, time.Hour)
			user := map[string]string{"user": "u"}
			values := func() (map[string]string, map[string]int64) { return user, nil }
			write := func(version, used int64, fresh ...Fresh) {
				a.Written(Columns{Budget: 1, Total: 100, StoreMode: true, LimitsVersion: version,
					Limits: func() []Limit {
						return []Limit{{Name: "l", Kind: "first_hit", Length: 100, Max: 10, Amounts: true, Enforce: true,
							Dimensions: []string{"user"}}}
					},
					Epochs:  slices.Values([]EpochColumns{{Number: 1, Outstanding: 100 - used, Used: used, Live: true}}),
					Buckets: slices.Values([]BucketColumns{{}}), Fresh: slices.Values(fresh),
					Counted: func(string) bool { return true }})
			}
			write(1, 0)
			for range 2 { // it is read again and again
				if test.repeated > 0 {
					a.Admitted(1, "x", test.repeated, 1, user, nil)
				}
			}
			write(1, 6, Fresh{Kind: "deduct", ID: "a", Amount: 6, At: 1_050, Values: values})
			write(1, 14, Fresh{Kind: "deduct", ID: "b", Amount: 8, At: 1_120, Values: values})
			if got := a.Faults(); len(got) != test.want {
				t.Errorf("%d faults, want %d: %q", len(got), test.want, got)
			}
		})
	}
}
