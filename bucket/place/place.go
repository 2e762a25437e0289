// Package place says on which lane each bucket of a budget belongs. It is a pure function of
// names and numbers, so creation, resizing and rebalancing agree on every node.
//
// A ring over the instances orders them for each bucket, by the bucket's public key. Loads are
// bounded: of a budget's n buckets over m instances each instance gets ⌊n/m⌋, and n mod m of them
// get one more. A bucket goes to the first instance clockwise that has room. Within an instance
// the same bound holds for its lanes.
package place

import (
	"cmp"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ring"
)

// Map is where buckets can be: a ring over instances, with their lanes. It never changes. Safe for
// concurrent use.
type Map struct {
	instances []string
	lanes     [][]bucket.Lane // of each instance
	ring      *ring.Ring
}

// New makes the map of lanes, in whatever order they are given, with so many points per instance on
// the ring. Errors: those of ring.New.
func New(lanes []bucket.Lane, points int) (*Map, error) {
	lanes = slices.Clone(lanes)
	slices.SortFunc(lanes, func(a, b bucket.Lane) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Index, b.Index))
	})
	m := &Map{}
	for _, lane := range slices.Compact(lanes) {
		last := len(m.instances) - 1
		if last < 0 || m.instances[last] != lane.Instance {
			m.instances, m.lanes = append(m.instances, lane.Instance), append(m.lanes, nil)
			last++
		}
		m.lanes[last] = append(m.lanes[last], lane)
	}
	var err error
	m.ring, err = ring.New(m.instances, points)
	return m, err
}

// Lanes returns a lane for each bucket of a budget, by ordinal. keys are their rings' keys (Key),
// have are the lanes of the first buckets, which stay where they are: empty for a new budget and
// for where all buckets belong. usable says which lanes take buckets. ok is false where none
// does. Four keys on three usable instances are 2, 1 and 1.
func (m *Map) Lanes(keys []string, have []bucket.Lane, usable func(bucket.Lane) bool) (
	lanes []bucket.Lane, ok bool) {
	fit := make([][]bucket.Lane, len(m.instances))
	instances := newShare(len(keys))
	for i, all := range m.lanes {
		if fit[i] = fitting(all, usable); len(fit[i]) > 0 {
			instances.nodes++
		}
	}
	if instances.nodes == 0 {
		return nil, len(keys) <= len(have)
	}
	within := map[bucket.Lane]int{}
	have = have[:min(len(have), len(keys))]
	lanes = slices.Clone(have)
	for _, lane := range have {
		within[lane]++
		if i, known := slices.BinarySearch(m.instances, lane.Instance); known && len(fit[i]) > 0 {
			instances.add(i)
		}
	}
	for _, key := range keys[len(have):] {
		i := m.ring.LocateIndex(key, func(i int) bool {
			return len(fit[i]) == 0 || !instances.room(i)
		})
		instances.add(i)
		lane := least(fit[i], within, int(ring.Hash(key)))
		within[lane]++
		lanes = append(lanes, lane)
	}
	return lanes, true
}

// Rebalance returns the lanes where the buckets of a budget belong, for one that lies at have.
// Where all lie on usable lanes, and evenly, they stay. Otherwise they go where Lanes places
// them; those that lie on the right instance keep their lane. ok is false where no lane takes
// buckets.
func (m *Map) Rebalance(keys []string, have []bucket.Lane, usable func(bucket.Lane) bool) (
	lanes []bucket.Lane, ok bool) {
	if m.isEven(have, usable) {
		return slices.Clone(have), true
	}
	lanes, ok = m.Lanes(keys, nil, usable)
	if !ok {
		return nil, false
	}
	within := map[bucket.Lane]int{}
	for i, lane := range have {
		if usable(lane) && lane.Instance == lanes[i].Instance {
			lanes[i] = lane
			within[lane]++
		}
	}
	for i := range lanes {
		if lanes[i] == have[i] {
			continue
		}
		at, _ := slices.BinarySearch(m.instances, lanes[i].Instance)
		lanes[i] = least(fitting(m.lanes[at], usable), within, int(ring.Hash(keys[i])))
		within[lanes[i]]++
	}
	return lanes, true
}

// isEven reports whether lanes are usable, and no usable instance has two more of them than
// another.
func (m *Map) isEven(lanes []bucket.Lane, usable func(bucket.Lane) bool) bool {
	loads := map[string]int{}
	for _, lane := range lanes {
		if !usable(lane) {
			return false
		}
		loads[lane.Instance]++
	}
	fewest, most := len(lanes), 0
	for i, instance := range m.instances {
		if len(fitting(m.lanes[i], usable)) > 0 {
			fewest, most = min(fewest, loads[instance]), max(most, loads[instance])
		}
	}
	return most <= fewest+1
}

func fitting(lanes []bucket.Lane, usable func(bucket.Lane) bool) (out []bucket.Lane) {
	for _, lane := range lanes {
		if usable(lane) {
			out = append(out, lane)
		}
	}
	return out
}

// Size is the number of lanes.
func (m *Map) Size() (n int) {
	for _, lanes := range m.lanes {
		n += len(lanes)
	}
	return n
}

// Key is what the ring over the instances places a bucket by: names of tenants have no slash.
func Key(tenant, bucketKey string) string { return tenant + "/" + bucketKey }

// least returns the lane with the fewest buckets; of several the first from an offset on.
func least(lanes []bucket.Lane, load map[bucket.Lane]int, offset int) bucket.Lane {
	best := lanes[offset%len(lanes)]
	for k := range lanes {
		if lane := lanes[(offset+k)%len(lanes)]; load[lane] < load[best] {
			best = lane
		}
	}
	return best
}

// share bounds how many of n buckets each of some nodes gets.
type share struct {
	n, nodes int
	loads    map[int]int
	more     int // nodes with more than ⌊n/nodes⌋
}

func newShare(n int) *share { return &share{n: n, loads: map[int]int{}} }

// room reports whether a node may have another bucket. While fewer than n are placed, one may.
func (s *share) room(i int) bool {
	even := s.n / s.nodes
	return s.loads[i] < even || s.loads[i] == even && s.more < s.n%s.nodes
}

func (s *share) add(i int) {
	if s.loads[i]++; s.loads[i] == s.n/s.nodes+1 {
		s.more++
	}
}
