package sqlstore

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

var everyQuery = flag.Bool("io.all", false, "let every query of every method fail, in every way")

// firstError is the first cut that is the number of an error: the server does not hear of the query,
// and the client gets that error for an answer.
const firstError cut = 1000

// errorPacket is the answer to the first packet of a query that says error n.
func errorPacket(n cut) []byte {
	body := append([]byte{0xff}, binary.LittleEndian.AppendUint16(nil, uint16(n))...) //nolint:gosec // < 5000
	body = append(body, "#HY000injected"...)
	header := binary.LittleEndian.AppendUint32(nil, uint32(len(body))) //nolint:gosec // short
	header[3] = 1
	return append(header, body...)
}

// nth cuts the nth query of every method, once.
type nth struct {
	mu    sync.Mutex
	at    int
	what  cut
	count int
	most  int // queries of one method
	all   int // queries
	done  int // queries that were cut
}

func (n *nth) decide(string) cut {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all, n.count = n.all+1, n.count+1
	if n.most = max(n.most, n.count); n.count != n.at {
		return pass
	}
	n.done++
	return n.what
}

// atOnce does not wait before a transaction is done again.
func atOnce(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// next begins another method.
func (n *nth) next() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count = 0
}

// TestNthQueryFails lets the nth query of every method fail, for n = 1 until no method has so many, in
// every way after which the whole transaction is done again: it happens once, and answers and figures are
// those of an undisturbed run. That every method is among them is what TestScenarioCallsEveryMethod says.
// Without -io.all every seventh n is tried, other ones each way: each query once.
func TestNthQueryFails(t *testing.T) {
	const (
		lockWait, deadlock, duplicate, readOnly, killed = 1205, 1213, 1062, 1836, 1927
		part                                            = 7
	)
	dsn := testservers.SharedMariaDB(t)
	run := func(t *testing.T, n *nth) []string {
		p, through := newProxy(t, dsn.NewDatabase(t))
		s := newScenario(t, Config{Driver: "mysql", DSN: through, Sleep: atOnce})
		s.each = n.next
		p.set(n.decide)
		return s.run()
	}
	undisturbed := &nth{}
	want := run(t, undisturbed)
	cases := 0
	for i, what := range []cut{drop, deafen, lockWait, deadlock, duplicate, readOnly, killed} {
		t.Run(fmt.Sprint(what), func(t *testing.T) {
			for at := 1; at <= undisturbed.most; at++ {
				if !*everyQuery && at%part != i%part {
					continue
				}
				n := &nth{at: at, what: what}
				got := run(t, n)
				cases += n.done
				sameAnswers(t, fmt.Sprintf("query %d", at), got, want)
			}
		})
	}
	t.Logf("%d queries, at most %d of a method: %d failed", undisturbed.all, undisturbed.most, cases)
	if least := 1900; cases < least {
		t.Errorf("%d queries failed, at least %d are expected", cases, least)
	}
}

func sameAnswers(t *testing.T, when string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("%s: answer %d:\n%s\nwant\n%s", when, i, strings.Join(got[i:min(i+1, len(got))], ""),
				strings.Join(want[i:min(i+1, len(want))], ""))
		}
	}
}

