package bucket

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// DeductResult is what became of one request of DeductAll: an answer, or an error as of Deduct.
type DeductResult struct {
	Answer DeductAnswer
	Err    error
}

// DeductAll makes many deductions in one call, each for itself, and returns what became of each, in the
// order given. It is as if Deduct were called for each of them: those of one request id of a budget one
// after the other, in the order given, all others side by side. The ordinary ones go through the stores and the
// ledger together; whatever needs more than that goes on by itself, as Deduct does. Errors, idempotency
// and what is persisted: as Deduct, for each. Safe for concurrent use.
func (s *Service) DeductAll(ctx context.Context, requests []DeductRequest) []DeductResult {
	step, cancel := context.WithTimeout(ctx, s.set.Deadline)
	defer cancel()
	w := &wave{s: s, ctx: step, requests: requests, results: make([]DeductResult, len(requests)),
		riders: make([]rider, 0, len(requests))}
	defer func() {
		w.others.Wait()
		w.breakOff(w.staying(), errBrokenOff)
	}()
	for _, chain := range chainsOf(requests) {
		if len(chain) > 1 || !w.board(chain[0]) {
			w.apart(func() {
				for _, i := range chain {
					w.results[i] = safely(func() (DeductAnswer, error) { return s.Deduct(ctx, requests[i]) })
				}
			})
		}
	}
	w.lookUp()
	w.commit(w.hear(w.ask()))
	w.others.Wait()
	return w.results
}

// chainsOf groups the requests of each id of a budget, in order. Where some name their budget and others number it the
// budget does not matter: it may be the same one, and waiting for another budget's request does no harm.
func chainsOf(requests []DeductRequest) [][]int {
	named, numbered := false, false
	for i := range requests {
		byNumber := requests[i].Budget.ID != 0
		named, numbered = named || !byNumber, numbered || byNumber
	}
	type key struct {
		budget BudgetRef
		id     string
	}
	chains, each := make([][]int, 0, len(requests)), make([]int, len(requests))
	byKey := make(map[key]int, len(requests))
	for i := range requests {
		each[i] = i
		k := key{id: requests[i].RequestID}
		switch {
		case !named:
			k.budget.ID = requests[i].Budget.ID
		case !numbered:
			k.budget = requests[i].Budget
		}
		if at, found := byKey[k]; found {
			chains[at] = append(chains[at], i)
			continue
		}
		byKey[k] = len(chains)
		chains = append(chains, each[i:i+1:i+1])
	}
	return chains
}

// safely makes a panic of one deduction the error of that one alone.
func safely(deduct func() (DeductAnswer, error)) (result DeductResult) {
	defer func() {
		if why := recover(); why != nil {
			result = DeductResult{Err: &budget.Error{Code: budget.Internal, Op: "deduct",
				Err: fmt.Errorf("panic: %v\n%s", why, debug.Stack())}}
		}
	}()
	answer, err := deduct()
	return DeductResult{Answer: answer, Err: err}
}

// wave is the deductions of one DeductAll that go through the stores and the ledger together. One
// goroutine has it; those that need more than that leave it, and those of a lane that is late follow it.
type wave struct {
	s        *Service
	ctx      context.Context
	requests []DeductRequest
	results  []DeductResult // each is written by whoever has the request
	riders   []rider        // it never grows beyond its capacity, so that pointers to them stay good
	others   sync.WaitGroup
}

// rider is one deduction of a wave: it leads the flight of its id.
type rider struct {
	at     int
	a      *attempt
	id     ID
	flight *flight
	b      *Budget
	bk     *Bucket
	lane   *lane
	// young: the ledger may know the id from before its bucket's epoch began.
	young bool
	// left: it was answered, or goes on by itself. Only the goroutine that has its lane's part of the wave uses it.
	left bool
}

// apart does something beside the wave.
func (w *wave) apart(step func()) {
	place := w.s.turns.take()
	w.others.Go(func() {
		w.s.turns.wait(place)
		step()
	})
}

