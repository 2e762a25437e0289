package chaos

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSchedules(t *testing.T) {
	seeded := func(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
	n := len(Faults)
	c := newCounts()
	for _, s := range long(seeded(1), 20) {
		c.note(s)
	}
	if len(c.pairs) != n*(n-1)/2 {
		t.Errorf("%d pairs of %d kinds", len(c.pairs), n)
	}
	for k := range Faults {
		if c.alone[k] != 20 || c.paired[k] != n-1 {
			t.Errorf("%s: alone %d, paired %d", Faults[k].Name, c.alone[k], c.paired[k])
		}
	}
	seen := map[int]int{}
	for _, s := range short(seeded(1)) {
		for _, k := range s.Kinds {
			seen[k]++
		}
	}
	for k := range Faults {
		if seen[k] != 1 {
			t.Errorf("%s is %d times in the short schedule", Faults[k].Name, seen[k])
		}
	}
	same := func(a, b []Strike) bool {
		return slices.EqualFunc(a, b, func(x, y Strike) bool { return slices.Equal(x.Kinds, y.Kinds) })
	}
	if !same(short(seeded(7)), short(seeded(7))) || same(short(seeded(7)), short(seeded(8))) {
		t.Error("the order does not follow the seed")
	}
}
