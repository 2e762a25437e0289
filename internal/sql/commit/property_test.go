package commit_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// model is what the ledger must do with operations, one after the other.
type model struct {
	rows  map[string]int64 // amounts by id
	left  []int64          // by bucket
	gone  []bool           // by bucket: it is offline
	users map[string][2]int64
	most  [2]int64
}

// limited reports whether a limit refuses a user's amount.
func (m *model) limited(user string, amount int64) bool {
	u := m.users[user]
	return user != "" && (u[0]+amount > m.most[0] || u[1]+1 > m.most[1])
}

func (m *model) commit(at int, id string, amount int64, user string) bucket.Verdict {
	switch {
	case m.rows[id] > 0:
		return bucket.Known
	case m.gone[at]:
		return bucket.Gone
	case m.limited(user, amount):
		return bucket.Limited
	case m.left[at] < amount:
		return bucket.Short
	}
	m.left[at] -= amount
	m.take(id, amount, user)
	return bucket.Accepted
}

func (m *model) take(id string, amount int64, user string) {
	m.rows[id] = amount
	if user != "" {
		u := m.users[user]
		m.users[user] = [2]int64{u[0] + amount, u[1] + 1}
	}
}

// bring judges as commit does by what all buckets hold.
func (m *model) bring(id string, amount int64, user string) bucket.Verdict {
	sum := int64(0)
	for _, units := range m.left {
		sum += units
	}
	one := &model{rows: m.rows, left: []int64{sum}, gone: []bool{false}, users: m.users, most: m.most}
	v := one.commit(0, id, amount, user)
	if v == bucket.Short {
		return bucket.Exhausted
	}
	return v
}

// TestModel commits and brings random operations beside a model, and checks the accounts after each.
func TestModel(t *testing.T) {
	// Flights on a real server take long; make proof asks for more than one part. Each part has a new
	// database, because after each flight the accounts of all its budgets are checked.
	const part = 25
	parts := 1
	f := flag.Lookup("rapid.checks")
	if asked, err := strconv.Atoi(f.Value.String()); err != nil {
		t.Fatal(err)
	} else if f.Value.String() != f.DefValue {
		parts = max(1, asked/part)
	}
	if err := f.Value.Set(strconv.Itoa(part)); err != nil {
		t.Fatal(err)
	}
	limits := []budget.Limit{perUser("amount", 30, budget.MeasureAmount),
		perUser("calls", 6, budget.MeasureCount)}
	run := func(t *testing.T, config engine.Config) {
		fixture.On(t, config, func(f *fixture.World) {
			number := 0
			rapid.Check(t, func(rt *rapid.T) {
				number++
				w := &world{World: f, decider: commit.New(f.DB)}
				const buckets = 3
				each := rapid.Int64Range(1, 40).Draw(rt, "each")
				w.b = w.budget(fmt.Sprintf("b%d", number), each*buckets, buckets, limits)
				m := &model{rows: map[string]int64{}, left: []int64{each, each, each},
					gone:  make([]bool, buckets),
					users: map[string][2]int64{}, most: [2]int64{30, 6}}
				for range rapid.IntRange(1, 8).Draw(rt, "flights") {
					flightBesideModel(rt, w, m)
				}
			})
			w := &world{World: f}
			w.feedHasEach()
		})
	}
	t.Run("sqlite", func(t *testing.T) {
		for range parts {
			run(t, engine.Config{Driver: "sqlite", DSN: filepath.Join(t.TempDir(), "budgetd.db")})
		}
	})
	t.Run("mariadb", func(t *testing.T) {
		for range parts {
			run(t, engine.Config{Driver: "mysql", DSN: testservers.SharedMariaDB(t).NewDatabase(t)})
		}
	})
}

func flightBesideModel(rt *rapid.T, w *world, m *model) {
	brings := rapid.IntRange(0, 3).Draw(rt, "brings") == 0
	recent := rapid.Int64Range(0, 9).Draw(rt, "recent")
	var ops []bucket.Operation
	var want []bucket.Verdict
	var limited []bool
	for range rapid.IntRange(1, 6).Draw(rt, "operations") {
		at, amount := rapid.IntRange(0, 2).Draw(rt, "bucket"), rapid.Int64Range(1, 25).Draw(rt, "amount")
		name := rapid.SampledFrom([]string{"", "u", "v"}).Draw(rt, "user")
		id := fmt.Sprintf("%s-%d", w.b.Name, rapid.IntRange(0, 15).Draw(rt, "id"))
		options := []func(*bucket.Operation){}
		if name != "" {
			options = append(options, user(name))
		}
		if rapid.IntRange(0, 4).Draw(rt, "hold") == 0 {
			options = append(options, hold(time.Hour, ""))
		}
		limited = append(limited, m.limited(name, amount))
		if brings {
			want = append(want, m.bring(id, amount, name))
			if last := want[len(want)-1]; last == bucket.Accepted {
				m.left[0], m.left[1], m.left[2] = m.left[0]+m.left[1]+m.left[2]-amount, 0, 0
			}
		} else {
			want = append(want, m.commit(at, id, amount, name))
		}
		ops = append(ops, w.asks(at, id, amount, options...))
	}
	var out []bucket.Outcome
	var err error
	if brings {
		out, err = w.decider.Bring(w.Ctx, map[int64]int64{w.b.ID: recent}, ops)
	} else {
		out, err = w.decider.Commit(w.Ctx, ops)
	}
	if err != nil {
		rt.Fatal(err)
	}
	for i := range out {
		// Who refuses first is not said where a limit would refuse and the bucket is gone as well.
		either := want[i] == bucket.Gone && limited[i] && out[i].Verdict == bucket.Limited ||
			want[i] == bucket.Known && out[i].Guess // Bring decides
		if out[i].Verdict != want[i] && !either {
			rt.Fatalf("operation %d: %v, want %v", i, out[i].Verdict, want[i])
		}
	}
	if brings { // where the units lie after it is not the model's
		for i := range m.left {
			e := w.Newest(w.b.Buckets[i].ID)
			m.left[i], m.gone[i] = e.Outstanding, e.Status != "open"
		}
	}
	w.Check()
	if w.Failed() {
		rt.FailNow()
	}
}