// goOn lets a rider go on by itself.
func (w *wave) goOn(r *rider) {
	r.left, r.a.sumRead = true, false
	w.apart(func() {
		w.results[r.at] = safely(func() (DeductAnswer, error) { return w.s.lead(w.ctx, r.id, r.flight, r.a) })
	})
}

// finish answers a rider.
func (w *wave) finish(r *rider, answer DeductAnswer, err error) {
	r.left = true
	w.s.flights.land(r.id, r.flight, answer, err)
	w.results[r.at] = DeductResult{Answer: answer, Err: err}
}

// breakOff ends the flights that a panic left open.
func (w *wave) breakOff(riders []*rider, why error) {
	for _, r := range riders {
		if !r.left {
			w.finish(r, DeductAnswer{}, unknown("deduct", why))
		}
	}
}

// staying are the riders that did not leave the wave.
func (w *wave) staying() (out []*rider) {
	for i := range w.riders {
		if r := &w.riders[i]; !r.left {
			out = append(out, r)
		}
	}
	return out
}

// board takes a request into the wave, or lets it go on by itself. false: nothing was done for it.
func (w *wave) board(i int) bool {
	request := &w.requests[i]
	entry := w.s.budgets.fresh(request.Budget)
	if entry == nil || checkHold(request.HoldTTL, request.Group) != nil {
		return false
	}
	if !entry.asked.Load() {
		entry.asked.Store(true)
	}
	a := w.s.attempt(entry, *request)
	id := ID{Budget: entry.id, RequestID: a.id}
	fl, leader := w.s.flights.join(id, a.request.Fingerprint)
	if !leader {
		return false
	}
	w.riders = append(w.riders, rider{at: i, a: a, id: id, flight: fl})
	if r := &w.riders[len(w.riders)-1]; !r.ready() {
		w.goOn(r)
	}
	return true
}

// fresh returns a budget that was compared with SQL within the last second; nil: it has to be read.
func (c *cache) fresh(ref BudgetRef) *cached {
	id := ref.ID
	if id == 0 {
		id, _ = c.byName.Get(BudgetRef{Tenant: ref.Tenant, Name: ref.Name})
	}
	entry, ok := c.use(id)
	if !ok || id == 0 || ref.Tenant != "" && entry.value.Load().Tenant != ref.Tenant {
		return nil
	}
	if age := c.ageOf(entry); age < 0 || age >= freshness {
		return nil
	}
	return entry
}

// ready finds the bucket that a deduction asks, as the first round of run does. false: something has to be
// asked of SQL first, waited for or refused.
func (r *rider) ready() bool {
	a, s := r.a, r.a.s
	r.b = a.entry.value.Load()
	now := s.sql.Now()
	if r.b.refusalAt(now) != nil || r.b.Period.OverAt(now) {
		return false
	}
	if r.b.inStoreMode() {
		a.routed(r.b)
	}
	if !a.fits(r.b) {
		return false
	}
	if r.b.inStoreMode() {
		return r.readyInStore()
	}
	sold := a.entry.soldOut.Load()
	if sold != 0 && a.amount >= sold || s.recent.has(r.id) {
		return false
	}
	if r.bk = a.pick(r.b); r.bk == nil {
		return false
	}
	r.lane = s.lanes[r.bk.Lane]
	return true
}

// fits reports whether the limits can judge the request, and none of them is known to be used up.
func (a *attempt) fits(b *Budget) bool {
	if b.Limits == nil && a.request.Counts == "" {
		return true
	}
	if a.entry.unfit(b, a.dimensions, a.counts) != nil {
		return false
	}
	if b.inStoreMode() {
		return true
	}
	set, err := a.entry.limitSet()
	if err != nil {
		return false
	}
	touches, _ := set.Touches(a.amount, a.dimensions, a.counts)
	return !a.s.mayBeReached(b, touches)
}

