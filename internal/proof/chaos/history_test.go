package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/auditor"
)

const (
	units     = 24  // of each budget: about half of the ids fit
	deductIDs = 40  // the other ids are those of adjustments
	callers   = 6   // of each budget
	answers   = 18  // of each caller, without unknown outcomes
	mostCalls = 300 // of each caller
	think     = 150 * time.Millisecond
	// deadline is how long the service works on a deduction (deduct.deadline).
	deadline = 2 * time.Second
)

// adjustments are the quantities of the ids from deductIDs on.
var adjustments = [ids - deductIDs]int{6, 4, -3, 5, -2, 7, -4, 3}

// recorder records the history of one budget. It is safe for concurrent use.
type recorder struct {
	w     *World
	name  string
	begun time.Time
	// durability is the budget's.
	durability budget.Durability

	mu      sync.Mutex
	history []porcupine.Operation
	// end is the state of the budget in the ledger once all is quiet.
	end state
}

// note adds an operation that began at an instant and ends now.
func (r *recorder) note(caller int, call time.Duration, in input, out output) {
	now := time.Since(r.begun)
	out.overdue, out.ended = now-call >= deadline, int64(now)
	ended := int64(now)
	if out.unknown() {
		ended = never
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{ClientId: caller, Call: int64(call),
		Return: ended,
		Input:  in, Output: out})
}

// work makes one caller's calls, through any node, until enough of them were answered.
func (r *recorder) work(caller int, rnd *rand.Rand) {
	answered := 0
	for n := 0; n < mostCalls && answered < answers; n++ {
		in := choose(rnd)
		through := r.w.Clients[rnd.IntN(len(r.w.Clients))]
		call := time.Since(r.begun)
		out := r.call(through, in)
		reads := in.verb == lookUp || in.verb == view
		if !reads || out.code == "" || out.code == budget.DeductionNotFound {
			r.note(caller, call, in, out)
			if out.code != budget.Unavailable && !out.unknown() {
				answered++
			}
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(think))))
	}
}

// choose returns the next call. It uses few ids, so that many calls collide.
func choose(rnd *rand.Rand) input {
	id := rnd.IntN(deductIDs)
	amount := 1 + id%4
	switch n := rnd.IntN(100); {
	case n < 50:
		return input{verb: deduct, id: id, amount: amount}
	case n < 54: // another payload
		return input{verb: deduct, id: id, amount: amount + 1}
	case n < 68:
		part := rnd.IntN(3)
		return input{verb: rollback, id: id, part: part, amount: part}
	case n < 76:
		return input{verb: cancel, id: id}
	case n < 83:
		i := rnd.IntN(len(adjustments))
		return input{verb: adjust, id: deductIDs + i, amount: adjustments[i]}
	case n < 92:
		return input{verb: view}
	}
	return input{verb: lookUp, id: id}
}

func idName(id int) string { return fmt.Sprint("id-", id) }

// partIDs are the rollback ids: the whole, and parts of 1 and 2 units.
var partIDs = [...]string{"", "one", "two"}

// call makes one attempt and returns its outcome.
func (r *recorder) call(c *client.Client, in input) output {
	ctx, id := context.Background(), idName(in.id)
	switch in.verb {
	case deduct:
		a, err := c.Deduct(ctx, r.name, client.DeductRequest{RequestID: id, Amount: int64(in.amount)})
		if err != nil {
			return output{code: codeOf(err), available: available(err)}
		}
		return output{replayed: a.Replayed, amount: int(a.Amount), state: a.State}
	case rollback:
		d, err := c.Rollback(ctx, r.name, client.RollbackRequest{RequestID: id,
			RollbackID: partIDs[in.part],
			Amount:     int64(in.amount), NoKey: true})
		return deduction(d, err)
	case cancel:
		d, err := c.Cancel(ctx, r.name, client.CancelRequest{RequestID: id, NoKey: true})
		return deduction(d, err)
	case adjust:
		a, err := c.Append(ctx, r.name, client.AppendRequest{RequestID: id, Quantity: int64(in.amount)})
		code := codeOf(err)
		if code == budget.Unavailable && in.amount < 0 {
			code = budget.OutcomeUnknown // the shrink may still be in progress
		}
		return output{code: code, replayed: err == nil && a.Replayed}
	case view:
		b, err := c.Budget(ctx, r.name)
		if err != nil {
			return output{code: codeOf(err)}
		}
		return output{total: int(*b.TotalQuantity),
			remaining: int(*b.Undistributed + *b.InBuckets + b.InTransit),
			used:      int(b.Used + b.Held + b.Quarantined + b.Forfeited)}
	default: // lookUp
		d, err := c.Deduction(ctx, r.name, id)
		return deduction(d, err)
	}
}

