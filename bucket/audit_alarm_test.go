package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/ledger"
)

// alarmFor is how long the test for false alarms runs in each world; BUDGETD_AUDIT_SOAK, a duration,
// makes it longer.
func alarmFor(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("BUDGETD_AUDIT_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Errorf("BUDGETD_AUDIT_SOAK: %v", err)
		}
		return d
	}
	return 5 * time.Second
}

// TestAuditRaisesNoFalseAlarm: whatever goes on at the same time on two nodes, and however often the
// audit looks, nothing is found and nothing is fenced, and every part of the audit did look.
func TestAuditRaisesNoFalseAlarm(t *testing.T) { everywhere(t, noFalseAlarm) }

func noFalseAlarm(t *testing.T, w *world) {
	m := metrics.New("test")
	w.observer = m
	set := bucket.Settings{Deadline: 2 * time.Second, Refresh: 20 * time.Millisecond,
		Chores: 50 * time.Millisecond, Audit: 50 * time.Millisecond, AuditRows: 200_000}
	nodes := []*bucket.Service{w.node(set), w.node(set)}
	wide := w.create(nodes[0], promo("wide", 100_000_000, 9))
	tight := promo("tight", 400, 8) // empties, collects, and gets appends
	tight.ShardingQuantity = 10
	narrow := w.create(nodes[1], tight)
	load := []*traffic{runLosing(t, nodes, wide, 3, w.wentWithItsStore(wide)),
		runLosing(t, nodes, narrow, 3, w.wentWithItsStore(narrow))}
	ctx, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { // on a busy machine for longer, until there was some load
		defer end()
		least := alarmFor(t)
		for began := time.Now(); time.Since(began) < least+time.Minute; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > least && load[0].accepted.Load()+load[1].accepted.Load() >= 30 {
				return
			}
		}
	})
	for i, step := range []func(rnd *rand.Rand, n int) error{
		func(rnd *rand.Rand, n int) error { // appends and shrinks
			quantity := int64(1 + rnd.IntN(200))
			if n%3 == 2 {
				quantity = -quantity / 2
			}
			_, err := nodes[n%2].Adjust(ctx, bucket.AdjustRequest{Budget: narrow, RequestID: fmt.Sprint("a", n),
				Quantity: quantity})
			return err
		},
		func(rnd *rand.Rand, n int) error { // offline and online
			ref, key := wide, fmt.Sprintf("wide:bucket-%d", rnd.IntN(9))
			if n%2 == 0 {
				ref, key = narrow, fmt.Sprintf("tight:bucket-%d", rnd.IntN(8))
			}
			_, err := nodes[n%2].Offline(ctx, ref, key)
			_, err2 := nodes[(n+1)%2].Online(ctx, ref, key)
			return errors.Join(err, err2)
		},
		func(_ *rand.Rand, n int) error { // cancels, of ids that are, were and will be used
			_, err := nodes[n%2].Cancel(ctx, wide, fmt.Sprintf("t0-%d", n))
			return err
		},
		func(_ *rand.Rand, n int) error { // audits on request
			ref := wide
			if n%2 == 0 {
				ref = narrow
			}
			report, err := nodes[n%2].Audit(ctx, ref)
			if err == nil && !report.OK {
				t.Errorf("audit: %v", report.Discrepancies)
			}
			return err
		},
		func(_ *rand.Rand, n int) error { // large amounts: units are brought together
			_, err := deduct(nodes[n%2], narrow, fmt.Sprint("large-", n), 60)
			return err
		},
		func(*rand.Rand, int) error { // stores lose their memory, where there is one to lose
			for _, server := range w.servers {
				server.Lose()
				break
			}
			time.Sleep(300 * time.Millisecond)
			return nil
		},
	} {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(i)))
			for n := 0; ctx.Err() == nil; n++ {
				if err := step(rnd, n); budget.CodeOf(err) == budget.Internal && err != nil && ctx.Err() == nil {
					t.Errorf("step %d: %v", i, err)
				}
				time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond)
			}
		})
	}
	all.Wait()
	accepted := int64(0)
	for _, f := range load {
		f.stop()
		accepted += f.accepted.Load()
	}
	noAlarm(t, m, accepted)
	within(t, time.Minute, "every row was counted at least once", func() bool {
		return metric(t, m, "budgetd_audit_recount_duration_seconds") > 0
	})
	for _, ref := range []bucket.BudgetRef{wide, narrow} {
		report, err := nodes[0].Audit(context.Background(), ref)
		if err != nil || !report.OK {
			t.Errorf("afterwards: %+v, %v", report.Discrepancies, err)
		}
	}
	noAlarm(t, m, accepted)
}

