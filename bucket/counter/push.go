package counter

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// push finishes the unfinished steps of buckets: it opens epochs, delivers grants, closes epochs
// and ends epochs whose memory was lost. Donors keep what is not needed; see Epochs.Closed.
// Several nodes may push the same buckets, and a push may be repeated. Partitions are called side
// by side. It returns the first error, after all of them have answered.
func (s *Service) push(ctx context.Context, buckets []int64, need int64) error {
	const rounds = 3 // a closed bucket may begin its next epoch
	var first error
	for range rounds {
		if len(buckets) == 0 {
			break
		}
		begun, failed, err := s.pushOnce(ctx, buckets, need)
		if err != nil {
			return err
		}
		for _, err := range failed {
			first = orFirst(first, err)
		}
		buckets = begun
	}
	return first
}

// pushPatiently does tasks. It waits for a part of the deadline of a deduction, and returns the
// errors of partitions that failed or have not answered by then. Their calls go on.
func (s *Service) pushPatiently(ctx context.Context, tasks []store.Task, need int64) (
	begun []int64, failed map[bucket.Partition]error, err error) {
	patience, cancel := s.patience(ctx)
	defer cancel()
	return s.do(ctx, patience, tasks, need)
}

// patience bounds how long a slow partition is waited for.
func (s *Service) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	const share = 8
	return context.WithTimeout(ctx, s.set.Deadline/share)
}

// pushOnce pushes buckets once. begun are those that began another epoch.
func (s *Service) pushOnce(ctx context.Context, buckets []int64, need int64) (
	begun []int64, failed map[bucket.Partition]error, err error) {
	tasks, err := s.ledger.Tasks(ctx, buckets)
	if err != nil {
		return nil, nil, err
	}
	return s.do(ctx, ctx, tasks, need)
}

// do does tasks, until patience ends. begun are the buckets that began another epoch.
func (s *Service) do(ctx, patience context.Context, tasks []store.Task, need int64) (
	begun []int64, failed map[bucket.Partition]error, err error) {
	byPartition := map[bucket.Partition][]store.Task{}
	for _, t := range tasks {
		if !t.Halted {
			byPartition[t.Partition] = append(byPartition[t.Partition], t)
		}
	}
	var r round
	failed = s.sideBySide(ctx, patience, slices.Collect(maps.Keys(byPartition)),
		func(ctx context.Context, name bucket.Partition) error {
			p, err := s.pushPartition(ctx, name, byPartition[name])
			if p == nil || p.isIdle() || r.add(p) {
				return err
			}
			_, late, e := s.settle(ctx, []*pushing{p}, need)
			return orFirst(err, orFirst(late[name], e))
		})
	begun, other, err := s.settle(ctx, r.end(), need)
	maps.Copy(failed, other)
	return begun, failed, err
}

// sideBySide makes one call for each partition, and returns the errors of those that failed, and of
// those that have not answered when patience ends. If that is not ctx, their calls go on, each for
// StepTime at most.
func (s *Service) sideBySide(ctx, patience context.Context, names []bucket.Partition,
	call func(context.Context, bucket.Partition) error) map[bucket.Partition]error {
	type answer struct {
		name bucket.Partition
		err  error
	}
	answers, failed := make(chan answer, len(names)), map[bucket.Partition]error{}
	for _, name := range names {
		failed[name] = storeDown(name, patience.Err())
		go func() {
			ctx, cancel := ctx, context.CancelFunc(func() {})
			if patience != ctx {
				ctx, cancel = s.bounded()
			}
			defer cancel()
			answers <- answer{name, call(ctx, name)}
		}()
	}
	for range names {
		select {
		case a := <-answers:
			if failed[a.name] = a.err; a.err == nil {
				delete(failed, a.name)
			}
		case <-patience.Done():
			return failed
		}
	}
	return failed
}

