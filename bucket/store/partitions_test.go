package store

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// world is a database with two partitions, each of incarnation 1, and budgets in store mode with a
// bucket of 50 units on each.
type world struct {
	*testing.T
	part *Ledger
	at   [2]bucket.Memory
}

func everywhere(t *testing.T, budgets int, run func(w *world)) {
	for driver, dsn := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "budgetd.db") },
		"mysql":  func(t *testing.T) string { return testservers.SharedMariaDB(t).NewDatabase(t) },
	} {
		t.Run(driver, func(t *testing.T) {
			db, err := engine.Open(t.Context(), engine.Config{Driver: driver, DSN: dsn(t)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			w := &world{T: t, part: New(db)}
			for i := range w.at {
				w.at[i] = bucket.Memory{Partition: bucket.Partition{Instance: "redis", Index: i}, Incarnation: 1}
				w.begin(i, 0, 1)
			}
			for i := range budgets {
				w.create(int64(i + 1))
			}
			run(w)
			w.conserved()
		})
	}
}

// begin begins an incarnation of a partition, of which all earlier epochs are lost.
func (w *world) begin(i int, was, next int64) {
	w.Helper()
	made, err := w.part.BeginIncarnation(w.Context(), was,
		PartitionRow{Partition: w.at[i].Partition, Incarnation: next, Since: next, Identity: "id"}, "test")
	if err != nil || !made {
		w.Fatalf("begin incarnation %d: %v, %v", next, made, err)
	}
	w.at[i].Incarnation = next
}

func (w *world) create(id int64) {
	w.Helper()
	err := bookkeeper.Do(w.Context(), w.part.db, "create", []bookkeeper.Query{}, func(b *books.Books) ([]bookkeeper.Query, error) {
		b.Create(books.Creation{ID: id, FirstBucket: 2*id - 1, As: "{}",
			Homes: []books.Home{{Instance: "redis", Partition: 0, Incarnation: 1}, {Instance: "redis", Partition: 1, Incarnation: 1}},
			KeyOf: func(ordinal int) string { return fmt.Sprint(id, ":", ordinal) },
			Definition: budget.Definition{Tenant: "shop", Name: fmt.Sprint("b", id), Unit: budget.Count, Type: budget.Promo,
				Durability: budget.Store, OnLoss: budget.Quarantine, TotalQuantity: 100, BucketQuantity: 2}})
		return nil, nil
	})
	w.ok(err)
}

// settle settles what one partition told.
func (w *world) settle(told Told, need int64) error {
	done, err := w.part.Settle(w.Context(), []Told{told}, need)
	if len(done.Other) > 0 {
		return errors.Join(err, bucket.ErrOtherMemory)
	}
	return err
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func ref(id int64) bucket.Ref { return bucket.Ref{Bucket: id, Epoch: 1, Incarnation: 1} }

// look returns the rows of a budget, with its epochs that have units or are newest.
func (w *world) look(id int64) (out *books.Books) {
	w.Helper()
	w.ok(bookkeeper.Do(w.Context(), w.part.db, "look", bookkeeper.WholeBudget(id), func(b *books.Books) ([]bookkeeper.Query, error) {
		out = b
		return nil, nil
	}))
	return out
}

// conserved recounts the accounts of all budgets from all rows.
func (w *world) conserved() {
	w.Helper()
	w.ok(w.part.db.Snapshot(w.Context(), "recount", func(r *engine.Reader) error {
		for name, text := range map[string]string{
			"I1": `SELECT COUNT(*) FROM budget_management_bucket u WHERE u.total_quantity - u.unfunded_quantity
				- u.undistributed_quantity - u.quarantined_quantity - u.forfeited_quantity <> (SELECT SUM(e.outstanding_quantity
				+ e.used_quantity + e.returning_quantity) FROM bucket_epoch e WHERE e.budget_id = u.id)`,
			"grants": `SELECT COUNT(*) FROM bucket_epoch e WHERE e.outstanding_quantity + e.used_quantity
				+ e.returning_quantity + e.closed_quantity + e.swept_quantity <> (SELECT COALESCE(SUM(g.amount), 0)
				FROM grant_log g WHERE g.bucket_id = e.bucket_id AND g.epoch = e.epoch)`,
			"Q": `SELECT COUNT(*) FROM budget_management_bucket u WHERE u.quarantined_quantity <> (SELECT
				COALESCE(SUM(q.quantity - q.released_quantity), 0) FROM quarantine q WHERE q.budget_id = u.id)`,
			"pending grants of epochs that ended": `SELECT COUNT(*) FROM grant_log g JOIN bucket_epoch e
				ON e.bucket_id = g.bucket_id AND e.epoch = g.epoch WHERE g.status = 'pending' AND e.status IN ('closed', 'lost')`,
			"halted epochs": `SELECT COUNT(*) FROM bucket_epoch WHERE LENGTH(halted) > 0`,
		} {
			var n int
			if _, err := r.Get(&n, text); err != nil {
				return err
			}
			if n != 0 {
				w.Errorf("%s: %d rows", name, n)
			}
		}
		return nil
	}))
}

// TestToldTwice checks each movement of store mode with the answer of another memory, of another
// partition, and twice: only the first true one has an effect.
func TestToldTwice(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		ctx, m := w.Context(), w.at[0]
		older := m
		older.Incarnation = 7
		final := []Closing{{Ref: ref(1), Entry: bucket.Entry{Balance: 40, Taken: 12, GivenBack: 2, LastGrant: 1}}}
		final = append(final, Closing{Ref: ref(2), Entry: bucket.Entry{Balance: 50, LastGrant: 1}}) // on the other partition
		sum := bucket.Sum{Bucket: 1, Epoch: 1, Taken: 8, GivenBack: 1, Verdict: bucket.Accepted}
		late := bucket.Sum{Bucket: 1, Epoch: 1, Late: true, LateSum: 4}
		steps := []struct {
			name string
			do   func(m bucket.Memory) error
			want string // O, S, R, C of bucket 1, status, pending grants, U, Q
		}{
			{"confirm", func(m bucket.Memory) error {
				done := []Done{{Ref: ref(1), Opened: true, Grants: 1}}
				return w.settle(Told{Memory: m, Done: done}, -1)
			}, "50 0 0 0 open 1 0 0"},
			{"record", func(m bucket.Memory) error {
				_, err := w.part.Record(ctx, m, []bucket.Sum{sum})
				return err
			}, "43 7 0 0 open 1 0 0"},
			{"set to closing", func(bucket.Memory) error {
				return errors.Join(w.part.Close(ctx, 1, 1), w.part.Close(ctx, 1, 2))
			}, "43 7 0 0 closing 1 0 0"},
			{"closed", func(m bucket.Memory) error {
				return w.settle(Told{Memory: m, Closings: final}, -1)
			}, "0 10 0 40 closed 1 40 0"},
			{"late", func(m bucket.Memory) error {
				_, err := w.part.Record(ctx, m, []bucket.Sum{late})
				return err
			}, "0 6 4 40 closed 1 40 0"},
		}
		before := "50 0 0 0 opening 2 0 0"
		for _, step := range steps {
			if step.name != "set to closing" {
				if err := step.do(older); !errors.Is(err, bucket.ErrOtherMemory) {
					t.Errorf("%s of another memory: %v", step.name, err)
				}
			}
			if got := w.figures(); got != before+"\n" {
				t.Errorf("before %s: %s, want %s", step.name, got, before)
			}
			for range 2 {
				w.ok(step.do(m))
				if got := w.figures(); got != step.want+"\n" {
					t.Errorf("%s: %s, want %s", step.name, got, step.want)
				}
			}
			before = step.want
		}
		// The other bucket's partition loses its memory.
		for range 2 {
			lost, err := w.part.EndLost(ctx, w.at[0].Partition)
			if err != nil || len(lost.Buckets) > 0 {
				t.Errorf("%+v, %v", lost, err)
			}
		}
		w.ok(w.part.Lost(ctx, w.at[0], ref(2), "it is on another partition"))
		w.begin(1, 1, 2)
		w.ok(w.part.Lost(ctx, w.at[1], ref(2), "it is of an older memory"))
		if e := w.look(1).Epochs.Get(books.Position{Bucket: 2, Epoch: 1}); e.Status != books.Closing {
			t.Errorf("%+v", *e)
		}
		for n := range 2 {
			lost, err := w.part.EndLost(ctx, w.at[1].Partition)
			if err != nil || len(lost.Buckets) != 1-n || lost.Quarantined != int64(50-50*n) {
				t.Errorf("%+v, %v", lost, err)
			}
		}
		if u := w.look(1).Budgets.Get(1); u.Quarantined != 50 {
			t.Errorf("%+v", *u)
		}
	})
}

