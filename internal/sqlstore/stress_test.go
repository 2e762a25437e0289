package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// town is several nodes that do everything at once to one budget, whose stores are logs in memory.
type town struct {
	*testing.T
	nodes []*DB
	id    int64

	mu    sync.Mutex
	lives map[bucket.Ref]*townLife
	ids   int

	done, refused, unavailable atomic.Int64
}

// townLife is an epoch in its store.
type townLife struct {
	log      *testLog
	balance  int64
	grantSeq int64
	closed   bool
}

// TestEverythingAtOnce: whatever meets whatever, every moment's books are right (I1), no id counts
// twice, and nothing ends in an error that is not an answer.
func TestEverythingAtOnce(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		db := openFile(t, nil)
		everythingAtOnce(t, db, db)
	})
	t.Run("mariadb", func(t *testing.T) {
		dsn := testservers.SharedMariaDB(t).NewDatabase(t)
		everythingAtOnce(t, mustOpen(t, Config{Driver: "mysql", DSN: dsn}),
			mustOpen(t, Config{Driver: "mysql", DSN: dsn}))
	})
}

func everythingAtOnce(t *testing.T, nodes ...*DB) {
	const workers, steps = 6, 120
	w := &town{T: t, nodes: nodes, lives: map[bucket.Ref]*townLife{}}
	v := openBudget(t, nodes[0], "b", 5_000, 5)
	w.id = v.ID
	for i := range v.Buckets {
		w.opened(&v.Buckets[i])
	}
	w.deliver(nodes[0])
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(n), 7))
			db := nodes[n%len(nodes)]
			for range steps {
				w.step(db, chance)
			}
		})
	}
	all.Wait()
	w.audit(nodes[0])
	t.Logf("%d done, %d refused, %d unavailable", w.done.Load(), w.refused.Load(),
		w.unavailable.Load())
	if n := w.unavailable.Load(); n > workers*steps/100 {
		t.Errorf("%d of %d steps gave up", n, workers*steps)
	}
}

// step does something.
func (w *town) step(db *DB, chance *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var err error
	switch n := chance.IntN(100); {
	case n < 40:
		err = w.deduct(ctx, db, chance)
	case n < 50:
		order := bucket.RollbackOrder{Budget: w.id, RequestID: w.someID(chance)}
		_, _, err = db.Rollback(ctx, order)
	case n < 55:
		_, err = db.Cancel(ctx, w.id, w.someID(chance))
	case n < 60:
		_, err = db.Sweep(ctx, w.id)
	case n < 68:
		quantity := int64(chance.IntN(200) - 100)
		order := bucket.Adjustment{Budget: w.id, RequestID: fmt.Sprint(chance.Uint64()),
			Quantity: quantity, Deadline: db.Now().Add(time.Hour)}
		_, _, err = db.Adjust(ctx, order)
	case n < 75:
		_, err = db.Apply(ctx, w.id, bucket.Want{Ref: w.someRef(chance), Need: 1, Units: 50})
		w.deliver(db)
	case n < 80:
		var h bucket.Handout
		h, err = db.HandOut(ctx, w.id)
		w.handedOut(db, h)
	case n < 88:
		err = w.end(ctx, db, chance)
	case n < 91:
		ref := w.someRef(chance)
		if _, err = db.Lose(ctx, ref); err == nil {
			err = w.reopen(ctx, db, ref)
		}
	case n < 93:
		end := db.Now().Add(time.Hour)
		_, err = db.Change(ctx, w.id, bucket.Change{EndAt: &end})
	default:
		w.audit(db)
	}
	switch kind := budget.CodeOf(err).Kind(); {
	case err == nil:
		w.done.Add(1)
	case kind == budget.NotDone:
		w.unavailable.Add(1)
	case kind == budget.MayBeDone && !outrun(err):
		w.Error(err)
	default:
		w.refused.Add(1)
	}
}

// outrun reports whether an error means that somebody else went on with the epoch meanwhile.
func outrun(err error) bool {
	return errors.Is(err, ledger.ErrEnded) || errors.Is(err, ledger.ErrReadAgain)
}