// pushPartition tells the store of one partition what it must know of buckets. What it answered is
// in the result, which SQL does not have yet, also if the last call fails; nil means nothing.
func (s *Service) pushPartition(ctx context.Context, name bucket.Partition, tasks []store.Task) (
	*pushing, error) {
	l := s.partitionOf(name)
	if l == nil {
		return nil, notConfigured(name)
	}
	m, err := l.memory(ctx)
	if err != nil {
		return nil, err
	}
	p := &pushing{l: l, m: m}
	for _, t := range tasks {
		switch {
		case !t.Status.Live():
		case t.Incarnation < m.since:
			p.orphans = true
		case t.Status == ledger.Closing:
			p.closings = append(p.closings, t)
		default:
			p.growing = append(p.growing, t)
		}
	}
	if p.orphans {
		if err := l.endLost(ctx); err != nil {
			return nil, err
		}
	}
	for _, do := range []func(context.Context) error{p.open, p.grant} {
		if err := do(ctx); err != nil {
			return nil, p.failed(err)
		}
	}
	err = p.close(ctx)
	if errors.Is(err, bucket.ErrOtherMemory) { // what an epoch never opened for comes back
		return nil, p.failed(err)
	}
	return p, p.failed(err)
}

// pushing is one push on one partition.
type pushing struct {
	l                 *partition
	m                 *remembered
	growing, closings []store.Task
	orphans           bool
	done              map[bucket.Ref]*store.Done
	closed            []store.Closing
}

// isIdle reports whether the store has done nothing.
func (p *pushing) isIdle() bool { return len(p.done)+len(p.closed) == 0 }

// failed turns an answer from another memory into an error of the partition.
func (p *pushing) failed(err error) error {
	if err == nil {
		return nil
	}
	_ = p.l.failed(p.m, err)
	if errors.Is(err, bucket.ErrOtherMemory) {
		p.l.forget(p.m)
		return storeDown(p.l.name, err)
	}
	return err
}

// unanswered is the error of a call on the partition's store, without what only its log may say,
// such as an address: a deduction that was looking for units is refused with it.
func (p *pushing) unanswered(err error) error {
	if errors.Is(err, bucket.ErrOtherMemory) {
		return err
	}
	e := storeDown(p.l.name, err)
	if budget.CodeOf(err).Kind() == budget.MayBeDone {
		e.Code, e.Message = budget.OutcomeUnknown, "the store of a bucket (partition "+p.l.name.String()+
			") did not confirm a call: repeat it"
	}
	return e
}

func (p *pushing) of(ref bucket.Ref) *store.Done {
	if p.done == nil {
		p.done = map[bucket.Ref]*store.Done{}
	}
	if p.done[ref] == nil {
		p.done[ref] = &store.Done{Ref: ref}
	}
	return p.done[ref]
}

// open opens the epochs whose status is opening.
func (p *pushing) open(ctx context.Context) error {
	var openings []bucket.Opening
	for _, t := range p.growing {
		if t.Status == ledger.Opening {
			openings = append(openings, bucket.Opening{Ref: t.Ref, CopyOf: t.CopyOf})
		}
	}
	if len(openings) == 0 {
		return nil
	}
	entries, err := p.l.store.Open(ctx, p.m.Memory, openings)
	if err != nil {
		return p.unanswered(err)
	}
	for i, e := range entries {
		if e.Verdict == bucket.Accepted {
			p.of(openings[i].Ref).Opened = true
		} else if err := p.handleLost(ctx, openings[i].Ref, e.Verdict); err != nil {
			return err
		}
	}
	return nil
}

// grant delivers the pending grants of epochs that are open in the store.
func (p *pushing) grant(ctx context.Context) error {
	var grants []bucket.StoreGrant
	for _, t := range p.growing {
		if t.Status == ledger.Open || p.done[t.Ref] != nil {
			grants = append(grants, t.Grants...)
		}
	}
	if len(grants) == 0 {
		return nil
	}
	entries, err := p.l.store.Grant(ctx, p.m.Memory, grants)
	if err != nil {
		return p.unanswered(err)
	}
	for i, e := range entries {
		if e.Verdict == bucket.Accepted {
			d := p.of(grants[i].Ref)
			d.Grants = max(d.Grants, grants[i].Number)
		} else if err := p.handleLost(ctx, grants[i].Ref, e.Verdict); err != nil {
			return err
		}
	}
	return nil
}

// handleLost ends an epoch whose entry is missing and halts one whose entry is unreadable. Other
// verdicts mean that the status has changed meanwhile and need no action.
func (p *pushing) handleLost(ctx context.Context, ref bucket.Ref, v bucket.Verdict) error {
	switch v {
	case bucket.Lost:
		return p.l.s.ledger.Lost(ctx, p.m.Memory, ref, "its entry in the store is missing")
	case bucket.Broken:
		return p.l.s.ledger.Halt(ctx, ref, "the store holds no number of it")
	}
	return nil
}

