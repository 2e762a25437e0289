// Package place determines on which lane each bucket of a budget belongs. It is a pure function of
// names and numbers, so creation, resizing and rebalancing agree on every node.
//
// A ring over the instances orders them for each bucket, by the bucket's public key. Loads are
// bounded: of a budget's n buckets on m instances, each instance gets ⌊n/m⌋, and n mod m of them
// get one more. A bucket goes to the first instance clockwise that has room. The same bound applies
// to the lanes of an instance.
package place

import (
	"cmp"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ring"
)

// Map is a ring over instances, with their lanes. It never changes and is safe for concurrent use.
type Map struct {
	instances []string
	lanes     [][]bucket.Lane // of each instance
	ring      *ring.Ring
}

// New returns the map of lanes, whose order does not matter, with points virtual nodes per instance
// on the ring. Errors are those of ring.New.
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

// Lanes returns a lane for each bucket of a budget, by ordinal. keys are the buckets' keys on the
// ring (Key). have are the lanes of the first buckets, which stay there; it is empty for a new
// budget, and to compute where all buckets belong. usable reports whether a lane accepts buckets.
// ok is false if none does. For example, four keys on three usable instances are spread as 2, 1 and
// 1.
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

// Rebalance returns the lanes on which the buckets of a budget belong, if they are on have now.
// Buckets that are spread evenly over usable lanes stay. Otherwise Lanes places them, and a bucket
// that is on the right instance keeps its lane. ok is false if no lane accepts buckets.
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

// Size returns the number of lanes.
func (m *Map) Size() (n int) {
	for _, lanes := range m.lanes {
		n += len(lanes)
	}
	return n
}

// Key returns the key by which the ring over the instances places a bucket. It is unique because
// names of tenants have no slash.
func Key(tenant, bucketKey string) string { return tenant + "/" + bucketKey }

// least returns the lane with the fewest buckets. Among equals it returns the first one from an
// offset on.
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

// room reports whether a node may have another bucket. While fewer than n are placed, at least one
// node may.
func (s *share) room(i int) bool {
	even := s.n / s.nodes
	return s.loads[i] < even || s.loads[i] == even && s.more < s.n%s.nodes
}

func (s *share) add(i int) {
	if s.loads[i]++; s.loads[i] == s.n/s.nodes+1 {
		s.more++
	}
}
