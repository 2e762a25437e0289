package crashpoints

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// told is what the caller of a call heard.
type told struct {
	made, heard bool
	err         error
}

// begin makes the world ready for an operation.
func (w *world) begin(op *operation) {
	w.budget, w.define = bucket.BudgetRef{Tenant: budget.DefaultTenant, Name: name}, op.define
	if op.archives {
		w.shelf = newShelf(w)
	}
	w.trace.from = op.from
	w.start()
	if !op.bare {
		w.must(create())
	}
	if op.prepare != nil {
		op.prepare(w)
	}
}

// run makes the calls of an operation, and waits for what the node does by itself.
func (w *world) run(op *operation) []told {
	out := make([]told, len(op.calls))
	one := func(i int) bool {
		_, err := op.calls[i].do(w.life, w)
		_, heard := w.trace.died()
		out[i] = told{made: true, heard: heard, err: err}
		return budget.CodeOf(err) == op.calls[i].want
	}
	switch {
	case op.asOne:
		results := w.deductAll(w.life, op.calls)
		_, heard := w.trace.died()
		for i, r := range results {
			out[i] = told{made: true, heard: heard, err: r.Err}
		}
	case op.together:
		var all sync.WaitGroup
		for i := range op.calls {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond)
				one(i)
			})
		}
		all.Wait()
	default:
		for i := range op.calls {
			if !one(i) {
				break
			}
		}
	}
	// What goes on in the background, after the answer.
	const moment, bound = 20 * time.Millisecond, 30 * time.Second // three looks at what is to be archived
	time.Sleep(moment)
	const look = 100 * time.Millisecond
	for began := time.Now(); op.until != nil && !op.until(w); time.Sleep(look) {
		if dead, _ := w.trace.died(); dead {
			break
		}
		if time.Since(began) > bound {
			w.fault("after %s: not done: %v", bound, w.pending())
			break
		}
	}
	return out
}

// hold compares what callers were told with the rows. It returns how many units were accepted that the
// ledger does not have: none but in store mode, where it may be behind.
func (w *world) hold(op *operation, answers []told, when string) (missing int64) {
	for i, a := range answers {
		c := &op.calls[i]
		if !a.made || !a.heard || c.did == nil {
			continue
		}
		did := c.did(w.rowOf(c))
		kind := budget.CodeOf(a.err).Kind()
		switch {
		case a.err == nil && !did && c.behind && w.durability == budget.Store:
			missing += c.worth
		case a.err == nil && !did:
			w.fault("%s: %s was answered OK, and did not happen", when, c.what)
		case a.err != nil && kind != budget.MayBeDone && did && !op.doneAgain(i, answers):
			w.fault("%s: %s was answered %q, and happened", when, c.what, a.err)
		}
	}
	return missing
}

// doneAgain reports whether a later call of the same operation repeated a call, and was not refused: then it may have
// done what the first one rightly said it had not.
func (op *operation) doneAgain(i int, answers []told) bool {
	for j := i + 1; j < len(op.calls); j++ {
		a := answers[j]
		if op.calls[j].what == op.calls[i].what && a.made && (!a.heard || a.err == nil || budget.CodeOf(a.err).Kind() == budget.MayBeDone) {
			return true
		}
	}
	return false
}

// finish proves the books after a recovery: what was told holds; what was not is repeated; the rest
// is sold.
func (w *world) finish(op *operation, answers []told) {
	w.wentBack = true // it does not happen again where the calls are repeated
	missing := w.hold(op, answers, "after the recovery")
	w.usedIs(op, "after the recovery")
	w.prove("after the recovery")
	w.covered(op, missing)
	if !op.keeps {
		w.unquarantine()
	}
	w.repeat(op)
	if op.loses { // so may a repetition, because of who stopped and had used the store
		w.settle()
	}
	w.unquarantine()
	w.settle()
	w.usedIs(op, "after repeating")
	w.fill()
	if row := w.row(); row == nil || row.Definition.TotalQuantity != op.final {
		w.fault("after repeating: the total is not %d: %+v", op.final, row)
		return
	}
	if op.reopen != nil {
		op.reopen(w)
	}
	w.sellAll()
	w.settle()
	w.prove("after selling")
	w.leave()
	w.compare()
}

// usedIs compares what is used of each budget with what the rows of the calls say.
func (w *world) usedIs(op *operation, when string) {
	tables := w.model.Tables()
	for i := range tables.Budgets {
		row := &tables.Budgets[i]
		want, got := int64(0), int64(0)
		if row.Definition.Name == w.budget.Name {
			want = op.base
		}
		for j := range op.calls {
			if c := &op.calls[j]; c.did != nil && w.nameOf(c) == row.Definition.Name && c.did(row) {
				want += c.worth
			}
		}
		for _, b := range row.Buckets {
			for _, e := range b.Epochs {
				got += e.Used
			}
		}
		if got != want {
			w.fault("%s: %d are used of %s, the calls make it %d", when, got, row.Definition.Name, want)
		}
	}
}

