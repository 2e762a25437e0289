package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// Deduct takes units from a budget for a request id: at most once, whichever node and bucket it is
// retried through (I4). In ledger mode the answer "accepted" is sent after the deduction is in the
// ledger (I7). A repetition of an accepted id gets the recorded outcome with Replayed set, also
// after the budget is sold out, paused or over.
//
// Errors: BudgetNotFound; RequestConflict (the id with another payload), RequestVoid (cancelled);
// BudgetExpired, BudgetPaused, BudgetNotEffective; GroupClosed; Invalid where a hold is not one that can be, or a limit's dimension is missing, LimitExceeded with
// the first limit that would be exceeded; BudgetExhausted with what is available, only if
// one SQL statement shows that the budget cannot cover the amount (I3); Unavailable: nothing
// happened, also when units exist and could not be brought together before the deadline;
// OutcomeUnknown: repeat the same id. A refusal has changed nothing (I6). Safe for concurrent use.
func (s *Service) Deduct(ctx context.Context, r DeductRequest) (DeductAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.set.Deadline)
	defer cancel()
	if err := checkHold(r.HoldTTL, r.Group); err != nil {
		return DeductAnswer{}, err
	}
	entry, err := s.budgets.findForDeduct(ctx, r.Budget)
	if err != nil {
		return DeductAnswer{}, err
	}
	if !entry.asked.Load() {
		entry.asked.Store(true)
	}
	return s.alone(ctx, s.attempt(entry, r))
}

// attempt prepares the attempt of a request, with a nonce of its own.
func (s *Service) attempt(entry *cached, r DeductRequest) *attempt {
	a := &attempt{s: s, entry: entry, id: r.RequestID, amount: r.Amount, key: entry.value.Load().routeKey(&r),
		dimensions: r.Dimensions, counts: r.Counts,
		request: ledger.Request{ID: r.RequestID, Nonce: s.nonce(), Reference: r.Reference,
			Dimensions: ledger.Dimensions(r.Dimensions), Counts: ledger.Counts(r.Counts),
			HoldTTL: r.HoldTTL.Milliseconds(), Group: r.Group},
		deadline: s.now() + s.set.Deadline}
	a.request.Fingerprint = ledger.RequestFingerprint(r.Amount, r.Key, a.request)
	return a
}

// routeKey is what picks a request's bucket: its key, else its value of the budget's routing dimension,
// else its id.
func (b *Budget) routeKey(r *DeductRequest) string {
	return cmp.Or(r.Key, r.Dimensions[b.RoutingDimension], r.RequestID)
}

// alone runs an attempt while no other call with its id is under way on this node. Later ones wait; those that
// waited together share the next accepted outcome and otherwise try for themselves. The outcome of the call that they
// found under way is not shared: it may show the deduction as it was before they came.
func (s *Service) alone(ctx context.Context, a *attempt) (DeductAnswer, error) {
	id := ID{Budget: a.entry.id, RequestID: a.id}
	for waited := false; ; waited = true {
		fl, leader := s.flights.join(id, a.request.Fingerprint)
		if leader {
			return s.lead(ctx, id, fl, a)
		}
		place := s.turns.take()
		if err := fl.wait(ctx); err != nil {
			return DeductAnswer{}, err
		}
		s.turns.wait(place) // all who waited were woken at once
		if waited && fl.err == nil && fl.fingerprint == a.request.Fingerprint {
			answer := *fl.answer
			answer.Replayed = true
			return answer, nil
		}
	}
}

func (s *Service) lead(ctx context.Context, id ID, fl *flight, a *attempt) (answer DeductAnswer, err error) {
	err = unknown("deduct", errBrokenOff)
	defer func() { s.flights.land(id, fl, answer, err) }()
	answer, err = a.run(ctx)
	return answer, err
}

var errBrokenOff = errors.New("the attempt was broken off")

