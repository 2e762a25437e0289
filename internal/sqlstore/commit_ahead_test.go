package sqlstore

import (
	"math"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestCountedAhead: a commit that counted what a limit then refused is done again with the counters read first; only
// what was allowed is counted, and the next commits judge first.
func TestCountedAhead(t *testing.T) {
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			a := newAhead(t, engine.open(t))
			a.allowed("a", "ann") // makes the row
			a.allowed("a again", "ann")
			if n := a.db.judgeFirst.Load(); n != 0 {
				t.Fatalf("%d transactions judge first, and none was refused", n)
			}
			a.ask("b", "ann")
			a.ask("c", "ann")
			a.ask("d", "bob")
			out := a.commit()
			if len(out) != 3 || out[0].Duplicate != nil || out[1].Duplicate == nil || out[2].Duplicate != nil {
				t.Fatalf("%+v", out)
			}
			if reason := out[1].Duplicate.Reason; reason != ledger.ReasonLimit {
				t.Errorf("refused for %q", reason)
			}
			a.used("ann", 3)
			a.used("bob", 1)
			if n := a.db.judgeFirst.Load(); n != a.db.guessAgainAfter {
				t.Errorf("%d transactions judge first", n)
			}
			a.allowed("e", "bob")
			a.used("bob", 2)
			if n := a.db.judgeFirst.Load(); n != a.db.guessAgainAfter-1 {
				t.Errorf("%d transactions judge first", n)
			}
		})
	}
}

// TestCountedAheadOfKnown: an id that is not new is told as that, whether it is counted or refused by a limit, and counts
// nothing.
func TestCountedAheadOfKnown(t *testing.T) {
	for _, engine := range engines() {
		for name, test := range map[string]struct {
			ids    [2]string
			user   string
			reason ledger.Reason
		}{
			"twice in a commit":          {[2]string{"b", "b"}, "ann", ledger.ReasonDuplicate},
			"recorded":                   {[2]string{"b", "a"}, "ann", ledger.ReasonDuplicate},
			"recorded, of nobody":        {[2]string{"b", "a"}, "", ledger.ReasonDuplicate},
			"cancelled":                  {[2]string{"b", "void"}, "ann", ledger.ReasonVoid},
			"cancelled, of nobody":       {[2]string{"b", "void"}, "", ledger.ReasonVoid},
			"new, and refused: nobody's": {[2]string{"b", "c"}, "", ledger.ReasonLimit},
		} {
			t.Run(engine.name+"/"+name, func(t *testing.T) {
				a := newAhead(t, engine.open(t))
				a.allowed("a", "ann")
				if _, err := a.db.Cancel(t.Context(), a.id, "void"); err != nil {
					t.Fatal(err)
				}
				a.ask(test.ids[0], "bob")
				a.ask(test.ids[1], test.user)
				out := a.commit()
				if len(out) != 2 || out[0].Duplicate != nil || out[1].Duplicate == nil ||
					out[1].Duplicate.Reason != test.reason {
					t.Fatalf("%+v", out)
				}
				a.used("ann", 1)
				a.used("bob", 1)
			})
		}
	}
}

// TestCountedAheadTooMuch: what would not fit a counter any more is not added before it is judged, and a row of
// another definition is not added to.
func TestCountedAheadTooMuch(t *testing.T) {
	for _, engine := range engines() {
		for name, set := range map[string]string{
			"a counter that is full":           "counted = 9223372036854775807",
			"a counter that would be":          "counted = 4611686018427387903",
			"a row of another definition":      "version = 77",
			"a row that nothing was loaded in": "version = 0",
		} {
			t.Run(engine.name+"/"+name, func(t *testing.T) {
				a := newAhead(t, engine.open(t))
				a.allowed("a", "ann")
				err := a.db.write(t.Context(), "test", func(t *tx) error {
					return t.hit(1, "UPDATE limit_counter SET "+set)
				})
				if err != nil {
					t.Fatal(err)
				}
				a.ask("b", "ann")
				out := a.commit()
				full := strings.HasPrefix(set, "counted")
				if len(out) != 1 || (out[0].Duplicate != nil) != full {
					t.Fatalf("%+v", out)
				}
				if n := a.db.judgeFirst.Load(); n != a.db.guessAgainAfter {
					t.Errorf("%d transactions judge first", n)
				}
				switch name {
				case "a counter that is full":
					a.used("ann", math.MaxInt64)
				case "a counter that would be":
					a.used("ann", 1<<62-1)
				default: // emptied, then counted in
					a.used("ann", 1)
				}
			})
		}
	}
}

// ahead is a budget of one bucket with at most 3 calls per user for ever.
type ahead struct {
	*testing.T
	db  *DB
	id  int64
	log *testLog
	// next is the first entry that is not committed.
	next int64
}

func newAhead(t *testing.T, db *DB) *ahead {
	t.Helper()
	v := openDefined(t, checkHolds(t, db), budget.Definition{Tenant: "default", Name: "b", Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: 100, BucketQuantity: 1,
		Limits: &budget.Limits{List: []budget.Limit{{Name: "calls", Dimension: "user", Max: 3,
			Measure: budget.MeasureCount, Enforce: true, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}})
	a := &ahead{T: t, db: db, id: v.ID, log: newLog(v.Buckets[0].Ref())}
	a.log.grant(100, 1)
	return a
}

func (a *ahead) ask(id, user string) {
	r := request(1, id)
	if user != "" {
		r.Dimensions = ledger.Dimensions(map[string]string{"user": user})
	}
	a.log.ask(1, r)
}

// commit commits what the log has since.
func (a *ahead) commit() []ledger.Outcome {
	a.Helper()
	r, err := a.db.Commit(a.Context(), []ledger.Log{a.log.log(a.next)})
	if err != nil || r.Epochs[0].Err != nil {
		a.Fatal(err, r)
	}
	a.next = int64(len(a.log.entries)) - 1
	return r.Epochs[0].Outcomes
}

// allowed commits a deduction that must be allowed.
func (a *ahead) allowed(id, user string) {
	a.Helper()
	a.ask(id, user)
	if out := a.commit(); len(out) != 1 || out[0].Duplicate != nil {
		a.Fatalf("%+v", out)
	}
}

// used checks what is counted of a user.
func (a *ahead) used(user string, want int64) {
	a.Helper()
	answers, err := a.db.CheckLimits(a.Context(), a.id, []bucket.LimitAsk{{RequestID: "x", Amount: 1,
		Dimensions: map[string]string{"user": user}}})
	if err != nil || answers[0].States[0].Used != want {
		a.Errorf("%s: %+v, %v; want %d", user, answers, err, want)
	}
}
