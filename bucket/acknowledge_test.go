package bucket_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
)

// seenAlive is SQL that counts how often a node said that it is alive.
type seenAlive struct {
	bucket.SQL
	looks atomic.Int64
	ended atomic.Bool // an answer came without one of the node's uses
	of    int         // how many uses the node has
}

func (q *seenAlive) SeeUses(ctx context.Context, node string, lease time.Duration) ([]bucket.LaneUse, error) {
	uses, err := q.SQL.SeeUses(ctx, node, lease)
	if err == nil && len(uses) < q.of {
		q.ended.Store(true)
	}
	q.looks.Add(1)
	return uses, err
}

// TestOneRenameForOneEndedUse: others ended one of a node's many uses. It goes on under one other name with all its
// lanes: no lane keeps a lease that SQL gave the name before, which would make the node give up the next name too.
func TestOneRenameForOneEndedUse(t *testing.T) {
	const lanes = 10
	w := newStoreWorld(t)
	for i := 3; i < lanes; i++ {
		name := fmt.Sprintf("m%d", i)
		w.servers[name] = memstore.NewServer(name, 1)
	}
	seen := &seenAlive{SQL: w.model}
	w.sql = seen
	s := w.node(storeQuick())
	ref := w.create(s, promo("renamed", 1_000_000, lanes))
	used := int64(0)
	traffic := func() { // a rename meanwhile leaves the outcome of a call unknown
		if _, err := again(s, ref, fmt.Sprint("o", used), 1); err != nil {
			t.Fatal(err)
		}
		used++
	}
	w.until("every lane is in use", func() bool { traffic(); return len(w.unreported(1)) == lanes })
	names := map[string]bool{}
	note := func() {
		for _, u := range w.unreported(1) {
			names[u.Node] = true
		}
	}
	note()
	if err := w.model.EndSilent(context.Background(), w.unreported(1)[0], -time.Hour); err != nil {
		t.Fatal(err)
	}
	from := seen.looks.Load()
	w.until("it said often that it is alive", func() bool { traffic(); note(); return seen.looks.Load() >= from+12 })
	if len(names) != 2 {
		t.Errorf("it had %d names", len(names))
	}
	w.settled(s, ref, used)
}

// lostUse is SQL that notes uses without saying so while lost, and after the first one not at all.
type lostUse struct {
	bucket.SQL
	lost  atomic.Bool
	noted atomic.Int64
}

func (q *lostUse) UseLane(ctx context.Context, node string, lane bucket.Lane, activation int64, lease time.Duration) (
	bucket.UseState, error) {
	if !q.lost.Load() {
		return q.SQL.UseLane(ctx, node, lane, activation, lease)
	}
	if q.noted.Add(1) > 1 {
		return bucket.UseOver, errDead
	}
	if _, err := q.SQL.UseLane(ctx, node, lane, activation, lease); err != nil {
		return bucket.UseOver, err
	}
	return bucket.UseOver, &budget.Error{Code: budget.OutcomeUnknown, Op: "test", Message: "the reply was lost"}
}

// TestUseThatTheNodeNeverHeardOf: SQL noted a use and its reply was lost; before the node asked again, the use was ended
// as that of a silent node. The lane serves through the node all the same, under another name.
func TestUseThatTheNodeNeverHeardOf(t *testing.T) {
	w := newStoreWorld(t)
	lost := &lostUse{SQL: w.model}
	lost.lost.Store(true)
	w.sql = lost
	set := storeQuick()
	set.Deadline = 300 * time.Millisecond
	s := w.node(set)
	ref := w.create(s, promo("noted", 1000, 1))
	w.until("a use is noted that the node does not know of", func() bool {
		if _, err := deduct(s, ref, "x", 10); !budget.Is(err, budget.Unavailable) {
			t.Fatalf("while its uses cannot be noted: %v", err)
		}
		return len(w.model.Uses()) == 1
	})
	w.ahead.Store(int64(45 * time.Second))
	w.until("the use is ended as a silent node's", func() bool { return len(w.model.Uses()) == 0 })
	lost.lost.Store(false)
	if _, err := again(s, ref, "x", 10); err != nil {
		t.Fatal(err)
	}
	w.settled(s, ref, 10)
}

// TestReportsOfFormerNamesAlone: a node that was given another name uses no lane under it. What it acknowledged under the
// name before is reported all the same, as soon as SQL takes it or, at the latest, when the node stops.
func TestReportsOfFormerNamesAlone(t *testing.T) {
	for _, stops := range []bool{false, true} {
		t.Run(fmt.Sprint("it stops ", stops), func(t *testing.T) {
			w := newStoreWorld(t)
			other := w.node(storeQuick())
			seen := &seenAlive{SQL: w.model, of: 2}
			w.sql = seen
			reports, s := w.lateReporter()
			ref := w.create(s, promo("alone", 1000, 2))
			used := int64(0)
			w.until("both lanes are in use", func() bool {
				if _, err := deduct(s, ref, fmt.Sprint("o", used), 1); err != nil {
					t.Fatal(err)
				}
				used++
				return len(w.unreported(1)) == 2
			})
			w.settled(s, ref, used)
			server := w.servers[w.home(ref)]
			server.Restore(server.Snapshot(), false)
			w.until("quarantined", func() bool { return w.figures(other, ref).Quarantined > 0 }) // the report is missing
			seen.ended.Store(false)
			for _, u := range w.unreported(1) {
				if u.Lane.Instance != w.home(ref) {
					if err := w.model.EndSilent(context.Background(), u, -time.Hour); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.until("it hears of it", seen.ended.Load)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if stops {
				if err := s.Stop(ctx); err == nil {
					t.Error("stopped without its report")
				}
			}
			reports.held.Store(false)
			if stops {
				if err := s.Stop(ctx); err != nil {
					t.Error(err)
				}
			}
			w.until("reported", func() bool { return len(w.unreported(1)) == 0 })
			w.until("released", func() bool { return w.figures(other, ref).Quarantined == 0 })
		})
	}
}

// TestNoNameAfterTheLastReport: a node that has stopped ended its uses by its own reports. A request that comes after
// that is refused, and notes no other use that nobody would ever report.
func TestNoNameAfterTheLastReport(t *testing.T) {
	w := newStoreWorld(t)
	set := storeQuick()
	set.Deadline = 300 * time.Millisecond
	s := w.node(set)
	ref := w.create(s, promo("stopped", 1000, 1))
	if _, err := again(s, ref, "x", 10); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if a, err := deduct(s, ref, "y", 10); !budget.Is(err, budget.Unavailable) {
		t.Errorf("after the stop: %+v, %v", a, err)
	}
	if uses := w.model.Uses(); len(uses) != 0 {
		t.Errorf("nobody reports %+v", uses)
	}
}
