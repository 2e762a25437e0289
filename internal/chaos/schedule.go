package chaos

import (
	"math/rand/v2"
	"slices"
)

// Strike is what happens at once: one kind of fault or two.
type Strike struct {
	Kinds []int // of Faults
	tries int
}

// long is every kind alone so many times and every two kinds together once, in the order of a seed.
// Two kinds that strike the same are together too, where there is more than one to strike.
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

// short is every kind once, two by two as the seed has it; what is left over is alone.
func short(rnd *rand.Rand) []Strike {
	var all []Strike
	for pair := range slices.Chunk(rnd.Perm(len(Faults)), 2) {
		slices.Sort(pair)
		all = append(all, Strike{Kinds: pair})
	}
	return all
}

// counts is how often each kind took place, alone and with another.
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