// attempt is one call of a request id: its nonce is kept over all inner retries.
type attempt struct {
	s       *Service
	entry   *cached
	id      string
	amount  int64
	key     string
	request ledger.Request
	// dimensions and counts are the request's, which has them as text.
	dimensions map[string]string
	counts     map[string]int64
	deadline   time.Duration // of Service.now
	// unanswered are the epochs in which an operation of this attempt may still run or may wait,
	// uncommitted, in the log.
	unanswered []Ref
	// admitted is the entry whose commit is not known yet; nil: none. While there is one, nothing
	// more is sent to a store.
	admitted *pendingEntry
	// target is the bucket to try next; 0: the ring's choice.
	target int64
	// sumRead: I3's sum for its answer was read just now, or cannot be.
	sumRead bool
	// stale says that the bucket just asked has another epoch by now: the list was read anew.
	stale bool
	// count is what its store counts for it, in store mode.
	count storeCount
	// waitsSince is when it first had to wait for a window that was used up, of Service.now; 0: not yet.
	waitsSince time.Duration
	// dry are the buckets that did not cover the amount in this attempt.
	dry map[int64]bool
}

// run looks for units until it has an answer or the deadline passes.
func (a *attempt) run(ctx context.Context) (DeductAnswer, error) {
	if a.s.recent.has(ID{Budget: a.entry.id, RequestID: a.id}) {
		if d, err := a.s.recordedOne(ctx, a.entry.id, a.id); err == nil && d != nil {
			return a.answerRecorded(ctx, *d)
		}
	}
	next := a.round
	if a.entry.value.Load().inStoreMode() {
		next = a.roundInStore
	}
	for round := 0; ; round++ {
		answer, done, err := next(ctx, round)
		if done || err != nil {
			return answer, err
		}
		if ctx.Err() != nil || a.s.now() >= a.deadline {
			return DeductAnswer{}, a.unresolved(ctx, errors.New("the deadline passed"))
		}
	}
}

// round asks one bucket, and looks for units where it does not cover the amount. done: answer and err
// are the call's; an error is the call's in any case.
func (a *attempt) round(ctx context.Context, round int) (DeductAnswer, bool, error) {
	if a.admitted != nil {
		answer, done, err := a.commit(ctx)
		if done {
			return answer, true, err
		}
		if a.admitted != nil {
			return a.wait(ctx, round)
		}
	}
	if err := a.s.budgets.freshen(ctx, a.entry); err != nil {
		return DeductAnswer{}, true, a.unresolved(ctx, err)
	}
	b := a.entry.value.Load()
	if refusal := b.refusalAt(a.s.sql.Now()); refusal != nil {
		answer, err := a.refuse(ctx, refusal)
		return answer, true, err
	}
	if b.Period.OverAt(a.s.sql.Now()) {
		return a.turn(ctx, round)
	}
	if answer, done, err := a.limits(ctx, b); done {
		return answer, true, err
	}
	sold := a.entry.soldOut.Load()
	skip := sold != 0 && a.amount >= sold && a.target == 0
	var bk *Bucket
	var balance int64
	if !skip {
		answer, done, err := a.try(ctx, b, &bk, &balance)
		if done {
			return answer, true, err
		}
		if a.admitted != nil {
			return a.wait(ctx, round)
		}
		if a.goesOn(round) {
			return DeductAnswer{}, false, nil
		}
	}
	if answer, done, err := a.judge(ctx, b); done {
		return answer, true, err
	}
	if skip {
		return DeductAnswer{}, false, nil
	}
	if err := a.findUnits(ctx, b, bk, balance); err != nil {
		return DeductAnswer{}, true, a.unresolved(ctx, err)
	}
	if a.target == 0 || bk == nil {
		return a.wait(ctx, round)
	}
	return DeductAnswer{}, false, nil
}

// wait pauses between rounds that made no progress.
func (a *attempt) wait(ctx context.Context, round int) (DeductAnswer, bool, error) {
	if err := a.pause(ctx, round); err != nil {
		return DeductAnswer{}, true, a.unresolved(ctx, err)
	}
	return DeductAnswer{}, false, nil
}

// pause waits a little longer each round, then all buckets are worth asking again.
func (a *attempt) pause(ctx context.Context, round int) error {
	const first, doublings = 5 * time.Millisecond, 4
	wait := first << min(round, doublings)
	a.dry = nil
	return a.s.clock.Sleep(ctx, wait/2+a.s.jitter(wait/2))
}

