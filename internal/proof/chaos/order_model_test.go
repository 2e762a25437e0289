package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/budgetd/budgetd/budget"
)

// op returns an operation from one instant to another.
func op(from, to int64, in input, out output) porcupine.Operation {
	return porcupine.Operation{Call: from, Return: to, Input: in, Output: out}
}

func unknownOp(from int64, in input) porcupine.Operation {
	return op(from, never, in, output{code: budget.OutcomeUnknown})
}

func accepted(id, amount int) (input, output) {
	return input{verb: deduct, id: id, amount: amount}, output{amount: amount, state: "used"}
}

func acceptedOp(from, to int64, id, amount int) porcupine.Operation {
	in, out := accepted(id, amount)
	return op(from, to, in, out)
}

func replayedOp(from, to int64, id, amount int, state string) porcupine.Operation {
	in, out := accepted(id, amount)
	out.replayed, out.state = true, state
	return op(from, to, in, out)
}

func refusedOp(from, to int64, id, amount, available int) porcupine.Operation {
	return op(from, to, input{verb: deduct, id: id, amount: amount},
		output{code: budget.BudgetExhausted, available: available})
}

func codeOp(from, to int64, in input, code budget.Code) porcupine.Operation {
	return op(from, to, in, output{code: code})
}

func backOp(from, to int64, id, part, amount, back int, state string, replayed bool) porcupine.Operation {
	return op(from, to, input{verb: rollback, id: id, part: part, amount: amount},
		output{rolledBack: back, state: state, replayed: replayed})
}

func cancelOp(from, to int64, id, back int, state string) porcupine.Operation {
	return op(from, to, input{verb: cancel, id: id}, output{rolledBack: back, state: state})
}

func adjustOp(from, to int64, id, amount int, replayed bool) porcupine.Operation {
	return op(from, to, input{verb: adjust, id: id, amount: amount}, output{replayed: replayed})
}

func viewOp(from, to int64, total, remaining int) porcupine.Operation {
	return op(from, to, input{verb: view}, output{total: total, remaining: remaining, used: total - remaining})
}