func (r *rider) readyInStore() bool {
	a, s := r.a, r.a.s
	r.bk = a.home(r.b)
	r.lane = s.lanes[r.bk.Lane]
	if r.lane == nil || r.lane.direct != nil || !s.serves(r.lane, r.bk) || s.forgets(r.lane) || !r.lane.acks.uses(r.bk.Epoch.Activation, s.now()) {
		return false
	}
	if _, err := s.room(r.lane, r.bk.Ref(), 0); err != nil {
		return false
	}
	if v := a.entry.voids.Load(); !safeguard.Off(safeguard.OlderVoids) {
		if v == nil || v.covers[r.bk.ID] < r.bk.Epoch.Number || v.tooMany {
			return false
		}
		_, r.young = v.ids[a.id]
	}
	r.young = r.young || s.isYoung(r.bk)
	return true
}

// lookUp asks the ledger about the ids that it may know from before their buckets' epochs began.
func (w *wave) lookUp() {
	var young []*rider
	var ids []ID
	for i := range w.riders {
		if r := &w.riders[i]; !r.left && r.young {
			young, ids = append(young, r), append(ids, r.id)
		}
	}
	if len(ids) == 0 {
		return
	}
	answers := w.s.lookups.wait(w.ctx, w.s.lookups.hand(ids))
	known := young[:0:0]
	for i, found := range answers {
		if found.answer.deduction != nil {
			known = append(known, young[i])
		}
	}
	w.readSums(known)
	for i, found := range answers {
		r := young[i]
		switch {
		case found.err != nil:
			w.finish(r, DeductAnswer{}, r.a.unresolved(w.ctx, found.err))
		case found.answer.deduction != nil:
			answer, err := r.a.answerRecorded(w.ctx, *found.answer.deduction)
			w.finish(r, answer, err)
		}
	}
}

// asking are the operations of a wave for one lane, in the order of its riders.
type asking struct {
	lane   *lane
	riders []*rider
	handed handed[Operation, admitted]
}

// ask sends one operation of each rider, the lanes side by side.
func (w *wave) ask() (lanes []*asking) {
	of := map[*lane]*asking{}
	for i := range w.riders {
		r := &w.riders[i]
		if r.left {
			continue
		}
		at := of[r.lane]
		if at == nil {
			at = &asking{lane: r.lane, riders: make([]*rider, 0, len(w.riders)-i)}
			of[r.lane] = at
			lanes = append(lanes, at)
		}
		at.riders = append(at.riders, r)
	}
	return slices.DeleteFunc(lanes, func(at *asking) bool { return !w.send(at) })
}

// send hands the operations of a lane's riders in. false: there are none, all riders go on by themselves.
func (w *wave) send(at *asking) bool {
	operations, staying := at.lane.deducts.room(len(at.riders)), at.riders[:0]
	for _, r := range at.riders {
		op, err := r.operation()
		if err != nil {
			w.goOn(r)
			continue
		}
		operations[len(staying)].question = op
		staying = append(staying, r)
	}
	at.riders = staying
	if len(staying) == 0 {
		return false
	}
	at.handed = at.lane.deducts.handIn(operations[:len(staying)])
	return true
}

// lanePatience is how long one lane may keep what the others admitted from its commit.
const lanePatience = 50 * time.Millisecond

// hear acts on the lanes' replies and returns the riders that wait for a commit. A lane that is late goes on by itself:
// a store that hangs must not hold up the others.
func (w *wave) hear(lanes []*asking) (admitted []*rider) {
	if len(lanes) == 1 {
		return w.replies(lanes[0])
	}
	ctx, cancel := context.WithTimeout(w.ctx, lanePatience)
	defer cancel()
	for _, at := range lanes {
		if !at.lane.deducts.soon(ctx, at.handed) {
			w.apart(func() { w.late(at) })
			continue
		}
		admitted = append(admitted, w.replies(at)...)
	}
	return admitted
}

// late is the rest of a wave for the riders of one lane.
func (w *wave) late(at *asking) {
	result := safely(func() (DeductAnswer, error) {
		w.commit(w.replies(at))
		return DeductAnswer{}, nil
	})
	w.breakOff(at.riders, result.Err)
}

