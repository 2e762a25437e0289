package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// shop is a budget whose buckets are rows of the ledger's own database.
type shop struct {
	testing.TB
	db   *DB
	rows *Rows
	lane bucket.Lane
	b    bucket.Budget
	refs []bucket.Ref
}

func newShop(tb testing.TB, db *DB, total int64, buckets int) *shop {
	tb.Helper()
	s := &shop{TB: tb, db: db, rows: db.Rows("sql", 1), lane: bucket.Lane{Instance: "sql"}}
	s.activate(s.rows)
	s.b = openBudget(tb, db, "b", total, buckets)
	var orders []bucket.GrantOrder
	for i := range s.b.Buckets {
		ref := s.b.Buckets[i].Ref()
		s.refs = append(s.refs, ref)
		orders = append(orders, bucket.GrantOrder{Ref: ref, Number: 1,
			Amount: s.b.Buckets[i].Epoch.Outstanding})
	}
	if _, err := s.rows.Open(tb.Context(), s.lane, s.refs); err != nil {
		tb.Fatal(err)
	}
	if _, err := s.rows.Grant(tb.Context(), s.lane, orders); err != nil {
		tb.Fatal(err)
	}
	return s
}

func (s *shop) activate(rows *Rows) {
	s.Helper()
	who, err := rows.Identity(s.Context(), s.lane)
	if err != nil {
		s.Fatal(err)
	}
	if err := rows.Activate(s.Context(), s.lane, who, 1); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) op(i int, amount int64, id, nonce string) bucket.Operation {
	r := request(amount, id)
	r.Nonce = nonce
	return bucket.Operation{Ref: s.refs[i], Amount: amount, Request: r}
}

// deduct deducts and returns each operation's fate in short.
func (s *shop) deduct(ops ...bucket.Operation) []string {
	s.Helper()
	replies, outcomes, err := s.rows.DeductAndCommit(s.Context(), s.lane, ops)
	if err != nil {
		s.Fatal(err)
	}
	out := make([]string, len(ops))
	for i, r := range replies {
		out[i] = fmt.Sprintf("verdict %d, balance %d, seq %d", r.Verdict, r.Balance, r.Seq)
		if (r.Verdict == bucket.OK) != (outcomes != nil && outcomes[i] != nil) {
			s.Errorf("reply %+v with outcomes %v", r, outcomes)
		}
		if r.Verdict != bucket.OK {
			continue
		}
		switch o := outcomes[i]; {
		case o.Duplicate != nil:
			out[i] += ", " + string(o.Duplicate.Reason)
		default:
			out[i] += fmt.Sprintf(", used %d", o.Deduction.Amount)
		}
	}
	return out
}

func (s *shop) want(got []string, want ...string) {
	s.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("%q\nwant %q", got, want)
	}
}

// agree fails unless the ledger's rows agree among themselves, and with the store's.
func (s *shop) agree() ledger.Figures {
	s.Helper()
	a, err := s.db.Accounts(s.Context(), s.b.ID)
	if err != nil {
		s.Fatal(err)
	}
	for _, found := range ledger.Check(a.Figures, a.Adjusted, a.Epochs) {
		s.Error(found)
	}
	balances, err := s.rows.Balances(s.Context(), s.lane, s.refs)
	if err != nil {
		s.Fatal(err)
	}
	for i, b := range balances {
		granted, deducted, err := s.db.Prefix(s.Context(), s.refs[i], b.Seq, b.GrantSeq)
		if err != nil || b.Verdict == bucket.OK && (granted != b.Granted || deducted != b.Deducted) {
			s.Errorf("%+v: the ledger has %d granted, %d deducted, %v", b, granted, deducted, err)
		}
	}
	return a.Figures
}

func TestDirect(t *testing.T) {
	bothEngines(t, func(t *testing.T, db *DB) {
		s := newShop(t, db, 30, 2)
		s.want(s.deduct(s.op(0, 5, "a", "nonce--1"), s.op(1, 3, "b", "nonce--1"),
			s.op(0, 5, "a", "nonce--2"), s.op(1, 5, "a", "nonce--3"), s.op(1, 8, "c", "nonce--1")),
			"verdict 1, balance 10, seq 2, used 5", "verdict 1, balance 12, seq 2, used 3",
			"verdict 1, balance 5, seq 3, duplicate", "verdict 1, balance 7, seq 3, duplicate",
			fmt.Sprintf("verdict %d, balance 7, seq 3", bucket.Insufficient))
		s.want(s.deduct(s.op(0, 1, "b", "nonce--4")), "verdict 1, balance 4, seq 4, duplicate")
		f := s.agree()
		if f.Used != 8 || f.Returning != 11 || f.Remaining != 11 {
			t.Errorf("figures %+v", f)
		}
		// Nothing is left to drain, and only the last entry is kept.
		for i, ref := range s.refs {
			logs, err := s.rows.Read(t.Context(), s.lane, []bucket.Cursor{{Ref: ref}}, 10)
			if err != nil || logs[0].Err != nil || len(logs[0].Entries) != 1 {
				t.Fatalf("log %d: %+v, %v", i, logs, err)
			}
			log := ledger.Log{Bucket: ref.Bucket, Epoch: ref.Epoch, From: logs[0].Entries[0].Seq,
				Entries: logs[0].Entries}
			r, err := db.Commit(t.Context(), []ledger.Log{log})
			if err != nil || r.Epochs[0].Err != nil || len(r.Epochs[0].Outcomes) != 0 {
				t.Errorf("commit %+v, %v", r, err)
			}
		}
		if _, err := db.Cancel(t.Context(), s.b.ID, "never"); err != nil {
			t.Fatal(err)
		}
		s.want(s.deduct(s.op(0, 1, "never", "nonce--5")), "verdict 1, balance 3, seq 5, void")
		s.agree()
	})
}