// wentWithItsStore says whether an accepted deduction that cannot be found is one that store mode may
// lose: its store lost its memory before the ledger had its entry, and its units are in quarantine, so
// that nobody sells them twice. nil where no store loses its memory, or nothing may be lost with it.
func (w *world) wentWithItsStore(ref bucket.BudgetRef) func(bucket.DeductAnswer) error {
	if len(w.servers) == 0 || w.durability != budget.Store {
		return nil
	}
	return func(a bucket.DeductAnswer) error {
		var at ledger.Position
		if _, err := fmt.Sscanf(a.Receipt, "%d.%d.%d", &at.Bucket, &at.Epoch, &at.Seq); err != nil {
			return fmt.Errorf("receipt %q: %w", a.Receipt, err)
		}
		epoch := bucket.Ref{Bucket: at.Bucket, Epoch: at.Epoch}
		rows, err := w.sql.Epochs(context.Background(), []bucket.Ref{epoch})
		if err != nil {
			return err
		}
		if row := rows[epoch]; row.Status != ledger.Lost || row.DrainedSeq >= at.Seq {
			return fmt.Errorf("not found, and not lost: %+v, epoch %+v", a, row)
		}
		list, err := w.sql.Quarantined(context.Background(), ref.ID, 10_000)
		for _, q := range list {
			if q.Bucket == at.Bucket && q.Epoch == at.Epoch && q.Quantity-q.Released >= a.Amount {
				return err
			}
		}
		return fmt.Errorf("lost, and not in quarantine: %+v, %v", a, err)
	}
}

func noAlarm(t *testing.T, m *metrics.Metrics, accepted int64) {
	t.Helper()
	t.Logf("%d deductions accepted", accepted)
	if accepted < 30 {
		t.Error("no load")
	}
	for _, name := range []string{"budgetd_audit_discrepancies", "budgetd_audit_discrepancies_total",
		"budgetd_conservation_gap_units", "budgetd_fenced_buckets_total"} {
		if got := metric(t, m, name); got != 0 {
			t.Errorf("%s is %v", name, got)
		}
	}
}

// TestAuditOfTheBudgetItself: discrepancies of the budget itself are found, shown and logged, and
// fence nothing; the next audit on request names them.
func TestAuditOfTheBudgetItself(t *testing.T) {
	w := newTampered(t)
	node := w.node(bucket.Settings{})
	for i, p := range []struct{ name, query string }{
		{"undistributed", `UPDATE budget_management_bucket SET undistributed_quantity = undistributed_quantity + 1,
			out_quantity = out_quantity - 1 WHERE id = ?`},
		{"quarantined", `UPDATE budget_management_bucket SET quarantined_quantity = 1 WHERE id = ?`},
		{"total", `UPDATE budget_management_bucket SET total_quantity = total_quantity + 1,
			out_quantity = out_quantity + 1 WHERE id = ?`},
		{"an adjustment", `UPDATE adjustment SET quantity = quantity + 1 WHERE budget_id = ?`},
		{"pending shrinks", `UPDATE budget_management_bucket SET pending_shrink_quantity = 1 WHERE id = ?`},
	} {
		t.Run(p.name, func(t *testing.T) {
			ref := w.create(node, promo(fmt.Sprintf("b%d", i), 1000, 3))
			load := run(t, []*bucket.Service{node}, ref, 2)
			defer load.stop()
			before := w.metric("budgetd_audit_discrepancies_total")
			gap := w.metric("budgetd_conservation_gap_units")
			w.exec(p.query, ref.ID)
			took := within(t, time.Minute, "it is found", func() bool {
				return w.metric("budgetd_audit_discrepancies_total") > before
			})
			t.Logf("found after %s", took)
			if got := w.metric("budgetd_conservation_gap_units"); got != gap+1 {
				t.Errorf("gap is %v, was %v", got, gap)
			}
			report, err := node.Audit(context.Background(), ref)
			if err != nil || report.OK {
				t.Errorf("audit: %+v, %v", report, err)
			}
			for _, d := range report.Discrepancies {
				if d.Bucket != "" {
					t.Errorf("a bucket is blamed: %v", d)
				}
			}
			if got := w.fenced(ref.ID); len(got) > 0 {
				t.Errorf("buckets %v are fenced", got)
			}
		})
	}
}

