package chaos

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// keep writes a history that cannot be put in order: as porcupine's picture (.html), and as text
// (.txt) with the longest order that was found, the state after each operation, the operations that
// do not fit after it, and those that were pruned. It logs the text, because only the log outlives
// an automatic run, and returns the file names.
func keep(t *testing.T, path string, m porcupine.Model, history, out []porcupine.Operation) string {
	t.Helper()
	_, info := porcupine.CheckOperationsVerbose(m, history, checkLimit)
	if err := porcupine.VisualizePath(m, info, path+".html"); err != nil {
		t.Error(err)
	}
	var longest []int
	for _, orders := range info.PartialLinearizations() {
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	text := explain(m, history, longest, out) + culprits(m, history)
	t.Log(text)
	if err := os.WriteFile(path+".txt", []byte(text), 0o600); err != nil {
		t.Error(err)
	}
	return path + ".txt and .html"
}

// culprits lists the operations of which each one alone prevents an order.
func culprits(m porcupine.Model, history []porcupine.Operation) string {
	text := "each of these alone prevents an order:\n"
	for i, op := range history {
		if porcupine.CheckOperationsTimeout(m, slices.Concat(history[:i], history[i+1:]),
			time.Second) == porcupine.Ok {
			text += fmt.Sprintf("caller %d: %+v -> %s\n", op.ClientId, op.Input, op.Output)
		}
	}
	return text
}

// explain lists the operations of an order with the state after each, then the others with the
// state of their id at that point, and those that were pruned.
func explain(m porcupine.Model, history []porcupine.Operation, order []int, out []porcupine.Operation) string {
	var text strings.Builder
	s := m.Init()
	show := func(op porcupine.Operation) {
		fmt.Fprintf(&text, "%9.3f ms to %9.3f ms, caller %d: %+v -> %s\n", float64(op.Call)/1e6,
			float64(op.Return)/1e6, op.ClientId, op.Input, op.Output)
	}
	for _, i := range order {
		_, s = m.Step(s, history[i].Input, history[i].Output)
		fmt.Fprintf(&text, "%d of %d left; ", s.(state).remaining, s.(state).total)
		show(history[i])
	}
	fmt.Fprintf(&text, "the state is then: %s\n", s)
	fmt.Fprintln(&text, "operations that do not fit after it:")
	for i, op := range history {
		if !slices.Contains(order, i) {
			fmt.Fprintf(&text, "%+v; ", s.(state).ids[op.Input.(input).id])
			show(op)
		}
	}
	fmt.Fprintln(&text, "pruned, because they had no effect:")
	for _, op := range out {
		show(op)
	}
	return text.String()
}
