package bucket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// inStoreMode reports whether "accepted" is said after the store's script.
func (b *Budget) inStoreMode() bool { return b.Durability == budget.Store }

// roundInStore is round in store mode (DESIGN 5.7). Requests never move: an id's bucket is the ring's
// first choice over all buckets, so its record is found wherever the request comes from; it is the
// budget that moves. An empty bucket applies or gets a collect, an ended one is brought online, one
// that cannot be reached answers Unavailable.
func (a *attempt) roundInStore(ctx context.Context, round int) (DeductAnswer, bool, error) {
	b, err := a.definition(ctx)
	if err != nil {
		return DeductAnswer{}, true, a.unresolved(ctx, err)
	}
	a.routed(b)
	bk := a.home(b)
	if refusal := b.refusalAt(a.s.sql.Now()); refusal != nil {
		answer, err := a.refuseInStore(ctx, bk, refusal)
		return answer, true, err
	}
	if b.Period.OverAt(a.s.sql.Now()) {
		return a.turn(ctx, round)
	}
	if answer, done, err := a.limits(ctx, b); done {
		return answer, true, err
	}
	l := a.s.lanes[bk.Lane]
	if !bk.Epoch.Status.Live() {
		// It has ended and is drained, or lost: SQL knows all there is.
		if answer, done, err := a.judge(ctx, b); done {
			return answer, true, err
		}
	}
	if !a.s.serves(l, bk) {
		return a.bringBack(ctx, b, bk, l, round)
	}
	decided, err := a.mayBeDecided(ctx, b, bk, l)
	if err != nil {
		return DeductAnswer{}, true, a.unresolved(ctx, err)
	}
	if decided {
		d, err := a.s.recordedOne(ctx, a.entry.id, a.id)
		if err != nil {
			return DeductAnswer{}, true, a.unresolved(ctx, err)
		}
		if d != nil {
			answer, err := a.answerRecorded(ctx, *d)
			return answer, true, err
		}
	}
	if a.s.forgets(l) {
		return DeductAnswer{}, true, a.unresolved(ctx, forgetfulStore(l.id))
	}
	if err := a.s.useLane(ctx, l, bk.Epoch.Activation); err != nil {
		a.reread(ctx)
		return a.wait(ctx, round)
	}
	since := a.waitsSince
	if len(a.unanswered) > 0 {
		since = firstOfAll // it may be in the log already: the store answers that whatever the window is
	}
	stand, err := a.s.room(l, bk.Ref(), since)
	if err != nil {
		return a.awaitLedger(ctx, l, bk.Ref(), stand, err)
	}
	answer, balance, done, err := a.tryInStore(ctx, b, bk, l)
	switch {
	case done:
		return answer, true, err
	case errors.Is(err, errBehind):
		return a.awaitLedger(ctx, l, bk.Ref(), stand, err)
	case err != nil:
		return a.waitFor(ctx, round, err)
	case a.count.again:
		a.count.again = false
		return DeductAnswer{}, false, nil
	case balance < 0:
		return a.wait(ctx, round)
	}
	return a.seekInStore(ctx, b, bk, balance, round)
}

// definition is the budget, no older than a second; while SQL cannot be reached, no older than the
// window.
func (a *attempt) definition(ctx context.Context) (*Budget, error) {
	if err := a.s.budgets.freshenSoon(ctx, a.entry); err != nil {
		return nil, err
	}
	return a.entry.value.Load(), nil
}

// home is the bucket of the request's key: the same on every node, whatever is online.
func (a *attempt) home(b *Budget) *Bucket { return a.s.home(b, a.key) }

func (s *Service) home(b *Budget, key string) *Bucket {
	return &b.Buckets[s.ringOf(len(b.Ring())).LocateIndex(key, func(int) bool { return false })]
}

// serves reports whether a bucket can be asked now.
func (s *Service) serves(l *lane, bk *Bucket) bool {
	return bk.Online && bk.Epoch.Status == ledger.Open && bk.Epoch.Fenced == "" && l != nil &&
		s.usable(l, bk.Epoch.Activation)
}

// forgets reports whether a lane must not be used in store mode: under strict, when its store answers writes
// before they are on its disk.
func (s *Service) forgets(l *lane) bool { return s.set.Strict && l.forgetful.Load() }

// isYoung reports whether ids of an epoch may have been accepted in an earlier one within the record
// window: they are looked up in the ledger first. A bucket's first epoch has none before it. The
// window counts from when this node first saw the epoch.
func (s *Service) isYoung(bk *Bucket) bool {
	if bk.Epoch.Number == 1 || safeguard.Off(safeguard.YoungEpochs) {
		return false
	}
	now := s.now()
	first, known := s.firstSeen.Get(bk.Ref())
	if !known {
		first = now
		s.firstSeen.Add(bk.Ref(), now)
	}
	return now-first < 2*s.set.RecordWindow
}