// try sends the operation to the bucket that is next, and waits for its commit. done is false when
// that bucket did not cover the amount (asked and balance then say which and what it holds) or could
// not be asked. A full queue is no reason to look elsewhere: Unavailable, at once.
func (a *attempt) try(ctx context.Context, b *Budget, asked **Bucket, balance *int64) (DeductAnswer, bool, error) {
	bk := a.pick(b)
	a.target = 0
	if bk == nil {
		return DeductAnswer{}, false, nil
	}
	l := a.s.lanes[bk.Lane]
	op := a.operation(bk)
	got, err := l.deducts.do(ctx, op)
	switch {
	case errors.Is(err, errFull):
		return DeductAnswer{}, true, a.unresolved(ctx, err)
	case err != nil:
		a.notAnswered(bk, op.Ref, err)
		return DeductAnswer{}, false, nil
	}
	switch got.reply.Verdict {
	case OK:
		a.admit(l, bk, op.Ref, got)
		return a.commit(ctx)
	case Insufficient:
		a.markDry(bk.ID)
		*asked, *balance = bk, got.reply.Balance
	case Broken:
		a.s.fence(ctx, op.Ref, got.reply.Why)
		a.reread(ctx)
	case WentBack:
		a.s.memoryLost(l, op.Ref.Activation, "the store's log ends before what is in the ledger")
		a.reread(ctx)
	case EpochGone:
		a.s.checkGone(ctx, l, op.Ref)
		a.stale = true
		a.reread(ctx)
	default:
		a.stale = true
		a.reread(ctx)
	}
	return DeductAnswer{}, false, nil
}

// operation is what a bucket is asked for in ledger mode.
func (a *attempt) operation(bk *Bucket) Operation {
	return Operation{Ref: bk.Ref(), Budget: a.entry.id, MinSeq: a.s.knownSeq(bk.Ref(), bk.Epoch.DrainedSeq),
		Amount: a.amount, Request: a.request}
}

// notAnswered notes that a bucket could not be asked, or did not answer.
func (a *attempt) notAnswered(bk *Bucket, ref Ref, err error) {
	a.markDry(bk.ID)
	if !budget.Is(err, budget.Unavailable) {
		a.unanswered = append(a.unanswered, ref)
	}
}

// admit notes the entry that a store admitted: it is to be committed.
func (a *attempt) admit(l *lane, bk *Bucket, ref Ref, got admitted) {
	a.s.kickApply(a.entry, bk, a.amount, got.reply)
	a.admitted = &pendingEntry{lane: l, ref: ref, bucket: bk.Key, reply: got.reply, outcome: got.outcome}
}

// goesOn reports whether a bucket of the list that was just read can be asked at once: the one before was
// closed, as a recycle does, and said nothing about units. Only in the first rounds, so that a list that
// keeps changing does not keep an attempt from looking for units.
func (a *attempt) goesOn(round int) bool {
	const atOnce = 3
	stale := a.stale
	a.stale = false
	return stale && round < atOnce && a.pick(a.entry.value.Load()) != nil
}

// reread makes sure that the next round sees the bucket list as it is now.
func (a *attempt) reread(ctx context.Context) {
	if err := a.s.budgets.reload(ctx, a.entry); err != nil {
		a.s.failed("sql", err) // the next round works with the old list, or is refused as stale
	}
}

func (a *attempt) markDry(bucket int64) {
	if a.dry == nil {
		a.dry = map[int64]bool{}
	}
	a.dry[bucket] = true
}

// pick returns the bucket to ask: the target, else the ring's first online choice for the key whose
// lane can be used, leaving out those that were dry. nil: none.
func (a *attempt) pick(b *Budget) *Bucket {
	fit := func(bk *Bucket) bool {
		l := a.s.lanes[bk.Lane]
		return bk.Online && bk.Epoch.Status == ledger.Open && bk.Epoch.Fenced == "" && l != nil &&
			a.s.usable(l, bk.Epoch.Activation)
	}
	if a.target != 0 {
		for i := range b.Buckets {
			if bk := &b.Buckets[i]; bk.ID == a.target && fit(bk) {
				return bk
			}
		}
	}
	i := a.s.ringOf(len(b.Ring())).LocateIndex(a.key, func(i int) bool {
		return a.dry[b.Buckets[i].ID] || !fit(&b.Buckets[i])
	})
	if i < 0 {
		return nil
	}
	return &b.Buckets[i]
}

// pendingEntry is an entry that a store admitted for this attempt.
type pendingEntry struct {
	lane   *lane
	ref    Ref
	bucket string
	reply  Reply
	// outcome is set where the store committed it in the same transaction.
	outcome *ledger.Outcome
}

