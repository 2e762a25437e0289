package deduct_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// database is a ledger in a real database.
type database struct {
	db          *engine.DB
	part        *commit.Decider
	definitions *manage.Ledger
}

func open(t testing.TB, config engine.Config) *database {
	t.Helper()
	db, err := engine.Open(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &database{db, commit.New(db), manage.NewLedger(db)}
}

func sqlite(t testing.TB) engine.Config {
	return engine.Config{Driver: "sqlite", DSN: filepath.Join(t.TempDir(), "budgetd.db")}
}

// patient are settings under which a busy machine is no reason for a refusal.
var patient = deduct.Settings{Deadline: 20 * time.Second, Grace: 10 * time.Second}

func (d *database) node(t testing.TB, change func(*deduct.Config)) *deduct.Service {
	t.Helper()
	budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: d.definitions})
	if err != nil {
		t.Fatal(err)
	}
	config := deduct.Config{Budgets: budgets, Ledger: d.part, Lookup: d.part, Now: d.db.Now,
		Settings: patient}
	if change != nil {
		change(&config)
	}
	s, err := deduct.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d *database) create(t testing.TB, def budget.Definition) bucket.BudgetRef {
	t.Helper()
	homes := make([]bucket.Partition, def.BucketQuantity)
	if _, err := d.definitions.Create(context.Background(), def, homes); err != nil {
		t.Fatal(err)
	}
	return bucket.BudgetRef{Tenant: def.Tenant, Name: def.Name}
}

func promo(name string, total int64, buckets int) budget.Definition {
	return budget.Definition{Tenant: budget.DefaultTenant, Name: name, Unit: budget.Count, Durability: budget.Ledger,
		Type: budget.Promo, TotalQuantity: total, BucketQuantity: buckets}
}

// everywhere runs a test on SQLite and on MariaDB.
func everywhere(t *testing.T, test func(t *testing.T, d *database)) {
	t.Run("sqlite", func(t *testing.T) { test(t, open(t, sqlite(t))) })
	t.Run("mariadb", func(t *testing.T) {
		dsn := testservers.SharedMariaDB(t).NewDatabase(t)
		test(t, open(t, engine.Config{Driver: "mysql", DSN: dsn}))
	})
}

// TestSellOutSQL sells a budget to callers of two nodes by deductions of several units, so that
// units must be collected. Every unit is sold, and each id once.
func TestSellOutSQL(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		const total, callers, each = 400, 5, 40
		ref := d.create(t, promo("sale", total, 5))
		nodes := []*deduct.Service{d.node(t, nil), d.node(t, nil)}
		var mu sync.Mutex
		accepted, refused := map[string]int64{}, 0
		var run sync.WaitGroup
		for caller := range callers {
			run.Go(func() {
				for n := 0; n < each; n += 4 {
					requests := make([]bucket.DeductRequest, 4)
					for i := range requests {
						requests[i] = bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprintf("%d-%d", caller, n+i/2*2),
							Amount: int64(1 + (n+i/2*2)%11)}
					}
					for i, r := range nodes[caller%2].DeductAll(context.Background(), requests) {
						mu.Lock()
						switch {
						case r.Err == nil:
							accepted[requests[i].RequestID] = requests[i].Amount
						case budget.Is(r.Err, budget.BudgetExhausted):
							refused++
						default:
							t.Errorf("%s: %v", requests[i].RequestID, r.Err)
						}
						mu.Unlock()
					}
				}
			})
		}
		run.Wait()
		var units int64
		for _, amount := range accepted {
			units += amount
		}
		_, err := nodes[0].Deduct(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: "rest", Amount: total})
		var refusal *budget.Error
		if !errors.As(err, &refusal) || refusal.Available == nil || units+*refusal.Available != total {
			t.Errorf("%d units sold, then %v", units, err)
		}
		if left := *refusal.Available; left > 0 {
			time.Sleep(time.Second + 50*time.Millisecond) // figures are up to a second old
			got, err := nodes[1].Deduct(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: "last", Amount: left})
			if err != nil || got.BudgetRemaining != 0 || got.BucketRemaining != 0 {
				t.Errorf("the last %d: %+v, %v", left, got, err)
			}
		}
		if refused == 0 {
			t.Error("nothing was refused: the test tries too little")
		}
	})
}

// TestLimitsSQL checks that no value gets more or less than the limit, whatever one batch contains.
func TestLimitsSQL(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		const users, each, most = 6, 9, 5
		def := promo("limited", 10_000, 3)
		def.Limits = &budget.Limits{List: []budget.Limit{{Name: "per-user", Dimension: "user", Max: most, Enforce: true,
			Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}
		ref := d.create(t, def)
		s := d.node(t, nil)
		var requests []bucket.DeductRequest
		for i := range each {
			for u := range users {
				requests = append(requests, bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprintf("%d-%d", u, i), Amount: 2,
					Dimensions: map[string]string{"user": fmt.Sprint("u", u)}})
			}
		}
		accepted := map[string]int{}
		for i, r := range s.DeductAll(context.Background(), requests) {
			user := requests[i].Dimensions["user"]
			switch {
			case r.Err == nil:
				accepted[user]++
				if len(r.Answer.Limits) != 1 || r.Answer.Limits[0].Used > most {
					t.Errorf("%s: %+v", requests[i].RequestID, r.Answer.Limits)
				}
			case !budget.Is(r.Err, budget.LimitExceeded):
				t.Errorf("%s: %v", requests[i].RequestID, r.Err)
			}
		}
		for u := range users {
			if n := accepted[fmt.Sprint("u", u)]; n != most {
				t.Errorf("user %d got %d of %d", u, n, most)
			}
		}
		if _, err := s.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: "x", Amount: 1}); !budget.Is(err, budget.Invalid) {
			t.Errorf("without the dimension: %v", err)
		}
	})
}

// TestHoldSQL checks that a hold is answered with its end.
func TestHoldSQL(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		ref := d.create(t, promo("held", 100, 2))
		s := d.node(t, nil)
		r := bucket.DeductRequest{Budget: ref, RequestID: "h", Amount: 5, HoldTTL: time.Minute, Group: "cart"}
		got, err := s.Deduct(context.Background(), r)
		if err != nil || got.State != "held" || got.HoldUntil.IsZero() || got.BudgetRemaining != 95 {
			t.Errorf("%+v, %v", got, err)
		}
		again, err := s.Deduct(context.Background(), r)
		if err != nil || !again.Replayed || !again.HoldUntil.Equal(got.HoldUntil) {
			t.Errorf("%+v, %v", again, err)
		}
	})
}