// TestForgedHistories checks that the model accepts exactly what a budget of 10 units may answer.
func TestForgedHistories(t *testing.T) {
	deduct3 := input{verb: deduct, id: 3, amount: 3}
	type ops []porcupine.Operation
	for _, tt := range []struct {
		name    string
		history ops
		legal   bool
	}{
		{"one after the other", ops{acceptedOp(1, 2, 0, 6), acceptedOp(3, 4, 1, 4), refusedOp(5, 6, 2, 1, 0)},
			true},
		{"accepted twice", ops{acceptedOp(1, 2, 0, 3), acceptedOp(3, 4, 0, 3)}, false},
		{"accepted twice at once", ops{acceptedOp(1, 4, 0, 3), acceptedOp(2, 3, 0, 3)}, false},
		{"accepted and replayed", ops{acceptedOp(1, 4, 0, 3), replayedOp(2, 3, 0, 3, "used")}, true},
		{"replayed before it was accepted", ops{replayedOp(1, 2, 0, 3, "used"), acceptedOp(3, 4, 0, 3)}, false},
		{"replayed without a deduction", ops{replayedOp(1, 2, 0, 3, "used")}, false},
		{"replayed with another amount", ops{acceptedOp(1, 2, 0, 3), replayedOp(3, 4, 0, 4, "used")}, false},
		{"oversold", ops{acceptedOp(1, 2, 0, 6), acceptedOp(3, 4, 1, 6)}, false},
		{"oversold at once", ops{acceptedOp(1, 4, 0, 6), acceptedOp(2, 3, 1, 6)}, false},
		{"refused while units were left", ops{acceptedOp(1, 2, 0, 6), refusedOp(3, 4, 1, 4, 3)}, false},
		{"refused with a wrong figure", ops{acceptedOp(1, 2, 0, 6), refusedOp(3, 4, 1, 5, 3)}, false},
		{"refused with the figure", ops{acceptedOp(1, 2, 0, 6), refusedOp(3, 4, 1, 5, 4)}, true},
		{"refused before the other was accepted, overlapping", ops{refusedOp(1, 4, 1, 5, 4), acceptedOp(2, 3, 0,
			6)}, true},
		{"refused long before", ops{refusedOp(1, 2, 1, 5, 4), acceptedOp(3, 4, 0, 6)}, false},
		{"an accepted id refused", ops{acceptedOp(1, 2, 0, 6), refusedOp(3, 4, 0, 6, 4)}, false},
		{"unavailable changes nothing", ops{codeOp(1, 2, deduct3, budget.Unavailable), acceptedOp(3, 4, 3, 3)},
			true},
		{"unavailable, but it took effect", ops{codeOp(1, 2, deduct3, budget.Unavailable), replayedOp(3, 4, 3, 3,
			"used")}, false},
		{"unknown took effect", ops{unknownOp(1, deduct3), replayedOp(3, 4, 3, 3, "used"), viewOp(5, 6, 10, 7)}, true},
		{"unknown took effect late", ops{unknownOp(1, deduct3), viewOp(3, 4, 10, 10), viewOp(5, 6, 10, 7)}, true},
		{"unknown never took effect", ops{unknownOp(1, deduct3), viewOp(3, 4, 10, 10)}, true},
		{"unknown took effect before the call", ops{viewOp(1, 2, 10, 7), unknownOp(3, deduct3)}, false},
		{"unknown took effect twice", ops{unknownOp(1, deduct3), viewOp(3, 4, 10, 4)}, false},
		{"unknown after a tombstone", ops{unknownOp(1, deduct3), cancelOp(2, 3, 3, 0, "void"), viewOp(4, 5, 10,
			7)}, false},
		{"cancelled, then accepted", ops{cancelOp(1, 2, 0, 0, "void"), acceptedOp(3, 4, 0, 3)}, false},
		{"cancelled, then void", ops{cancelOp(1, 2, 3, 0, "void"), codeOp(3, 4, deduct3, budget.RequestVoid)},
			true},
		{"void and never cancelled", ops{codeOp(3, 4, deduct3, budget.RequestVoid)}, false},
		{"cancelled after it was accepted", ops{acceptedOp(1, 2, 0, 3), cancelOp(3, 4, 0, 3, "rolled_back"),
			viewOp(5, 6, 10, 10)}, true},
		{"a cancel that finds no deduction", ops{acceptedOp(1, 2, 0, 3), cancelOp(3, 4, 0, 0, "void")}, false},
		{"a cancel without effect", ops{acceptedOp(1, 2, 0, 3), cancelOp(3, 4, 0, 3, "rolled_back"), viewOp(5,
			6, 10, 7)}, false},
		{"cancelled, then repeated", ops{acceptedOp(1, 2, 3, 3), cancelOp(3, 4, 3, 3, "rolled_back"),
			codeOp(5, 6, deduct3, budget.AlreadyRolledBack)}, true},
		{"cancelled, then replayed", ops{acceptedOp(1, 2, 3, 3), cancelOp(3, 4, 3, 3, "rolled_back"),
			replayedOp(5, 6, 3, 3, "rolled_back")}, false},
		{"cancelled, then accepted by a repeat", ops{acceptedOp(1, 2, 3, 3), cancelOp(3, 4, 3, 3, "rolled_back"),
			replayedOp(5, 6, 3, 3, "used")}, false},
		{"partly given back, then replayed", ops{acceptedOp(1, 2, 3, 3), backOp(3, 4, 3, 1, 2, 2, "used", false),
			replayedOp(5, 6, 3, 3, "used")}, true},
		{"partly given back, then refused as gone", ops{acceptedOp(1, 2, 3, 3),
			backOp(3, 4, 3, 1, 2, 2, "used", false), codeOp(5, 6, deduct3, budget.AlreadyRolledBack)}, false},
		{"gone, but another amount", ops{acceptedOp(1, 2, 3, 2), cancelOp(3, 4, 3, 2, "rolled_back"),
			codeOp(5, 6, deduct3, budget.AlreadyRolledBack)}, false},
		{"deducted, given back, and told so at once", ops{codeOp(1, 6, deduct3, budget.AlreadyRolledBack),
			cancelOp(3, 4, 3, 3, "rolled_back"), viewOp(7, 8, 10, 10)}, true},
		{"another payload", ops{acceptedOp(1, 2, 3, 2), codeOp(3, 4, deduct3, budget.RequestConflict)}, true},
		{"a conflict without a deduction", ops{codeOp(3, 4, deduct3, budget.RequestConflict)}, false},
		{"a part and the rest", ops{acceptedOp(1, 2, 0, 5), backOp(3, 4, 0, 1, 2, 2, "used", false),
			backOp(5, 6, 0, 0, 0, 5, "rolled_back", false), viewOp(7, 8, 10, 10)}, true},
		{"a part given back twice", ops{acceptedOp(1, 2, 0, 5), backOp(3, 4, 0, 1, 2, 2, "used", false),
			backOp(5, 6, 0, 1, 2, 4, "used", false)}, false},
		{"the first rollback, shown as replayed", ops{acceptedOp(1, 2, 0, 3),
			backOp(3, 4, 0, 0, 0, 3, "rolled_back", true)}, false},
		{"a part repeated", ops{acceptedOp(1, 2, 0, 5), backOp(3, 4, 0, 1, 2, 2, "used", false),
			backOp(5, 6, 0, 1, 2, 2, "used", true), viewOp(7, 8, 10, 7)}, true},
		{"more given back than deducted", ops{acceptedOp(1, 2, 0, 3), backOp(3, 4, 0, 1, 4, 4, "rolled_back",
			false)}, false},
		{"given back before it was deducted", ops{backOp(1, 2, 0, 0, 0, 3, "rolled_back", false), acceptedOp(3, 4,
			0, 3)}, false},
		{"not found, but deducted", ops{acceptedOp(1, 2, 3, 3),
			codeOp(3, 4, input{verb: rollback, id: 3}, budget.DeductionNotFound)}, false},
		{"units given back can be sold", ops{acceptedOp(1, 2, 0, 10), backOp(3, 4, 0, 0, 0, 10, "rolled_back",
			false),
			acceptedOp(5, 6, 1, 10)}, true},
		{"refused after units were given back", ops{acceptedOp(1, 2, 0, 10),
			backOp(3, 4, 0, 0, 0, 10, "rolled_back", false), refusedOp(5, 6, 1, 1, 0)}, false},
		{"an append", ops{adjustOp(1, 2, 40, 5, false), acceptedOp(3, 4, 0, 15), adjustOp(5, 6, 40, 5, true)},
			true},
		{"an append done twice", ops{adjustOp(1, 2, 40, 5, false), adjustOp(3, 4, 40, 5, false)}, false},
		{"refused after an append", ops{acceptedOp(1, 2, 0, 10), adjustOp(3, 4, 40, 5, false), refusedOp(5, 6,
			1, 5, 0)}, false},
		{"a shrink of used units", ops{acceptedOp(1, 2, 0, 8), adjustOp(3, 4, 40, -3, false)}, false},
		{"a view without the deduction", ops{acceptedOp(1, 2, 0, 8), viewOp(3, 4, 10, 10)}, false},
		{"a look-up without the deduction", ops{acceptedOp(1, 2, 3, 3),
			codeOp(3, 4, input{verb: lookUp, id: 3}, budget.DeductionNotFound)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := porcupine.Illegal
			if tt.legal {
				want = porcupine.Ok
			}
			if got := check(model(10, lateness{}), tt.history); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// TestBehind checks that in store mode a view and the figure of a refusal may show more than is
// left, and that nothing else may differ from ledger mode.
func TestBehind(t *testing.T) {
	observed := func(remaining int) porcupine.Operation {
		rows := state{total: 10, remaining: remaining}
		rows.ids[0] = known{amount: 6}
		return op(9, 10, input{verb: seen}, output{rows: rows})
	}
	cancel0 := input{verb: cancel, id: 0}
	void := func(from, to int64) porcupine.Operation {
		return codeOp(from, to, input{verb: deduct, id: 0, amount: 3}, budget.RequestVoid)
	}
	notFound := func(from, to int64) porcupine.Operation {
		return codeOp(from, to, input{verb: lookUp, id: 0}, budget.DeductionNotFound)
	}
	type ops []porcupine.Operation
	for _, tt := range []struct {
		name    string
		history ops
		legal   bool
	}{
		{"a view before the ledger has it", ops{acceptedOp(1, 2, 0, 6), viewOp(3, 4, 10, 10), observed(4)}, true},
		{"the first rollback, shown as replayed", ops{acceptedOp(1, 2, 0, 3),
			backOp(3, 4, 0, 0, 0, 3, "rolled_back", true), viewOp(5, 6, 10, 10)}, true},
		{"a replay that gives back more than is left", ops{acceptedOp(1, 2, 0, 3),
			backOp(3, 4, 0, 1, 4, 4, "rolled_back", true)}, false},
		{"a view that is right", ops{acceptedOp(1, 2, 0, 6), viewOp(3, 4, 10, 4)}, true},
		{"a view with a unit too few", ops{acceptedOp(1, 2, 0, 6), viewOp(3, 4, 10, 3)}, false},
		{"a view of another total", ops{acceptedOp(1, 2, 0, 6), viewOp(3, 4, 11, 11)}, false},
		{"a view that does not add up", ops{acceptedOp(1, 2, 0, 6), op(3, 4, input{verb: view},
			output{total: 10, remaining: 10, used: 6})}, false},
		{"the ledger never has the deduction", ops{acceptedOp(1, 2, 0, 6), observed(10)}, false},
		{"refused with an earlier figure", ops{acceptedOp(1, 2, 0, 6), refusedOp(3, 4, 1, 7, 6)}, true},
		{"refused with a figure that covers it", ops{acceptedOp(1, 2, 0, 6), refusedOp(3, 4, 1, 7, 7)}, false},
		{"refused with less than is left", ops{acceptedOp(1, 2, 0, 6), refusedOp(3, 4, 1, 7, 3)}, false},
		{"refused while it is covered", ops{acceptedOp(1, 2, 0, 6), refusedOp(3, 4, 1, 3, 2)}, false},
		{"accepted twice", ops{acceptedOp(1, 2, 0, 3), acceptedOp(3, 4, 0, 3)}, false},
		{"oversold", ops{acceptedOp(1, 2, 0, 6), acceptedOp(3, 4, 1, 6)}, false},
		{"void by an unknown cancel, and no tombstone", ops{unknownOp(1, cancel0), void(3, 4), notFound(5, 6)}, false},
		{"void before its cancel has ended", ops{cancelOp(1, 8, 0, 0, "void"), void(3, 4), notFound(5, 6)}, false},
		{"no tombstone after a cancel", ops{cancelOp(1, 2, 0, 0, "void"), void(3, 4), notFound(5, 6)}, false},
		{"accepted after a cancel", ops{cancelOp(1, 2, 0, 0, "void"), acceptedOp(3, 4, 0, 3)}, false},
		{"void and never cancelled", ops{void(3, 4)}, false},
		{"void before it is cancelled", ops{void(1, 2), cancelOp(3, 4, 0, 0, "void")}, false},
		{"void by a cancel that changed nothing", ops{codeOp(1, 2, cancel0, budget.Unavailable), void(3, 4)}, false},
		{"void while it is used", ops{acceptedOp(1, 2, 0, 3), unknownOp(3, cancel0), void(4, 5),
			replayedOp(6, 7, 0, 3, "used")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := porcupine.Illegal
			if tt.legal {
				want = porcupine.Ok
			}
			if got := check(model(10, lateness{behind: true}), tt.history); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// TestAway checks that a replay may show returned units as used only if the ledger is unreachable
// at times, or if the call ran into its deadline.
func TestAway(t *testing.T) {
	history := []porcupine.Operation{acceptedOp(1, 2, 0, 3), cancelOp(3, 4, 0, 3, "rolled_back"), replayedOp(5, 6, 0, 3, "used")}
	for late, want := range map[lateness]porcupine.CheckResult{
		{behind: true, away: true}: porcupine.Ok, {behind: true}: porcupine.Illegal, {}: porcupine.Illegal} {
		if got := check(model(10, late), history); got != want {
			t.Errorf("%+v: %s, want %s", late, got, want)
		}
	}
	overdue := replayedOp(5, 6, 0, 3, "used")
	late := overdue.Output.(output)
	late.overdue = true
	overdue.Output = late
	history[2] = overdue
	for late, want := range map[lateness]porcupine.CheckResult{{behind: true}: porcupine.Ok, {}: porcupine.Illegal} {
		if got := check(model(10, late), history); got != want {
			t.Errorf("overdue, %+v: %s, want %s", late, got, want)
		}
	}
	again := append(history[:2:2], acceptedOp(5, 6, 0, 3))
	if got := check(model(10, lateness{behind: true, away: true}), again); got != porcupine.Illegal {
		t.Errorf("accepted again: %s", got)
	}
}

// TestEarly checks which rollbacks a view may lack: those in progress, and those with an unknown
// outcome that ended shortly before.
func TestEarly(t *testing.T) {
	second := int64(time.Second)
	at := func(from, to int64, in input, out output) porcupine.Operation {
		out.ended = to
		return op(from, to, in, out)
	}
	history := []porcupine.Operation{
		at(0, 2, input{verb: cancel, id: 1}, output{}),                                         // over
		at(1, 5, input{verb: cancel, id: 3}, output{}),                                         // 5
		at(4, 9, input{verb: rollback, id: 1, amount: 2}, output{}),                            // 2
		at(4, 9, input{verb: rollback, id: 1, amount: 1}, output{code: budget.Unavailable}),    // nothing
		at(1, 2, input{verb: rollback, id: 1, amount: 1}, output{code: budget.OutcomeUnknown}), // 1
		at(8, 9, input{verb: cancel, id: 1}, output{}),                                         // later
		at(4, 9, input{verb: deduct, id: 1, amount: 2}, output{}),
		at(3, 7, input{verb: view}, output{}),
		at(8*second, 9*second, input{verb: view}, output{}),
	}
	early(history)
	if a, b := history[7].Output.(output).early, history[8].Output.(output).early; a != 8 || b != 0 {
		t.Errorf("early: %d and %d, want 8 and 0", a, b)
	}
	view := at(3, 7, input{verb: view}, output{total: 10, remaining: 2, used: 8, early: 2})
	for left, want := range map[int]bool{1: true, 2: true, 4: true, 5: false} {
		if _, ok := step(state{total: 10, remaining: left}, view.Input.(input), view.Output.(output),
			lateness{behind: true}); ok != want {
			t.Errorf("%d left: %t", left, ok)
		}
	}
	refused := output{code: budget.BudgetExhausted, available: 2, early: 2}
	for left, want := range map[int]bool{1: true, 2: true, 4: true, 5: false} {
		if _, ok := step(state{total: 10, remaining: left}, input{verb: deduct, amount: 3}, refused,
			lateness{behind: true}); ok != want {
			t.Errorf("refused with %d left: %t", left, ok)
		}
	}
}

// TestKindsOf checks that in store mode no kind loses anything, and that kills of nodes come last.
func TestKindsOf(t *testing.T) {
	all, inStore := kindsOf("all", budget.Ledger), kindsOf("all", budget.Store)
	if len(all) != 1+len(Faults) {
		t.Errorf("%d kinds of %d", len(all), len(Faults))
	}
	for _, f := range Faults {
		if slices.Contains(inStore, f.Name) == f.Forgets {
			t.Errorf("%s, forgets %t: in store mode %t", f.Name, f.Forgets, !f.Forgets)
		}
		if one := len(kindsOf(f.Name, budget.Store)); one == 0 != f.Forgets {
			t.Errorf("%s alone: %d kinds", f.Name, one)
		}
	}
	if last := inStore[len(inStore)-1]; last != "node: kill -9" || inStore[0] != "none" {
		t.Errorf("in store mode: %v", inStore)
	}
	for _, d := range []budget.Durability{budget.Ledger, budget.Store} {
		for _, kind := range kindsOf("main", d) {
			if !slices.Contains(kindsOf("all", d), kind) {
				t.Errorf("%s: %s is not a kind of fault", d, kind)
			}
		}
	}
}

// TestPruned checks that exactly the operations without effect are pruned.
func TestPruned(t *testing.T) {
	rows := state{total: 10, remaining: 4}
	rows.ids[0] = known{amount: 3}
	rows.ids[1] = known{amount: 3}
	rows.ids[2] = known{void: true}
	history := []porcupine.Operation{
		acceptedOp(1, 2, 0, 3),
		unknownOp(1, input{verb: deduct, id: 0, amount: 3}), // another call was told
		unknownOp(1, input{verb: deduct, id: 1, amount: 3}), // stays: it must have made the row
		unknownOp(1, input{verb: deduct, id: 1, amount: 4}), // another amount is there
		unknownOp(1, input{verb: deduct, id: 5, amount: 3}), // nothing is there
		unknownOp(1, input{verb: cancel, id: 2}),            // stays
		unknownOp(1, input{verb: cancel, id: 0}),            // not given back
		unknownOp(1, input{verb: rollback, id: 0}),
		unknownOp(1, input{verb: adjust, id: 40, amount: 1}),
		codeOp(1, 2, input{verb: deduct, id: 6}, budget.Unavailable),
		op(5, 6, input{verb: seen}, output{rows: rows}),
	}
	kept, out := prune(history, rows)
	if len(kept) != 4 || len(kept)+len(out) != len(history) {
		t.Errorf("%d operations are left: %v", len(kept), kept)
	}
	if got := check(model(10, lateness{}), kept); got != porcupine.Ok {
		t.Error(got)
	}
	rows.remaining = 7 // as if the unknown deduction had taken no units
	kept[len(kept)-1] = op(5, 6, input{verb: seen}, output{rows: rows})
	if got := check(model(10, lateness{}), kept); got != porcupine.Illegal {
		t.Error(got)
	}
}

// TestKept checks that a stored history without a valid order says where it breaks.
func TestKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	history := []porcupine.Operation{acceptedOp(1e6, 2e6, 0, 20), acceptedOp(3e6, 4e6, 1, 5)}
	keep(t, path, model(units, lateness{}), history, []porcupine.Operation{unknownOp(1, input{verb: cancel, id: 7})})
	text, err := os.ReadFile(path + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	_, misfit, found := strings.Cut(string(text), "operations that do not fit after it:\n")
	misfit, left, both := strings.Cut(misfit, "pruned, because they had no effect:\n")
	if !found || !both || !strings.Contains(string(text), "4 of 24 left;     1.000 ms") ||
		!strings.Contains(misfit, "id:1 amount:5") || !strings.Contains(left, "verb:cancel id:7") {
		t.Errorf("kept:\n%s", text)
	}
	if _, err := os.Stat(path + ".html"); err != nil {
		t.Error(err)
	}
}