// TestDirectRefusals: an epoch that cannot be committed answers for itself, and writes nothing.
func TestDirectRefusals(t *testing.T) {
	bothEngines(t, func(t *testing.T, db *DB) {
		s := newShop(t, db, 60, 5)
		ctx := t.Context()
		ok, _, err := s.rows.DeductAndCommit(ctx, s.lane, []bucket.Operation{s.op(1, 1, "x", "nonce--0")})
		if err != nil || ok[0].Verdict != bucket.OK {
			t.Fatal(ok, err)
		}
		if _, err := db.Ending(ctx, s.b.ID, s.refs[0], bucket.ByService, false); err != nil {
			t.Fatal(err)
		}
		if err := db.Fence(ctx, s.refs[1], "tampered"); err != nil {
			t.Fatal(err)
		}
		err = db.write(ctx, "test", func(tx *tx) error { // a log that went back
			return tx.hit(1, `UPDATE store_balance SET chain = ? WHERE bucket_id = ?`,
				[]byte("0123456789abcdef"), s.refs[2].Bucket)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Lose(ctx, s.refs[3]); err != nil {
			t.Fatal(err)
		}
		var ops []bucket.Operation
		for i := range s.refs {
			ops = append(ops, s.op(i, 1, fmt.Sprint("order ", i), "nonce--1"))
		}
		replies, outcomes, err := s.rows.DeductAndCommit(ctx, s.lane, append(ops, ops[4]))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bucket.Verdict{bucket.EpochClosed, bucket.Broken, bucket.Broken,
			bucket.EpochClosed, bucket.OK, bucket.OK} {
			if replies[i].Verdict != want || (replies[i].Why == "") != (want != bucket.Broken) ||
				(outcomes[i] == nil) != (want != bucket.OK) {
				t.Errorf("operation %d: %+v, %v", i, replies[i], outcomes[i])
			}
		}
		unknown := s.op(0, 1, "y", "nonce--1")
		unknown.Ref.Epoch = 9
		s.want(s.deduct(unknown), fmt.Sprintf("verdict %d, balance 0, seq 0", bucket.EpochGone))
		if f := s.agree(); f.Used != 2 {
			t.Errorf("figures %+v", f)
		}
	})
}

// TestDirectAfterTheEnd: what is committed after the budget's end does not count.
func TestDirectAfterTheEnd(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	db := openFile(t, func() time.Time { return now })
	s := newShop(t, db, 30, 1)
	end := now.Add(time.Second)
	if _, err := db.Change(t.Context(), s.b.ID, bucket.Change{EndAt: &end}); err != nil {
		t.Fatal(err)
	}
	now = end.Add(-time.Millisecond)
	s.want(s.deduct(s.op(0, 1, "in time", "nonce--1")), "verdict 1, balance 29, seq 2, used 1")
	now = end
	s.want(s.deduct(s.op(0, 1, "late", "nonce--1")), "verdict 1, balance 28, seq 3, expired")
	s.agree()
}

// TestDirectFromManyNodes: the same ids at once, through several nodes and buckets: each takes
// effect once, and what was used is what was accepted.
func TestDirectFromManyNodes(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	db := mustOpen(t, Config{Driver: "mysql", DSN: dsn})
	s := newShop(t, db, 400, 3)
	const nodes, calls, ids = 4, 40, 60
	var mu sync.Mutex
	accepted := map[string]int{}
	var all sync.WaitGroup
	for n := range nodes {
		rows := mustOpen(t, Config{Driver: "mysql", DSN: dsn}).Rows("sql", 1)
		s.activate(rows)
		all.Go(func() {
			for c := range calls {
				var ops []bucket.Operation
				for i := range 3 {
					id := fmt.Sprint("order ", (n*7+c*3+i*11)%ids)
					ops = append(ops, s.op((n+c+i)%len(s.refs), 1, id, fmt.Sprintf("%d-%06d", n, c*10+i)))
				}
				replies, outcomes, err := rows.DeductAndCommit(context.Background(), s.lane, ops)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i, r := range replies {
					if r.Verdict == bucket.OK && outcomes[i].Duplicate == nil {
						accepted[ops[i].Request.ID]++
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for id, n := range accepted {
		if n != 1 {
			t.Errorf("%s was accepted %d times", id, n)
		}
	}
	if f := s.agree(); f.Used != int64(len(accepted)) {
		t.Errorf("%d were accepted, used is %d", len(accepted), f.Used)
	}
}