// mayBeDecided reports whether the ledger may know the id from before the bucket's epoch began, so that
// it has to be asked before the store is.
func (a *attempt) mayBeDecided(ctx context.Context, b *Budget, bk *Bucket, l *lane) (bool, error) {
	young := a.s.isYoung(bk)
	if l.direct != nil {
		return young, nil // there the ledger's primary key decides
	}
	void, err := a.s.maybeVoid(ctx, a.entry, b, bk, a.id)
	return young || void, err
}

// bringBack gives a bucket that does not serve a new epoch, or answers why it cannot. Whoever took it
// offline: no other bucket may serve its requests.
func (a *attempt) bringBack(ctx context.Context, b *Budget, bk *Bucket, l *lane, round int) (DeductAnswer, bool, error) {
	switch {
	case l == nil || a.s.isDown(bk.Lane):
		return a.outOfReach(ctx, "its store cannot be reached")
	case bk.Epoch.Fenced != "":
		return a.outOfReach(ctx, "its bucket is fenced")
	case !bk.Epoch.Status.Live():
		if err := a.s.reopen(ctx, b.ID, bk.ID); err != nil {
			return a.waitFor(ctx, round, err)
		}
	case bk.Epoch.Status == ledger.Opening:
		a.s.open(ctx, bk.Lane, []Ref{bk.Ref()})
	}
	if round > 0 {
		if answer, done, err := a.wait(ctx, round); done {
			return answer, true, err
		}
	}
	a.reread(ctx)
	return DeductAnswer{}, false, nil
}

// outOfReach answers a request whose bucket cannot be asked until its deadline: from the ledger if its
// id is there, else Unavailable, at once.
func (a *attempt) outOfReach(ctx context.Context, why string) (DeductAnswer, bool, error) {
	cause := budget.Refuse(budget.Unavailable, "deduct", "request %q cannot be judged: %s", a.id, why)
	d, err := a.s.recordedOne(ctx, a.entry.id, a.id)
	if err == nil && d != nil {
		answer, err := a.answerRecorded(ctx, *d)
		return answer, true, err
	}
	return DeductAnswer{}, true, a.unresolved(ctx, cause)
}

// waitFor waits a little longer each round; cause is the answer when the deadline passes meanwhile, and at once where a
// queue is full.
func (a *attempt) waitFor(ctx context.Context, round int, cause error) (DeductAnswer, bool, error) {
	if errors.Is(cause, errFull) {
		return DeductAnswer{}, true, a.unresolved(ctx, cause)
	}
	if err := a.pause(ctx, round); err != nil || a.s.now() >= a.deadline {
		return DeductAnswer{}, true, a.unresolved(ctx, cause)
	}
	a.reread(ctx)
	return DeductAnswer{}, false, nil
}

// tryInStore asks the bucket. done: answer and err are the call's. Otherwise balance is what the
// bucket holds, which does not cover the amount, or -1 when it could not be asked; err then says why,
// if anything more than time is needed.
func (a *attempt) tryInStore(ctx context.Context, b *Budget, bk *Bucket, l *lane) (
	answer DeductAnswer, balance int64, done bool, err error) {
	op, err := a.operationInStore(b, bk, l)
	if err != nil {
		return answer, -1, false, err
	}
	got, err := l.deducts.do(ctx, op)
	if err != nil {
		// The record makes a repetition harmless: the same bucket is asked again, with the same nonce.
		if !budget.Is(err, budget.Unavailable) {
			a.unanswered = append(a.unanswered, op.Ref)
		}
		if !errors.Is(err, errFull) {
			a.reread(ctx)
		}
		return answer, -1, false, err
	}
	if got.outcome != nil { // a lane in the ledger's own database: it is in the ledger already
		a.admit(l, bk, op.Ref, got)
		answer, done, err = a.commit(ctx)
		return answer, -1, done, err
	}
	switch got.reply.Verdict {
	case OK:
		answer, err = a.tookInStore(l, bk, op.Ref, got.reply)
		return answer, -1, true, err
	case Outdated, Unloaded:
		return answer, -1, false, a.countAgain(ctx, b, got.reply)
	case OverLimit:
		answer, err = a.overInStore(ctx, bk, got.reply.Counted)
		return answer, -1, true, err
	case Recorded:
		answer, err = a.answerRecord(ctx, l, bk, op.Ref, got.reply)
		return answer, -1, true, err
	case Insufficient:
		return answer, got.reply.Balance, false, nil
	case Behind:
		a.s.follow(l, op.Ref, got.reply.Seq)
		return answer, -1, false, &budget.Error{Code: budget.Unavailable, Op: "deduct", Err: errBehind,
			Message: fmt.Sprintf("its window is %d units; repeat later", a.s.set.WindowUnits)}
	}
	a.refused(ctx, l, op.Ref, got.reply)
	return answer, -1, false, nil
}

