package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// verb is what a call asks of a store or of the database.
type verb struct {
	name string
	key  uint64
	// sql: of the database; write: it changes something there.
	sql, write bool
}

func sqlRead(text string) verb  { return verb{name: text, key: name(text), sql: true} }
func sqlWrite(text string) verb { return verb{name: text, key: name(text), sql: true, write: true} }
func storeRead(text string) verb {
	return verb{name: "store " + text, key: name("store " + text)}
}
func storeWrite(text string) verb {
	return verb{name: "store " + text, key: name("store " + text), write: true}
}

var verbSleep = name("sleep")

// ask sends one call of a node over the network: it arrives at an instant of its own, once, or as the
// weather has it. to is the number of the store, the last one being the database. args and the
// answer go into the trace. Errors as bucket.Store and bucket.Ledger have them.
func ask[A any](ctx context.Context, n *node, v verb, to int, args any, do func() (A, error)) (A, error) {
	var none A
	w := n.w
	latency := latencyOf(v)
	chance := w.instants.until(n.key(v.key^uint64(to)), latency/4, latency)
	if n.dead.Load() {
		return none, notDone(v, errDead)
	}
	if ctx.Err() != nil {
		return none, notDone(v, ctx.Err())
	}
	again := n.key(mix(v.key) ^ uint64(to))
	if until := n.m.cut[to].Load(); virtual() < until {
		w.count(faultUnreachable)
		if chance%2 == 0 {
			return none, w.trace(n, v, args, notDone(v, errCut))
		}
		w.hang(ctx, again, time.Second)
		return none, w.trace(n, v, args, unheard(v, errCut))
	}
	switch f := w.fault(v, mix(chance)); f {
	case faultLostRequest:
		w.count(f)
		w.hang(ctx, again, 500*time.Millisecond)
		return none, w.trace(n, v, args, unheard(v, errLost))
	case faultRefused:
		w.count(f)
		return none, w.trace(n, v, args, notDone(v, errLost))
	case faultSQLBefore:
		w.count(f)
		if chance%3 == 0 {
			return none, w.trace(n, v, args, unheard(v, errLost)) // nor does anybody know
		}
		return none, w.trace(n, v, args, notDone(v, errLost))
	case faultLostReply, faultSQLAfter:
		w.count(f)
		answer, err := do()
		_ = w.traceAnswer(n, v, args, answer, err)
		w.hang(ctx, again, 500*time.Millisecond)
		return none, unheard(v, errLost)
	case faultLate:
		w.count(f)
		w.later(again, n, v, args, func() (any, error) { return do() })
		w.hang(ctx, mix(again), 500*time.Millisecond)
		return none, w.trace(n, v, args, unheard(v, errLost))
	case faultDuplicate:
		w.count(f)
		w.later(again, n, v, args, func() (any, error) { return do() })
	case faultDelay:
		w.count(f)
		w.hang(ctx, again, 1500*time.Millisecond)
		if n.dead.Load() || ctx.Err() != nil {
			return none, notDone(v, errLost)
		}
	}
	answer, err := do()
	err = w.traceAnswer(n, v, args, answer, err)
	if mix(chance+1)%8 == 0 { // the answer takes its time: others go on meanwhile
		w.instants.until(mix(again), latency/4, 2*latency)
	}
	if n.dead.Load() {
		return none, unheard(v, errDead)
	}
	return answer, err
}

// latencyOf is about how long a call takes.
func latencyOf(v verb) time.Duration {
	switch {
	case v.sql && v.write:
		return 2 * time.Millisecond
	case v.sql:
		return 500 * time.Microsecond
	default:
		return 200 * time.Microsecond
	}
}

// hang waits for about d, or until ctx's deadline.
func (w *world) hang(ctx context.Context, key uint64, d time.Duration) {
	if end, ok := ctx.Deadline(); ok {
		d = min(d, max(time.Until(end), 1))
	}
	w.instants.until(key, d/2, d/2+time.Microsecond)
}

// later does a call some time from now, when nobody waits for its answer any more.
func (w *world) later(key uint64, n *node, v verb, args any, do func() (any, error)) {
	reach := 8 * time.Second
	if v.sql { // its connection falls with its caller
		reach = time.Second
	}
	w.late.Add(1)
	go func() {
		defer w.late.Done()
		w.instants.until(mix(key+1), time.Millisecond, reach)
		answer, err := do()
		_ = w.traceAnswer(n, v, args, answer, err)
	}()
}

var (
	errCut  = fmt.Errorf("no route")
	errLost = fmt.Errorf("lost on the way")
)

// notDone is the error of a call that was certainly not executed.
func notDone(v verb, cause error) error {
	return &budget.Error{Code: budget.Unavailable, Op: v.name, Err: cause}
}

// unheard is the error of a call that may have been executed; for one that changes nothing that is
// the same as not done.
func unheard(v verb, cause error) error {
	if !v.write {
		return notDone(v, cause)
	}
	return &budget.Error{Code: budget.OutcomeUnknown, Op: v.name, Err: cause}
}
