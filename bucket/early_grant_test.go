package bucket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/ledger"
)

// severalStatements is a database that reads the unfinished work in several statements: while early is
// set, what it lists is from before there was anything, but for the grants.
type severalStatements struct {
	bucket.SQL
	early atomic.Bool
	looks atomic.Int64
}

func (q *severalStatements) Unfinished(ctx context.Context, limit int, without ...bucket.Lane) (
	bucket.Unfinished, error) {
	q.looks.Add(1)
	u, err := q.SQL.Unfinished(ctx, limit, without...)
	if q.early.Load() {
		u = bucket.Unfinished{Grants: u.Grants}
	}
	return u, err
}

// earlyGrant is a world in which a node sends the first grant of an epoch before the node that opens it
// has done so, and hears "there is no such epoch" once it is open.
type earlyGrant struct {
	*world
	metrics *metrics.Metrics
	opener  *bucket.Service
	sql     *severalStatements // of the other node
	ref     bucket.BudgetRef
	// looking, if set, is called once in the other node's look at the balance that follows.
	looking func(bucket.Ref)
	// stage is how far it has come: 1 the epoch is being opened, 2 the grant was answered, 3 looking.
	stage            atomic.Int64
	answered, opened chan struct{}
}

func newEarlyGrant(t *testing.T) *earlyGrant {
	w, server := one(t)
	e := &earlyGrant{world: w, metrics: metrics.New("test"),
		answered: make(chan struct{}), opened: make(chan struct{})}
	w.observer, server.Hook = e.metrics, e.at
	set := slow()
	set.Audit = time.Hour // nobody else looks at balances
	e.opener = w.node(set)
	e.ref = w.create(e.opener, promo("early", 300, 3))
	e.sql = &severalStatements{SQL: w.model}
	e.sql.early.Store(true)
	e.world.sql = e.sql
	set.Chores = quick.Chores
	e.world.node(set)
	return e
}

// at holds up the open until the grant was answered, and that answer until run lets it go.
func (e *earlyGrant) at(c memstore.Call) memstore.Fault {
	wait := func(until chan struct{}) {
		select {
		case <-until:
		case <-time.After(20 * time.Second):
			e.t.Errorf("nothing follows %s, after %v", c.Verb, c.After)
		}
	}
	switch {
	case c.Ref.Epoch != 2:
	case c.Verb == "open" && !c.After && e.stage.CompareAndSwap(0, 1):
		wait(e.answered)
	case c.Verb == "grant" && c.After && e.stage.CompareAndSwap(1, 2):
		close(e.answered)
		wait(e.opened)
	case c.Verb == "balances" && !c.After && e.looking != nil && e.stage.CompareAndSwap(2, 3):
		e.looking(c.Ref)
	}
	return memstore.Proceed
}

// run recycles the budget: each bucket gets its next epoch with a grant. It returns when the other node has acted on the answer to its grant.
func (e *earlyGrant) run(t *testing.T) {
	t.Helper()
	if r, err := e.opener.Recycle(context.Background(), e.ref); err != nil || r.Skipped > 0 || r.EndedAt.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
	if e.stage.Load() < 2 {
		t.Fatalf("the grant was not early: stage %d", e.stage.Load())
	}
	at := e.sql.looks.Load()
	close(e.opened)
	e.until("the other node has looked at its answer", func() bool { return e.sql.looks.Load() > at })
	if e.looking != nil && e.stage.Load() != 3 {
		t.Errorf("the other node did not look: stage %d", e.stage.Load())
	}
	e.sql.early.Store(false)
}

func (e *earlyGrant) buckets(t *testing.T) []bucket.Bucket {
	t.Helper()
	b, err := e.world.model.Budget(context.Background(), e.ref)
	if err != nil {
		t.Error(err)
	}
	return b.Buckets
}

// unharmed: nothing was found wrong, and the lane is in its first life.
func (e *earlyGrant) unharmed(t *testing.T) {
	t.Helper()
	for _, name := range []string{"budgetd_fenced_buckets_total", "budgetd_audit_discrepancies_total",
		"budgetd_conservation_gap_units"} {
		if got := metric(t, e.metrics, name); got != 0 {
			t.Errorf("%s is %v", name, got)
		}
	}
	if row, err := e.world.model.Lane(context.Background(), bucket.Lane{Instance: "m0"}, ""); err != nil ||
		row.Activation != 1 {
		t.Errorf("activation %d, %v", row.Activation, err)
	}
}

// TestEarlyGrant: a grant that meets its epoch before it is open says nothing about the store, however
// late the answer is looked at.
func TestEarlyGrant(t *testing.T) {
	e := newEarlyGrant(t)
	e.run(t)
	e.unharmed(t)
	for _, bk := range e.buckets(t) {
		if bk.Epoch.Number != 2 || bk.Epoch.Status != ledger.Open {
			t.Errorf("%+v", bk.Epoch)
		}
	}
	if _, err := deduct(e.opener, e.ref, "all", 300); err != nil {
		t.Error(err)
	}
	e.settled(e.opener, e.ref, 300)
	e.unharmed(t)
}

// TestEarlyGrantOfAnEpochThatEnds: the epoch is over before its balance is looked for. Its store has lost
// nothing.
func TestEarlyGrantOfAnEpochThatEnds(t *testing.T) {
	e := newEarlyGrant(t)
	e.looking = func(ref bucket.Ref) {
		for _, bk := range e.buckets(t) {
			if bk.ID != ref.Bucket {
				continue
			}
			if _, err := e.opener.Offline(context.Background(), e.ref, bk.Key); err != nil {
				t.Error(err)
			}
		}
	}
	e.run(t)
	e.unharmed(t)
	e.settled(e.opener, e.ref, 0)
	e.unharmed(t)
}

// TestGrantMeetsAForgedLog: a log that takes no grant of an epoch that was open before it was sent is
// broken, and its bucket is fenced and healed.
func TestGrantMeetsAForgedLog(t *testing.T) {
	w, server := one(t)
	m := metrics.New("test")
	w.observer = m
	s := w.node(slow())
	ref := w.create(s, promo("forged", 300, 3))
	b, err := w.sql.Budget(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	server.Forge(0, b.Buckets[1].ID, 7, 1)
	_, err = s.Adjust(context.Background(), bucket.AdjustRequest{Budget: ref, RequestID: "more", Quantity: 30})
	if err != nil && !budget.Is(err, budget.OutcomeUnknown) {
		t.Error(err)
	}
	if got := metric(t, m, "budgetd_fenced_buckets_total"); got != 1 {
		t.Errorf("%v buckets fenced", got)
	}
	healer := w.node(quick)
	w.settled(healer, ref, 0)
	if _, err := deduct(healer, ref, "all", 330); err != nil {
		t.Error(err)
	}
	w.settled(healer, ref, 330)
}
