// Package search explores every state that a model can reach, breadth first, until one breaks an
// invariant.
package search

import (
	"flag"
	"fmt"
	"hash/maphash"
	"os"
	"unsafe"
)

var (
	maxState = flag.Int("max", 60_000_000, "stop after so many states")
	quiet    = flag.Bool("quiet", false, "no trace")
)

// Model is a model whose states are values of S without pointers, and whose moves are described by
// values of O.
type Model[S, O any] struct {
	Start   S
	Moves   func(s *S, emit func(next *S, move O))
	Verdict func(s *S) string // the broken invariant, or ""
	Show    func(s *S, move O) string
}

// Run explores the model and prints the result. If an invariant is broken, it prints the shortest
// trace to it and ends the process with status 1.
func (m Model[S, O]) Run() {
	seed := maphash.MakeSeed()
	// Two states with one key would hide each other; with 64 bits that is improbable.
	key := func(s *S) uint64 {
		return maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)))
	}
	seen := map[uint64]bool{key(&m.Start): true}
	parent, move := []int32{0}, []uint16{0}
	level, first, depth, edges := []S{m.Start}, int32(0), 0, 0
	bad := m.Verdict(&m.Start)
	for len(level) > 0 && bad == "" && len(parent) < *maxState {
		var next []S
		for i := 0; i < len(level) && bad == ""; i++ {
			no := uint16(0)
			m.Moves(&level[i], func(n *S, _ O) {
				edges++
				no++
				if k := key(n); bad == "" && !seen[k] {
					seen[k] = true
					parent, move = append(parent, first+int32(i)), append(move, no-1)
					next = append(next, *n)
					bad = m.Verdict(n)
				}
			})
		}
		first += int32(len(level))
		level = next
		depth++
	}
	figures := fmt.Sprintf("states %d, transitions %d, depth %d", len(parent), edges, depth)
	switch {
	case bad != "":
		last := int32(len(parent) - 1)
		fmt.Printf("VIOLATION after %d steps: %s; %s\n", m.trace(parent, move, last), bad, figures)
		os.Exit(1)
	case len(level) > 0:
		fmt.Println("no violation, NOT exhausted;", figures)
	default:
		fmt.Println("exhausted, no violation;", figures)
	}
}

// trace replays the moves that lead to state i, prints them and returns their number.
func (m Model[S, O]) trace(parent []int32, move []uint16, i int32) int {
	var path []uint16
	for ; i > 0; i = parent[i] {
		path = append([]uint16{move[i]}, path...)
	}
	s := m.Start
	for step, want := range path {
		no, to := uint16(0), s
		var op O
		m.Moves(&s, func(n *S, o O) {
			if no == want {
				to, op = *n, o
			}
			no++
		})
		if s = to; !*quiet {
			fmt.Printf("  %2d %s\n", step+1, m.Show(&s, op))
		}
	}
	return len(path)
}
