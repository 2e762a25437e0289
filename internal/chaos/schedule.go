package chaos

import (
	"math/rand/v2"
	"slices"
)

// Strike is one kind of fault, or two at once.
type Strike struct {
	Kinds []int // of Faults
	tries int
}

// long returns every kind alone so many times and every pair of kinds once, in an order given by a
// seed. Two kinds with the same target are paired only if there are several targets.
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

// short returns every kind once, in pairs given by a seed; a remaining one is alone.
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
