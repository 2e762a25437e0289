package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// feedLoad is what happens to one budget at once: each bucket is driven by one goroutine, whose
// commits are made by several committers; others give back what was deducted, of whatever epoch.
type feedLoad struct {
	w      *sqlWorld
	budget int64

	mu   sync.Mutex
	ids  []string
	made map[string]int64    // request id -> amount
	back map[[2]string]int64 // request id, rollback id -> amount

	driven atomic.Int64 // of the buckets
}

// Sizes of the load: enough that every kind of step meets every other.
const (
	loadBuckets, loadRounds, loadCommitters = 3, 12, 3
	loadReturners, loadReturns              = 4, 40
)

// feedUnderLoad is I7 for readers: whatever commits side by side, every reader that goes on from
// where it stands gets every deduction and every rollback once, those of one bucket in an unbroken
// order.
func feedUnderLoad(w *sqlWorld) {
	b := w.create("b", 1_000_000, loadBuckets)
	l := &feedLoad{w: w, budget: b.ID, made: map[string]int64{}, back: map[[2]string]int64{}}
	var writers, all sync.WaitGroup
	for i := range loadBuckets {
		book := w.book(b.Buckets[i].Ref())
		writers.Go(func() {
			l.check(l.drive(book))
			l.driven.Add(1)
		})
	}
	for i := range loadReturners {
		writers.Go(func() { l.check(l.giveBack(i)) })
	}
	var over atomic.Bool
	readers := []*sqlReader{newSQLReader(b.ID, 1), newSQLReader(b.ID, 3), newSQLReader(b.ID, 1000)}
	for _, r := range readers {
		all.Go(func() {
			for {
				last := over.Load() // before the read: what it does not find was not there
				n, err := r.next(w)
				if err != nil || n == 0 && last {
					l.check(err)
					return
				}
			}
		})
	}
	writers.Wait()
	over.Store(true)
	all.Wait()
	if w.Failed() {
		return
	}
	for _, r := range readers {
		l.compare(r.got)
	}
	if len(l.back) < 5 || len(l.made) < 100 {
		w.Errorf("%d deductions, %d rollbacks: no load", len(l.made), len(l.back))
	}
}

func (l *feedLoad) check(err error) {
	if err != nil {
		l.w.Error(err)
	}
}