// commit waits until the admitted entry is in the ledger and answers from its row. When the commit
// fails the entry stays pending: it is in the log, and whoever drains that decides. done is false then,
// and also when the entry had no effect.
func (a *attempt) commit(ctx context.Context) (DeductAnswer, bool, error) {
	p := a.admitted
	if safeguard.Off(safeguard.AnswerAfterCommit) && p.outcome == nil {
		return DeductAnswer{RequestID: a.id, Amount: a.amount, State: ledger.StateUsed}, true, nil
	}
	if p.outcome != nil {
		if p.outcome.Deduction != nil {
			a.s.recent.add(ID{Budget: a.entry.id, RequestID: a.id})
		}
		return a.concluded(ctx, committed{outcome: *p.outcome}, nil)
	}
	c, err := a.s.commitWait(ctx, a.mark())
	return a.concluded(ctx, c, err)
}

// mark is what the admitted entry's commit is waited for by.
func (a *attempt) mark() mark {
	p := a.admitted
	return mark{lane: p.lane, ref: p.ref, seq: p.reply.Seq, budget: a.entry.id, id: a.id, nonce: a.request.Nonce}
}

// concluded answers by what became of the admitted entry: see commit.
func (a *attempt) concluded(ctx context.Context, c committed, err error) (DeductAnswer, bool, error) {
	p := a.admitted
	if errors.Is(err, errReplaced) {
		a.admitted = nil // the store went back before the entry was drained
		a.unanswered = append(a.unanswered, p.ref)
		a.reread(ctx)
		return DeductAnswer{}, false, nil
	} else if err != nil {
		return DeductAnswer{}, false, nil
	}
	a.admitted = nil
	switch {
	case c.ended:
		a.reread(ctx)
		return DeductAnswer{}, false, nil
	case c.outcome.Duplicate != nil && c.outcome.Duplicate.Reason == ledger.ReasonExpired:
		a.reread(ctx) // the budget's end was moved: the definition refuses now
		return DeductAnswer{}, false, nil
	case c.outcome.Duplicate != nil && c.outcome.Duplicate.Reason == ledger.ReasonLimit:
		return a.overLimit(ctx, c.outcome.Duplicate)
	case c.outcome.Duplicate != nil && c.outcome.Duplicate.Reason == ledger.ReasonGroup:
		answer, err := a.groupClosed(ctx)
		return answer, true, err
	case c.outcome.Duplicate == nil:
		answer, err := a.answer(ctx, *c.outcome.Deduction, false)
		answer.Bucket, answer.Remaining = p.bucket, p.reply.Balance
		answer.Limits = c.outcome.Limits
		return answer, true, err
	}
	answer, err := a.answerRecorded(ctx, *c.outcome.Deduction)
	return answer, true, err
}

// answerRecorded answers from the ledger's row of this id.
func (a *attempt) answerRecorded(ctx context.Context, d ledger.Deduction) (DeductAnswer, error) {
	switch {
	case d.State == ledger.StateVoid:
		return DeductAnswer{}, voided(a.id)
	case d.Fingerprint != a.request.Fingerprint && !safeguard.Off(safeguard.Fingerprint):
		return DeductAnswer{}, conflicting(a.id)
	}
	return a.answer(ctx, d, d.Nonce != a.request.Nonce)
}

func voided(id string) error {
	return budget.Refuse(budget.RequestVoid, "deduct",
		"request %q was cancelled and will never have an effect; use a new id", id)
}

func conflicting(id string) error {
	return budget.Refuse(budget.RequestConflict, "deduct",
		"request %q was accepted with another amount, key, dimension or reference; use a new id", id)
}

func (a *attempt) answer(ctx context.Context, d ledger.Deduction, replayed bool) (DeductAnswer, error) {
	answer := DeductAnswer{RequestID: d.RequestID, Amount: d.Amount, State: d.State,
		HoldUntil: d.HoldUntil, Receipt: receipt(d.Position), Replayed: replayed}
	b := a.entry.value.Load()
	for i := range b.Buckets {
		if bk := &b.Buckets[i]; bk.ID == d.Position.Bucket {
			answer.Bucket, answer.Remaining = bk.Key, bk.Epoch.Outstanding
		}
	}
	if a.sumRead {
		answer.remaining(b, a.entry.lastCover())
	} else {
		answer.remaining(b, a.s.coverInTime(ctx, a.entry))
	}
	return answer, nil
}

// coverPatience is how long an answer about what is in the ledger waits for I3's sum.
const coverPatience = 250 * time.Millisecond