// TestNthQueryIsRefused: an error that does not go away ends a transaction with the right class, whatever
// query gets it. Nothing has happened then, and what is called again when it is gone happens.
func TestNthQueryIsRefused(t *testing.T) {
	p, dsn := newProxy(t, testservers.SharedMariaDB(t).NewDatabase(t))
	db := mustOpen(t, Config{Driver: "mysql", DSN: dsn, Sleep: atOnce})
	cases, serial := 0, 0
	for _, test := range []struct {
		number  cut
		code    budget.Code
		forever bool // every attempt fails, and not only the first
	}{
		{1114, budget.Unavailable, false}, // full
		{1037, budget.Unavailable, false}, // out of memory
		{1064, budget.Internal, false},    // nothing that is expected
		{1205, budget.Unavailable, true},
		{1213, budget.Unavailable, true},
		{1062, budget.Internal, true},
	} {
		for _, method := range writingMethods {
			t.Run(fmt.Sprint(int(test.number), " ", method.name), func(t *testing.T) {
				for at := 1; at <= 60; at++ {
					serial++
					p.set(nil)
					do, check := method.prepare(t, db, fmt.Sprint("b", serial))
					n := &nth{at: at, what: test.number}
					p.set(func(query string) cut {
						if test.forever && strings.HasPrefix(query, db.dialect.begin) {
							n.next() // every attempt counts anew
						}
						return n.decide(query)
					})
					err := do()
					p.set(nil)
					check(err)
					if n.done == 0 {
						if err != nil {
							t.Errorf("undisturbed: %v", err)
						}
						return
					}
					cases++
					// Only COMMIT leaves it open, unless the server says that it rolled back.
					if got := budget.CodeOf(err); got != test.code && got != budget.OutcomeUnknown {
						t.Errorf("query %d: %v, want code %s", at, err, test.code)
					}
					if err = do(); err != nil {
						t.Errorf("query %d: again: %v", at, err)
					}
					check(err)
				}
			})
		}
	}
	t.Logf("%d cases", cases)
	const least = 150
	if cases < least {
		t.Errorf("%d cases, at least %d are expected", cases, least)
	}
}

// writingMethods are methods with something to do: prepare returns the call, and what is to be said
// against its effect after it answered so.
var writingMethods = []struct {
	name    string
	prepare func(t *testing.T, db *DB, name string) (do func() error, check func(error))
}{
	{"commit", func(t *testing.T, db *DB, name string) (func() error, func(error)) {
		v, logs := filled(t, db, name, 2)
		return func() error {
			_, err := db.Commit(t.Context(), logs)
			return err
		}, usedIs(t, db, v.ID, 0, 2)
	}},
	{"rollback", func(t *testing.T, db *DB, name string) (func() error, func(error)) {
		v, logs := filled(t, db, name, 1)
		if _, err := db.Commit(t.Context(), logs); err != nil {
			t.Fatal(err)
		}
		return func() error {
			_, _, err := db.Rollback(t.Context(), bucket.RollbackOrder{Budget: v.ID, RequestID: name + "0"})
			return err
		}, usedIs(t, db, v.ID, 1, 0)
	}},
	{"append", func(t *testing.T, db *DB, name string) (func() error, func(error)) {
		v := openBudget(t, db, name, 1000, 2)
		return func() error {
				_, _, err := db.Adjust(t.Context(), bucket.Adjustment{Budget: v.ID, RequestID: "a", Quantity: 10})
				return err
			}, func(err error) {
				f, e := db.Figures(t.Context(), v.ID)
				if e != nil || !fits(err, f.Total == 1000, f.Total == 1010) {
					t.Errorf("append: %v, and the total is %d; %v", err, f.Total, e)
				}
			}
	}},
	{"ending", func(t *testing.T, db *DB, name string) (func() error, func(error)) {
		v := openBudget(t, db, name, 1000, 2)
		ref := v.Buckets[0].Ref()
		return func() error {
				_, err := db.Ending(t.Context(), v.ID, ref, bucket.ByOperator, false)
				return err
			}, func(err error) {
				rows, e := db.Epochs(t.Context(), []bucket.Ref{ref})
				status := rows[ref].Status
				if e != nil || !fits(err, status == ledger.Open, status == ledger.Closing) {
					t.Errorf("ending: %v, and the epoch is %s; %v", err, status, e)
				}
			}
	}},
}

// usedIs returns a check that so much is used before and after the call.
func usedIs(t *testing.T, db *DB, budgetID, before, after int64) func(error) {
	return func(err error) {
		f, e := db.Figures(t.Context(), budgetID)
		if e != nil || !fits(err, f.Used == before, f.Used == after) {
			t.Errorf("%v, and %d are used; %v", err, f.Used, e)
		}
	}
}

// fits says whether an answer is true of what is there: as before the call, or as after it.
func fits(err error, before, after bool) bool {
	switch {
	case err == nil:
		return after
	case budget.CodeOf(err) == budget.OutcomeUnknown:
		return before || after
	}
	return before
}