// drive deducts from a bucket and recycles it in every third round.
func (l *feedLoad) drive(book *sqlBook) error {
	w := l.w
	for round := range loadRounds {
		rows, err := w.db.Epochs(w.ctx, []bucket.Ref{book.ref})
		if err != nil {
			return err
		}
		from := rows[book.ref].DrainedSeq
		for n := range 5 {
			book.deduct(fmt.Sprintf("%d-%d-%d", book.ref.Bucket, round, n), int64(1+n))
		}
		if err := l.commit(book.log(from)); err != nil {
			return err
		}
		if round%3 == 2 {
			if book, err = l.recycle(book, round%2 == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit drains one log through several committers at once, and notes what became of its entries.
func (l *feedLoad) commit(log ledger.Log) error {
	w := l.w
	errs := make([]error, loadCommitters)
	var all sync.WaitGroup
	for c := range loadCommitters {
		all.Go(func() {
			part := log
			part.Entries = part.Entries[:len(part.Entries)-c] // some have read less
			report, err := w.db.Commit(w.ctx, []ledger.Log{part})
			if err == nil && !errors.Is(report.Epochs[0].Err, ledger.ErrReadAgain) {
				err = report.Epochs[0].Err
			}
			if err != nil {
				errs[c] = err
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, o := range report.Epochs[0].Outcomes {
				l.ids = append(l.ids, o.Deduction.RequestID)
				l.made[o.Deduction.RequestID] = o.Deduction.Amount
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// recycle ends the epoch of a book, closed or lost, and opens the bucket's next one with units.
func (l *feedLoad) recycle(book *sqlBook, lose bool) (*sqlBook, error) {
	w := l.w
	if lose {
		if _, err := w.db.Lose(w.ctx, book.ref); err != nil {
			return nil, err
		}
	} else {
		if _, err := w.db.Ending(w.ctx, l.budget, book.ref, bucket.ByService, true); err != nil {
			return nil, err
		}
		from := int64(len(book.entries)) - 1
		end := book.close()
		report, err := w.db.Commit(w.ctx, []ledger.Log{book.log(from)})
		if err = errors.Join(err, report.Epochs[0].Err); err != nil {
			return nil, err
		}
		if _, err := w.db.CloseEpoch(w.ctx, l.budget, book.ref, end, nil); err != nil {
			return nil, err
		}
	}
	opened, err := w.db.Reopen(w.ctx, l.budget, book.ref.Bucket)
	if err != nil {
		return nil, err
	}
	next := newSQLBook(opened.Opened[0].Ref())
	if err := w.db.MarkOpen(w.ctx, []bucket.Ref{next.ref}); err != nil {
		return nil, err
	}
	order, err := w.db.Apply(w.ctx, l.budget, bucket.Want{Ref: next.ref, Need: 1000, Units: 1000})
	if err != nil || order == nil {
		return nil, fmt.Errorf("apply: %v, %w", order, err)
	}
	next.grant(*order)
	return next, nil
}

// giveBack rolls back a unit of, or cancels, what any bucket deducted, at random.
func (l *feedLoad) giveBack(turn int) error {
	w := l.w
	chance := rand.New(rand.NewPCG(7, uint64(turn)))
	for n, done := 0, 0; done < loadReturns; n++ {
		id := l.anyID(chance)
		if chance.IntN(4) == 0 {
			if _, err := w.db.Cancel(w.ctx, l.budget, id); err != nil {
				return err
			}
			done++
			continue
		}
		rollbackID := fmt.Sprintf("back-%d-%d", turn, n)
		_, _, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: l.budget, RequestID: id,
			RollbackID: rollbackID, Amount: 1})
		switch budget.CodeOf(err) {
		case "":
			l.mu.Lock()
			l.back[[2]string{id, rollbackID}] = 1
			l.mu.Unlock()
			done++
		case budget.DeductionNotFound, budget.AlreadyRolledBack, budget.RequestVoid:
			if l.driven.Load() == loadBuckets {
				done++
			} else {
				time.Sleep(time.Millisecond) // nothing is left of those that were made yet
			}
		default:
			return err
		}
	}
	return nil
}

func (l *feedLoad) anyID(chance *rand.Rand) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ids) == 0 {
		return "never deducted"
	}
	return l.ids[chance.IntN(len(l.ids))]
}

// compare holds what a reader got against what the calls were told, and, for cancels, which do not
// say what they gave back, against the rows.
func (l *feedLoad) compare(got []ledger.FeedEntry) {
	w := l.w
	w.Helper()
	made, back, sums := map[string]int64{}, map[[2]string]int64{}, map[string]int64{}
	seen := map[[2]int64]bool{}
	for _, e := range got {
		if seen[[2]int64{e.Bucket, e.Entry}] {
			w.Errorf("read twice: %+v", e)
		}
		seen[[2]int64{e.Bucket, e.Entry}] = true
		if e.Kind == ledger.FeedDeduct {
			made[e.RequestID] += e.Amount
			continue
		}
		if made[e.RequestID] == 0 {
			w.Errorf("a rollback before its deduction: %+v", e)
		}
		sums[e.RequestID] += e.Amount
		if e.RollbackID != ledger.CancelID {
			back[[2]string{e.RequestID, e.RollbackID}] += e.Amount
		}
	}
	if !maps.Equal(made, l.made) {
		w.Errorf("read %d deductions, %d were made", len(made), len(l.made))
	}
	if !maps.Equal(back, l.back) {
		w.Errorf("read %d rollbacks, %d were made", len(back), len(l.back))
	}
	for id := range l.made {
		if d, found := w.recorded(l.budget, id); !found || d.RolledBack != sums[id] {
			w.Errorf("%s: %d rolled back, the feed says %d", id, d.RolledBack, sums[id])
		}
	}
}