var errBehind = errors.New("the ledger is behind this bucket by its window")

// operationInStore is what a bucket is asked for in store mode.
func (a *attempt) operationInStore(b *Budget, bk *Bucket, l *lane) (Operation, error) {
	counting, version, err := a.counting(b, bk, l)
	if err != nil {
		return Operation{}, err
	}
	known := max(a.s.knownSeq(bk.Ref(), bk.Epoch.DrainedSeq), l.acks.known(bk.Ref()))
	return Operation{Ref: bk.Ref(), Budget: b.ID, MinSeq: known, Amount: a.amount, Request: a.request, Record: true,
		Ceiling: a.s.ceiling(bk, a.amount), Until: l.until(b.Period), LimitsVersion: version,
		Counting: counting}, nil
}

// tookInStore answers for what a bucket has just admitted.
func (a *attempt) tookInStore(l *lane, bk *Bucket, ref Ref, r Reply) (DeductAnswer, error) {
	a.s.kickApply(a.entry, bk, a.amount, r)
	answer, err := a.acknowledge(l, bk, ref, r.Seq, r.Balance, false)
	answer.Limits = a.states(r.Counted)
	return answer, err
}

// refused acts on a verdict that says something about the bucket's store.
func (a *attempt) refused(ctx context.Context, l *lane, ref Ref, r Reply) {
	switch r.Verdict {
	case Broken:
		a.s.fence(ctx, ref, r.Why)
	case WentBack:
		a.s.memoryLost(l, ref.Activation, "the store's log ends before what is in the ledger")
	case EpochGone:
		a.s.checkGone(ctx, l, ref)
	}
	a.reread(ctx)
}

// acknowledge answers "accepted" for an entry of the log, once it is noted how far this node's word
// reaches; the ledger follows behind.
func (a *attempt) acknowledge(l *lane, bk *Bucket, ref Ref, seq, balance int64, replayed bool) (DeductAnswer, error) {
	if !l.acks.acknowledge(ref, seq, a.s.now()) {
		return DeductAnswer{}, unknown("deduct", errors.New("the store is being recovered; whether the entry is kept is not known yet"))
	}
	l.behind.answered.Add(1)
	a.s.follow(l, ref, seq)
	at := ledger.Position{Bucket: ref.Bucket, Epoch: ref.Epoch, Seq: seq}
	state := ledger.StateUsed
	if a.request.HoldTTL > 0 {
		state = ledger.StateHeld
	}
	answer := DeductAnswer{RequestID: a.id, Amount: a.amount, State: state, Bucket: bk.Key,
		Remaining: balance, Receipt: receipt(at), Replayed: replayed}
	answer.remaining(a.entry.value.Load(), a.s.coverSoon(a.entry))
	return answer, nil
}

// answerRecord answers from a store's record: what the ledger says of the id goes first, because it
// knows what became of it since.
func (a *attempt) answerRecord(ctx context.Context, l *lane, bk *Bucket, ref Ref, reply Reply) (DeductAnswer, error) {
	r := reply.Record
	switch {
	case r.Void:
		return a.cancelled(ctx)
	case r.Fingerprint != a.request.Fingerprint && !safeguard.Off(safeguard.Fingerprint):
		// The id may have been accepted as it is now, forgotten, and accepted as the record has it: the ledger decides.
		return a.refuseInStore(ctx, bk, conflicting(a.id))
	case r.Nonce == a.request.Nonce:
		return a.acknowledge(l, bk, ref, r.Seq, reply.Balance, false)
	}
	if d, err := a.s.recordedOne(ctx, a.entry.id, a.id); err == nil && d != nil {
		return a.answerRecorded(ctx, *d)
	}
	return a.acknowledge(l, bk, ref, r.Seq, reply.Balance, true)
}

// cancelled answers for an id with a void record. What was deducted for it before, and forgotten by its store
// since, was given back. A cancel that is not in the ledger is under way or was broken off, and is finished
// here: only a tombstone says "never" (I4, I7).
func (a *attempt) cancelled(ctx context.Context) (DeductAnswer, error) {
	d, err := a.s.recordedOne(ctx, a.entry.id, a.id)
	if err == nil && d == nil && !safeguard.Off(safeguard.WholeCancel) {
		var tombstone ledger.Deduction
		tombstone, err = a.s.cancelInStore(ctx, a.entry, a.id)
		d = &tombstone
	}
	switch {
	case err != nil:
		return DeductAnswer{}, a.unresolved(ctx, err)
	case d == nil:
		return DeductAnswer{}, voided(a.id)
	}
	return a.answerRecorded(ctx, *d)
}

