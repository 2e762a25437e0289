package sqlstore

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// openFile opens an empty SQLite database whose clock is the one given.
func openFile(tb testing.TB, clock func() time.Time) *DB {
	tb.Helper()
	return mustOpen(tb, Config{
		Driver: "sqlite", DSN: filepath.Join(tb.TempDir(), "data", "budgetd.db"), Clock: clock,
	})
}

// openMariaDB opens an empty database on the shared MariaDB.
func openMariaDB(tb testing.TB, clock func() time.Time) *DB {
	tb.Helper()
	return mustOpen(tb, Config{
		Driver: "mysql", DSN: testservers.SharedMariaDB(tb).NewDatabase(tb), Clock: clock,
		ClockTolerance: 100 * 365 * 24 * time.Hour, // tests move the clock
	})
}

func mustOpen(tb testing.TB, config Config) *DB {
	tb.Helper()
	db, err := Open(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

// testLog is an epoch's log as a store would keep it.
type testLog struct {
	ref     bucket.Ref
	entries []ledger.Entry
	chain   string
	drained int64 // position, as the last commit reported it
}

func newLog(ref bucket.Ref) *testLog {
	l := &testLog{ref: ref}
	l.add(ledger.OpenLine(ref.Bucket, ref.Epoch, ref.Activation))
	return l
}

func (l *testLog) add(line string) {
	l.chain = ledger.Chain(l.chain, line)
	e, err := ledger.ParseEntry(int64(len(l.entries)), l.chain+line)
	if err != nil {
		panic(err)
	}
	l.entries = append(l.entries, e)
}

func (l *testLog) grant(units, number int64) {
	l.add(ledger.Line(ledger.KindGrant, units, fmt.Sprint(number)))
}

func (l *testLog) deduct(units int64, id string) { l.ask(units, request(units, id)) }

func (l *testLog) ask(units int64, r ledger.Request) {
	l.add(ledger.Line(ledger.KindDeduct, units, ledger.EncodeRequest(r)))
}

func request(units int64, id string) ledger.Request {
	return ledger.Request{
		ID: id, Nonce: "nonce678", Fingerprint: ledger.Fingerprint(units, "", "", ""),
	}
}

// at is a position in the log.
func (l *testLog) at(seq int64) ledger.Position {
	return ledger.Position{Bucket: l.ref.Bucket, Epoch: l.ref.Epoch, Seq: seq}
}

// grants is how many have arrived, granted what they brought.
func (l *testLog) grants() (n int64) {
	for _, e := range l.entries {
		if e.Kind == ledger.KindGrant {
			n++
		}
	}
	return n
}

func (l *testLog) granted() (units int64) {
	for _, e := range l.entries {
		if e.Kind == ledger.KindGrant {
			units += e.Amount
		}
	}
	return units
}

// left is what the log leaves of so many units.
func (l *testLog) left(granted int64) int64 {
	for _, e := range l.entries {
		if e.Kind == ledger.KindDeduct {
			granted -= e.Amount
		}
	}
	return granted
}

func (l *testLog) log(from int64) ledger.Log {
	return ledger.Log{Bucket: l.ref.Bucket, Epoch: l.ref.Epoch, From: from, Entries: l.entries[from:]}
}

// openBudget makes a budget whose buckets are open.
func openBudget(tb testing.TB, db *DB, name string, total int64, buckets int) bucket.Budget {
	tb.Helper()
	return openDefined(tb, db, budget.Definition{
		Tenant: "default", Name: name, Unit: budget.Count, Durability: budget.Ledger,
		Type: budget.Promo, TotalQuantity: total, BucketQuantity: buckets,
	})
}

// openDefined is openBudget for a definition.
func openDefined(tb testing.TB, db *DB, d budget.Definition) bucket.Budget {
	tb.Helper()
	ctx := context.Background()
	lane := bucket.Lane{Instance: "sql", Index: 0}
	if _, err := db.Lane(ctx, lane, "id"); err != nil {
		tb.Fatal(err)
	}
	lanes := make([]bucket.Lane, d.BucketQuantity)
	for i := range lanes {
		lanes[i] = lane
	}
	v, _, err := db.Create(ctx, d, lanes)
	if err != nil {
		tb.Fatal(err)
	}
	var refs []bucket.Ref
	for i := range v.Buckets {
		refs = append(refs, v.Buckets[i].Ref())
	}
	if err := db.MarkOpen(ctx, refs); err != nil {
		tb.Fatal(err)
	}
	return v
}
