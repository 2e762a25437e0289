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
			a, write := newLimited()
			write(1, 0)
			for range 2 { // it is read again and again
				if test.repeated > 0 {
					a.Admitted(1, "x", test.repeated, 1, someUser, nil)
				}
			}
			write(1, 6, Fresh{Kind: "deduct", ID: "a", Amount: 6, At: 1_050, Values: ofSomeUser})
			write(1, 14, Fresh{Kind: "deduct", ID: "b", Amount: 8, At: 1_120, Values: ofSomeUser})
			if got := a.Faults(); len(got) != test.want {
				t.Errorf("%d faults, want %d: %q", len(got), test.want, got)
			}
		})
	}
}

var someUser = map[string]string{"user": "u"}

func ofSomeUser() (map[string]string, map[string]int64) { return someUser, nil }

// newLimited is a budget in store mode with a first_hit limit of 10 units in 100 ms per user, and what writes it.
func newLimited() (a *Auditor, write func(version, used int64, fresh ...Fresh)) {
	a = New(func(int64, string) (Row, bool) { return Row{}, false }, time.Hour)
	return a, func(version, used int64, fresh ...Fresh) {
		a.Written(Columns{Budget: 1, Total: 100, StoreMode: true, LimitsVersion: version,
			Limits: func() []Limit {
				return []Limit{{Name: "l", Kind: "first_hit", Length: 100, Max: 10, Amounts: true, Enforce: true,
					Dimensions: []string{"user"}}}
			},
			Epochs:  slices.Values([]EpochColumns{{Number: 1, Outstanding: 100 - used, Used: used, Live: true}}),
			Buckets: slices.Values([]BucketColumns{{}}), Fresh: slices.Values(fresh),
			Counted: func(string) bool { return true }})
	}
}

// TestLoadedAfterARepetition: a store that began a window with a repetition, and loaded the value anew, goes on in the ledger's
// windows. More than the maximum in those is a fault.
func TestLoadedAfterARepetition(t *testing.T) {
	a, write := newLimited()
	write(1, 0)
	a.Admitted(1, "x", 1_000, 1, someUser, nil)
	write(1, 6, Fresh{Kind: "deduct", ID: "a", Amount: 6, At: 1_090, Values: ofSomeUser})
	write(1, 9, Fresh{Kind: "deduct", ID: "b", Amount: 3, At: 1_120, Values: ofSomeUser})
	write(1, 17, Fresh{Kind: "deduct", ID: "c", Amount: 8, At: 1_195, Values: ofSomeUser})
	if got := a.Faults(); len(got) > 0 {
		t.Errorf("faults: %q", got)
	}
	write(1, 20, Fresh{Kind: "deduct", ID: "d", Amount: 3, At: 1_210, Values: ofSomeUser})
	if got := a.Faults(); len(got) != 1 {
		t.Errorf("%d faults, want 1: %q", len(got), got)
	}
}

// TestRefusalAfterARepetition: a limit may refuse what it has room for by the ledger where its store counted an id again
// that the ledger has from another time; otherwise that is a fault.
func TestRefusalAfterARepetition(t *testing.T) {
	const now = 100_000
	for name, test := range map[string]struct {
		repeated int64 // when the store counted the id
		want     int
	}{
		"counted again in the window": {now - 10, 0},
		"counted again before it":     {now - 500, 1},
		"counted when the ledger did": {now - 1_000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, write := newLimited()
			write(1, 0)
			write(1, 6, Fresh{Kind: "deduct", ID: "x", Amount: 6, At: now - 1_000, Values: ofSomeUser})
			a.Admitted(1, "x", test.repeated, 6, someUser, nil)
			c := &Call{Budget: 1, ID: "y", Amount: 5, Payload: "p", Began: time.UnixMilli(now), Values: someUser}
			a.Began(c)
			a.Ended(c, Answer{ID: "y", Code: "limit_exceeded", Limit: "l"}, time.UnixMilli(now+1))
			if got := a.Faults(); len(got) != test.want {
				t.Errorf("%d faults, want %d: %q", len(got), test.want, got)
			}
		})
	}
}