// TestAuditOfAnEndedEpoch: what was wrong in a life that is over fences the bucket in its present one.
func TestAuditOfAnEndedEpoch(t *testing.T) {
	w := newTampered(t)
	node := w.node(bucket.Settings{})
	ref := w.create(node, promo("b", 1000, 3))
	ctx := context.Background()
	for i := range 30 {
		if _, err := deduct(node, ref, fmt.Sprint(i), 3); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []func() (bucket.BucketView, error){
		func() (bucket.BucketView, error) { return node.Offline(ctx, ref, "b:bucket-1") },
		func() (bucket.BucketView, error) { return node.Online(ctx, ref, "b:bucket-1") },
	} {
		if _, err := step(); err != nil {
			t.Fatal(err)
		}
	}
	b, err := w.sql.Budget(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	victim := b.Buckets[1]
	if victim.Epoch.Number != 2 {
		t.Fatalf("epoch %d", victim.Epoch.Number)
	}
	w.exec(`UPDATE deduction SET amount = amount - 1 WHERE bucket_id = ? AND epoch = 1
		ORDER BY seq LIMIT 1`, victim.ID)
	took := within(t, time.Minute, "the bucket is fenced", func() bool { return len(w.fenced(ref.ID)) > 0 })
	t.Logf("fenced after %s", took)
	rows, err := w.sql.Epochs(ctx, []bucket.Ref{victim.Ref()})
	if err != nil || rows[victim.Ref()].Fenced == "" {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestTamperedStoreIsReplaced: where SQL's rows agree, the fenced bucket gets a new epoch by itself and
// nothing is lost.
func TestTamperedStoreIsReplaced(t *testing.T) {
	w := newTampered(t)
	node := w.node(bucket.Settings{})
	ref := w.create(node, promo("b", 1000, 3))
	var used atomic.Int64
	for i := range 30 {
		if _, err := deduct(node, ref, fmt.Sprint(i), 3); err != nil {
			t.Fatal(err)
		}
		used.Add(3)
	}
	b, err := w.sql.Budget(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	victim := b.Buckets[2]
	w.command(victim, "HINCRBY", "BALANCE", "balance", "1")
	within(t, time.Minute, "it is replaced", func() bool {
		b, err := w.sql.Budget(context.Background(), ref)
		return err == nil && b.Buckets[2].Epoch.Number == 2 && b.Buckets[2].Epoch.Status == "open" &&
			b.Buckets[2].Online
	})
	w.settled(node, ref, used.Load())
}

// TestFencedBucketsAreJudgedOneByOne: a bucket whose rows do not agree waits for an operator; another one
// that was fenced for its store is replaced all the same.
func TestFencedBucketsAreJudgedOneByOne(t *testing.T) {
	w := newTampered(t)
	node := w.node(bucket.Settings{})
	ref := w.create(node, promo("b", 1000, 3))
	for i := range 60 {
		if _, err := deduct(node, ref, fmt.Sprint(i), 3); err != nil {
			t.Fatal(err)
		}
	}
	b, err := w.sql.Budget(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	wrong, tampered := b.Buckets[0], b.Buckets[2]
	w.exec(`UPDATE bucket_epoch SET used_quantity = used_quantity + 1 WHERE bucket_id = ?`, wrong.ID)
	w.command(tampered, "HINCRBY", "BALANCE", "balance", "1")
	within(t, time.Minute, "the one is replaced", func() bool {
		b, err = w.sql.Budget(context.Background(), ref)
		return err == nil && b.Buckets[2].Epoch.Number == 2 && b.Buckets[2].Epoch.Status == "open"
	})
	within(t, time.Minute, "the other is fenced", func() bool {
		b, err = w.sql.Budget(context.Background(), ref)
		return err == nil && b.Buckets[0].Epoch.Number == 1 && b.Buckets[0].Epoch.Fenced != ""
	})
	w.exec(`UPDATE bucket_epoch SET used_quantity = used_quantity - 1 WHERE bucket_id = ?`, wrong.ID)
	within(t, 90*time.Second, "and replaced once it is mended", func() bool {
		b, err = w.sql.Budget(context.Background(), ref)
		return err == nil && b.Buckets[0].Epoch.Number == 2 && b.Buckets[0].Epoch.Status == "open"
	})
	w.settled(node, ref, 180)
}

// TestStrictStoreModeLater: under strict a budget in store mode is not used on a Redis that was made to answer
// writes before they are on its disk, alone or in a batch, until that is mended; in ledger mode it is.
func TestStrictStoreModeLater(t *testing.T) {
	w := newTampered(t)
	config := func(setting, value string) {
		for _, server := range w.redis {
			if _, err := server.Command("CONFIG", "SET", setting, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	config("appendfsync", "always")
	config("appendonly", "yes")
	set := quick
	set.Strict = true
	d := promo("later", 1000, 3)
	d.Durability = budget.Store
	_, _, err := w.node(set).Create(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	ref := bucket.BudgetRef{Tenant: budget.DefaultTenant, Name: "later"}
	config("appendfsync", "everysec")
	s := w.node(set)
	if _, err := deduct(s, w.create(s, promo("ledger", 100, 3)), "o1", 1); err != nil {
		t.Errorf("ledger mode: %v", err)
	}
	if _, err := deduct(s, ref, "o1", 1); !budget.Is(err, budget.Unavailable) || !strings.Contains(err.Error(), "appendfsync always") {
		t.Errorf("alone: %v", err)
	}
	for _, answer := range s.DeductAll(context.Background(), []bucket.DeductRequest{{Budget: ref, RequestID: "o1", Amount: 1},
		{Budget: ref, RequestID: "o2", Amount: 1}}) {
		if !budget.Is(answer.Err, budget.Unavailable) {
			t.Errorf("in a batch: %+v", answer)
		}
	}
	config("appendfsync", "always")
	w.until("it serves again", func() bool { _, err := deduct(s, ref, "o1", 1); return err == nil })
	w.settled(s, ref, 1)
}

// TestStrictStoreMode: under strict a budget in store mode is refused on a Redis that answers writes before
// they are on its disk, with the field and the mend; without, it is made.
func TestStrictStoreMode(t *testing.T) {
	for _, strict := range []bool{true, false} {
		w := newTampered(t)
		d := promo("forgetful", 100, 3)
		d.Durability = budget.Store
		_, _, err := w.node(bucket.Settings{Strict: strict}).Create(context.Background(), d)
		var e *budget.Error
		switch {
		case !strict && err != nil:
			t.Errorf("not strict: %v", err)
		case strict && (!errors.As(err, &e) || e.Code != budget.Invalid || len(e.Fields) != 1 || e.Fields[0].Field != "durability"):
			t.Errorf("strict: %v", err)
		}
	}
}