// close closes the epochs whose status is closing.
func (p *pushing) close(ctx context.Context) error {
	// Those of a budget stand together in a transaction.
	slices.SortStableFunc(p.closings, func(x, y store.Task) int {
		return cmp.Compare(x.Budget, y.Budget)
	})
	for tasks := range slices.Chunk(p.closings, store.MaxEpochs) {
		refs := make([]bucket.Ref, len(tasks))
		for i, t := range tasks {
			refs[i] = t.Ref
		}
		entries, err := p.l.store.Close(ctx, p.m.Memory, refs, false)
		if err != nil {
			return p.unanswered(err)
		}
		for i, e := range entries {
			if e.Verdict == bucket.Accepted {
				p.closed = append(p.closed, store.Closing{Ref: refs[i], Entry: e})
			} else if err := p.handleLost(ctx, refs[i], e.Verdict); err != nil {
				return err
			}
		}
	}
	return nil
}

// endLost ends all epochs of the partition whose memory was given up.
func (l *partition) endLost(ctx context.Context) error {
	for {
		done, err := l.s.ledger.EndLost(ctx, l.name)
		l.s.observer.Moved("lose", done.Quarantined+done.Returned)
		if err != nil || !done.More {
			return err
		}
	}
}

// endLostEvery is how often a partition looks for lost epochs while it keeps the same memory.
const endLostEvery = 30 * time.Second

// endNewlyLost is endLost, but only after another memory began, and from time to time in case
// another node stopped before it had ended them all, or SQL was restored: it reads the rows of all
// buckets of the partition.
func (l *partition) endNewlyLost(ctx context.Context, m *remembered) error {
	now := l.s.clock.Now()
	if age := now.Sub(l.endedAt); l.endedSince == m.since && age >= 0 && age < endLostEvery {
		return nil
	}
	if err := l.endLost(ctx); err != nil {
		return err
	}
	l.endedSince, l.endedAt = m.since, now
	return nil
}

// unfinishedAtOnce bounds the buckets that one run of PushLoop pushes.
const unfinishedAtOnce = 512

// PushLoop finishes what other calls and nodes left unfinished.
type PushLoop struct{ s *Service }

// RunOnce runs one pass. It returns the first error.
func (p *PushLoop) RunOnce(ctx context.Context) error {
	ids, err := p.s.ledger.Unfinished(ctx, unfinishedAtOnce)
	if err != nil {
		return err
	}
	return p.s.push(ctx, ids, -1)
}

// Tell finishes the unfinished steps of buckets, as far as their stores answer. It returns the
// errors of those that do not. Errors: Unavailable and OutcomeUnknown of the database. Any node can
// finish what is left, and repeating it is harmless.
func (s *Service) Tell(ctx context.Context, buckets []int64) (map[bucket.Partition]error, error) {
	_, failed, err := s.pushOnce(ctx, buckets, -1)
	return failed, err
}

// Push opens the epochs of a budget and delivers its grants, for example after it was created. It
// first tells the stores the version of the budget's limits, by which they refuse what is judged by
// an older definition, on a node that the database does not answer (I8). A store that does not
// answer is told later. Errors: BudgetNotFound; Unavailable with ReasonStoreDown; OutcomeUnknown.
// Repeating it is harmless.
func (s *Service) Push(ctx context.Context, budgetID int64) error {
	b, err := s.budgets.Reload(ctx, budgetID)
	if err != nil {
		return err
	}
	if !b.InStoreMode() {
		return budget.Refuse(budget.Invalid, "push", "budget %s is not in store mode", b.Name)
	}
	ids, homes := make([]int64, len(b.Buckets)), map[bucket.Partition]bool{}
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		ids[i] = bk.ID
		if l := s.partitionOf(bk.Partition); l != nil && b.LimitsVersion() > 0 {
			homes[bk.Partition] = true
			l.noteRaise(bk.ID, b.LimitsVersion())
		}
	}
	var first error
	for _, err := range s.sideBySide(ctx, ctx, slices.Collect(maps.Keys(homes)), s.raise) {
		first = orFirst(first, err)
	}
	return orFirst(s.push(ctx, ids, -1), first)
}
