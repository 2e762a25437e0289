package main

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"
	"unsafe"
)

// Result is what an exploration found.
type Result struct {
	States, Transitions, Depth int
	Took                       time.Duration
	// Exhausted says that every reachable state was looked at.
	Exhausted bool
	// Violation is "" or the broken invariant, Trace the shortest way to it.
	Violation string
	Trace     []string
}

// explore looks at every reachable state, breadth first, so the first violation is a nearest one.
func (m *model) explore() Result {
	began := time.Now()
	x := explorer{m: m, seen: newSet()}
	first := m.start()
	m.canon(&first)
	x.seen.add(&first)
	x.parent, x.act = []int32{-1}, []uint16{0}
	level := []State{first}
	r := Result{Violation: m.verdict(&first)}
	for len(level) > 0 && r.Violation == "" && len(x.parent) <= m.MaxStates {
		level, r.Violation = x.step(level)
		r.Depth++
	}
	r.States, r.Transitions, r.Took = len(x.parent), x.transitions, time.Since(began)
	r.Exhausted = len(level) == 0 && r.Violation == ""
	if r.Violation != "" {
		r.Trace = m.trace(x.path())
	}
	return r
}

// explorer keeps what an exploration has seen: of every state its hash, and how it was reached.
type explorer struct {
	m           *model
	seen        *set
	parent      []int32
	act         []uint16
	done        int // the first state of the level being expanded
	transitions int
}

// step expands a level and returns the next one, or the first broken invariant in it.
func (x *explorer) step(level []State) (next []State, violation string) {
	for i := range level {
		no, at := uint16(0), int32(x.done+i)
		x.m.next(&level[i], func(n *State, _ Op) {
			x.transitions++
			me := no
			no++
			if violation != "" {
				return
			}
			c := *n
			x.m.canon(&c)
			if !x.seen.add(&c) {
				return
			}
			x.parent, x.act = append(x.parent, at), append(x.act, me)
			next = append(next, c)
			violation = x.m.verdict(&c)
		})
		if violation != "" {
			return next, violation
		}
	}
	x.done += len(level)
	return next, ""
}

// path is how the last state was reached.
func (x *explorer) path() (acts []uint16) {
	for i := len(x.parent) - 1; i > 0; i = int(x.parent[i]) {
		acts = append(acts, x.act[i])
	}
	slices.Reverse(acts)
	return acts
}

// verdict checks a state, and what becomes of it when the chores alone go on.
func (m *model) verdict(s *State) string {
	if broken := m.check(s); broken != "" {
		return broken
	}
	return m.complete(s)
}

// memoryOf is a value's bytes; State and what it is made of hold single bytes only, so no padding.
func memoryOf[V any](v *V) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// trace walks a path again and puts it into words.
func (m *model) trace(path []uint16) []string {
	s, flipped := m.start(), int8(0)
	if m.canon(&s) {
		flipped = 1
	}
	words := make([]string, 0, len(path))
	for i, act := range path {
		var to State
		var op Op
		no := uint16(0)
		m.next(&s, func(n *State, o Op) {
			if no == act {
				to, op = *n, o
			}
			no++
		})
		if op.b >= 0 {
			op.b ^= flipped
			op.into ^= flipped
		} else {
			op.b = -1 - op.b
		}
		s = to
		if op.begun {
			op.words += ", by a clock from before the end"
		}
		words = append(words, fmt.Sprintf("%2d  ", i+1)+
			fmt.Sprintf(op.words, op.b, op.e, op.x, op.into)+"   "+m.picture(&s, flipped))
		if m.canon(&s) {
			flipped ^= 1
		}
	}
	return words
}

// picture shows a state in one line.
func (m *model) picture(s *State, flipped int8) string {
	text := fmt.Sprintf("[T%d U%d", s.T, s.U)
	if k := &s.books; m.Turn {
		text = fmt.Sprintf("[period %d F%d X%d U%d", k.period, k.F, k.X, s.U)
	}
	for i := range int8(m.Buckets) {
		b := i ^ flipped
		x := s.newest(b)
		text += fmt.Sprintf(" | b%d e%d %s O%d S%d R%d drained %d of %s", i, s.bucket[b].current,
			[...]string{"none", "opening", "open", "closing", "closed", "lost"}[x.status],
			x.O, x.S, x.R, x.drained.n, x.log.words())
		if x.H > 0 {
			text += fmt.Sprintf(" H%d", x.H)
		}
		if x.late > 0 {
			text += fmt.Sprintf(" late %d", x.late)
		}
		if x.Q > 0 {
			text += fmt.Sprintf(" Q%d", x.Q)
		}
		if x.old.n > 0 {
			text += " old " + x.old.words()
		}
	}
	return text + "]"
}

// words shows a log: o, g<number>, d<id> (a second nonce as d<id>'), c<balance>, ! for tampered.
func (l *Log) words() (text string) {
	for _, v := range l.at[:l.n] {
		switch {
		case isDeduct(v):
			text += fmt.Sprintf(" d%d", idOf(v)) + [...]string{"", "'"}[nonceOf(v)]
			if v&tampered != 0 {
				text += "!"
			}
		case isClose(v):
			text += fmt.Sprintf(" c%d", (v-entryClose)%8)
		case isGrant(v):
			text += fmt.Sprintf(" g%d", v-entryGrant)
		default:
			text += " o"
		}
	}
	return "(" + text + " )"
}

// set is an open-addressing table of 128-bit hashes. At 100 million states the chance that any two
// share one is below 1 in 10^22.
type set struct {
	seed [2]maphash.Seed
	slot [][2]uint64
	n    int
}

func newSet() *set {
	return &set{seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		slot: make([][2]uint64, 1<<16)}
}

// add reports whether a state is new.
func (t *set) add(s *State) bool {
	if t.n*4 >= len(t.slot)*3 {
		old := t.slot
		t.slot, t.n = make([][2]uint64, 2*len(old)), 0
		for _, h := range old {
			if h != [2]uint64{} {
				t.insert(h)
			}
		}
	}
	memory := memoryOf(s)
	return t.insert([2]uint64{maphash.Bytes(t.seed[0], memory) | 1, maphash.Bytes(t.seed[1], memory)})
}

func (t *set) insert(h [2]uint64) bool {
	mask := uint64(len(t.slot) - 1)
	for i := h[0] >> 1 & mask; ; i = (i + 1) & mask {
		switch t.slot[i] {
		case [2]uint64{}:
			t.slot[i] = h
			t.n++
			return true
		case h:
			return false
		}
	}
}