// coverInTime is I3's sum for an answer about what is in the ledger: a figure that cannot be read soon
// must not turn it into an error, so it is then the last one known.
func (s *Service) coverInTime(ctx context.Context, entry *cached) Cover {
	if c := entry.freshCover(s.now()); c != nil {
		return c.Cover
	}
	step, cancel := context.WithTimeout(context.WithoutCancel(ctx), coverPatience)
	defer cancel()
	c, err := s.cover(step, entry)
	if err != nil {
		s.failed("sql", err)
	}
	return c
}

// receipt locates a deduction for whoever drains or audits it.
func receipt(p ledger.Position) string {
	var text [3 * 20]byte
	b := append(strconv.AppendInt(text[:0], p.Bucket, 10), '.')
	b = append(strconv.AppendInt(b, p.Epoch, 10), '.')
	return string(strconv.AppendInt(b, p.Seq, 10))
}

// parseReceipt reads a receipt; false when it is none.
func parseReceipt(text string) (p ledger.Position, ok bool) {
	n, err := fmt.Sscanf(text, "%d.%d.%d", &p.Bucket, &p.Epoch, &p.Seq)
	return p, err == nil && n == 3 && receipt(p) == text
}

// refuse answers a refusal that depends on state: only after the id was looked up, so that a
// repetition of an accepted id gets its outcome.
func (a *attempt) refuse(ctx context.Context, refusal error) (DeductAnswer, error) {
	d, err := a.s.recordedOne(ctx, a.entry.id, a.id)
	if err != nil {
		return DeductAnswer{}, a.unresolved(ctx, err)
	}
	if d != nil {
		return a.answerRecorded(ctx, *d)
	}
	if err := a.settled(ctx); err != nil {
		return DeductAnswer{}, err
	}
	return DeductAnswer{}, refusal
}

// settled returns nil when no operation of this attempt can take effect any more: each was answered,
// or its epoch has ended in SQL. Otherwise OutcomeUnknown.
func (a *attempt) settled(ctx context.Context) error {
	if a.admitted != nil {
		a.unanswered = append(a.unanswered, a.admitted.ref)
		a.admitted = nil
	}
	if len(a.unanswered) == 0 || safeguard.Off(safeguard.UnansweredStep) {
		return nil
	}
	step, cancel := a.s.bounded(ctx)
	defer cancel()
	rows, err := a.s.sql.Epochs(step, a.unanswered)
	if err != nil {
		return unknown("deduct", err)
	}
	for _, ref := range a.unanswered {
		if row, ok := rows[ref]; !ok || row.Status.Live() {
			return unknown("deduct", errors.New("an earlier step of this attempt was not answered"))
		}
	}
	// The epochs ended, so nothing new can be committed: is the id in what was?
	d, err := a.s.recordedOne(step, a.entry.id, a.id)
	if err != nil || d != nil {
		return unknown("deduct", errors.New("an earlier step of this attempt was committed meanwhile"))
	}
	a.unanswered = nil
	return nil
}

// unresolved is the answer when the attempt cannot go on: Unavailable if it certainly had no effect,
// else OutcomeUnknown.
func (a *attempt) unresolved(ctx context.Context, cause error) error {
	if err := a.settled(ctx); err != nil {
		return err
	}
	var known *budget.Error
	if errors.As(cause, &known) && known.Code.Kind() != budget.MayBeDone {
		return known
	}
	return unavailable("deduct", cause)
}

// unavailable wraps a cause as "certainly not done".
func unavailable(op string, cause error) error {
	return &budget.Error{Code: budget.Unavailable, Op: op, RetryAfter: time.Second,
		Message: "not done; repeat later", Err: cause}
}

type recorded struct{ deduction *ledger.Deduction }

// recordedOne reads the ledger's row of an id, nil if it has none; calls are grouped.
func (s *Service) recordedOne(ctx context.Context, budgetID int64, requestID string) (*ledger.Deduction, error) {
	r, err := s.lookups.do(ctx, ID{Budget: budgetID, RequestID: requestID})
	return r.deduction, err
}

func (s *Service) lookUp(ids []ID) []result[recorded] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	found, err := s.sql.Recorded(ctx, ids)
	if err != nil {
		s.failed("sql", err)
		return failAll[recorded](len(ids), unavailable("look up", err))
	}
	out := make([]result[recorded], len(ids))
	for i, id := range ids {
		if d, ok := found[id]; ok {
			out[i].answer.deduction = &d
		}
	}
	return out
}
