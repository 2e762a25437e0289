package main

import (
	"flag"
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"unsafe"
)

// key identifies a state. Two states with one key would hide each other; with 64 bits that is
// improbable.
func key(seed maphash.Seed, s *State) uint64 {
	return maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)))
}

// trace replays the moves that lead to state i, prints them and returns their number.
func trace(parent []int32, move []uint16, i int32) int {
	var path []uint16
	for ; i > 0; i = parent[i] {
		path = append([]uint16{move[i]}, path...)
	}
	s := start()
	for step, want := range path {
		no, to, op := uint16(0), s, Op{}
		s.moves(func(n *State, o Op) {
			if no == want {
				to, op = *n, o
			}
			no++
		})
		if s = to; !*quiet {
			fmt.Printf(
				"  %2d %s: %d %d %d %d  [%s ]\n",
				step+1,
				op.name,
				op.a,
				op.b,
				op.c,
				op.d,
				s.show(),
			)
		}
	}
	return len(path)
}

func main() {
	flag.Parse()
	for _, f := range strings.Split(*with, ",") {
		feature[f] = true
	}
	seed, s0 := maphash.MakeSeed(), start()
	seen := map[uint64]bool{key(seed, &s0): true}
	parent, move := []int32{0}, []uint16{0}
	level, first, depth, edges := []State{s0}, int32(0), 0, 0
	bad := s0.verdict()
	for len(level) > 0 && bad == "" && len(parent) < *maxState {
		var next []State
		for i := 0; i < len(level) && bad == ""; i++ {
			no := uint16(0)
			level[i].moves(func(n *State, _ Op) {
				edges++
				no++
				if k := key(seed, n); bad == "" && !seen[k] {
					seen[k] = true
					parent, move = append(parent, first+int32(i)), append(move, no-1)
					next = append(next, *n)
					bad = n.verdict()
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
		fmt.Printf("VIOLATION after %d steps: %s; %s\n", trace(parent, move, last), bad, figures)
		os.Exit(1)
	case len(level) > 0:
		fmt.Println("no violation, NOT exhausted;", figures)
	default:
		fmt.Println("exhausted, no violation;", figures)
	}
}
