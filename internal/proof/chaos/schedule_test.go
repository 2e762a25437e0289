package chaos

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Strike is one kind of fault, or two at once.
type Strike struct {
	Kinds []int // of Faults
	tries int
}

// long returns every kind alone, as often as alone says, and every pair of kinds once, in random
// order.
func long(rnd *rand.Rand, alone int) []Strike {
	var all []Strike
	for i := range Faults {
		for range alone {
			all = append(all, Strike{Kinds: []int{i}})
		}
		for j := range i {
			all = append(all, Strike{Kinds: []int{j, i}})
		}
	}
	rnd.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	return all
}

// short returns every kind once, in random pairs. If their number is odd, one kind is alone.
func short(rnd *rand.Rand) []Strike {
	var all []Strike
	for pair := range slices.Chunk(rnd.Perm(len(Faults)), 2) {
		slices.Sort(pair)
		all = append(all, Strike{Kinds: pair})
	}
	return all
}

// counts is how often each kind took place, alone and in pairs.
type counts struct {
	alone  []int
	paired []int
	missed []int
	pairs  map[[2]int]int
}

func newCounts() *counts {
	n := len(Faults)
	return &counts{alone: make([]int, n), paired: make([]int, n), missed: make([]int, n),
		pairs: map[[2]int]int{}}
}

// note counts a strike that took place.
func (c *counts) note(s Strike) {
	if len(s.Kinds) == 1 {
		c.alone[s.Kinds[0]]++
		return
	}
	c.pairs[[2]int{s.Kinds[0], s.Kinds[1]}]++
	for _, k := range s.Kinds {
		c.paired[k]++
	}
}

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