func (w *town) someID(chance *rand.Rand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint("order ", chance.IntN(w.ids+1))
}

func (w *town) someRef(chance *rand.Rand) bucket.Ref {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := chance.IntN(len(w.lives))
	for ref, life := range w.lives {
		if n--; n < 0 && !life.closed {
			return ref
		}
	}
	return bucket.Ref{Bucket: 1, Epoch: 1, Activation: 1}
}

// deduct admits some ids, new and old ones, in several stores and commits them all.
func (w *town) deduct(ctx context.Context, db *DB, chance *rand.Rand) error {
	var refs []bucket.Ref
	for range 1 + chance.IntN(4) {
		refs = append(refs, w.someRef(chance))
	}
	w.mu.Lock()
	var logs []ledger.Log
	seen := map[bucket.Ref]bool{}
	for _, ref := range refs {
		life := w.lives[ref]
		if life == nil || seen[ref] {
			continue
		}
		seen[ref] = true
		for range chance.IntN(5) {
			if life.closed || life.balance < 2 {
				break
			}
			id := w.ids
			if chance.IntN(3) > 0 {
				w.ids++
			}
			life.log.deduct(2, fmt.Sprint("order ", id))
			life.balance -= 2
		}
		logs = append(logs, life.log.log(0))
	}
	w.mu.Unlock()
	r, err := db.Commit(ctx, logs)
	for _, e := range r.Epochs {
		if e.Err != nil && !outrun(e.Err) {
			w.Errorf("commit: %v", e.Err)
		}
	}
	return err
}

// deliver brings pending grants to their stores.
func (w *town) deliver(db *DB) {
	u, err := db.UnfinishedOf(context.Background(), w.id)
	if err != nil {
		w.Error(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range u.Grants {
		life := w.lives[g.Order.Ref]
		if life == nil || life.closed || g.Order.Number != life.grantSeq+1 {
			continue
		}
		life.log.grant(g.Order.Amount, g.Order.Number)
		life.grantSeq++
		life.balance += g.Order.Amount
	}
}

func (w *town) opened(b *bucket.Bucket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lives[b.Ref()] == nil {
		w.lives[b.Ref()] = &townLife{log: newLog(b.Ref())}
	}
}

func (w *town) handedOut(db *DB, h bucket.Handout) {
	for i := range h.Opened {
		w.opened(&h.Opened[i])
		if err := db.MarkOpen(context.Background(), []bucket.Ref{h.Opened[i].Ref()}); err != nil {
			w.Error(err)
		}
	}
	w.deliver(db)
}

func (w *town) reopen(ctx context.Context, db *DB, ref bucket.Ref) error {
	h, err := db.Reopen(ctx, w.id, ref.Bucket)
	w.handedOut(db, h)
	return err
}

// end takes a bucket offline and brings it online again.
func (w *town) end(ctx context.Context, db *DB, chance *rand.Rand) error {
	ref, target := w.someRef(chance), w.someRef(chance)
	if ok, err := db.Ending(ctx, w.id, ref, bucket.ByService, chance.IntN(2) == 0); !ok || err != nil {
		return err
	}
	w.mu.Lock()
	life := w.lives[ref]
	if !life.closed {
		life.log.add(ledger.Line(ledger.KindClose, life.balance, fmt.Sprint(life.grantSeq)))
		life.closed = true
	}
	log := life.log.log(0)
	w.mu.Unlock()
	r, err := db.Commit(ctx, []ledger.Log{log})
	if err != nil {
		return err
	}
	if r.Epochs[0].Close == nil {
		return r.Epochs[0].Err
	}
	if _, err := db.CloseEpoch(ctx, w.id, ref, *r.Epochs[0].Close, &bucket.Target{Ref: target}); err != nil {
		return err
	}
	return w.reopen(ctx, db, ref)
}

func (w *town) audit(db *DB) {
	a, err := db.Accounts(context.Background(), w.id)
	if err != nil {
		w.Error(err)
		return
	}
	for _, found := range ledger.Check(a.Figures, a.Adjusted, a.Epochs) {
		w.Error(found)
	}
}