// seekInStore looks for units after the bucket did not cover the amount: they are brought to it.
func (a *attempt) seekInStore(ctx context.Context, b *Budget, bk *Bucket, balance int64, round int) (DeductAnswer, bool, error) {
	if answer, done, err := a.judge(ctx, b); done {
		return answer, true, err
	}
	c, err := a.s.cover(ctx, a.entry)
	if err != nil {
		return DeductAnswer{}, true, a.unresolved(ctx, err)
	}
	if c.Undistributed > 0 {
		wish := applyWish{budget: b, bucket: bk, need: a.amount - balance, undistributed: c.Undistributed}
		got, err := a.s.applying.do(ctx, bk.ID, wish)
		if err != nil {
			return a.waitFor(ctx, round, err)
		}
		if got > 0 && balance+got >= a.amount {
			return DeductAnswer{}, false, nil
		}
	}
	// The ledger's figures are behind the stores': bring them up before anything is moved by them.
	if _, err := a.s.upToDate.do(ctx, a.entry.id, a.entry); err != nil {
		return a.waitFor(ctx, round, err)
	}
	if answer, done, err := a.judge(ctx, b); done {
		return answer, true, err
	}
	got, err := a.s.collects.do(ctx, b.ID, collectWish{entry: a.entry, amount: a.amount, preferred: bk.ID})
	switch {
	case err != nil:
		return a.waitFor(ctx, round, err)
	case got.moved == 0 && got.outOfReach > 0 && got.inReach < a.amount:
		return a.outOfReach(ctx, "units that it needs are out of reach")
	}
	a.reread(ctx)
	if got.moved > 0 && got.target.Bucket == bk.ID {
		return DeductAnswer{}, false, nil
	}
	return a.wait(ctx, round)
}

// refuseInStore is refuse in store mode: the id may be in the log and not in the ledger yet, so the
// bucket's log is drained first.
func (a *attempt) refuseInStore(ctx context.Context, bk *Bucket, refusal error) (DeductAnswer, error) {
	if _, err := a.s.homesDrained.do(ctx, bk.ID, keyOf{a.entry.id, a.key}); err != nil {
		return DeductAnswer{}, a.unresolved(ctx, err)
	}
	return a.refuse(ctx, refusal)
}

// overInStore is the refusal by a limit that the bucket's store judged, which has no record of the id. One older than the
// record window may be gone while its deduction is not in the ledger yet, as after all nodes were down: then the log is
// drained first (I4). By the lane's clock, as records are, a drain has seen whatever has no record now if it began within half
// of the shortest window there is: an epoch keeps the window that its first record was made with.
func (a *attempt) overInStore(ctx context.Context, bk *Bucket, told *Counted) (DeductAnswer, error) {
	const half = LeastRecordWindow / 2
	refusal := limitExceeded(a.states(told)[told.Over], a.s.sql.Now())
	now := time.Duration(told.Now+a.count.asked.Ahead) * time.Millisecond
	if at, known := a.s.homeDrained.Get(bk.Ref()); known && !due(now, at+half, half) {
		return a.refuse(ctx, refusal)
	}
	if _, err := a.s.homesDrained.do(ctx, bk.ID, keyOf{a.entry.id, a.key}); err != nil {
		return DeductAnswer{}, a.unresolved(ctx, err)
	}
	a.s.homeDrained.Add(bk.Ref(), now)
	return a.refuse(ctx, refusal)
}

// keyOf is what a request's bucket is found by.
type keyOf struct {
	budget int64
	key    string
}

// drainHomes drains the buckets where the ids of some requests on one budget are, if anywhere: as SQL has the budget now,
// since this node may not know of a later epoch yet, or of a later ring.
func (s *Service) drainHomes(_ int64, requests []keyOf) []result[struct{}] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	n := len(requests)
	b, err := s.sql.Budget(ctx, BudgetRef{ID: requests[0].budget})
	if err != nil {
		return failAll[struct{}](n, s.sqlFailed(err))
	}
	homes := map[int64]bool{}
	for _, r := range requests {
		homes[s.home(&b, r.key).ID] = true
	}
	live := slices.DeleteFunc(b.live(), func(e EpochOf) bool { return !homes[e.Row.Bucket] })
	if err := s.drainEpochs(ctx, live); err != nil {
		return failAll[struct{}](n, err)
	}
	return make([]result[struct{}], n)
}

// coverSoon is the last sum known; one that is old is read anew in the background, because in store
// mode an answer does not wait for SQL.
func (s *Service) coverSoon(entry *cached) Cover {
	if entry.freshCover(s.now()) == nil {
		if entry.coverSoon.CompareAndSwap(false, true) {
			s.later("cover", func(ctx context.Context) {
				if _, err := s.cover(ctx, entry); err != nil {
					s.failed("sql", err)
				}
			}, func() { entry.coverSoon.Store(false) })
		}
	}
	return entry.lastCover()
}