// TestLostAmongOthers checks that EndLost leaves an epoch that began on the new memory after it was
// listed.
func TestLostAmongOthers(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		list := []books.Position{{Bucket: 1, Epoch: 1}}
		out, err := w.part.lose(t.Context(), w.at[0].Partition, list, lostWith(w.at[0].Partition), nil)
		if e := w.look(1).Epochs.Get(list[0]); err != nil || len(out.Buckets) > 0 || e.Status != books.Opening {
			t.Errorf("%+v, %v: %+v", out, err, *e)
		}
	})
}

// figures are those of bucket 1 and its budget.
func (w *world) figures() string {
	w.Helper()
	var pending int
	b := w.look(1)
	e, u := b.Epochs.Get(books.Position{Bucket: 1, Epoch: 1}), b.Budgets.Get(1)
	w.ok(w.part.db.Read(w.Context(), "test", func(r *engine.Reader) error {
		_, err := r.Get(&pending, `SELECT COUNT(*) FROM grant_log WHERE status = 'pending'`)
		return err
	}))
	return fmt.Sprintln(e.Outstanding, e.Used, e.Returning, e.Closed, e.Status, pending, u.Undistributed, u.Quarantined)
}

// TestManyTogether runs all movements on many budgets at once. Nothing is lost, doubled or halted.
func TestManyTogether(t *testing.T) {
	const budgets = 12
	everywhere(t, budgets, func(w *world) {
		ctx := w.Context()
		var group sync.WaitGroup
		for worker := range 8 {
			group.Go(func() {
				m := w.at[worker%2]
				for i := range 12 {
					var done []Done
					var sums []bucket.Sum
					var closings []Closing
					for id := int64(1 + worker%2); id <= 2*budgets; id += 2 {
						done = append(done, Done{Ref: ref(id), Opened: true, Grants: 1})
						sums = append(sums, bucket.Sum{Bucket: id, Epoch: 1, Taken: min(int64(i), 5), Verdict: bucket.Accepted})
						closings = append(closings, Closing{Ref: ref(id),
							Entry: bucket.Entry{Balance: 45, Taken: 5, LastGrant: 1}})
					}
					_, err := w.part.Record(ctx, m, sums)
					err = errors.Join(err, w.settle(Told{Memory: m, Done: done}, -1))
					if i > 5 {
						id := int64((worker+i)%(2*budgets) + 1)
						err = errors.Join(err, w.part.Close(ctx, (id+1)/2, id))
						err = errors.Join(err, w.settle(Told{Memory: m, Closings: closings}, 0))
					}
					if i == 8 {
						err = errors.Join(err, w.part.Lost(ctx, m, ref(int64(worker%2+3)), "test"))
						_, e := w.part.EndLost(ctx, m.Partition)
						err = errors.Join(err, e)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
	})
}

// TestSettledTogether settles what two partitions told, one of them with a memory that was given
// up. Only that one is left out.
func TestSettledTogether(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		older := w.at[1]
		w.begin(1, 1, 2)
		done, err := w.part.Settle(w.Context(), []Told{
			{Memory: older, Done: []Done{{Ref: ref(2), Opened: true, Grants: 1}}},
			{Memory: w.at[0], Done: []Done{{Ref: ref(1), Opened: true, Grants: 1}}}}, -1)
		if err != nil || !slices.Equal(done.Other, []bucket.Partition{older.Partition}) {
			t.Errorf("%+v, %v", done, err)
		}
		if got, want := w.figures(), "50 0 0 0 open 1 0 0\n"; got != want {
			t.Errorf("the other partition: %s, want %s", got, want)
		}
		if e := w.look(1).Epochs.Get(books.Position{Bucket: 2, Epoch: 1}); e.Status != books.Opening {
			t.Errorf("the one that was given up: %+v", *e)
		}
	})
}

// TestTasksOfASupply compares the tasks that a supply returns with those that are read after it.
func TestTasksOfASupply(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		ctx := w.Context()
		both := []Told{{Memory: w.at[0], Done: []Done{{Ref: ref(1), Opened: true, Grants: 1}}},
			{Memory: w.at[1], Done: []Done{{Ref: ref(2), Opened: true, Grants: 1}}}}
		_, err := w.part.Settle(ctx, both, -1)
		w.ok(err)
		supply := func(amount int64, want ledger.Status, grants int) {
			t.Helper()
			round := books.Round{Asks: []books.Ask{{Bucket: 1, Amount: amount}}, Synced: true,
				Have: map[books.Position]int64{{Bucket: 1, Epoch: 1}: 50}}
			out, tasks, err := w.part.Supply(ctx, 1, round)
			w.ok(err)
			read, err := w.part.Tasks(ctx, out.Push)
			w.ok(err)
			slices.SortFunc(tasks, func(x, y Task) int { return cmp.Compare(x.Bucket, y.Bucket) })
			if !reflect.DeepEqual(tasks, read) {
				t.Errorf("asked for %d: %+v, read %+v", amount, tasks, read)
			}
			last := tasks[len(tasks)-1]
			if last.Status != want || len(last.Grants) != grants {
				t.Errorf("asked for %d: %+v, want %s and %d grants", amount, last, want, grants)
			}
		}
		supply(70, ledger.Closing, 0) // bucket 2 gives its units
		w.ok(w.settle(Told{Memory: w.at[1], Closings: []Closing{{Ref: ref(2),
			Entry: bucket.Entry{Balance: 50, LastGrant: 1}}}}, -1))
		supply(60, ledger.Open, 1)
		supply(75, ledger.Open, 2)
	})
}
