package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/placement"
)

func everywhere(bucket.Partition) bool { return true }

func keys(name string, n int) (out []string) {
	for i := range n {
		out = append(out, placement.Key("shop", fmt.Sprintf("%s:bucket-%d", name, i)))
	}
	return out
}

func standalone(t *testing.T, n int) *placement.Map {
	var partitions []bucket.Partition
	for i := range n {
		partitions = append(partitions, bucket.Partition{Instance: fmt.Sprintf("store-%d", i)})
	}
	m, err := placement.New(partitions, 100)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func counts(partitions []bucket.Partition) (out []int) {
	load := map[string]int{}
	for _, partition := range partitions {
		load[partition.Instance]++
	}
	for _, n := range load {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

func TestFourBucketsOnThreeInstances(t *testing.T) {
	m := standalone(t, 3)
	for i := range 200 {
		partitions, ok := m.Partitions(keys(fmt.Sprint("sale-", i), 4), everywhere)
		if got := counts(partitions); !ok || !slices.Equal(got, []int{1, 1, 2}) {
			t.Fatalf("budget %d: %v, %v, want 2, 1 and 1", i, partitions, got)
		}
	}
}

// TestSharesAreEven checks that no instance has two buckets more than another, for any number of
// buckets and usable instances.
func TestSharesAreEven(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2_000 {
		instances, n := 1+random.IntN(9), 1+random.IntN(40)
		m := standalone(t, instances)
		unusable := map[string]bool{}
		for i := range instances - 1 {
			unusable[fmt.Sprintf("store-%d", i)] = random.IntN(3) == 0
		}
		usable := func(l bucket.Partition) bool { return !unusable[l.Instance] }
		partitions, ok := m.Partitions(keys("b", n), usable)
		if !ok || len(partitions) != n {
			t.Fatalf("%d on %d: %v", n, instances, partitions)
		}
		load := map[string]int{}
		for _, partition := range partitions {
			load[partition.Instance]++
		}
		least, most := n, 0
		for i := range instances {
			name := fmt.Sprintf("store-%d", i)
			if unusable[name] && load[name] > 0 {
				t.Fatalf("%d buckets on %s, which takes none", load[name], name)
			}
			if !unusable[name] {
				least, most = min(least, load[name]), max(most, load[name])
			}
		}
		if most > least+1 {
			t.Fatalf("%d on %d instances: between %d and %d each", n, instances, least, most)
		}
	}
}

func TestPartitionsOfAnInstanceAreEven(t *testing.T) {
	var all []bucket.Partition
	for i := range 16 {
		all = append(all, bucket.Partition{Instance: "cluster", Index: i})
	}
	m, err := placement.New(all, 100)
	if err != nil {
		t.Fatal(err)
	}
	load := map[bucket.Partition]int{}
	partitions, _ := m.Partitions(keys("b", 40), everywhere)
	for _, partition := range partitions {
		load[partition]++
	}
	for _, partition := range all {
		if load[partition] < 2 || load[partition] > 3 {
			t.Errorf("%v has %d of 40 buckets", partition, load[partition])
		}
	}
}

func TestNoPartitionCanBeUsed(t *testing.T) {
	m := standalone(t, 2)
	nowhere := func(bucket.Partition) bool { return false }
	if partitions, ok := m.Partitions(keys("b", 2), nowhere); ok {
		t.Errorf("placed on %v", partitions)
	}
	none, err := placement.New(nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	if partitions, ok := none.Partitions(keys("b", 2), everywhere); ok || none.Size() != 0 {
		t.Errorf("without an instance: placed on %v", partitions)
	}
}

// TestFewMove checks that a new instance gets its share of a budget's buckets, and little more.
func TestFewMove(t *testing.T) {
	before, _ := standalone(t, 4).Partitions(keys("b", 64), everywhere)
	after, _ := standalone(t, 5).Partitions(keys("b", 64), everywhere)
	moved := 0
	for i := range before {
		if before[i] != after[i] {
			moved++
		}
	}
	if moved > 32 {
		t.Errorf("%d of 64 buckets move for one instance of five", moved)
	}
}

func TestRebalance(t *testing.T) {
	three, four := standalone(t, 3), standalone(t, 4)
	names := keys("b", 10)
	have, _ := three.Partitions(names, everywhere)
	if got, _ := three.Rebalance(names, have, everywhere); !slices.Equal(got, have) {
		t.Errorf("what lies evenly moves: %v, had %v", got, have)
	}
	without := func(l bucket.Partition) bool { return l.Instance != "store-1" }
	for what, m := range map[string]struct {
		*placement.Map
		usable func(bucket.Partition) bool
		want   []int
	}{
		"an instance that comes":  {four, everywhere, []int{2, 2, 3, 3}},
		"an instance that leaves": {three, without, []int{5, 5}},
	} {
		got, ok := m.Rebalance(names, have, m.usable)
		if !ok || !slices.Equal(counts(got), m.want) {
			t.Errorf("%s: %v, want %v", what, got, m.want)
		}
		if again, _ := m.Rebalance(names, got, m.usable); !slices.Equal(again, got) {
			t.Errorf("%s: it moves on: %v, then %v", what, got, again)
		}
		fresh, _ := m.Partitions(names, m.usable)
		if !slices.Equal(got, fresh) {
			t.Errorf("%s: %v, a new budget would lie at %v", what, got, fresh)
		}
	}
}
