package chaos

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/budgetd/budgetd/budget"
)

// never is the return time of an operation with an unknown outcome.
const never = math.MaxInt64

// checkLimit bounds the search for an order of one history.
const checkLimit = 30 * time.Second

// prune removes operations with an unknown outcome that had no effect: those whose effect is not in
// the final rows, and those whose effect was answered to another call. That leaves fewer orders to
// try, and allows no new one.
func prune(history []porcupine.Operation, rows state) (kept, out []porcupine.Operation) {
	type effect struct {
		verb     verb
		id, part int
	}
	claimed := map[effect]bool{}
	effectOf := func(in input) effect { return effect{in.verb, in.id, in.part} }
	for _, op := range history {
		told := op.Output.(output)
		if in := op.Input.(input); told.code == "" && !told.replayed && in.verb != cancel {
			claimed[effectOf(in)] = true
		}
	}
	for _, op := range history {
		in, told := op.Input.(input), op.Output.(output)
		if told.code == budget.Unavailable || told.unknown() &&
			(claimed[effectOf(in)] || !shown(rows, in)) {
			out = append(out, op)
		} else {
			kept = append(kept, op)
		}
	}
	return kept, out
}

// shown reports whether the rows can include an effect of the call.
func shown(rows state, in input) bool {
	k := rows.ids[in.id]
	switch in.verb {
	case deduct:
		return int(k.amount) == in.amount
	case rollback:
		// In store mode nothing says which parts were given back.
		return k.parts&(1<<in.part) != 0 || k.parts == 0 && k.rolledBack > 0
	case cancel:
		return k.void || k.amount != 0 && k.amount == k.rolledBack
	case adjust:
		return k.adjusted
	}
	return false
}

// early sets output.early in a history of store mode. A call with an unknown outcome counts for a
// while after its end, because the ledger may receive its units later.
func early(history []porcupine.Operation) {
	const sync = 5 * time.Second // the ledger follows within a second once all servers answer
	for i := range history {
		v := &history[i]
		told := v.Output.(output)
		for _, o := range history {
			in, back := o.Input.(input), o.Output.(output)
			until := back.ended
			if back.unknown() {
				until += int64(sync)
			}
			switch {
			case in.verb != rollback && in.verb != cancel || back.code == budget.Unavailable:
			case o.Call >= told.ended || until <= v.Call:
			case in.amount > 0:
				told.early += in.amount
			default:
				told.early += 2 + in.id%4 // the most units of an id; see choose
			}
		}
		v.Output = told
	}
}

// check reports whether the model accepts an order of the history.
func check(m porcupine.Model, history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(m, history, checkLimit)
}