func deduction(d *client.Deduction, err error) output {
	if err != nil {
		return output{code: codeOf(err)}
	}
	return output{replayed: d.Replayed, amount: int(d.Amount), rolledBack: int(d.RolledBack),
		state: d.State}
}

// codeOf returns unavailable for every error that says that nothing was done, outcome_unknown for
// every error after which the call may have taken effect, and the code of any other error.
func codeOf(err error) budget.Code {
	switch client.KindOf(err) {
	case budget.NotDone:
		return budget.Unavailable
	case budget.MayBeDone:
		return budget.OutcomeUnknown
	}
	return client.CodeOf(err)
}

func available(err error) int {
	if p, ok := err.(*client.Problem); ok && p.Available != nil {
		return int(*p.Available)
	}
	return -1
}

// observe audits, and notes the ledger's state of each budget as the last operation of its history.
// In store mode it first waits until the ledger has what the records say, which takes about a
// second.
func observe(w *World, recorders []*recorder) (*auditor.Report, error) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(think) {
		call := time.Now()
		report, err := w.audit()
		if err != nil {
			return nil, err
		}
		behind := false
		for _, r := range recorders {
			if r.end, err = r.rows(report.Budgets[r.name]); err != nil {
				return nil, err
			}
			behind = behind || r.durability == budget.Store && r.end.remaining != r.end.left()
		}
		if behind && time.Now().Before(deadline) {
			continue
		}
		for _, r := range recorders {
			r.note(callers, call.Sub(r.begun), input{verb: seen}, output{rows: r.end})
		}
		return report, nil
	}
}

// rows returns the budget's state in the ledger. In store mode deductions have no rows, so their
// state is that of the stores' records, which do not show rollback ids.
func (r *recorder) rows(found *auditor.Budget) (s state, err error) {
	s.total, s.remaining = int(found.Total), int(found.Total-found.Used-found.Held)
	for id := range ids {
		k := &s.ids[id]
		k.adjusted = found.Adjustments[idName(id)].Done
		d := found.Deductions[idName(id)]
		if d == nil {
			continue
		}
		k.void, k.amount, k.rolledBack = d.Void, int8(d.Amount), int8(d.Back)
		for i, part := range partIDs {
			if _, done := d.Rollbacks[part]; done {
				k.parts |= 1 << i
			}
		}
	}
	if r.durability == budget.Store {
		err = r.records(&s)
	}
	return s, err
}

// records reads the state of each id in store mode. A memory that is younger than the record window
// answers outcome_unknown for a missing record. That counts as no record, because no fault of this
// test loses one.
func (r *recorder) records(s *state) error {
	for id := range deductIDs {
		var d *client.Deduction
		var err error
		for range 100 {
			d, err = r.w.Clients[0].Deduction(context.Background(), r.name, idName(id))
			if code := client.CodeOf(err); err == nil || code == budget.DeductionNotFound ||
				code == budget.OutcomeUnknown {
				break
			}
			time.Sleep(think)
		}
		switch code := client.CodeOf(err); {
		case err == nil:
			s.ids[id] = known{void: d.State == "void", amount: int8(d.Amount),
				rolledBack: int8(d.RolledBack)}
		case code != budget.DeductionNotFound && code != budget.OutcomeUnknown:
			return fmt.Errorf("id %d of %s: %w", id, r.name, err)
		}
	}
	return nil
}
