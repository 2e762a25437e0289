package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run explores as the flags say. It returns 0 when no invariant breaks, 1 with the shortest trace
// when one does, 2 for flags that make no sense.
func run(args []string, stdout, stderr io.Writer) int {
	// The mode and the mutant decide the defaults of the other flags, so they are read first.
	mode, without := peek(args, "mode", ledgerMode), peek(args, "mutant", "")
	mut, known := mutationOf(without)
	if without != "" && !known {
		fmt.Fprintf(stderr, "model: there is no mutant %q; -list shows them\n", without)
		return 2
	}
	b := defaultBounds(mode)
	if known {
		mode = mut.mode
		b = mut.within()
	}
	list := false
	flags := flag.NewFlagSet("model", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&mode, "mode", mode, "ledger or store; a mutant has its own")
	flags.StringVar(&without, "mutant", without,
		"the safeguard to take out; the bounds that catch it are the defaults then")
	flags.BoolVar(&list, "list", false, "show the mutants and stop")
	b.define(flags)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if list {
		for _, mut := range mutations {
			fmt.Fprintf(stdout, "%-18s %-7s DESIGN %-11s %s\n", mut.name, mut.mode, mut.section,
				mut.without)
		}
		return 0
	}
	m, err := newModel(b, mut.mutant)
	if err != nil {
		fmt.Fprintln(stderr, "model:", err)
		return 2
	}
	return report(m.explore(), stdout)
}

// peek finds the value of a flag.
func peek(args []string, name, otherwise string) string {
	for i, arg := range args {
		flag, value, here := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if flag != name || !strings.HasPrefix(arg, "-") {
			continue
		}
		if here {
			return value
		}
		if i+1 < len(args) {
			return args[i+1]
		}
	}
	return otherwise
}

// define makes flags of bounds.
func (b *Bounds) define(flags *flag.FlagSet) {
	flags.IntVar(&b.IDs, "ids", b.IDs, "request ids")
	flags.StringVar(&b.Amounts, "amounts", b.Amounts, "their amounts, one digit each, 1 or 2")
	flags.IntVar(&b.Buckets, "buckets", b.Buckets, "buckets, each on a lane of its own")
	flags.IntVar(&b.Epochs, "epochs", b.Epochs, "epochs per bucket")
	flags.IntVar(&b.Grants, "grants", b.Grants, "grants per epoch")
	flags.IntVar(&b.Length, "log", b.Length, "entries per epoch, open and close included")
	flags.IntVar(&b.Faults, "faults", b.Faults, "faults")
	flags.StringVar(&b.Kinds, "kinds", b.Kinds, "kinds of faults: restart, flush, split, down, tamper")
	flags.IntVar(&b.Attempts, "attempts", b.Attempts, "attempts (nonces) per id")
	flags.IntVar(&b.Nodes, "nodes", b.Nodes, "nodes that acknowledge, in store mode")
	flags.StringVar(&b.Undo, "undo", b.Undo, "ids that may be rolled back and cancelled")
	flags.BoolVar(&b.Limit, "limit", b.Limit, "ids 0 and 1 are one user's, who may have 1 deduction")
	flags.BoolVar(&b.Append, "append", b.Append, "an append of 1 unit")
	flags.BoolVar(&b.Shrink, "shrink", b.Shrink, "a shrink of 1 unit")
	flags.StringVar(&b.Hold, "hold", b.Hold, "ids that are holds")
	flags.BoolVar(&b.Turn, "turn", b.Turn, "a daily budget, of which one period ends")
	flags.StringVar(&b.Unused, "unused", b.Unused, "what a period did not use: total, next or forfeit")
	flags.StringVar(&b.Late, "late", b.Late, "late refunds: total, next or forfeit")
	flags.BoolVar(&b.Lag, "lag", b.Lag, "transactions may go by a clock from before the end")
	flags.StringVar(&b.Start, "start", b.Start,
		"created (all handed out, opening) or applying (all in U, open)")
	flags.IntVar(&b.MaxStates, "max", b.MaxStates, "stop after so many states")
}

func report(r Result, stdout io.Writer) int {
	fmt.Fprintf(stdout, "states %d, transitions %d, depth %d, %.1f s\n", r.States, r.Transitions,
		r.Depth, r.Took.Seconds())
	switch {
	case r.Violation != "":
		fmt.Fprintf(stdout, "VIOLATION after %d steps: %s\n", len(r.Trace), r.Violation)
		for _, line := range r.Trace {
			fmt.Fprintln(stdout, line)
		}
		return 1
	case !r.Exhausted:
		fmt.Fprintln(stdout, "no violation so far, NOT exhausted")
	default:
		fmt.Fprintln(stdout, "no violation")
	}
	return 0
}
