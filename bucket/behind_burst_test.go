package bucket_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// busySQL is SQL on a busy machine: a commit takes long.
type busySQL struct {
	bucket.SQL
	takes   time.Duration
	each    time.Duration // of an entry, beside
	commits atomic.Int64
}

func (q *busySQL) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	takes := q.takes
	for _, l := range logs {
		takes += time.Duration(len(l.Entries)) * q.each
	}
	time.Sleep(takes)
	report, err := q.SQL.Commit(ctx, logs)
	for _, e := range report.Epochs {
		if len(e.Outcomes) > 0 {
			q.commits.Add(1)
			break
		}
	}
	return report, err
}

// TestBurstBeforeTheLedger: while many are answered, commits that take long are followed by rests of four times as long,
// and the looks of the audit do not commit in between; when nothing is answered any more, the ledger is brought up at once.
func TestBurstBeforeTheLedger(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		ctx, w := context.Background(), newStoreWorld(t)
		q := &busySQL{SQL: w.sql, takes: 200 * time.Millisecond}
		w.sql = q
		set := storeQuick()
		set.WindowTime, set.WindowUnits, set.Audit = time.Minute, 1<<40, 100*time.Millisecond
		s := w.node(set)
		ref := w.create(s, promo("burst", 1_000_000, 1))
		time.Sleep(2 * time.Second)
		q.commits.Store(0)
		answered := int64(0)
		answer := func(burst time.Duration) {
			const every = 10 * time.Millisecond
			for range burst / every {
				answered++
				id := strconv.FormatInt(answered, 10)
				if _, err := s.Deduct(ctx, bucket.DeductRequest{Budget: ref, RequestID: id, Amount: 1}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(every)
			}
		}
		const burst = 20 * time.Second
		answer(burst)
		if got := q.commits.Load(); got < 17 || got > 23 {
			t.Errorf("%d commits in %s, of 200 ms each; 20 leave four fifths of the time to the answers", got, burst)
		}
		for more := range 10 { // it ends anywhere in a rest
			time.Sleep(3*drainPaceOfTests + 2*q.takes)
			if _, _, used := w.figuresOf(ref); used != answered {
				t.Errorf("the ledger has %d of %d soon after a burst", used, answered)
			}
			answer(time.Second + time.Duration(more)*100*time.Millisecond)
		}
	})
}

// drainPaceOfTests is how soon a rest notices that nothing is answered any more.
const drainPaceOfTests = 50 * time.Millisecond

// TestUsedUpWindowEndsARest: callers of a bucket that is as far ahead of the ledger as it may be wait for a commit, and
// not for the rest before it as well.
func TestUsedUpWindowEndsARest(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		ctx, w := context.Background(), newStoreWorld(t)
		q := &busySQL{SQL: w.sql, takes: 120 * time.Millisecond}
		w.sql = q
		set := storeQuick()
		set.WindowUnits = 100
		s := w.node(set)
		ref, other := w.create(s, promo("narrow", 1_000_000, 1)), w.create(s, promo("beside", 1_000_000, 1))
		const callers, long = 20, 10 * time.Second
		var accepted atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for c := range callers {
			all.Go(func() {
				for n := 0; time.Since(began) < long; n++ {
					r := bucket.DeductRequest{Budget: ref, RequestID: strconv.Itoa(c) + "-" + strconv.Itoa(n), Amount: 1}
					if c == 0 { // is answered all the time
						time.Sleep(10 * time.Millisecond)
						r.Budget = other
					}
					switch _, err := s.Deduct(ctx, r); {
					case err != nil:
						t.Error(err)
					case c > 0:
						accepted.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n, least := accepted.Load(), int64(set.WindowUnits*int64(long/q.takes)/3); n < least {
			t.Errorf("%d accepted in %s; with a window of %d units and commits of %s it should be %d", n, long, set.WindowUnits,
				q.takes, least)
		}
	})
}

// TestNobodyWaitsInVainForTheWindow: where callers ask for more than the ledger keeps up with, all of them are answered in
// turn, however short the moments are in which a bucket has room again.
func TestNobodyWaitsInVainForTheWindow(t *testing.T) {
	for _, c := range []struct {
		name  string
		units int64
		time  time.Duration
		least int64 // two thirds of what the commits let through
		turn  time.Duration
	}{
		{"of units", 100, time.Minute, 8_000, 1200 * time.Millisecond}, // three commits of 100 entries, and what is between them
		{"of time", 1 << 40, time.Second, 30_000, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				ctx, w := context.Background(), newStoreWorld(t)
				w.sql = &busySQL{SQL: w.sql, takes: 250 * time.Millisecond, each: time.Millisecond}
				set := storeQuick()
				set.WindowUnits, set.WindowTime, set.Deadline = c.units, c.time, 2*time.Second
				s := w.node(set)
				ref := w.create(s, promo("narrow", 1_000_000_000, 1))
				const callers, learning, long = 250, 10 * time.Second, time.Minute
				var accepted, inVain, longest atomic.Int64
				var all sync.WaitGroup
				began := time.Now()
				for caller := range callers {
					all.Go(func() {
						for n := 0; time.Since(began) < long; n++ {
							time.Sleep(100 * time.Millisecond)
							id, came := strconv.Itoa(caller)+"-"+strconv.Itoa(n), time.Since(began)
							switch _, err := s.Deduct(ctx, bucket.DeductRequest{Budget: ref, RequestID: id, Amount: 1}); {
							case err == nil:
								accepted.Add(1)
							case !budget.Is(err, budget.Unavailable):
								t.Error(err)
							case time.Since(began) > learning: // how long the drain takes is not known before
								inVain.Add(1)
							}
							if waited := int64(time.Since(began) - came); came > learning {
								for was := longest.Load(); waited > was && !longest.CompareAndSwap(was, waited); was = longest.Load() {
								}
							}
						}
					})
				}
				all.Wait()
				if n := inVain.Load(); n > 0 {
					t.Errorf("%d of %d waited in vain", n, n+accepted.Load())
				}
				if n := time.Duration(longest.Load()); n > c.turn {
					t.Errorf("somebody waited for %v; it was its turn after %v", n, c.turn)
				}
				if n := accepted.Load(); n < c.least {
					t.Errorf("%d accepted in %s, not even %d", n, long, c.least)
				}
			})
		})
	}
}