// repeat makes every call again, twice: an answer is the right one, and says whether it is new.
func (w *world) repeat(op *operation) {
	for turn := range 2 {
		if op.asOne {
			w.repeatAll(op, turn)
			continue
		}
		for i := range op.calls {
			c := &op.calls[i]
			was := w.did(c)
			replayed, err := w.try(c)
			w.repeated(c, turn, was, replayed, err)
		}
	}
}

// did reports whether the rows say that a call took effect.
func (w *world) did(c *call) bool { return c.did != nil && c.did(w.rowOf(c)) }

// repeated compares the answer of a repetition with what it has to be; was: the call had taken effect before.
func (w *world) repeated(c *call, turn int, was, replayed bool, err error) {
	if budget.CodeOf(err) != c.want {
		w.fault("repeated (%d): %s: %v, want code %q", turn+1, c.what, err, c.want)
		return
	}
	if c.replays && replayed != was {
		w.fault("repeated (%d): %s: replayed is %v, but before it was done: %v", turn+1, c.what, replayed, was)
	}
	if c.did != nil && !w.comes(c) {
		w.fault("repeated (%d): %s did not happen", turn+1, c.what)
	}
}

// uncertain reports whether an answer leaves open that the same call is answered another way when it is repeated.
func uncertain(err error) bool {
	kind := budget.CodeOf(err).Kind()
	return err != nil && (kind == budget.NotDone || kind == budget.MayBeDone)
}

// try makes a call until it is certain, a few times.
func (w *world) try(c *call) (replayed bool, err error) {
	const tries = 5
	for range tries {
		if replayed, err = c.do(context.Background(), w); !uncertain(err) {
			return replayed, err
		}
	}
	return replayed, err
}

// point is where nodes are stopped: op|shape|step|way, and step|way again for the second node.
type point struct {
	step string
	way  event
	// second, when set, is where the node stops that recovers.
	step2 string
	way2  event
}

func (p point) String() string {
	text := p.step + "|" + string(p.way)
	if p.step2 != "" {
		text += "|" + p.step2 + "|" + string(p.way2)
	}
	return text
}

var errPoint = errors.New("a point is operation|shape|step|way or operation|shape|step|way|step|way")

// parsePoint reads what -crash.point was given.
func parsePoint(text string) (operation, shape string, p point, err error) {
	f := strings.Split(text, "|")
	if len(f) != 4 && len(f) != 6 {
		return "", "", p, errPoint
	}
	p.step, p.way = f[2], event(f[3])
	if len(f) == 6 {
		p.step2, p.way2 = f[4], event(f[5])
	}
	return f[0], f[1], p, nil
}

// trial is what a run has shown.
type trial struct {
	// steps are those of the operation, or of the recovery where the node was stopped.
	steps []step
	// missed: a step was not reached.
	missed bool
	faults []string
}

// discover runs an operation to its end.
func (w *world) discover(op *operation) (out trial) {
	w.begin(op)
	w.trace.arm("", "")
	answers := w.run(op)
	out.steps, _ = w.trace.disarm()
	for i, a := range answers {
		if budget.CodeOf(a.err) != op.calls[i].want {
			w.fault("undisturbed: %s: %v", op.calls[i].what, a.err)
		}
	}
	w.settle()
	if op.proof != nil {
		if why := op.proof(w); why != "" {
			w.fault("undisturbed: %s", why)
		}
	}
	w.finish(op, answers)
	return out
}

// crash stops the node at a point, recovers, and proves the books.
func (w *world) crash(op *operation, p point) (out trial) {
	w.begin(op)
	w.trace.arm(p.step, p.way)
	answers := w.run(op)
	_, met := w.trace.disarm()
	out.missed = !met
	w.kill()
	w.hold(op, answers, "when the node stopped")

	w.trace.arm(p.step2, p.way2)
	w.start()
	w.settled((*world).halfDone)
	out.steps, met = w.trace.disarm()
	if p.step2 != "" {
		out.missed = out.missed || !met
		w.kill()
		w.arrive(op)
		w.start()
	}
	w.settle()
	if p.way == late || p.way2 == late {
		w.arrive(op) // too late for anybody
		w.settle()
	}
	w.finish(op, answers)
	return out
}

// fail lets one call fail, while the node goes on.
func (w *world) fail(op *operation, p point) (out trial) {
	w.begin(op)
	w.trace.arm(p.step, p.way)
	w.forgot = p.way == forgotten
	answers := w.run(op)
	_, met := w.trace.disarm()
	out.missed = !met
	w.hold(op, answers, "at once")
	for i, a := range answers {
		if why := wrongAnswer(&op.calls[i], a, p.way); why != "" {
			w.fault("%s: %s", op.calls[i].what, why)
		}
	}
	w.settle()
	w.arrive(op)
	w.settle()
	w.finish(op, answers)
	return out
}

// wrongAnswer says what is wrong with the class of an answer to a call that was disturbed: it is the
// right answer, or says that it is not known, or that it certainly did not happen.
func wrongAnswer(c *call, a told, way event) string {
	code := budget.CodeOf(a.err)
	switch {
	case !a.made, code == c.want, code == budget.Unavailable, code == budget.OutcomeUnknown:
		return ""
	case code == budget.Internal && way == defective:
		return ""
	}
	return fmt.Sprintf("was answered %v", a.err)
}
