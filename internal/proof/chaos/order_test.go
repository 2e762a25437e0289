package chaos

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/budgetd/budgetd/budget"
)

// verb is the kind of a call.
type verb string

const (
	deduct   verb = "deduct"
	rollback verb = "rollback"
	cancel   verb = "cancel"
	adjust   verb = "adjust"
	view     verb = "view"
	lookUp   verb = "look up"
	seen     verb = "see the rows"
)

// input is a call. id is the index of its request id. amount is in units; in a rollback 0 means all
// that is left, and in adjust a negative amount means a shrink. part is the number of a rollback
// id.
type input struct {
	verb   verb
	id     int
	amount int
	part   int
}

// output is an answer. code is "" if the call succeeded.
type output struct {
	code     budget.Code
	replayed bool
	// amount, rolledBack and state are those of the deduction.
	amount, rolledBack int
	state              string
	// available is the figure of budget_exhausted. total, remaining and used are a view's.
	available, total, remaining, used int
	// overdue means that the call ran into the service's deadline.
	overdue bool
	// ended is when the call returned, in nanoseconds, even if its outcome is unknown.
	ended int64
	// early bounds the units that a view or a refusal may lack in store mode: units of rollbacks in
	// progress, which the store can already use and the ledger does not have yet.
	early int
	// rows is the state that seen has found.
	rows state
}

// known is the state of one id. The zero value is an unused id.
type known struct {
	void       bool
	amount     int8 // of the deduction; 0: none
	rolledBack int8
	parts      uint8 // bits of the rollbacks that were done, and byCancel
	adjusted   bool  // the id is an adjustment's, and it is done
	// gone says that the call that deducted was told that nothing is left: the node repeated it after
	// the units were given back, so they must be.
	gone bool
}

// byCancel says that a cancel gave back what was left. In store mode a later rollback of the whole
// is then answered as a replay.
const byCancel = 1 << 7

// ids is the number of ids in a history, including those of adjustments.
const ids = 48

// state is the state of a budget that callers can observe. It is compared with ==.
type state struct {
	total, remaining int
	ids              [ids]known
}

// unknown reports whether the outcome of a call is unknown.
func (o output) unknown() bool { return o.code == budget.OutcomeUnknown }

// lateness says how the ledger may lag behind the answers in store mode.
type lateness struct {
	// behind means that the figures of views and refusals lag too: they show at least the units that
	// are left.
	behind bool
	// away means that the ledger is unreachable at times. A store's record then answers repeats, and
	// it lacks later returns. Without away that happens only to calls whose deadline passed while the
	// ledger was asked.
	away bool
}

// model returns the model of a budget with a total.
func model(total int, late lateness) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{total: total, remaining: total} },
		Step: func(s, in, out any) (bool, any) {
			next, ok := step(s.(state), in.(input), out.(output), late)
			return ok, next
		},
		Equal: func(a, b any) bool { return a.(state) == b.(state) },
		Hash: func(s any) uint64 {
			const prime = 1099511628211 // FNV-1a's
			h := uint64(s.(state).remaining)
			for _, k := range s.(state).ids {
				h = (h ^ uint64(uint8(k.amount)) ^ uint64(uint8(k.rolledBack))<<8 ^ uint64(k.parts)<<16) * prime
				if k.void || k.adjusted || k.gone {
					h = (h ^ 1) * prime
				}
			}
			return h
		},
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%v -> %s", in, out.(output))
		},
		DescribeState: func(s any) string {
			return fmt.Sprintf("%d of %d", s.(state).remaining, s.(state).total)
		},
	}
}

// String formats an answer, or the rows of an observation.
func (o output) String() string {
	if o.rows.total > 0 {
		return o.rows.String()
	}
	return fmt.Sprintf("%q replayed %t amount %d back %d %s available %d view %d/%d/%d", o.code,
		o.replayed,
		o.amount, o.rolledBack, o.state, o.available, o.total, o.remaining, o.used)
}

// String lists the ids that have an effect.
func (s state) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d of %d left", s.remaining, s.total)
	for id, k := range s.ids {
		switch {
		case k.void:
			fmt.Fprintf(&out, ", %d void", id)
		case k.adjusted:
			fmt.Fprintf(&out, ", %d done", id)
		case k.amount > 0:
			fmt.Fprintf(&out, ", %d: %d-%d", id, k.amount, k.rolledBack)
		}
	}
	return out.String()
}

// step returns the state after a call with that answer, and whether the answer is correct in s. A
// call with an unknown outcome takes effect in step. One that never takes effect is ordered after
// all others.
func step(s state, in input, out output, late lateness) (state, bool) {
	if out.code == budget.Unavailable {
		return s, true
	}
	switch in.verb {
	case deduct:
		return stepDeduct(s, in, out, late)
	case rollback:
		return stepRollback(s, in, out, late)
	case cancel:
		return stepCancel(s, in, out, late)
	case adjust:
		return stepAdjust(s, in, out)
	case lookUp:
		k := s.ids[in.id]
		if out.code == budget.DeductionNotFound {
			return s, k == known{}
		}
		return s, out.state == k.state() && out.amount == int(k.amount) &&
			out.rolledBack == int(k.rolledBack)
	case view:
		left := out.remaining == s.remaining ||
			late.behind && out.remaining >= s.remaining-out.early
		return s, left && out.total == s.total && out.used == s.total-out.remaining
	default: // seen
		found := s
		for id := range found.ids {
			k := &found.ids[id]
			if k.gone && k.rolledBack != k.amount {
				return s, false
			}
			k.gone = false
		}
		if late.behind {
			found = found.withoutParts()
		}
		return s, out.rows == found
	}
}

