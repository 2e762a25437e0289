package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// load is callers that use budgets, through any node, until stop is closed.
type load struct {
	w     *World
	tally *tally
	round int
	books []*book
	// flux is the book whose total changes; nil means none.
	flux *book
	stop chan struct{}
	all  sync.WaitGroup
}

// tally counts answers. It is safe for concurrent use.
type tally struct {
	mu    sync.Mutex
	codes map[string]int
}

func (t *tally) note(op string, replayed bool, err error) {
	what := "done"
	switch {
	case err != nil:
		what = string(client.CodeOf(err))
		if what == "" {
			what = "no answer"
		}
	case replayed:
		what = "replayed"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.codes[op+" "+what]++
}

// start starts the callers, and an operator who changes totals and takes buckets offline and
// online.
func (l *load) start(seed uint64, callers int) {
	l.stop = make(chan struct{})
	for n := range callers {
		rnd := rand.New(rand.NewPCG(seed, uint64(1000*l.round+n)))
		l.all.Go(func() {
			for i := 0; l.wait(rnd, 12*time.Millisecond); i++ {
				l.order(rnd, fmt.Sprintf("r%d-c%d-%d", l.round, n, i))
			}
		})
	}
	rnd := rand.New(rand.NewPCG(seed, uint64(1000*l.round+999)))
	l.all.Go(func() {
		for i := 0; l.wait(rnd, 400*time.Millisecond); i++ {
			l.operate(rnd)
			if l.flux != nil {
				l.change(rnd, fmt.Sprintf("r%d-%d", l.round, i))
			}
		}
	})
}

// end stops the load and waits for its last answers.
func (l *load) end() {
	close(l.stop)
	l.all.Wait()
}

// wait pauses for up to most and reports whether to continue.
func (l *load) wait(rnd *rand.Rand, most time.Duration) bool {
	select {
	case <-l.stop:
		return false
	case <-time.After(upTo(rnd, most)):
		return true
	}
}

// order makes a caller's calls for one or several new ids.
func (l *load) order(rnd *rand.Rand, id string) {
	b := l.books[rnd.IntN(len(l.books))]
	key := ""
	if rnd.IntN(5) == 0 {
		key = fmt.Sprint("k", rnd.IntN(3)) // many ids on few buckets
	}
	if rnd.IntN(10) == 0 {
		l.batch(b, rnd, id)
		return
	}
	r := b.add(id, 1+rnd.Int64N(5), key)
	switch rnd.IntN(8) {
	case 0:
		l.both(b, r, rnd)
	case 1:
		l.patiently(b, r, rnd)
	}
	for range 4 {
		if r.accepted || r.cancel != notCancelled {
			break
		}
		if final(l.deduct(b, r, rnd)) || rnd.IntN(5) == 0 {
			break
		}
		time.Sleep(upTo(rnd, 50*time.Millisecond))
	}
	if r.open && rnd.IntN(2) == 0 {
		l.cancel(b, r, rnd)
	}
	if r.accepted && r.cancel == notCancelled {
		l.afterwards(b, r, rnd)
	}
}

// afterwards sometimes repeats, contradicts and rolls back an accepted deduction.
func (l *load) afterwards(b *book, r *record, rnd *rand.Rand) {
	if rnd.IntN(5) == 0 {
		_ = l.deduct(b, r, rnd) // deduct records the answer itself
	}
	if rnd.IntN(30) == 0 && !b.store { // in store mode an id whose record was lost accepts any amount
		answer, err := l.any(rnd).Deduct(context.Background(), b.name, client.DeductRequest{
			RequestID: r.id, Amount: r.amount + 1, Key: r.key, Dimensions: r.dimensions()})
		l.tally.note("conflicting deduct", false, err)
		b.heardConflict(r, answer, err)
	}
	what := rnd.IntN(20)
	if r.amount > 1 && what < 3 {
		l.rollback(b, r, "first", 1+rnd.Int64N(max(r.amount/2, 1)), rnd)
		if what == 0 {
			l.rollback(b, r, "second", 1, rnd)
		}
	}
	switch {
	case what > 0 && what < 5: // the whole, or what is left
		l.rollback(b, r, "", 0, rnd)
	case what == 5:
		l.cancel(b, r, rnd)
	}
}

func (l *load) any(rnd *rand.Rand) *client.Client { return l.w.Clients[rnd.IntN(len(l.w.Clients))] }

func (l *load) deduct(b *book, r *record, rnd *rand.Rand) error {
	answer, err := l.any(rnd).Deduct(context.Background(), b.name, client.DeductRequest{
		RequestID: r.id, Amount: r.amount, Key: r.key, Dimensions: r.dimensions()})
	l.tally.note("deduct", err == nil && answer.Replayed, err)
	b.heard(r, answer, err)
	return err
}

// patiently leaves retries to the client. The client cancels an id that is refused after an attempt
// with an unknown outcome.
func (l *load) patiently(b *book, r *record, rnd *rand.Rand) {
	c, err := client.New(l.any(rnd).Server(), client.WithRetry(client.Retry{Attempts: 4,
		AttemptTimeout: attemptTimeout}))
	if err != nil {
		b.violation("%v", err)
		return
	}
	answer, err := c.Deduct(context.Background(), b.name, client.DeductRequest{
		RequestID: r.id, Amount: r.amount, Key: r.key, Dimensions: r.dimensions()})
	l.tally.note("patient deduct", err == nil && answer.Replayed, err)
	b.heard(r, answer, err)
	if client.KindOf(err) == budget.MayBeDone && r.cancel == notCancelled {
		r.cancel = cancelOpen // perhaps the client sent a cancel and got no answer
	}
}

// both sends the same id through two nodes at once.
func (l *load) both(b *book, r *record, rnd *rand.Rand) {
	type heard struct {
		answer *client.DeductAnswer
		err    error
	}
	var answers [2]heard
	var all sync.WaitGroup
	first := rnd.IntN(len(l.w.Clients))
	for i := range answers {
		all.Go(func() {
			c := l.w.Clients[(first+i)%len(l.w.Clients)]
			answers[i].answer, answers[i].err = c.Deduct(context.Background(), b.name, client.DeductRequest{
				RequestID: r.id, Amount: r.amount, Key: r.key, Dimensions: r.dimensions()})
		})
	}
	all.Wait()
	rank := func(h heard) int {
		switch {
		case h.err != nil:
			return 0
		case !h.answer.Replayed:
			return 1
		}
		return 2
	}
	slices.SortFunc(answers[:], func(x, y heard) int { return cmp.Compare(rank(x), rank(y)) })
	for _, h := range answers {
		l.tally.note("deduct", h.err == nil && h.answer.Replayed, h.err)
		b.heard(r, h.answer, h.err)
	}
}

// batch sends several new ids in one call.
func (l *load) batch(b *book, rnd *rand.Rand, id string) {
	items := make([]client.BatchItem, 4)
	records := make([]*record, len(items))
	for i := range items {
		r := b.add(fmt.Sprintf("%s-%d", id, i), 1+rnd.Int64N(5), "")
		records[i] = r
		items[i] = client.BatchItem{Budget: b.name, DeductRequest: client.DeductRequest{RequestID: r.id,
			Amount: r.amount, Dimensions: r.dimensions()}}
	}
	results, err := l.any(rnd).DeductBatch(context.Background(), items)
	for i, r := range records {
		result := client.BatchResult{Err: err}
		if err == nil {
			result = results[i]
		}
		l.tally.note("deduct in batch", result.Err == nil && result.Answer.Replayed, result.Err)
		b.heard(r, result.Answer, result.Err)
	}
}

func (l *load) rollback(b *book, r *record, id string, amount int64, rnd *rand.Rand) {
	p := &part{amount: amount}
	r.parts[id] = p
	for range 3 {
		if final(l.rollbackOnce(b, r, id, p, rnd)) {
			return
		}
	}
}

func (l *load) rollbackOnce(b *book, r *record, id string, p *part, rnd *rand.Rand) error {
	answer, err := l.any(rnd).Rollback(context.Background(), b.name, client.RollbackRequest{
		RequestID: r.id, RollbackID: id, Amount: p.amount, Key: r.home(), NoKey: r.home() == ""})
	l.tally.note("rollback", err == nil && answer.Replayed, err)
	b.heardRollback(r, p, answer, err)
	return err
}

func (l *load) cancel(b *book, r *record, rnd *rand.Rand) {
	answer, err := l.any(rnd).Cancel(context.Background(), b.name,
		client.CancelRequest{RequestID: r.id, Key: r.home(), NoKey: r.home() == ""})
	l.tally.note("cancel", false, err)
	b.heardCancel(r, answer, err)
}

// change appends or shrinks.
func (l *load) change(rnd *rand.Rand, id string) {
	quantity := 50 + rnd.Int64N(250)
	if rnd.IntN(5) < 2 {
		quantity = -quantity
	}
	a := l.flux.adjust(id, quantity)
	for range 3 {
		if final(l.adjust(a, rnd)) {
			return
		}
	}
}

func (l *load) adjust(a *adjustment, rnd *rand.Rand) error {
	answer, err := l.any(rnd).Append(context.Background(), l.flux.name, client.AppendRequest{
		RequestID: a.id, Quantity: a.quantity})
	l.tally.note("adjust", err == nil && answer.Replayed, err)
	l.flux.heardAdjust(a, err)
	return err
}

// operate takes a bucket offline or brings one online.
func (l *load) operate(rnd *rand.Rand) {
	b := l.books[rnd.IntN(len(l.books))]
	key := fmt.Sprintf("%s:bucket-%d", b.name, rnd.IntN(buckets))
	verb, call := "online", (*client.Client).Online
	if rnd.IntN(2) == 0 {
		verb, call = "offline", (*client.Client).Offline
	}
	_, err := call(l.any(rnd), context.Background(), b.name, key)
	l.tally.note(verb, false, err)
}

// settle settles all unknown outcomes and brings all buckets online, as callers and an operator do
// once everything works again. It returns an error that names what could not be settled in time.
func (l *load) settle(seed uint64) error {
	deadline := time.Now().Add(quietLimit)
	var failed atomic.Pointer[string]
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	work := func(what string, n int, once func(rnd *rand.Rand) bool) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			for !once(rnd) {
				if time.Now().After(deadline) {
					failed.Store(&what)
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	n := 0
	for _, b := range l.books {
		for i := range buckets {
			n++
			key := fmt.Sprintf("%s:bucket-%d", b.name, i)
			work("online "+key, n, func(rnd *rand.Rand) bool {
				_, err := l.any(rnd).Online(context.Background(), b.name, key)
				return err == nil
			})
		}
		for _, r := range b.records {
			if !r.settled() {
				n++
				work("id "+r.id, n, func(rnd *rand.Rand) bool { return l.settleOne(b, r, rnd) })
			}
		}
		for _, a := range b.adjustments {
			if a.open {
				n++
				work("adjustment "+a.id, n, func(rnd *rand.Rand) bool { _ = l.adjust(a, rnd); return !a.open })
			}
		}
	}
	all.Wait()
	if what := failed.Load(); what != nil {
		return fmt.Errorf("%s is not settled %s after everything is up", *what, quietLimit)
	}
	return nil
}

// settleOne takes one step to settle an id and reports whether it is settled.
func (l *load) settleOne(b *book, r *record, rnd *rand.Rand) bool {
	switch {
	case r.cancel == cancelOpen:
		l.cancel(b, r, rnd)
		if b.store && r.cancel == cancelOpen {
			// A young memory answers the cancel with an unknown outcome, but answers a deduct of the id
			// as void.
			_ = l.deduct(b, r, rnd)
		}
		if r.tries++; b.store && r.accepted && r.cancel == cancelOpen && r.tries > 5 {
			// Its record is of an older memory, so it answers repeats and cannot be rolled back.
			r.cancel, r.unsureBack = notCancelled, true
		}
	case r.open && rnd.IntN(2) == 0:
		l.cancel(b, r, rnd)
	case r.open:
		// A refusal proves nothing about an unanswered attempt, so cancel it.
		if err := l.deduct(b, r, rnd); err != nil && final(err) {
			l.cancel(b, r, rnd)
		}
	default:
		for id, p := range r.parts {
			if !p.open {
				continue
			}
			_ = l.rollbackOnce(b, r, id, p, rnd)
			if p.tries++; b.store && p.tries > 5 {
				p.open, r.unsureBack = false, true // its record was lost
			}
		}
	}
	return r.settled()
}

// upTo returns a random duration below most.
func upTo(rnd *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(int64(most)))
}