// replies acts on the replies of a lane and returns its riders that wait for a commit.
func (w *wave) replies(at *asking) (admitted []*rider) {
	replies := at.lane.deducts.wait(w.ctx, at.handed)
	if at.lane.direct != nil {
		w.readSums(at.riders)
	}
	for i, got := range replies {
		r := at.riders[i]
		if w.heard(r, at.handed.items[i].question.Ref, got.answer, got.err); !r.left {
			admitted = append(admitted, r)
		}
	}
	return admitted
}

func (r *rider) operation() (Operation, error) {
	if r.b.inStoreMode() {
		return r.a.operationInStore(r.b, r.bk, r.lane)
	}
	return r.a.operation(r.bk), nil
}

// heard acts on a store's reply: "accepted" in store mode ends it, in ledger mode it is committed next.
func (w *wave) heard(r *rider, ref Ref, got admitted, err error) {
	switch {
	case errors.Is(err, errFull):
		w.finish(r, DeductAnswer{}, r.a.unresolved(w.ctx, err))
	case err != nil:
		r.a.notAnswered(r.bk, ref, err)
		w.goOn(r)
	case got.reply.Verdict != OK:
		w.goOn(r) // it is asked again: nothing has happened
	case got.outcome == nil && r.b.inStoreMode():
		answer, err := r.a.tookInStore(r.lane, r.bk, ref, got.reply)
		w.finish(r, answer, err)
	default:
		r.a.admit(r.lane, r.bk, ref, got)
		if got.outcome != nil && asksAgain(got.outcome) {
			w.goOn(r)
			return
		}
		if got.outcome == nil && !safeguard.Off(safeguard.AnswerAfterCommit) {
			return
		}
		answer, done, err := r.a.commit(w.ctx)
		w.concluded(r, answer, done, err)
	}
}

// commit waits until the admitted entries of riders are in the ledger.
func (w *wave) commit(riders []*rider) {
	if len(riders) == 0 {
		return
	}
	marks := make([]mark, len(riders))
	for i, r := range riders {
		marks[i] = r.a.mark()
	}
	answers := w.s.committer.wait(w.ctx, w.s.committer.hand(marks))
	w.readSums(riders)
	for i, c := range answers {
		r := riders[i]
		if c.err == nil && asksAgain(&c.answer.outcome) {
			r.a.admitted.outcome = &c.answer.outcome
			w.goOn(r)
			continue
		}
		answer, done, err := r.a.concluded(w.ctx, c.answer, c.err)
		w.concluded(r, answer, done, err)
	}
}

// asksAgain reports whether an entry had no effect for a reason for which SQL is asked about its id, or its budget, before
// it is refused: not one after the other.
func asksAgain(o *ledger.Outcome) bool {
	return o.Duplicate != nil && (o.Duplicate.Reason == ledger.ReasonLimit || o.Duplicate.Reason == ledger.ReasonGroup ||
		o.Duplicate.Reason == ledger.ReasonExpired)
}

// readSums brings I3's sums of the riders' budgets up to date with one look, for the answers about what is in the
// ledger. Those that cannot be read soon are answered as last known, as of coverInTime.
func (w *wave) readSums(riders []*rider) {
	s, at := w.s, w.s.now()
	var entries []*cached
	var ids []int64
	asked := map[int64]bool{}
	for _, r := range riders {
		r.a.sumRead = true
		if e := r.a.entry; e.freshCover(at+coverPatience) == nil && !asked[e.id] { // also if it ages while others are read
			asked[e.id] = true
			entries, ids = append(entries, e), append(ids, e.id)
		}
	}
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), coverPatience)
	defer cancel()
	var failed error
	for i, c := range s.covers.wait(ctx, s.covers.hand(ids)) {
		if c.err != nil {
			failed = unavailable("look up", c.err)
			continue
		}
		entries[i].noteCover(c.answer)
	}
	if failed != nil {
		s.failed("sql", failed)
	}
}

func (w *wave) concluded(r *rider, answer DeductAnswer, done bool, err error) {
	if !done && err == nil {
		w.goOn(r)
		return
	}
	w.finish(r, answer, err)
}