// left returns what the ids leave of the total.
func (s state) left() int {
	left := s.total
	for _, k := range s.ids {
		left -= int(k.amount - k.rolledBack)
	}
	return left
}

// withoutParts returns the state without rollback ids, which the records of store mode do not show.
func (s state) withoutParts() state {
	for id := range s.ids {
		s.ids[id].parts = 0
	}
	return s
}

// state returns the deduction's state, as named by the service.
func (k known) state() string {
	switch {
	case k.void:
		return "void"
	case k.amount == 0:
		return ""
	case k.rolledBack == k.amount:
		return "rolled_back"
	}
	return "used"
}

func stepDeduct(s state, in input, out output, late lateness) (state, bool) {
	k := &s.ids[in.id]
	fresh := *k == known{}
	covered := s.remaining >= in.amount
	switch {
	case out.unknown():
		if fresh && covered {
			s.take(k, in.amount)
		}
		return s, true
	case out.code == "" && out.replayed:
		away := late.away || late.behind && out.overdue
		shown := out.state == "used" && (k.state() == "used" || away)
		return s, k.amount != 0 && int(k.amount) == in.amount && out.amount == in.amount && shown
	case out.code == "":
		ok := fresh && covered && out.amount == in.amount && out.state == "used"
		s.take(k, in.amount)
		return s, ok
	}
	switch out.code {
	case budget.BudgetExhausted:
		least := s.remaining - out.early
		shown := out.available == s.remaining || late.behind && out.available >= least &&
			out.available < in.amount
		return s, fresh && least < in.amount && shown
	case budget.RequestVoid:
		return s, k.void
	case budget.AlreadyRolledBack:
		if fresh && covered { // the node's own repeat, after the deduction and its return
			s.take(k, in.amount)
			k.gone = true
			return s, true
		}
		return s, int(k.amount) == in.amount && k.state() == "rolled_back"
	case budget.RequestConflict:
		return s, k.amount != 0 && int(k.amount) != in.amount
	}
	return s, false
}

// take uses units for an id.
func (s *state) take(k *known, amount int) {
	s.remaining -= amount
	k.amount = int8(amount)
}

// giveBack returns units of an id.
func (s *state) giveBack(k *known, amount int) {
	s.remaining += amount
	k.rolledBack += int8(amount)
}

func stepRollback(s state, in input, out output, late lateness) (state, bool) {
	k := &s.ids[in.id]
	left := int(k.amount - k.rolledBack)
	bit := uint8(1) << in.part
	want := in.amount
	if want == 0 {
		want = left
	}
	can := k.amount != 0 && k.parts&bit == 0 && left > 0 && want <= left
	switch {
	case out.unknown() && can:
		s.giveBack(k, want)
		k.parts |= bit
		return s, true
	case out.unknown():
		return s, true
	case out.code == "" && out.replayed:
		done := k.parts&bit != 0 || in.part == 0 && k.parts&byCancel != 0
		if !done && late.behind && can { // the service lost the reply and repeated its own call
			s.giveBack(k, want)
			k.parts |= bit
			done = true
		}
		return s, done && out.rolledBack == int(k.rolledBack) && out.state == k.state()
	case out.code == "":
		if !can {
			return s, false
		}
		s.giveBack(k, want)
		k.parts |= bit
		return s, out.rolledBack == int(k.rolledBack) && out.state == k.state()
	}
	switch out.code {
	case budget.DeductionNotFound:
		return s, *k == known{}
	case budget.RequestVoid:
		return s, k.void
	case budget.AlreadyRolledBack:
		return s, k.amount != 0 && left == 0 && k.parts&bit == 0
	case budget.AmountExceedsRemaining:
		return s, left > 0 && want > left && k.parts&bit == 0
	}
	return s, false
}

func stepCancel(s state, in input, out output, late lateness) (state, bool) {
	if out.code != "" && !out.unknown() {
		return s, false
	}
	k := &s.ids[in.id]
	switch {
	case k.amount == 0:
		k.void = true
	case late.behind:
		k.parts |= byCancel
	}
	s.giveBack(k, int(k.amount-k.rolledBack))
	return s, out.unknown() || out.state == k.state() && out.rolledBack == int(k.rolledBack)
}

func stepAdjust(s state, in input, out output) (state, bool) {
	k := &s.ids[in.id]
	can := !k.adjusted && s.remaining+in.amount >= 0
	switch {
	case out.code == "" && k.adjusted && (out.replayed || in.amount < 0):
		// Two calls that complete one shrink together may both report that they did it.
		return s, true
	case out.code == "" && (!can || out.replayed):
		return s, false
	case out.code == "", out.unknown() && can:
		k.adjusted = true
		s.total += in.amount
		s.remaining += in.amount
		return s, true
	case out.unknown():
		return s, true
	}
	// A shrink is also refused if units are reserved for another shrink, or if its deadline passed.
	return s, out.code == budget.AmountExceedsRemaining && in.amount < 0 && !k.adjusted
}
