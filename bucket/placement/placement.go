// Package placement determines on which partition each bucket of a budget in store mode belongs. It
// is a pure function of names and numbers, so creation and rebalancing agree on every node.
//
// A ring over the instances orders them for each bucket, by the bucket's public key. Loads are
// bounded: of a budget's n buckets on m instances, each instance gets ⌊n/m⌋, and n mod m of them
// get one more. A bucket goes to the first instance clockwise that has room. The same bound applies
// to the partitions of an instance.
package placement

import (
	"cmp"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ring"
)

// Map is a ring over instances, with their partitions. It never changes and is safe for concurrent
// use.
type Map struct {
	instances  []string
	partitions [][]bucket.Partition // of each instance
	ring       *ring.Ring
}

// New returns the map of partitions, whose order does not matter, with points virtual nodes per
// instance on the ring. A map of no partitions accepts no bucket. Errors are those of ring.New.
func New(partitions []bucket.Partition, points int) (*Map, error) {
	partitions = slices.Clone(partitions)
	slices.SortFunc(partitions, func(a, b bucket.Partition) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Index, b.Index))
	})
	m := &Map{}
	for _, partition := range slices.Compact(partitions) {
		last := len(m.instances) - 1
		if last < 0 || m.instances[last] != partition.Instance {
			m.instances, m.partitions = append(m.instances, partition.Instance), append(m.partitions, nil)
			last++
		}
		m.partitions[last] = append(m.partitions[last], partition)
	}
	if len(m.instances) == 0 {
		return m, nil
	}
	var err error
	m.ring, err = ring.New(m.instances, points)
	return m, err
}

// Partitions returns a partition for each bucket of a budget, by ordinal. keys are the buckets'
// keys on the ring (Key). usable reports whether a partition accepts buckets. ok is false if none
// does. For example, four keys on three usable instances are spread as 2, 1 and 1.
func (m *Map) Partitions(keys []string, usable func(bucket.Partition) bool) (
	partitions []bucket.Partition, ok bool) {
	fit := make([][]bucket.Partition, len(m.instances))
	instances := newShare(len(keys))
	for i, all := range m.partitions {
		if fit[i] = fitting(all, usable); len(fit[i]) > 0 {
			instances.nodes++
		}
	}
	if instances.nodes == 0 {
		return nil, false
	}
	within := map[bucket.Partition]int{}
	for _, key := range keys {
		i := m.ring.LocateIndex(key, func(i int) bool {
			return len(fit[i]) == 0 || !instances.room(i)
		})
		instances.add(i)
		partition := least(fit[i], within, int(ring.Hash(key)))
		within[partition]++
		partitions = append(partitions, partition)
	}
	return partitions, true
}

// Rebalance returns the partitions on which the buckets of a budget belong, if they are on have
// now. Buckets that are spread evenly over usable partitions stay. Otherwise Partitions places
// them, and a bucket that is on the right instance keeps its partition. ok is false if no partition
// accepts buckets.
func (m *Map) Rebalance(keys []string, have []bucket.Partition,
	usable func(bucket.Partition) bool) (partitions []bucket.Partition, ok bool) {
	if m.isEven(have, usable) {
		return slices.Clone(have), true
	}
	partitions, ok = m.Partitions(keys, usable)
	if !ok {
		return nil, false
	}
	within := map[bucket.Partition]int{}
	for i, partition := range have {
		if usable(partition) && partition.Instance == partitions[i].Instance {
			partitions[i] = partition
			within[partition]++
		}
	}
	for i := range partitions {
		if partitions[i] == have[i] {
			continue
		}
		at, _ := slices.BinarySearch(m.instances, partitions[i].Instance)
		partitions[i] = least(fitting(m.partitions[at], usable), within, int(ring.Hash(keys[i])))
		within[partitions[i]]++
	}
	return partitions, true
}

// isEven reports whether partitions are usable, and no usable instance has two more of them than
// another.
func (m *Map) isEven(partitions []bucket.Partition, usable func(bucket.Partition) bool) bool {
	loads := map[string]int{}
	for _, partition := range partitions {
		if !usable(partition) {
			return false
		}
		loads[partition.Instance]++
	}
	fewest, most := len(partitions), 0
	for i, instance := range m.instances {
		if len(fitting(m.partitions[i], usable)) > 0 {
			fewest, most = min(fewest, loads[instance]), max(most, loads[instance])
		}
	}
	return most <= fewest+1
}

func fitting(partitions []bucket.Partition, usable func(bucket.Partition) bool) (
	out []bucket.Partition) {
	for _, partition := range partitions {
		if usable(partition) {
			out = append(out, partition)
		}
	}
	return out
}

// Size returns the number of partitions.
func (m *Map) Size() (n int) {
	for _, partitions := range m.partitions {
		n += len(partitions)
	}
	return n
}

// Key returns the key by which the ring over the instances places a bucket. It is unique because
// names of tenants have no slash.
func Key(tenant, bucketKey string) string { return tenant + "/" + bucketKey }

// least returns the partition with the fewest buckets. Among equals it returns the first one from
// an offset on.
func least(partitions []bucket.Partition, load map[bucket.Partition]int,
	offset int) bucket.Partition {
	best := partitions[offset%len(partitions)]
	for k := range partitions {
		if partition := partitions[(offset+k)%len(partitions)]; load[partition] < load[best] {
			best = partition
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
